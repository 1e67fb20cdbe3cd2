package qos

import (
	"math"
	"testing"
)

// An owner that may not act any more hands nothing over when the ring changes: a later incarnation of its worker may have metered the limit
// since, and what it knows would be a second bucket. The simulator found it with a zombie.
func TestAnOwnerThatMayNotActHandsNothingOver(t *testing.T) {
	for _, tc := range []struct {
		name  string
		until int64
		want  int
	}{{"confirmed", math.MaxInt64, 1}, {"not any more", 1, 0}} {
		b := newOwnerBench(t, nil)
		b.ask("w1", 1, 0, 3)
		b.o.until = tc.until
		b.o.SetRing(2, 1, func(Limit) bool { return false }, b.now)
		if got := b.o.Export(nil); len(got) != tc.want {
			t.Errorf("%s: %d hand-overs, want %d", tc.name, len(got), tc.want)
		}
	}
}
