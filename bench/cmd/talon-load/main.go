// Command talon-load puts HTTP/1.1 GETs on a server and measures them. See package load for what it
// promises, and bench/README.md for how to read its figures.
//
//	talon-load -c 64 -d 1s http://127.0.0.1:8080/4K
//	talon-load --range random:1MiB -c 16 --cpu 1 --hygiene http://127.0.0.1:8080/big
//	talon-load --rate 20000 --keys keys.txt --order random http://127.0.0.1:8080
//
// Exit codes: 0 measured; 1 it could not run; 2 bad usage; 3 the result is refused and must not be
// quoted (the cause is printed); 4 measured, but there were errors.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/talon-worker/talon/bench/load"
)

const (
	exitOK = iota
	exitFailed
	exitUsage
	exitRefused
	exitErrors
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	o, err := parse(args, in, errOut)
	if errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	if err != nil {
		fmt.Fprintln(errOut, "talon-load:", err)
		return exitUsage
	}
	threads := max(len(o.config.CPUs), o.config.Threads, 1)
	runtime.GOMAXPROCS(max(runtime.NumCPU(), threads+1))
	debug.SetGCPercent(-1) // nothing is allocated per request, and a collection would stop the threads
	debug.SetMemoryLimit(1 << 30)
	r, err := load.Run(ctx, o.config)
	if err != nil {
		fmt.Fprintln(errOut, "talon-load:", err)
		return exitFailed
	}
	if err := o.print(r, out); err != nil {
		fmt.Fprintln(errOut, "talon-load:", err)
		return exitFailed
	}
	return verdict(r, errOut)
}

func (o *options) print(r *load.Result, w io.Writer) error {
	if !o.perConn {
		for i := range r.Streams {
			r.Streams[i].PerConn = nil
		}
	}
	if o.json {
		return json.NewEncoder(w).Encode(r)
	}
	return errors.Join(r.WriteText(w), r.WriteConns(w))
}

func verdict(r *load.Result, errOut io.Writer) int {
	if len(r.Refused) > 0 {
		fmt.Fprintln(errOut, "talon-load: refused:", strings.Join(r.Refused, "; "))
		return exitRefused
	}
	for _, s := range r.Streams {
		if s.Errors > 0 {
			return exitErrors
		}
	}
	return exitOK
}
