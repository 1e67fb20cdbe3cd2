package server

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// Every deadline passes once, never early, and at most sweepEvery late, for a
// caller who looks whenever wake says so.
func TestDeadlinesPassOnceAndInTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.SampledFrom([]int{8, 5 * passMost}).Draw(t, "slots")
		d := newDeadlines(slots)
		twin := make([]int64, slots)
		now := int64(0)
		for range rapid.IntRange(1, 100+2*slots).Draw(t, "steps") {
			if rapid.IntRange(0, slots).Draw(t, "look") > 3 {
				slot := rapid.IntRange(0, slots-1).Draw(t, "slot")
				at := int64(0)
				if rapid.IntRange(0, 4).Draw(t, "clear") > 0 {
					at = now + rapid.Int64Range(1, 3*sweepEvery).Draw(t, "in")
				}
				d.set(uint32(slot), at)
				twin[slot] = at
				continue
			}
			now += rapid.Int64Range(0, 2*sweepEvery).Draw(t, "later")
			if wake := d.wake(); wake < math.MaxInt64 && rapid.Bool().Draw(t, "exactly") {
				now = max(now, wake)
			}
			looks := now >= d.wake()
			for again := true; again; again = looks && d.wake() <= now {
				passed := 0
				d.expired(now, func(slot uint32) {
					if twin[slot] == 0 || twin[slot] > now {
						t.Fatalf("slot %d passed at %d, its deadline is %d", slot, now, twin[slot])
					}
					twin[slot] = 0
					passed++
				})
				if passed > passMost {
					t.Fatalf("%d deadlines passed in one turn", passed)
				}
			}
			for slot, at := range twin {
				if looks && at != 0 && at <= now {
					t.Fatalf("slot %d did not pass at %d, its deadline was %d", slot, now, at)
				}
			}
		}
		if wake := d.wake(); wake != math.MaxInt64 {
			return
		}
		for slot, at := range twin {
			if at != 0 {
				t.Fatalf("slot %d waits for %d and nobody will look", slot, at)
			}
		}
	})
}

func TestDeadlineIsAtMostOneSweepLate(t *testing.T) {
	d := newDeadlines(2)
	d.set(0, 10)
	d.expired(d.wake(), func(uint32) {})
	d.set(1, d.last+1)
	if got, want := d.wake(), d.last+sweepEvery; got != want {
		t.Errorf("next look at %d, want %d: not more often than every sweepEvery", got, want)
	}
	d.set(1, d.last+5*sweepEvery)
	d.next = math.MaxInt64
	d.set(1, d.last+5*sweepEvery)
	if got, want := d.wake(), d.last+5*sweepEvery; got != want {
		t.Errorf("next look at %d, want %d: the deadline itself", got, want)
	}
}
