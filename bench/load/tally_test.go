package load

import (
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestLittle(t *testing.T) {
	good := little{conns: 16, seconds: 0.5, latSum: 8, edge: 0.001, busy: 8}
	tests := []struct {
		name string
		with func(*little)
		want string // part of the refusal, "" for none
	}{
		{"exact", func(*little) {}, ""},
		{"4 % idle", func(l *little) { l.busy, l.latSum = 7.7, 7.7 }, ""},
		{"6 % idle", func(l *little) { l.busy = 7.5 }, "requests in flight"},
		{"one of sixteen dead", func(l *little) { l.busy, l.stalled = 7.5, 1 }, "1 of them without a response"},
		{"latencies too small for the rate", func(l *little) { l.latSum = 7.5 }, "rate x mean latency is 15.00"},
		{"latencies too large for the rate", func(l *little) { l.latSum = 8.5 }, "rate x mean latency is 17.00"},
		{"edges of long responses explain it", func(l *little) { l.latSum, l.edge = 7.5, 0.1 }, ""},
		{"edges never excuse idle connections", func(l *little) { l.busy, l.edge = 7.5, 0.1 }, "requests in flight"},
	}
	for _, tt := range tests {
		l := good
		tt.with(&l)
		got := l.check()
		if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

// A connection that is never idle is in flight for the whole window, wherever the edges cut.
func TestTallyBackToBackFillsTheWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lat := rapid.SliceOfN(rapid.Int64Range(1000, 50_000), 3, 40).Draw(t, "latencies")
		end := int64(0)
		for _, l := range lat {
			end += l
		}
		from := rapid.Int64Range(0, end-1).Draw(t, "from")
		to := rapid.Int64Range(from+1, end).Draw(t, "to")
		ta, s := newTally(0, 0), span{}
		now := int64(0)
		for _, l := range lat {
			if ta.from < 0 && now+l > from {
				ta.from = from
			}
			if ta.from >= 0 && now+l > to {
				break
			}
			ta.completed(&s, now, now+l)
			now += l
		}
		ta.to = to
		ta.pending(&s, now)
		// The plain sum is off by what straddles the edges, never by more than the longest of that.
		if d, edge := (to-from)-ta.latSum, max(ta.latMax, ta.ageMax); d > edge || -d > edge {
			t.Fatalf("latencies add up to %d in a window of %d, off by more than the edges' %d", ta.latSum, to-from, edge)
		}
		if s.busy != to-from {
			t.Fatalf("in flight for %d ns of a window of %d ns", s.busy, to-from)
		}
	})
}

func TestTallyCountsNothingButTotalsBeforeTheWindow(t *testing.T) {
	ta, s := newTally(0, 0), span{}
	ta.received(&s, 100, 5, 5)
	ta.completed(&s, 10, 20)
	if ta.done != 0 || ta.bytes != 0 || s != (span{}) || ta.hist.TotalCount() != 0 {
		t.Errorf("warm-up leaked into the window: %+v %+v", ta.done, s)
	}
	if ta.allDone != 1 || ta.allBytes != 100 {
		t.Errorf("totals %d, %d; want 1, 100", ta.allDone, ta.allBytes)
	}
}

func TestTallySlices(t *testing.T) {
	ta, s := newTally(3, 10), span{}
	ta.received(&s, 1, 99, 99) // before the window
	ta.from = 100
	for _, at := range []int64{100, 109, 110, 129, 130, 500} { // the last two are behind the last slice
		ta.received(&s, 1, at, at)
	}
	if want := []int64{2, 1, 1}; !slices.Equal(ta.slices, want) || ta.bytes != 6 {
		t.Errorf("slices %v, %d bytes; want %v, 6", ta.slices, ta.bytes, want)
	}
}

// What a thread finds that was kept from its core is spread over the time since it looked last, to the byte.
func TestTallySpreads(t *testing.T) {
	for _, tt := range []struct {
		n, since, now int64
		want          []int64
	}{
		{90, 100, 129, []int64{30, 30, 30}},
		{7, 105, 119, []int64{3, 4, 0}},
		{50, 0, 101, []int64{50, 0, 0}},   // since before the window opened
		{40, 121, 145, []int64{0, 0, 13}}, // the rest is behind the last slice
		{5, 119, 111, []int64{0, 5, 0}},
	} {
		ta, s := newTally(3, 10), span{}
		ta.from = 100
		ta.received(&s, tt.n, tt.since, tt.now)
		if !slices.Equal(ta.slices, tt.want) || ta.bytes != tt.n {
			t.Errorf("%d since %d at %d: %v, %d bytes; want %v", tt.n, tt.since, tt.now, ta.slices, ta.bytes, tt.want)
		}
	}
}

// A refusal is time in flight like a response, and nothing else.
func TestTallyRefusals(t *testing.T) {
	ta, s := newTally(0, 0), span{}
	ta.turnedAway(&s, 0, 50)
	ta.from = 100
	ta.turnedAway(&s, 90, 120)
	if ta.refused != 1 || ta.refusedSum != 30 || ta.refusedMax != 30 || s != (span{busy: 20}) || ta.done != 0 || ta.hist.TotalCount() != 0 {
		t.Errorf("%d refused in %d ns, longest %d, span %+v, %d done", ta.refused, ta.refusedSum, ta.refusedMax, s, ta.done)
	}
}

func TestTallyHistogramKeepsThreeDigits(t *testing.T) {
	ta, s := newTally(0, 0), span{}
	ta.from = 0
	for i := int64(1); i <= 1000; i++ {
		ta.completed(&s, 0, i*1000)
	}
	for q, want := range map[float64]float64{50: 500e3, 90: 900e3, 99: 990e3, 100: 1000e3} {
		if got := float64(ta.hist.ValueAtQuantile(q)); math.Abs(got/want-1) > 0.002 {
			t.Errorf("p%g: got %g ns, want %g within 0.2 %%", q, got, want)
		}
	}
	if ta.latSum != 500500*1000 || ta.latMax != 1000*1000 {
		t.Errorf("sum %d, max %d", ta.latSum, ta.latMax)
	}
}

func TestTallyCompletedAllocs(t *testing.T) {
	ta, s := newTally(0, 0), span{}
	ta.from = 0
	if n := testing.AllocsPerRun(100, func() { ta.completed(&s, 0, 50_000) }); n != 0 {
		t.Errorf("%v allocations per response, want 0", n)
	}
}
