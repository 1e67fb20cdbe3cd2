package main

import (
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// drain is the end of a worker's life, in the order in which others notice it:
//
//	signal   /readyz is 503; clients are served as before for delay, in which
//	         balancers look away
//	then     the data port lets those in who are already on their way and closes;
//	         responses in flight may take timeout
//
// Another signal ends the phase that it meets.
type drain struct {
	delay, timeout time.Duration
	log            *slog.Logger
	stop           func(timeout time.Duration) // begins the second phase, or ends it sooner
	begun          atomic.Bool
}

// on waits for the signals, or for the worker to end without them.
func (d *drain) on(signals <-chan os.Signal, ended <-chan struct{}) {
	select {
	case sig := <-signals:
		d.begun.Store(true)
		d.log.Info("draining", "signal", sig.String(), "delay", d.delay.String(), "timeout", d.timeout.String())
	case <-ended:
		return
	}
	select {
	case <-signals:
		d.log.Info("draining without further delay")
	case <-time.After(d.delay):
	case <-ended:
		return
	}
	d.stop(d.timeout)
	select {
	case <-signals:
		d.log.Info("stopping at once")
		d.stop(0)
	case <-ended:
	}
}
