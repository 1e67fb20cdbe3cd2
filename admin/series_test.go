package admin

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// TestSeriesOnlyGrow: over any history of tenants that come, count and go, no series that stays ever falls, there are never more than the bound, and
// nothing that was counted is lost or shown twice.
func TestSeriesOnlyGrow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		top := rapid.IntRange(0, 3).Draw(t, "top")
		s := newSeries(top, []string{"t0", "gone"})
		now, before := map[string]*Tenant{}, map[string]counts{}
		var counted, dropped uint64 // bytes of all, and those whose series ended with its tenant
		for range rapid.IntRange(1, 12).Draw(t, "scrapes") {
			for i := range 6 {
				id := fmt.Sprint("t", i)
				if rapid.IntRange(0, 5).Draw(t, "go") == 0 {
					delete(now, id)
					continue
				}
				if now[id] == nil {
					now[id] = &Tenant{ID: id}
				}
				n := rapid.Uint64Range(0, 9).Draw(t, "bytes")
				now[id].SentBytes += n
				now[id].Requests++
				counted += n
			}
			var tenants []Tenant
			for _, one := range now {
				tenants = append(tenants, *one)
			}
			for id, c := range s.own {
				if now[id] == nil {
					dropped += c.sentBytes
				}
			}
			page, all := s.take(tenants)
			seen, sum := map[string]counts{}, uint64(0)
			for _, one := range page {
				if was, ok := before[one.label]; ok && one.counts.sentBytes < was.sentBytes {
					t.Fatalf("%s fell from %d to %d", one.label, was.sentBytes, one.counts.sentBytes)
				}
				seen[one.label] = one.counts
			}
			for _, c := range s.own {
				sum += c.sentBytes
			}
			if len(page) > top+2 || page[len(page)-1].label != other {
				t.Fatalf("%d series, top %d", len(page), top)
			}
			if sum += s.rest.sentBytes; sum+dropped != counted || all.sentBytes != counted {
				t.Fatalf("%d bytes are shown and %d were, %d were counted", sum, dropped, counted)
			}
			before = seen
		}
	})
}

// TestSeriesChoice: the allow list first, then who has sent most; who overtakes starts its own series with what comes from then on.
func TestSeriesChoice(t *testing.T) {
	s := newSeries(1, []string{"vip"})
	tenant := func(id string, sent uint64) Tenant { return Tenant{ID: id, SentBytes: sent} }
	text := func(page []shown) (out string) {
		for _, one := range page {
			out += fmt.Sprint(one.label, "=", one.counts.sentBytes, " ")
		}
		return out
	}
	for _, c := range []struct {
		tenants []Tenant
		want    string
	}{
		{nil, "other=0 "},
		{[]Tenant{tenant("other", 3)}, "other=3 "},
		{nil, "other=3 "},
		{[]Tenant{tenant("a", 10), tenant("b", 5), tenant("vip", 1)}, "a=10 vip=1 other=8 "},
		{[]Tenant{tenant("a", 10), tenant("b", 25), tenant("vip", 1)}, "b=20 vip=1 other=8 "},
		{[]Tenant{tenant("a", 40), tenant("b", 25), tenant("vip", 2)}, "a=40 vip=2 other=8 "},
		{[]Tenant{tenant("a", 45), tenant("b", 26)}, "a=45 other=9 "},
		{[]Tenant{tenant("a", 1), tenant("b", 26)}, "b=20 other=10 "}, // a has begun anew
	} {
		page, _ := s.take(c.tenants)
		if got := text(page); got != c.want {
			t.Errorf("%v: got %s, want %s", c.tenants, got, c.want)
		}
	}
}
