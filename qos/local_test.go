package qos

import (
	"testing"

	"pgregory.net/rapid"
)

// A localBench is one worker that owns its limit itself, driven as the control loop does: what is reported is applied and answered at once.
type localBench struct {
	o    *Owner
	w    *clusterWorker
	p    Policy
	now  int64
	out  []Addressed
	push []RateSnapshot
}

// localConfigs are the settings that such a worker may have: as one of several, and alone.
var localConfigs = []Config{DefaultConfig(), DefaultConfig().Alone()}

func newLocalBench(t testing.TB, p Policy) *localBench {
	return newLocalBenchWith(t, DefaultConfig(), p)
}

func newLocalBenchWith(t testing.TB, cfg Config, p Policy) *localBench {
	b := &localBench{o: must(NewOwner(cfg, "w", 1)), p: p, w: &clusterWorker{name: "w", ledger: must(NewLedger(cfg, 2))}}
	b.w.rep = must(NewReporter(cfg, b.w.ledger, "w", 1, 1))
	b.o.SetRing(1, 0, func(Limit) bool { return true }, 0)
	b.o.Confirm(1 << 62)
	b.o.Settle(0)
	check(t, b.o.SetPolicy(&p, 0))
	b.w.rep.SetRing(1, 1, func(Limit) WorkerID { return "w" }, 0)
	check(t, b.w.ledger.SetPolicy(&p, 0))
	b.w.cell = b.w.ledger.Cell(p.Limit())
	return b
}

// loop is one turn of the control loop.
func (b *localBench) loop() {
	b.out = b.w.rep.Poll(b.now, b.out[:0])
	for i := range b.out {
		if s, why := b.o.Apply(&b.out[i].Report, b.now); why == Accepted {
			b.w.rep.Apply(&s, b.now)
		}
	}
	b.push = b.o.Push(b.now, b.push[:0])
	for i := range b.push {
		b.w.rep.Apply(&b.push[i], b.now)
	}
}

// TestOwnWorkerNeverPassesTheBucket: where the owner is this very worker there is neither lag nor advance nor allowance, and over every window use is
// at most burst + rate*t, to the unit, whatever the pattern of use, refunds and turns of the loop.
func TestOwnWorkerNeverPassesTheBucket(tt *testing.T) {
	rapid.Check(tt, func(t *rapid.T) {
		p := Policy{Tenant: "t", Metric: ClientEgressBytes, Generation: 1, Rate: rapid.Int64Range(1000, 1e9).Draw(t, "rate"), Enabled: true}
		p.Burst = rapid.Int64Range(1, 1e7).Draw(t, "burst")
		p.LocalBurst = rapid.Int64Range(1, p.Burst).Draw(t, "local")
		b := newLocalBenchWith(tt, rapid.SampledFrom(localConfigs).Draw(t, "settings"), p)
		b.now = 20_000 * perSecond // the level has filled since
		excess := NewExcess(b.now, p.Rate, p.Burst)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			b.now += rapid.Int64Range(0, 30*ms).Draw(t, "dt")
			n := rapid.Int64Range(1, p.Burst).Draw(t, "n")
			switch rapid.IntRange(0, 3).Draw(t, "op") {
			case 0:
				b.loop()
			default:
				if b.w.cell.Admit(n, b.now).Charged() {
					if e := excess.Admit(b.now, n); e > 0 {
						t.Fatalf("excess %d after a charge of %d", e, n)
					}
				} else {
					b.w.cell.Await(0, n, n)
				}
			}
		}
	})
}

// TestOwnWorkerHasNoAllowance: not even when every word of the owner is long over. It has spent the burst, and asks again after a lease and more without a
// turn of the loop.
func TestOwnWorkerHasNoAllowance(t *testing.T) {
	b := newLocalBench(t, Policy{Tenant: "t", Metric: ClientEgressBytes, Generation: 1, Rate: 1000, Burst: 500_000, LocalBurst: 250_000, Enabled: true})
	b.now = 20_000 * perSecond // the level has filled since
	spent := int64(0)
	for range 400 {
		b.w.cell.Await(0, 10_000, 10_000)
		b.loop()
		for b.w.cell.Admit(10_000, b.now).Charged() {
			spent += 10_000
		}
		b.now += ms
	}
	if spent != b.p.Burst {
		t.Fatalf("spent %d, want the burst of %d", spent, b.p.Burst)
	}
	for range 40 {
		b.now += 50 * ms
		if d := b.w.cell.Admit(10_000, b.now); d.Charged() {
			t.Fatalf("charged %+v with nothing left", d)
		}
	}
}

// TestOwnWorkerIsServed: the same alone, with demand for all of the rate and for more, a loop that turns when it says so or is woken, and bursts
// down to 10 ms of the rate.
func TestOwnWorkerIsServed(t *testing.T) {
	for _, tt := range []struct {
		name       string
		cfg        Config
		rate       int64
		burst      int64
		size, part int64 // of a charge; percent of the rate that is asked for
	}{
		{"100 MiB/s in chunks", localConfigs[0], 100 << 20, 4 << 20, 256 << 10, 90},
		{"100 MiB/s in chunks, overload", localConfigs[0], 100 << 20, 4 << 20, 256 << 10, 300},
		{"burst of 10 ms", localConfigs[0], 100 << 20, 1 << 20, 64 << 10, 90},
		{"slow", localConfigs[0], 100, 10, 1, 95},
		{"alone, 100 MiB/s in chunks", localConfigs[1], 100 << 20, 4 << 20, 256 << 10, 90},
		{"alone, 100 MiB/s in chunks, overload", localConfigs[1], 100 << 20, 4 << 20, 256 << 10, 300},
		{"alone, burst of 10 ms", localConfigs[1], 100 << 20, 1 << 20, 64 << 10, 90},
		{"alone, slow", localConfigs[1], 100, 10, 1, 95},
	} {
		metric := ClientEgressBytes
		if tt.size == 1 {
			metric = ReadIOPS
		}
		b := newLocalBenchWith(t, tt.cfg, Policy{Tenant: "t", Metric: metric, Generation: 1, Rate: tt.rate, Burst: tt.burst, LocalBurst: max(tt.burst/4, 1), Enabled: true})
		const step, warm, end = ms / 4, 500 * ms, 4000 * ms
		var owed, went, asked int64
		for ; b.now < end; b.now += step {
			for owed += mulDiv(tt.rate*tt.part/100, step, perSecond/1000); owed >= tt.size*1000; owed -= tt.size * 1000 {
				asked += tt.size
				if len(b.w.queue) < 1024 {
					b.w.queue = append(b.w.queue, tt.size)
				}
			}
			for len(b.w.queue) > 0 && b.w.cell.Admit(tt.size, b.now).Outcome == Go {
				b.w.queue = b.w.queue[1:]
				went += tt.size
			}
			b.w.cell.Await(0, min(int64(len(b.w.queue)), 1)*tt.size, int64(len(b.w.queue))*tt.size)
			if b.w.rep.Urgent() || b.now >= min(b.w.rep.Next(), b.o.NextPush()) {
				b.loop()
			}
			if b.now == warm {
				went, asked = 0, 0
			}
		}
		due := min(asked, mulDiv(tt.rate, end-warm, perSecond))
		if float64(went) < 0.97*float64(due) {
			t.Errorf("%s: served %d of %d due (%.3f)", tt.name, went, due, float64(went)/float64(due))
		}
	}
}
