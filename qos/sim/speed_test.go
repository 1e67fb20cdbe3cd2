package sim

import (
	"testing"
	"time"
)

// BenchmarkVirtualSecond is one virtual second of eight busy workers that report every 5 ms.
func BenchmarkVirtualSecond(b *testing.B) {
	s := calm()
	s.Rings, s.Pass = 1, 5*msec
	s.Config.SyncMin, s.Config.SyncMax = 5*time.Millisecond, 5*time.Millisecond
	s.Limits[0].Demand = Demand{Rate: 25_000, Need: 1, Shape: Skew}
	w, err := New(s)
	if err != nil {
		b.Fatal(err)
	}
	w.Until(500 * msec)
	events, reports := w.result.Events, w.result.Reports
	b.ReportAllocs()
	for b.Loop() {
		w.Until(w.now + 1000*msec)
	}
	if w.err != nil {
		b.Fatal(w.err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "virtual-s/s")
	b.ReportMetric(float64(w.result.Events-events)/float64(b.N), "events/op")
	b.ReportMetric(float64(w.result.Reports-reports)/float64(b.N), "reports/op")
}

// The message path of the simulator allocates nothing once its pools have grown; what does allocate is one View for each snapshot in force.
func TestEventsAllocateNothing(t *testing.T) {
	var q queue
	var box pool[int]
	for i := range 64 {
		q.push(event{at: int64(i)})
	}
	n := testing.AllocsPerRun(1000, func() {
		e := q.pop()
		i := 7
		e.arg = box.put(&i)
		e.at += 100
		q.push(e)
		box.drop(e.arg)
	})
	if n != 0 {
		t.Errorf("%v allocations an event", n)
	}
}

func TestQueueIsInOrderOfTime(t *testing.T) {
	rnd := newRand(1)
	var q queue
	last := int64(0)
	for i := range 10_000 {
		q.push(event{at: last + rnd.Int64N(50), arg: int32(i)})
		if i%3 > 0 {
			e := q.pop()
			if e.at < last {
				t.Fatalf("%d after %d", e.at, last)
			}
			last = e.at
		}
	}
	q = queue{}
	for i := range int32(100) {
		q.push(event{at: 5, arg: i})
	}
	for i := range int32(100) {
		if e := q.pop(); e.arg != i {
			t.Fatalf("of one moment %d comes before %d", e.arg, i)
		}
	}
}

func TestClockReadsAndFindsTimes(t *testing.T) {
	for _, ppm := range []int64{-10_000, -1, 0, 1, 10_000} {
		c := clock{start: 12345, ppm: ppm}
		last := int64(-1)
		for real := int64(0); real < 5e9; real += 1_234_567 {
			now := c.read(real)
			if now < last {
				t.Fatalf("ppm %d: back from %d to %d", ppm, last, now)
			}
			last = now
			if at := c.when(now); c.read(at) < now || at > real {
				t.Fatalf("ppm %d: reads %d at %d, when says %d", ppm, now, real, at)
			}
		}
	}
}
