package main

import (
	"log/slog"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// drain is the end of a worker's life, in the order in which others notice it:
//
//	signal   /readyz is 503; clients are served as before for delay, in which
//	         balancers look away
//	then     the data port lets those in who are already on their way and closes;
//	         responses in flight may take timeout
//
// Another signal ends the phase that it meets. SIGHUP reads the configuration
// again, in any of them.
type drain struct {
	times  func() (delay, timeout time.Duration) // as configured now: the timeout may change while the worker runs
	log    *slog.Logger
	reload func()                      // what SIGHUP asks for
	stop   func(timeout time.Duration) // begins the second phase, or ends it sooner
	begun  atomic.Bool
}

// on waits for the signals, or for the worker to end without them.
func (d *drain) on(signals <-chan os.Signal, ended <-chan struct{}) {
	sig, ok := d.await(signals, ended, nil)
	if !ok {
		return
	}
	d.begun.Store(true)
	delay, timeout := d.times()
	d.log.Info("draining", "signal", sig.String(), "delay", delay.String(), "timeout", timeout.String())
	sig, ok = d.await(signals, ended, time.After(delay))
	if !ok {
		return
	}
	if sig != nil {
		d.log.Info("draining without further delay")
	}
	_, timeout = d.times()
	d.stop(timeout)
	if _, ok = d.await(signals, ended, nil); ok {
		d.log.Info("stopping at once")
		d.stop(0)
	}
}

// await returns the next signal that asks for an end, or nil when the time is
// over. ok is false when the worker has ended.
func (d *drain) await(signals <-chan os.Signal, ended <-chan struct{}, over <-chan time.Time) (sig os.Signal, ok bool) {
	for {
		select {
		case sig := <-signals:
			if sig != unix.SIGHUP {
				return sig, true
			}
			d.reload()
		case <-over:
			return nil, true
		case <-ended:
			return nil, false
		}
	}
}
