package sim

import (
	"math/rand/v2"
	"testing"
	"time"
)

// BenchmarkVirtualSecond is one virtual second of eight workers with an interval of 5 ms: of a limit that they use little, so that intervals stretch; of one
// that is hot and of which there is enough; and of one that has run out, where reports go early, every 2 ms.
func BenchmarkVirtualSecond(b *testing.B) {
	for _, bench := range []struct {
		name         string
		rate, wanted int64
	}{{"cool", 20_000, 16_000}, {"hot", 100_000, 80_000}, {"out", 20_000, 25_000}} {
		b.Run(bench.name, func(b *testing.B) {
			s := calm()
			s.Rings, s.Pass = 1, 5*msec
			s.Config.SyncMin, s.Config.SyncMax = 5*time.Millisecond, 5*time.Millisecond
			l := &s.Limits[0]
			l.Policy.Rate, l.Policy.Burst, l.Policy.LocalBurst = bench.rate, bench.rate/20, bench.rate/100
			l.Demand = Demand{Rate: bench.wanted, Need: 1, Shape: Skew}
			benchmark(b, s)
		})
	}
}

func benchmark(b *testing.B, s Setup) {
	w, err := New(s)
	if err != nil {
		b.Fatal(err)
	}
	w.Until(2000 * msec)
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
	q.init(64)
	var box pool[int]
	for i := range 64 {
		q.push(int64(i), aPass, theCluster, 0)
	}
	n := testing.AllocsPerRun(1000, func() {
		e := q.pop(forever)
		i := 7
		arg := box.put(&i)
		q.push(e.at+100, e.kind, e.to, arg)
		box.drop(arg)
	})
	if n != 0 {
		t.Errorf("%v allocations an event", n)
	}
}

// The queue against a list that is searched: near and far, many of one moment, clusters of all sizes, and a look ahead before something earlier comes.
func TestQueueIsInOrderOfTime(t *testing.T) {
	for _, pending := range []int{1, 64, 5_000, 1_000_000} {
		for _, reach := range []int64{1, 50, 5_000, 1e6, 300e6, 20e9} {
			rnd := newRand(uint64(reach))
			var q queue
			q.init(pending)
			var twin []event
			now := int64(0)
			for i := range int32(3000) {
				if e := (event{at: now + rnd.Int64N(reach), arg: i}); rnd.IntN(100) < 55 {
					q.push(e.at, e.kind, e.to, e.arg)
					twin = append(twin, e)
				}
				if len(twin) == 0 || rnd.IntN(100) < 50 {
					continue
				}
				least := 0
				for j := range twin {
					if twin[j].at < twin[least].at {
						least = j
					}
				}
				want := twin[least]
				if rnd.IntN(4) == 0 { // looked, and left it
					if got := q.pop(want.at); got != nil {
						t.Fatalf("pending %d, reach %d: %d at %d is due before %d", pending, reach, got.arg, got.at, want.at)
					}
					now += rnd.Int64N(want.at - now + 1)
					continue
				}
				twin = append(twin[:least], twin[least+1:]...)
				got := q.pop(want.at + 1)
				if got == nil {
					t.Fatalf("pending %d, reach %d: nothing at %d", pending, reach, want.at)
				}
				if got.at != want.at || got.arg != want.arg {
					t.Fatalf("pending %d, reach %d: %d at %d, want %d at %d", pending, reach, got.arg, got.at, want.arg, want.at)
				}
				now = got.at
			}
			for range twin {
				if q.pop(forever) == nil {
					t.Fatalf("pending %d, reach %d: events are lost", pending, reach)
				}
			}
			if e := q.pop(forever); e != nil {
				t.Fatalf("pending %d, reach %d: %d at %d from nowhere", pending, reach, e.arg, e.at)
			}
		}
	}
}

func TestDiceDrawWhatRandDraws(t *testing.T) {
	d, r := newDice(1, 2), rand.New(rand.NewPCG(1, 2))
	for i := range 100_000 {
		n := int64(1)<<(i%63) + r.Int64N(7)
		d.Int64N(7)
		if i%2 == 0 {
			n = max(n*3/4, 1)
		}
		if a, b := d.Int64N(n), r.Int64N(n); a != b {
			t.Fatalf("draw %d of %d: %d, rand draws %d", i, n, a, b)
		}
		if a, b := d.IntN(1000), r.IntN(1000); a != b {
			t.Fatalf("draw %d of 1000: %d, rand draws %d", i, a, b)
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
			for _, t0 := range []int64{now - 1, now, now + 1} {
				if at := c.when(t0); c.read(at) < t0 || at > 0 && c.read(at-1) >= t0 {
					t.Fatalf("ppm %d: reads %d at %d, when says that it is %d at %d", ppm, now, real, t0, at)
				}
			}
		}
	}
}
