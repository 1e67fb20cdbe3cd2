package server

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The queue agrees with a slice that is searched.
func TestQueueAgainstSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		slots := rapid.IntRange(1, 40).Draw(t, "slots")
		q := newQueue(slots)
		var twin []uint32
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			if len(twin) > 0 && rapid.Bool().Draw(t, "pop") {
				if got := q.pop(); got != twin[0] {
					t.Fatalf("popped %d, want %d", got, twin[0])
				}
				twin = twin[1:]
			} else {
				slot := rapid.Uint32Range(0, uint32(slots-1)).Draw(t, "slot")
				q.push(slot)
				if !slices.Contains(twin, slot) {
					twin = append(twin, slot)
				}
			}
			if q.len() != len(twin) {
				t.Fatalf("length %d, want %d", q.len(), len(twin))
			}
		}
	})
}
