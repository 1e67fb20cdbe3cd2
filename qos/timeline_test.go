package qos

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

type timelineItem struct {
	at    int64
	id    uint64
	index int
}

func (x *timelineItem) order() (int64, uint64) { return x.at, x.id }
func (x *timelineItem) place() *int            { return &x.index }

// TestTimelineAgainstSortedSlice drives a timeline and a slice that is sorted every time.
func TestTimelineAgainstSortedSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var line timeline[*timelineItem]
		var twin []*timelineItem
		id := uint64(0)
		at := rapid.Int64Range(0, 9)
		some := func(t *rapid.T) *timelineItem {
			if len(twin) == 0 {
				t.Skip("empty")
			}
			return rapid.SampledFrom(twin).Draw(t, "item")
		}
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				id++
				x := &timelineItem{at: at.Draw(t, "at"), id: id, index: -1}
				line.push(x)
				twin = append(twin, x)
			},
			"move": func(t *rapid.T) {
				x := some(t)
				x.at = at.Draw(t, "at")
				line.fix(x)
			},
			"remove": func(t *rapid.T) {
				x := some(t)
				line.remove(x)
				twin = slices.DeleteFunc(twin, func(y *timelineItem) bool { return x == y })
				if x.index != -1 {
					t.Fatalf("removed, but its place is %d", x.index)
				}
			},
			"all": func(t *rapid.T) { line.all(func(x *timelineItem) { x.at = (x.at*7 + 3) % 10 }) },
			"": func(t *rapid.T) {
				slices.SortFunc(twin, func(a, b *timelineItem) int { return int(a.at-b.at)*1000 + int(a.id) - int(b.id) })
				if line.len() != len(twin) || len(twin) > 0 && line.first() != twin[0] {
					t.Fatalf("first of %d is wrong", len(twin))
				}
			},
		})
	})
}
