package uring_test

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/uring"
	"github.com/talon-worker/talon/uring/uringtest"
)

// A kernel that refuses every enter, for whatever moment's reason, does not end the ring, loses nothing of what was prepared, and does not
// get a thread that spins: a Wait that may sleep does.
func TestRefusedEnters(t *testing.T) {
	var k *uringtest.Kernel
	make := func(cfg uring.Config) (r *uring.Ring, err error) {
		r, k, err = uringtest.New(1, cfg)
		return r, err
	}
	onRing(t, uring.Config{Entries: 8}, make, func(g *rig) {
		k.SetFaults(uringtest.Faults{Busy: 1})
		g.ok(g.Cancel(tag(opPoll, 1, 1), tag(opCancel, 1, 1)))
		begin := time.Now()
		const waits = 100
		for range waits {
			check(g.Wait(time.Hour))
			if c, ok := g.Ring.Next(); ok {
				t.Fatalf("got %v of a kernel that takes nothing", c)
			}
		}
		// A lower bound: the first waits do not sleep, and no machine makes the others shorter.
		if took := time.Since(begin); took < waits/2*time.Millisecond {
			t.Errorf("%d refused waits took %v: the thread spins", waits, took)
		}
		if s := g.Stats(); s.Busy != s.Enters || s.Busy < waits {
			t.Errorf("got %+v, want every enter counted as refused", s)
		}
		k.Quiet()
		if c := g.next(); c.Err() != unix.ENOENT {
			t.Errorf("after the relief the cancellation ended with %v, want ENOENT", c)
		}
		before := g.Stats()
		k.SetFaults(uringtest.Faults{Busy: 1})
		for range 10 {
			check(g.Wait(0))
		}
		if s := g.Stats(); s.Waits != before.Waits {
			t.Errorf("a Wait of 0 was allowed to sleep")
		}
		k.Quiet()
	})
}
