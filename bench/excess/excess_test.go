package excess

import (
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// dumb looks at every window that begins just before one event, or at the start, and ends with the last of them. It returns billionths of a byte.
func dumb(l Limit, from int64, events []Event) int64 {
	worst := int64(0)
	for i := range events {
		if events[i].Bytes <= 0 { // a window that begins with something given back has less in it than one that begins after
			continue
		}
		rate := l.Rate // as it is at the window's begin
		for _, e := range events[:i] {
			if e.Rate > 0 {
				rate = e.Rate
			}
		}
		got, refill, at := int64(0), int64(0), events[i].At
		for _, e := range events[i:] {
			refill += rate * (e.At - at)
			at = e.At
			got += e.Bytes
			if e.Rate > 0 {
				rate = e.Rate
			}
		}
		worst = max(worst, got*second-l.Burst*second-refill)
	}
	return worst
}

// The one pass finds what looking at every window finds, to the byte.
func TestJudgeIsEveryWindow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := Limit{Workers: 2, Rate: rapid.Int64Range(1, 1e9).Draw(t, "rate"), Burst: rapid.Int64Range(0, 1e6).Draw(t, "burst"), LocalBurst: 1000, Staleness: 1e6}
		at := int64(0)
		var events []Event
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			at += rapid.Int64Range(1, 1e7).Draw(t, "gap")
			if rapid.IntRange(0, 9).Draw(t, "kind") == 0 {
				events = append(events, Event{At: at, Rate: rapid.Int64Range(1, 1e9).Draw(t, "new rate")})
				continue
			}
			events = append(events, Event{At: at, Bytes: rapid.Int64Range(1, 1e6).Draw(t, "bytes") * rapid.SampledFrom([]int64{1, 1, 1, -1}).Draw(t, "sign")})
		}
		points := l.Judge(0, events)
		k := 0
		for i, e := range events {
			if e.Bytes <= 0 {
				continue
			}
			want := (dumb(l, 0, events[:i+1]) + second - 1) / second
			if points[k].At != e.At || points[k].Excess != want {
				t.Fatalf("after event %d: %+v, every window says %d", i, points[k], want)
			}
			k++
		}
	})
}

// The bound counts incarnations and rates since the bucket was full, and no others.
func TestBound(t *testing.T) {
	l := Limit{Workers: 2, Rate: 1000, Burst: 1000, LocalBurst: 10, Staleness: second}
	points := l.Judge(0, []Event{
		{At: 1, Bytes: 1500},                   // the two that are alive
		{At: 2, Born: 1},                       // one comes again
		{At: 3, Bytes: 1},                      //
		{At: 4, Rate: 3000}, {At: 5, Bytes: 1}, // the higher rate counts
		{At: 6, Rate: 500}, {At: 7, Bytes: 1}, // still
		{At: 60 * second, Bytes: 1},                  // full since: the newcomer is one of two, 500/s is all there has been
		{At: 60*second + 1, Born: 1, Bytes: 2},       //
		{At: 60*second + 1, Bytes: 1 << 20},          // over everything
		{At: 60*second + 1, Rate: 1000, Bytes: 1000}, // at the same instant
	})
	want := []int64{1020, 1030, 3030, 3030, 520, 530, 1030, 1030}
	for i, p := range points {
		if p.Bound != want[i] {
			t.Errorf("point %d: bound %d, want %d", i, p.Bound, want[i])
		}
	}
	if w := Worst(points); w.Of() < 1000 || w.Excess < 1<<20 {
		t.Errorf("the worst is %+v", w)
	}
	if w := Worst(nil); w.Of() != 0 {
		t.Errorf("of nothing: %+v", w)
	}
}

// Bytes are judged in the order of time, whoever received them.
func TestJudgeMerges(t *testing.T) {
	l := Limit{Workers: 1, Rate: 1, Burst: 10}
	points := l.Judge(0, []Event{{At: 20, Bytes: 6}, {At: 10, Bytes: 6}})
	if len(points) != 2 || points[0].Excess != 0 || points[1].Excess != 2 {
		t.Errorf("%+v", points)
	}
}
