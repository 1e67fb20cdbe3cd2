package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/server"
)

// serveFlags are the flags of talon serve as they are written. docs/flags.md is
// generated from bind.
type serveFlags struct {
	listen, admin   string
	origin          string
	rings           int
	anonymousTenant string

	copyBelow, transferChunk size
	notSentLowat, sendBuffer size
	residencyProbe           bool

	maxConnections, openFiles  int
	openFileValid              time.Duration
	headerTimeout, idleTimeout time.Duration
	minDrainRate               rate
	drainDelay, drainTimeout   time.Duration

	logLevel, logFormat string
}

func (f *serveFlags) bind(fs *pflag.FlagSet) {
	fs.SortFlags = false
	fs.StringVar(&f.listen, "listen", "127.0.0.1:8080", "data `address`; port 0 lets the kernel choose, the first log line tells which")
	fs.StringVar(&f.admin, "admin", "127.0.0.1:9090", "admin `address` (health, metrics, status, profiles; no authentication); empty turns it off")
	fs.StringVar(&f.origin, "origin", "", "the `directory` to serve; required")
	fs.IntVar(&f.rings, "rings", 0, "io_uring loops, each with a thread and a listener of its own; 0 means one per CPU")
	fs.StringVar(&f.anonymousTenant, "anonymous-tenant", "public", "`tenant` of a request without credentials; empty answers it 401")

	f.copyBelow, f.transferChunk, f.notSentLowat = server.DefaultCopyBelow, server.DefaultTransferChunk, server.DefaultNotSentLowat
	fs.Var(&f.copyBelow, "copy-below", "bodies up to this size are copied and sent with their header, larger ones go through sendfile; 0 never copies, at most 16KiB")
	fs.Var(&f.transferChunk, "transfer-chunk", "most bytes of one response that one turn sends, 4KiB to 16MiB")
	fs.Var(&f.notSentLowat, "notsent-lowat", "what a slow reader may leave unsent in the kernel (TCP_NOTSENT_LOWAT); 0 leaves it to the kernel")
	fs.Var(&f.sendBuffer, "sndbuf", "SO_SNDBUF; 0 leaves it to the kernel's autotuning")
	fs.BoolVar(&f.residencyProbe, "residency-probe", true, "ask whether pages are in memory before sendfile; off, a cold file stalls its ring")

	fs.IntVar(&f.maxConnections, "max-connections", server.DefaultMaxConnections, "client connections of the whole worker")
	fs.IntVar(&f.openFiles, "open-files", server.DefaultOpenFiles, "open files that one ring keeps")
	fs.DurationVar(&f.openFileValid, "open-file-valid", server.DefaultOpenFileValid, "how long an open file is served before its name is looked up again")
	fs.DurationVar(&f.headerTimeout, "header-timeout", server.DefaultHeaderTimeout, "from a request's first byte to the end of its header")
	fs.DurationVar(&f.idleTimeout, "idle-timeout", server.DefaultIdleTimeout, "how long a connection may wait between requests")
	f.minDrainRate = server.DefaultMinDrainRate
	fs.Var(&f.minDrainRate, "min-drain-rate", "a client that reads its response slower than this for 10s is reset; 0 means no minimum")
	fs.DurationVar(&f.drainDelay, "drain-delay", 0, "after SIGTERM or SIGINT, how long to serve on while /readyz says 503; a second signal ends it")
	fs.DurationVar(&f.drainTimeout, "drain-timeout", 30*time.Second, "after that, how long responses in flight may take; a further signal stops at once")

	fs.StringVar(&f.logLevel, "log-level", "info", "least `level` to log: debug, info, warn or error")
	fs.StringVar(&f.logFormat, "log-format", "auto", "text, json, or auto: text on a terminal and JSON otherwise")
}

func newServe() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:     "serve --origin DIRECTORY",
		Short:   "Serve a directory over HTTP/1.1",
		Example: "  talon serve --origin ./sample\n  curl -r 0-99 http://127.0.0.1:8080/64MiB.bin",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := newLogger(cmd.ErrOrStderr(), f.logLevel, f.logFormat)
			if err != nil {
				return err
			}
			if err := f.check(); err != nil {
				return err
			}
			return serve(f, log)
		},
	}
	f.bind(cmd.Flags())
	return cmd
}

// serve runs a worker until a signal has drained it.
func serve(f serveFlags, log *slog.Logger) error {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT)
	defer signal.Stop(signals)
	w, err := start(f, log)
	if err != nil {
		return err
	}
	return w.run(signals)
}

var tenantName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// check refuses what no Config can say: there, zero asks for the default.
func (f *serveFlags) check() error {
	switch {
	case f.origin == "":
		return errors.New("--origin is missing: the directory to serve, for example --origin ./sample")
	case strings.Contains(f.origin, "://"):
		return fmt.Errorf("--origin: %s: this version serves only a directory", f.origin)
	case f.anonymousTenant != "" && !tenantName.MatchString(f.anonymousTenant):
		return fmt.Errorf("--anonymous-tenant: %q is not a tenant; use up to 64 letters, digits, dots, dashes and underscores", f.anonymousTenant)
	case f.transferChunk == 0:
		return errors.New("--transfer-chunk: 0 would send nothing; use 4KiB to 16MiB")
	case f.maxConnections < 1:
		return fmt.Errorf("--max-connections: %d is less than 1", f.maxConnections)
	case f.openFiles < 1:
		return fmt.Errorf("--open-files: %d is less than 1", f.openFiles)
	case f.drainDelay < 0:
		return fmt.Errorf("--drain-delay: %v is negative", f.drainDelay)
	case f.drainTimeout < 0:
		return fmt.Errorf("--drain-timeout: %v is negative", f.drainTimeout)
	}
	for _, d := range []struct {
		flag  string
		value time.Duration
	}{
		{"open-file-valid", f.openFileValid}, {"header-timeout", f.headerTimeout}, {"idle-timeout", f.idleTimeout},
	} {
		if d.value <= 0 {
			return fmt.Errorf("--%s: %v is not positive", d.flag, d.value)
		}
	}
	return nil
}

// offWhenZero turns a flag's 0 into a Config's "off", which is negative.
func offWhenZero(n int64) int {
	if n == 0 {
		return -1
	}
	return int(n)
}

// config is the data plane's part of the flags; the caller adds what is opened.
func (f *serveFlags) config() server.Config {
	return server.Config{
		Listen:           f.listen,
		Rings:            f.rings,
		AnonymousTenant:  f.anonymousTenant,
		CopyBelow:        offWhenZero(int64(f.copyBelow)),
		TransferChunk:    int(f.transferChunk),
		NotSentLowat:     offWhenZero(int64(f.notSentLowat)),
		SendBuffer:       int(f.sendBuffer),
		NoResidencyProbe: !f.residencyProbe,
		MaxConnections:   f.maxConnections,
		OpenFiles:        f.openFiles,
		OpenFileValid:    f.openFileValid,
		HeaderTimeout:    f.headerTimeout,
		IdleTimeout:      f.idleTimeout,
		MinDrainRate:     offWhenZero(int64(f.minDrainRate)),
	}
}
