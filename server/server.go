package server

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/origin"
	"github.com/talon-worker/talon/uring"
)

// The opener's goroutines and queue, shared by all loops.
const (
	openerWorkers = 8
	openerQueue   = maxOpenTickets
)

// Server is the data plane of one worker: its listeners and loops.
type Server struct {
	cfg    Config
	addr   netip.AddrPort
	start  time.Time
	cpus   []int // those this process may use; loop i runs on cpus[i % len(cpus)]
	opener *origin.Opener
	worker *worker
	loops  []*loop
	asking tenantAsking

	running  sync.WaitGroup // Run: loops whose goroutine has not returned
	draining atomic.Bool
}

// New makes a server and binds its port. The error says what is wrong and what
// to do; it is a *uring.Unavailable where io_uring is denied.
func New(cfg Config) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg.withDefaults(), start: time.Now()}
	var err error
	if s.cpus, err = allowedCPUs(); err != nil {
		return nil, err
	}
	s.cfg.Rings = orDefault(s.cfg.Rings, len(s.cpus))
	if s.cfg.MaxConnections < s.cfg.Rings {
		return nil, fmt.Errorf("max-connections: %d is less than one for each of the %d rings; raise it, or give fewer --rings", s.cfg.MaxConnections, s.cfg.Rings)
	}
	fds, addr, err := listenAll(&s.cfg)
	if err != nil {
		return nil, err
	}
	s.addr = addr
	s.opener = origin.NewOpener(cfg.Origin, openerWorkers, openerQueue)
	if s.worker, err = newWorker(&s.cfg, s.opener); err != nil {
		closeAll(fds)
		s.release()
		return nil, err
	}
	if err := s.makeLoops(fds); err != nil {
		s.release()
		return nil, err
	}
	return s, nil
}

// makeLoops makes a loop for each listener. It takes them over.
func (s *Server) makeLoops(listeners []int) error {
	for i, fd := range listeners {
		ring, err := uring.New(uring.Config{})
		if err != nil {
			closeAll(listeners[i:])
			return err
		}
		var random [8]byte
		rand.Read(random[:])
		l, err := newLoop(s.worker, ring, fd, s.newClock().now, seedOf(random[:]))
		if err != nil {
			closeAll(listeners[i+1:])
			return fmt.Errorf("ring %d: %w", i, err)
		}
		s.loops = append(s.loops, l)
	}
	return nil
}

// Addr is the address of the data port, with the port the kernel chose.
func (s *Server) Addr() netip.AddrPort { return s.addr }

// Run serves until Drain has finished or a ring fails. It may be called once;
// Close gives back what is left.
//
// It raises GOMAXPROCS to one more than the rings: a ring thread in the kernel
// keeps its P, and with none left over every other goroutine starves for 18 to
// 38 ms and a garbage collection takes 121 ms.
func (s *Server) Run() error {
	if runtime.GOMAXPROCS(0) <= len(s.loops) {
		runtime.GOMAXPROCS(len(s.loops) + 1)
	}
	if s.cfg.AccessLog != nil {
		stop := make(chan struct{})
		done := s.keepAccessLog(stop)
		defer func() {
			close(stop)
			select {
			case <-done:
			case <-time.After(accessFlush):
				s.cfg.Logger.Error("the access log does not take its last lines; they are lost")
			}
		}()
	}
	errs := make([]error, len(s.loops))
	for i, l := range s.loops {
		s.running.Go(func() {
			errs[i] = s.runLoop(i, l)
		})
	}
	s.running.Wait()
	s.opener.Stop()
	for _, l := range s.loops {
		l.mail.drain(l) // files opened for connections that are gone
	}
	return errors.Join(errs...)
}

// runLoop runs one loop on a thread of its own, pinned to its CPU. When a loop
// fails the others are told to stop: a worker with a ring missing would go on
// accepting for a listener that nobody serves.
func (s *Server) runLoop(i int, l *loop) error {
	runtime.LockOSThread() // never unlocked: an exiting thread cancels its ring's operations
	cpu := s.cpus[i%len(s.cpus)]
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		s.cfg.Logger.Warn("ring is not pinned", "ring", i, "cpu", cpu, "err", err)
	}
	err := l.run()
	l.release()
	if err != nil {
		err = fmt.Errorf("ring %d: %w", i, err)
		s.cfg.Logger.Error("ring failed, the worker stops", "ring", i, "err", err)
		s.Drain(0)
	}
	return err
}

// Drain stops the server: it accepts no more, closes idle connections and lets
// the others finish the response they are in, for at most timeout; then it cuts
// them off, and Run returns. It does not wait. Another call may shorten the time.
func (s *Server) Drain(timeout time.Duration) {
	s.draining.Store(true)
	until := int64(time.Since(s.start) + timeout)
	for _, l := range s.loops {
		l.mail.post(&message{run: func(l *loop) { l.startDrain(until) }})
	}
}

// Draining reports whether Drain has been called.
func (s *Server) Draining() bool { return s.draining.Load() }

// Stats asks every loop for its counters; one that has ended left its last. The
// error names the rings that did not answer within the timeout, and so the ones
// that hang.
func (s *Server) Stats(timeout time.Duration) ([]Stats, error) {
	asked := make([]*answer, len(s.loops))
	for i, l := range s.loops {
		asked[i] = l.counters.ask(&l.mail)
	}
	all := make([]Stats, len(s.loops))
	late := time.NewTimer(timeout)
	defer late.Stop()
	var silent []int
	for i, l := range s.loops {
		var ok bool
		if all[i], ok = l.counters.wait(asked[i], late.C, len(silent) > 0); !ok {
			silent = append(silent, i)
		}
	}
	if len(silent) > 0 {
		return all, fmt.Errorf("no answer within %v from ring %v", timeout, silent)
	}
	return all, nil
}

// Close gives back what Run has not: everything, if it never ran. Run and Drain
// may not be running, nor be called afterwards; Stats and Nudge may.
func (s *Server) Close() { s.release() }

// release closes the mailboxes last: the opener's goroutines post to them.
func (s *Server) release() {
	for _, l := range s.loops {
		l.release()
	}
	s.opener.Stop()
	for _, l := range s.loops {
		l.mail.drain(l)
		l.mail.close()
	}
}
