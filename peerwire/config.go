package peerwire

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"
	"unicode/utf8"

	"github.com/talon-worker/talon/qos"
	"golang.org/x/sys/unix"
)

// maxWorkerID bounds the id of a worker on the wire, in bytes: 256 reporters of a hand-over then fit in one frame.
const maxWorkerID = 80

// DefaultPatience is how long a worker that shuts down waits for its last use to be acknowledged.
const DefaultPatience = time.Second

// Config is what a Node needs. Worker, Epoch, Limits and Ledger have no default.
type Config struct {
	Worker qos.WorkerID // 1 to 80 bytes, unique in the cluster
	Epoch  uint64       // of this incarnation: at least 1, and above that of every earlier process of this worker id
	Limits qos.Config   // the same as the ledger's
	Ledger *qos.Ledger  // of the worker; the Node drives its control side from New on

	// Ringed says that a ring will be named (SetRing): until then this worker owns nothing, and its limits admit nothing but allowances. Without it a worker
	// that is not given a ring before Run is alone, and owns everything.
	Ringed bool

	Listener net.Listener // of the peer port, the Node's from Run on; nil: nobody can call this worker
	TLS      *tls.Config  // both sides of every connection show a certificate (LoadTLS); nil: plain, on loopback only

	Now      func() int64  // ns of CLOCK_BOOTTIME; nil is Boottime
	Changed  func()        // called by the loop when what rings may charge has changed; must not block; nil none
	Patience time.Duration // at the end, for the last acknowledgement; 0 is DefaultPatience
	Logger   *slog.Logger  // nil is silence
}

func goodWorkerID(id qos.WorkerID) bool {
	return id != "" && len(id) <= maxWorkerID && utf8.ValidString(string(id))
}

// Boottime reads CLOCK_BOOTTIME in nanoseconds: unlike CLOCK_MONOTONIC it goes on while the machine is suspended, so that views age.
func Boottime() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("peerwire: CLOCK_BOOTTIME: " + err.Error()) // Linux has had it since 2.6.39
	}
	return ts.Nano()
}

// mend checks a configuration and fills in what it leaves out.
func (c *Config) mend() error {
	switch {
	case !goodWorkerID(c.Worker):
		return fmt.Errorf("worker id %.100q: want 1 to %d bytes of UTF-8", c.Worker, maxWorkerID)
	case c.Epoch == 0:
		return errors.New("worker epoch 0: want at least 1, growing across restarts")
	case c.Ledger == nil:
		return errors.New("no ledger: want the one that the worker's rings charge")
	case c.Patience < 0:
		return fmt.Errorf("patience %v: want 0 (the default, %v) or more", c.Patience, DefaultPatience)
	}
	if err := c.Limits.Validate(); err != nil {
		return err
	}
	if c.TLS != nil {
		if err := checkTLS(c.TLS); err != nil {
			return err
		}
	} else if c.Listener != nil && !loopback(c.Listener.Addr()) {
		return fmt.Errorf("peer port %v: %w", c.Listener.Addr(), errPlain)
	}
	if c.Now == nil {
		c.Now = Boottime
	}
	if c.Changed == nil {
		c.Changed = func() {}
	}
	if c.Patience == 0 {
		c.Patience = DefaultPatience
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return nil
}
