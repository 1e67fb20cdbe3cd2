package main

import (
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/talon-worker/talon/admin"
	"github.com/talon-worker/talon/origin"
	"github.com/talon-worker/talon/server"
	"github.com/talon-worker/talon/uring"
)

// ringAnswer is how long a ring may take to hand out its counters. One turn
// takes milliseconds at worst; a ring that takes a second is stuck.
const ringAnswer = time.Second

// worker is everything of one process, opened and bound but not yet running.
type worker struct {
	call      call       // what conf was made of
	conf      *effective // in force; of a running worker only reload writes to it, and only live settings
	level     *slog.LevelVar
	log       *slog.Logger
	reread    atomic.Pointer[problems] // why the last SIGHUP changed nothing, or nil
	origin    *origin.Dir
	accessLog *os.File // nil without, and on standard output
	admitted  *server.AdmissionLog
	admin     *admin.Server // nil when turned off
	server    *server.Server
	tenancy   *tenancy    // nil without a policy
	limiter   *limiter    // nil without a policy
	cluster   *cluster    // nil without a coordinator
	serving   atomic.Bool // the server is made
	started   time.Time
	drain     drain
}

// start opens the origin and binds both ports, or leaves nothing open.
func (w *worker) start() error {
	if err := uring.Probe(); err != nil {
		return err
	}
	files, err := raiseNoFile()
	if err != nil {
		return cannot("raise the limit of open files: %w", err)
	}
	if err := w.open(); err != nil {
		w.close()
		return err
	}
	w.started = time.Now()
	w.announce(files)
	return nil
}

// open fills w as far as it gets; close undoes that much.
func (w *worker) open() (err error) {
	if w.origin, err = origin.OpenDir(w.conf.origin); err != nil {
		return cannot("%w", err)
	}
	cfg := w.conf.config()
	cfg.Origin, cfg.Logger = w.origin, w.log
	if cfg.AccessLog, err = w.openAccessLog(); err != nil {
		return err
	}
	if w.conf.policy != "" || w.conf.coordinator != "" {
		open := w.openPolicy
		if w.conf.coordinator != "" {
			open = w.openCluster
		}
		if err := open(); err != nil {
			return err
		}
		if cfg.Tenants, err = w.tenancy.now.Load().table(); err != nil {
			return err
		}
		cfg.Ledger, cfg.Rings = w.limiter.ledger, w.limiter.ledger.Rings()
	}
	if cfg.AdmissionLog, err = w.openAdmissionLog(); err != nil {
		return err
	}
	if err := cfg.Validate(); err != nil {
		return fmt.Errorf("--%w", err)
	}
	if w.conf.admin != "" {
		if w.admin, err = admin.Listen(w.conf.admin, w.log); err != nil {
			return cannot("admin: %w; --admin takes another address, or none", err)
		}
	}
	if w.server, err = server.New(cfg); err != nil {
		return cannot("%w", err)
	}
	w.serving.Store(true)
	if w.cluster != nil {
		close(w.cluster.ready)
	}
	w.drain.times = func() (delay, timeout time.Duration) { return w.conf.drainDelay, w.conf.drainTimeout }
	w.drain.log, w.drain.reload, w.drain.stop = w.log, w.reload, w.server.Drain
	return nil
}

// openAccessLog opens the file for appending. Rotation is by rename and restart, or by a program that reads standard output.
func (w *worker) openAccessLog() (io.Writer, error) {
	switch w.conf.accessLog {
	case "":
		return nil, nil
	case "-":
		return os.Stdout, nil
	}
	f, err := os.OpenFile(w.conf.accessLog, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return nil, cannot("access-log: %w; --access-log takes a file in a directory that exists, or -", err)
	}
	w.accessLog = f
	return f, nil
}

// openAdmissionLog makes the file, if there are limits at all.
func (w *worker) openAdmissionLog() (_ *server.AdmissionLog, err error) {
	switch {
	case w.conf.admissionLog == "":
		return nil, nil
	case w.limiter == nil:
		return nil, cannot("admission-log: without a policy nothing is limited; leave --admission-log out, or give --policy or --coordinator")
	}
	if w.admitted, err = server.OpenAdmissionLog(w.conf.admissionLog, w.limiter.ledger.Rings()); err != nil {
		return nil, cannot("admission-log: %w", err)
	}
	return w.admitted, nil
}

// announce is the first log line: all that a bug report should begin with.
func (w *worker) announce(files uint64) {
	b, tenants := build(), w.tenants()
	adminAddr := "off"
	if w.admin != nil {
		adminAddr = w.admin.Addr()
	}
	w.log.Info("serving", "version", b.Version, "data", w.server.Addr().String(), "admin", adminAddr,
		"origin", w.conf.originPath(), "rings", ringCount(w.conf.rings), "policy", tenants.Note)
	warnings := w.conf.warnings(files)
	if w.cluster != nil {
		warnings = append(warnings, w.cluster.warnings()...)
	}
	if w.tenancy != nil {
		warnings = append(warnings, w.policyWarnings(w.tenancy.now.Load())...)
	}
	for _, warning := range warnings {
		w.log.Warn(warning)
	}
	if w.admin != nil && !isLoopback(w.admin.Addr()) {
		w.log.Warn("the admin port has no authentication and is not on loopback: whoever reaches it can read profiles", "admin", w.admin.Addr())
	}
}

// run serves until a signal has drained the worker, then closes everything.
func (w *worker) run(signals <-chan os.Signal) error {
	var drainer, watcher sync.WaitGroup
	ended := make(chan struct{})
	drainer.Go(func() { w.drain.on(signals, ended) })
	if w.admin != nil {
		watcher.Go(w.serveAdmin)
	}
	if w.limiter != nil {
		w.limiter.run(w.fenced)
		if w.cluster != nil {
			w.cluster.stay()
		} else {
			w.tenancy.watch()
		}
	}
	err := w.server.Run()
	close(ended)
	drainer.Wait() // the server takes no call once it is being closed
	if w.cluster != nil {
		w.cluster.leave()
	}
	w.close()
	watcher.Wait()
	if err == nil && w.limiter != nil {
		err = w.limiter.err
	}
	if err != nil {
		return cannot("%w", err)
	}
	w.log.Info("stopped")
	return nil
}

// serveAdmin runs beside the rings; the data port goes on without it.
func (w *worker) serveAdmin() {
	shown := admin.Worker{
		Build:   build(),
		Addr:    w.server.Addr().String(),
		Origin:  w.conf.originPath(),
		Tenants: w.tenants,
		Started: w.started,
		Rings: func() ([]admin.Ring, error) {
			stats, err := w.server.Stats(ringAnswer)
			return adminRings(stats), err
		},
		Shared:         func() admin.Shared { return admin.Shared(w.server.Shared()) },
		Draining:       func() bool { return w.drain.begun.Load() || w.server.Draining() },
		OriginReadable: func() error { return readable(w.conf.origin) },
		ConfigStale:    w.stale,
		SetLogLevel:    w.setLogLevel,
		Tenancy:        w.tenantState,
		TopTenants:     w.conf.metricsTenants,
		AlwaysTenants:  splitNames(w.conf.metricsAlways),
	}
	if w.tenancy != nil {
		shown.Policy, shown.Keys = w.policyState, w.keyState
	}
	if w.cluster != nil {
		shown.Peers = w.peerState
	}
	if err := w.admin.Serve(shown); err != nil {
		w.log.Error("the admin port has failed", "error", err)
	}
}

// fenced ends a worker whose limits are not counted any more: whatever it served now would be beyond every limit.
func (w *worker) fenced(err error) {
	w.log.Error("the limiter's loop has ended; stopping at once", "error", err)
	w.server.Drain(0)
}

// close gives back what is open, in the order in which each may still use the next.
func (w *worker) close() {
	if w.tenancy != nil {
		w.tenancy.close()
	}
	if w.cluster != nil {
		w.cluster.close()
	}
	if w.admin != nil {
		if err := w.admin.Close(); err != nil {
			w.log.Warn("closing the admin port", "error", err)
		}
	}
	w.serving.Store(false)
	if w.server != nil {
		w.server.Close()
	}
	if w.accessLog != nil {
		if err := w.accessLog.Close(); err != nil {
			w.log.Warn("closing the access log", "error", err)
		}
	}
	if w.admitted != nil {
		if err := w.admitted.Close(); err != nil {
			w.log.Warn("closing the admission log", "error", err)
		}
	}
	if w.limiter != nil {
		w.limiter.close()
	}
	if w.origin != nil {
		if err := w.origin.Close(); err != nil {
			w.log.Warn("closing the origin", "error", err)
		}
	}
}

// tenants says who requests are.
func (w *worker) tenants() admin.Tenants {
	anonymous := w.conf.anonymousTenant
	if w.tenancy != nil {
		p := w.tenancy.now.Load()
		if p.set.Find(anonymous) == nil {
			anonymous = ""
		}
		return admin.Tenants{Mode: "policy", Anonymous: anonymous, Note: p.note(w.tenancy.path, anonymous)}
	}
	if anonymous == "" {
		return admin.Tenants{Mode: "none",
			Note: "no policy, no coordinator, no anonymous tenant: every request is answered 401"}
	}
	return admin.Tenants{Mode: "anonymous", Anonymous: anonymous,
		Note: "no policy, no coordinator: every request is tenant " + anonymous + ", without limits"}
}

// ringCount is what --rings means.
func ringCount(rings int) int {
	if rings > 0 {
		return rings
	}
	return runtime.NumCPU()
}

func (f *serveFlags) originPath() string {
	abs, err := filepath.Abs(f.origin)
	if err != nil {
		return f.origin
	}
	return abs
}

func readable(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return f.Close()
}

func isLoopback(addr string) bool {
	ap, err := netip.ParseAddrPort(addr)
	return err == nil && ap.Addr().Unmap().IsLoopback()
}
