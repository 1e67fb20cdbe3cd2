package server

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The oldest are those that sorting finds.
func TestWaitingFindsTheOldest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		times := rapid.SliceOfN(rapid.Int64Range(0, 20), 1, 40).Draw(t, "since")
		now := rapid.Int64Range(1, 20).Draw(t, "now")
		n := rapid.IntRange(1, 10).Draw(t, "n")
		w := newWaiting(len(times))
		var want []int64
		for slot, since := range times {
			if since > 0 {
				w.set(uint32(slot), since)
				if since < now {
					want = append(want, since)
				}
			}
		}
		slices.Sort(want)
		want = want[:min(n, len(want))]
		got := w.oldest(make([]uint32, 0, n), n, now)
		if !slices.EqualFunc(got, want, func(slot uint32, since int64) bool { return times[slot] == since }) {
			t.Fatalf("found slots %v, want those since %v", got, want)
		}
		slices.SortFunc(got, func(a, b uint32) int { return cmp.Compare(a, b) })
		if len(slices.Compact(got)) != len(want) {
			t.Fatalf("a slot twice: %v", got)
		}
		for _, slot := range got {
			w.clear(slot)
		}
		for _, slot := range w.oldest(got[:0], n, now) {
			if times[slot] == 0 {
				t.Fatalf("slot %d does not wait", slot)
			}
		}
	})
}
