// Command peer-nethttp is the peer that every Go programmer has at hand: http.FileServer over a
// directory, with nothing tuned but the number of processors.
//
//	peer-nethttp --listen 127.0.0.1:8080 --dir DIR --procs 1
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "address")
	dir := flag.String("dir", ".", "directory to serve")
	procs := flag.Int("procs", 1, "GOMAXPROCS")
	flag.Parse()
	runtime.GOMAXPROCS(*procs)
	if err := serve(*listen, *dir); err != nil {
		fmt.Fprintln(os.Stderr, "peer-nethttp:", err)
		os.Exit(1)
	}
}

func serve(listen, dir string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := &http.Server{Addr: listen, Handler: http.FileServer(http.Dir(dir)), ReadHeaderTimeout: 10 * time.Second}
	context.AfterFunc(ctx, func() { s.Close() })
	if err := s.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
