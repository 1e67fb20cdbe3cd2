// Command bench-shed measures three ways to turn away a tenant that asks for more than its limit: with 429, with 503, and
// by closing its connections; each against a client that only tries again, and against one whose failure detector takes
// the server for down when too few requests succeed. Beside the aggressor a victim reads as fast as it can.
//
// For each it prints what the victim gets and waits, how often the aggressor tries in vain, what a refusal costs the
// server, and how long the aggressor stays shut out after it has come back under its limit.
//
// With --flood it measures instead what the victim waits beside so many refused requests per second, and what they cost the server.
//
//	go run ./bench/cmd/bench-shed                               # about nine minutes
//	go run ./bench/cmd/bench-shed --flood 100000                # about two minutes
//	go run ./bench/cmd/bench-shed --times 4 --rounds 1 --window 1   # a look
//
// Exit codes: 0 measured; 1 it could not run; 2 bad usage.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/talon-worker/talon/bench/bed"
)

const (
	key  = "4K"
	size = 4 << 10
)

type options struct {
	Rounds int       `json:"rounds"`
	Warmup float64   `json:"warmup_s"`
	Window float64   `json:"window_s"`
	Limit  int       `json:"read_iops"`
	Times  []float64 `json:"times"` // multiples of the limit that the aggressor asks for
	Ban    float64   `json:"ban_s"`
	Flood  float64   `json:"flood,omitempty"` // requests per second; 0: the answers are compared instead

	Recovery bool `json:"recovery"` // measure how the aggressor comes back under its limit, too

	talon, dir, results  string
	serverCPU, clientCPU int
	hygiene, noWrite     bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-shed:", err)
		os.Exit(2)
	}
	if err := o.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench-shed:", err)
		os.Exit(1)
	}
}

func parse(args []string) (*options, error) {
	o := &options{}
	var times string
	fs := flag.NewFlagSet("bench-shed", flag.ExitOnError)
	fs.IntVar(&o.Rounds, "rounds", 3, "interleaved rounds, the order alternates")
	fs.Float64Var(&o.Warmup, "warmup", 1.2, "seconds before each measured window: a ban needs a second to come about")
	fs.Float64Var(&o.Window, "window", 2, "seconds of each measured window")
	fs.IntVar(&o.Limit, "limit", 2000, "the aggressor's read_iops")
	fs.StringVar(&times, "times", "1.4,2,4,10", "multiples of the limit that the aggressor asks for")
	fs.Float64Var(&o.Ban, "ban", 1, "seconds of a ban")
	fs.Float64Var(&o.Flood, "flood", 0, "compare no answers, but measure a victim beside so many refused requests per second")
	fs.BoolVar(&o.Recovery, "recovery", true, "measure how the aggressor comes back under its limit, which takes longer than the rest")
	fs.StringVar(&o.talon, "talon", "", "talon binary; empty builds ./cmd/talon")
	fs.StringVar(&o.dir, "dir", os.TempDir(), "where to make the files; on a local disk")
	fs.StringVar(&o.results, "results", "bench/results", "where to append the results")
	fs.BoolVar(&o.noWrite, "no-results", false, "print only")
	fs.IntVar(&o.serverCPU, "server-cpu", 0, "core of the server")
	fs.IntVar(&o.clientCPU, "client-cpu", 1, "core of the client")
	fs.BoolVar(&o.hygiene, "hygiene", true, "nice -20 and autogroup weight -20 for every process (root)")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	for f := range strings.SplitSeq(times, ",") {
		v, err := strconv.ParseFloat(f, 64)
		if err != nil || v <= 1 || v > 1000 {
			return nil, fmt.Errorf("--times %q: want multiples of the limit over 1, such as 1.4,2,10", times)
		}
		o.Times = append(o.Times, v)
	}
	switch {
	case fs.NArg() > 0:
		return nil, fmt.Errorf("%q: no arguments beside flags are taken", fs.Arg(0))
	case o.Rounds < 1 || o.Rounds > 100 || o.Window < 0.5 || o.Window > 60 || o.Warmup < 0 || o.Warmup > 60:
		return nil, fmt.Errorf("rounds %d, window %gs, warm-up %gs: want 1-100 rounds, windows of 0.5 to 60 s", o.Rounds, o.Window, o.Warmup)
	case o.Limit < 10 || o.Limit > 1_000_000:
		return nil, fmt.Errorf("--limit %d: want 10 to 1000000 requests per second", o.Limit)
	case o.Flood < 0 || o.Flood > 10e6:
		return nil, fmt.Errorf("--flood %g: want requests per second, 10 million at most, or 0 to compare the answers", o.Flood)
	case o.Ban < 0.1 || o.Ban > 60:
		return nil, fmt.Errorf("--ban %g: want 0.1 to 60 seconds", o.Ban)
	case o.serverCPU == o.clientCPU:
		return nil, fmt.Errorf("server and client on the same core %d would measure neither", o.clientCPU)
	}
	return o, nil
}

func (o *options) run(ctx context.Context) error {
	work, err := os.MkdirTemp(o.dir, "talon-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	files := filepath.Join(work, "files")
	if err := os.Mkdir(files, 0o755); err != nil {
		return err
	}
	if err := bed.MakeAll(files, []string{key}); err != nil {
		return err
	}
	if o.talon == "" {
		if o.talon, err = bed.BuildGo(work, "./cmd/talon"); err != nil {
			return fmt.Errorf("%w (or give a binary by --talon)", err)
		}
	} else if o.talon, err = exec.LookPath(o.talon); err != nil {
		return err
	}
	client, err := bed.BuildGo(work, "./bench/cmd/talon-load")
	if err != nil {
		return err
	}
	loader := bed.Client{Path: client, CPU: o.clientCPU, Raise: o.hygiene}
	if o.Flood > 0 {
		f := newFlood(o, loader)
		defer f.down()
		if err := f.up(ctx, files, work); err != nil {
			return err
		}
		return f.report(ctx)
	}
	s := newShed(o, loader)
	for i := range s.arms {
		srv := s.arms[i].srv
		defer srv.Down()
		if err := srv.Up(ctx, files, work, o.serverCPU, o.hygiene, "/"+key); err != nil {
			return err
		}
	}
	return s.report(ctx)
}
