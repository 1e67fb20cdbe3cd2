package qos

import (
	"math"
	"testing"
)

// TestNothingStaysReservedForWhatNeverCame: what an owner promises in a snapshot that is lost stays reserved until its worker names it dead. The worker does
// not know of it, and a later snapshot, with nothing in it, does not tell: were it silent then, the promise would be subtracted from the level until that
// is full, which under demand it never is.
func TestNothingStaysReservedForWhatNeverCame(t *testing.T) {
	answers := func(l parcel) bool { return l.snapshot != nil && l.to == 0 }
	turns := func(l parcel) bool { return answers(l) && !l.snapshot.Queued }
	for _, tt := range []struct {
		name string
		lost func(parcel) bool
		busy int64 // what the other has used before it asks: from 100 on it has to wait for its turn
		then int64 // ms until nothing waits any more
		hear int64 // ms until it hears again
		pass bool  // a ring is in its pass from when nothing waits any more: what there is can be given back only afterwards
	}{
		{"the answer is lost", answers, 0, 3, 4, false},
		{"the answer is lost, and the view grows old", answers, 0, 3, 60, false},
		{"every answer is lost while it asks", answers, 0, 40, 80, false},
		{"the lease ends before it is heard", answers, 0, 40, 400, false},
		{"the turn is lost", turns, 100, 100, 101, false},
		{"the turn is lost, and grows old before it asks again", turns, 100, 100, 140, false},
		{"the turn is lost, and its answer when it asks again", turns, 100, 100, 400, false},
		{"what it has is told once more, while it cannot give it back, and that is lost", nil, 0, 5, 80, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := goodPolicy() // R 1000/s, B 100
			c := newCluster(t, 2, p)
			c.now = perSecond // the level has filled since
			run := func(span int64) {
				for end := c.now + span*ms; c.now < end; c.step(ms / 4) {
					if w := c.workers[1]; len(w.queue) < 10 { // it takes what there is: a full level would pay for the promise
						c.ask(1, 1)
					}
				}
			}
			for range tt.busy {
				c.ask(1, 1)
				c.step(ms / 10)
			}
			c.drop = tt.lost
			c.ask(0, 20)
			run(tt.then)
			m := c.owner.find(p.Limit()).meter
			if r := m.reporters["w0"]; r == nil || r.high.ceiling < 20 {
				t.Fatalf("%+v was promised nothing: not the schedule that this is about", r)
			}
			c.workers[0].queue = nil // given up
			c.tryAll(c.workers[0])
			if c.drop = tt.lost; tt.pass {
				c.drop = answers
				c.workers[0].ledger.Enter(1)
			}
			run((tt.hear - tt.then) / 2)
			if tt.pass {
				c.workers[0].ledger.Leave(1)
			}
			run((tt.hear - tt.then) / 2)
			c.drop = nil
			run(1000)
			if c.workers[0].rep.Next() != math.MaxInt64 {
				t.Error("it is not silent")
			}
			if r := m.reporters["w0"]; r != nil && r.reserved > 0 || m.stale > 0 || m.orphans > 0 {
				t.Errorf("still reserved for it: %+v (expired %d, nobody's %d)", r, m.stale, m.orphans)
			}
		})
	}
}
