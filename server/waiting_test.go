package server

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The oldest are the first of a list to whose end every set moves its slot, those of
// the turn excepted.
func TestWaitingFindsTheOldest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.IntRange(1, 30).Draw(t, "slots")
		n := rapid.IntRange(1, 10).Draw(t, "n")
		w := newWaiting(slots)
		var list []uint32 // by age
		forget := func(slot uint32) { list = slices.DeleteFunc(list, func(s uint32) bool { return s == slot }) }
		scratch := make([]uint32, 0, n)
		for turn := range int64(rapid.IntRange(1, 10).Draw(t, "turns")) {
			now, earlier := turn*100, len(list)
			for _, act := range rapid.SliceOfN(rapid.IntRange(0, 2*slots-1), 0, 40).Draw(t, "acts") {
				slot := uint32(act % slots)
				if at := slices.Index(list, slot); 0 <= at && at < earlier {
					earlier--
				}
				forget(slot)
				w.clear(slot)
				if act < slots {
					w.set(slot, now)
					list = append(list, slot)
				}
			}
			got := w.oldest(scratch[:0], n, now)
			if want := list[:min(n, earlier)]; !slices.Equal(got, want) {
				t.Fatalf("turn %d: found %v, want %v of %v", turn, got, want, list)
			}
			for _, slot := range got {
				w.clear(slot)
				forget(slot)
			}
		}
	})
}
