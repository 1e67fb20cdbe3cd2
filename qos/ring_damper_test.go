package qos

import (
	"slices"
	"testing"
)

func TestDamperTakesInAndOut(t *testing.T) {
	const ms = 1_000_000
	d := NewDamper(DamperConfig{})
	for _, tc := range []struct {
		at    int64 // ms
		there string
		want  string // "" no proposal
	}{
		{0, "abc", ""},
		{199, "abc", ""},
		{200, "abc", "abc"},
		{300, "ab", ""},    // c is gone
		{900, "abc", ""},   // and back within Leave: nothing moved
		{1000, "ab", ""},   // gone again
		{1999, "ab", ""},   // not for a second yet
		{2000, "ab", "ab"}, // out
		{2100, "abc", ""},
		{2899, "abc", ""},    // it went away twice: it waits 4 x Join
		{2900, "abc", "abc"}, // in again
		{3000, "abcd", ""},   // a newcomer
		{3200, "abcd", ""},   // Join passed, Dwell did not
		{3400, "abcd", "abcd"},
		{9000, "", ""},
		{20000, "", ""}, // all gone: it is the observer who is cut off
	} {
		d.Observe(tc.at*ms, letters(tc.there))
		got, ok := d.Propose(tc.at * ms)
		if ok != (tc.want != "") || spell(got) != tc.want {
			t.Errorf("at %d ms: proposed %q (%v), want %q", tc.at, got, ok, tc.want)
		}
	}
}

// Whoever takes over proposing goes on from the ring that is there, whoever proposed it.
func TestDamperAdopts(t *testing.T) {
	const ms = 1_000_000
	d := NewDamper(DamperConfig{})
	for _, tc := range []struct {
		at    int64 // ms
		ring  string
		there string
		want  string
	}{
		{0, "abc", "abc", ""},
		{5000, "abc", "abc", ""},  // nothing to propose
		{6000, "abc", "ab", ""},   // c is gone
		{6999, "abc", "ab", ""},   // not for a second yet
		{7000, "abc", "ab", "ab"}, // out
		{7100, "abc", "ab", ""},   // and somebody was faster: the ring is as it was, and this one tries again after Dwell
		{7500, "abc", "ab", "ab"},
		{8000, "abd", "ab", ""},   // another ring with a member that was never seen
		{9000, "abd", "ab", "ab"}, // nor is it for a second
	} {
		d.Adopt(tc.at*ms, letters(tc.ring))
		d.Observe(tc.at*ms, letters(tc.there))
		got, ok := d.Propose(tc.at * ms)
		if ok != (tc.want != "") || spell(got) != tc.want {
			t.Errorf("at %d ms: proposed %q (%v), want %q", tc.at, got, ok, tc.want)
		}
	}
}

// A worker that flaps at any pace for ten minutes costs the ring a few moves, and the ring stays in use meanwhile.
func TestDamperBoundsTheMovesOfAFlappingWorker(t *testing.T) {
	const ms = 1_000_000
	steady := workers(4)
	for _, half := range []int64{50, 300, 1000, 1500, 5000} {
		d := NewDamper(DamperConfig{})
		moves := 0
		for now := int64(0); now < 600_000; now += 50 {
			there := steady
			if now/half%2 == 0 {
				there = append(slices.Clone(steady), "flapper")
			}
			d.Observe(now*ms, there)
			if ids, ok := d.Propose(now * ms); ok {
				moves++
				if len(ids) < len(steady) {
					t.Fatalf("half period %d ms: a steady worker was taken out: %q", half, ids)
				}
			}
		}
		if moves > 16 {
			t.Errorf("half period %d ms: %d rings in ten minutes", half, moves)
		}
	}
}

func TestDamperForgives(t *testing.T) {
	d := NewDamper(DamperConfig{Join: 10, Leave: 10, Max: 1000, Forget: 100, Dwell: 1})
	see := func(now int64, ids ...WorkerID) []WorkerID {
		d.Observe(now, ids)
		got, _ := d.Propose(now)
		return got
	}
	see(0, "a", "b")
	see(10, "a", "b")
	for i := range int64(5) {
		see(20+2*i, "a")
		see(21+2*i, "a", "b")
	}
	see(40, "a")
	see(50, "a") // out, after six flaps
	if got := see(1000, "a"); got != nil {
		t.Fatalf("proposed %q", got)
	}
	see(2000, "a", "b")
	if got := see(2010, "a", "b"); len(got) != 2 {
		t.Errorf("forgiven flaps still count: proposed %q", got)
	}
	d.Observe(5000, []WorkerID{"a"})
	see(5010, "a")
	see(9000, "a")
	if see(9001, "a"); len(d.workers) != 1 {
		t.Errorf("remembers %d workers, one is there", len(d.workers))
	}
}
