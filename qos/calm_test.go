package qos

import (
	"testing"
	"time"
)

// reportsIn lets d ns pass, each 0.1 ms of it with n charges of one unit, and returns how many reports went.
func (b *localBench) reportsIn(d, n int64) uint64 {
	before := b.w.rep.Stats.Reports
	for end := b.now + d; b.now < end; b.now += ms / 10 {
		need := int64(0)
		for range n {
			if b.w.cell.Admit(1, b.now).Outcome != Go {
				need++
			}
		}
		b.w.cell.Await(0, min(need, 1), need)
		if b.w.rep.Urgent() || b.now >= min(b.w.rep.Next(), b.o.NextPush()) {
			b.loop()
		}
	}
	return b.w.rep.Stats.Reports - before
}

// TestCalm: a hot limit is reported seldom only where the worker owns it, nobody else uses it and much is left.
func TestCalm(t *testing.T) {
	fresh := func(p Policy) *localBench {
		p.Tenant, p.Metric, p.Generation = "t", ReadIOPS, 1
		b := newLocalBench(t, p)
		b.now = 20_000 * perSecond // the level has filled since
		return b
	}
	far := Policy{Rate: 1e6, Burst: 1e5, LocalBurst: 1e5, Enabled: true}
	const second = 1000 * ms
	seldom := func(what string, n uint64) {
		t.Helper()
		if n < 90 || n > 110 {
			t.Errorf("%s: %d reports in a second, want two in a TTL of 20 ms", what, n)
		}
	}
	often := func(what string, n uint64) {
		t.Helper()
		if n < 400 {
			t.Errorf("%s: %d reports in a second, want one in the shortest interval of 2 ms, more or less", what, n)
		}
	}

	b := fresh(far)
	b.reportsIn(second, 10)
	seldom("far from the limit", b.reportsIn(second, 10))

	b.w.cell.Await(1, 1, 1)
	often("something waits on another ring", b.reportsIn(second, 10))

	near := far
	near.Burst, near.LocalBurst = 7900, 7900 // under four TTLs of 100,000 a second
	b = fresh(near)
	b.reportsIn(second, 10)
	often("level too low", b.reportsIn(second, 10))

	off := far
	off.Mode = Off
	b = fresh(off)
	b.reportsIn(second, 10)
	seldom("not limited", b.reportsIn(second, 10))

	// Another worker comes: it is known with the next report, and from then on there is haste; when its lease has ended, there is none again.
	b = fresh(far)
	b.reportsIn(second, 10)
	key := b.p.Key()
	for i := range uint64(100) {
		_, why := b.o.Apply(&UsageReport{Key: key, From: ReporterID{Worker: "x", Epoch: 1, Cell: 1}, RingEpoch: 1, Sequence: i + 1, Stamp: b.now}, b.now)
		if why != Accepted {
			t.Fatal(why)
		}
		if i == 0 {
			if first := b.reportsIn(b.w.rep.cfg.calmMost()*3/2, 10); first == 0 {
				t.Error("no report in one and a half calm intervals")
			}
			b.w.rep.Stats.Reports = 0
		}
		b.reportsIn(10*ms, 10)
	}
	often("beside another worker", b.w.rep.Stats.Reports)
	b.reportsIn(second, 10) // its lease ends
	seldom("alone again", b.reportsIn(second, 10))
}

// TestCalmIsTheOwnersAlone: a worker that tells another is never calm, for what it tells late makes the others wait.
func TestCalmIsTheOwnersAlone(t *testing.T) {
	c := newCluster(t, 1, Policy{Tenant: "t", Metric: ReadIOPS, Generation: 1, Rate: 1e6, Burst: 1e5, LocalBurst: 1e5, Enabled: true})
	for range 2000 {
		for range 50 {
			c.ask(0, 1)
		}
		c.step(ms / 2)
		if c.workers[0].cell.rep.calm > 0 {
			t.Fatalf("calm at %d ms, and the owner is another", c.now/ms)
		}
	}
}

// TestOwnerLooksOnlyWhenDue: reports that come in time put the owner's look at a limit off; without them it looks when the view has expired.
func TestOwnerLooksOnlyWhenDue(t *testing.T) {
	b := newLocalBench(t, Policy{Tenant: "t", Metric: ReadIOPS, Generation: 1, Rate: 1e6, Burst: 1e5, LocalBurst: 1e5, Enabled: true})
	b.now = 20_000 * perSecond
	for range 1000 {
		b.reportsIn(ms, 10)
		if at := b.o.NextPush(); at <= b.now {
			t.Fatal("the owner has something to do in the midst of reports")
		}
		if at := b.w.cell.View().Expires(); b.now > 20_000*perSecond+100*ms && b.o.NextPush() < at {
			t.Fatalf("the owner looks at %d, before the view of %d has expired", b.o.NextPush(), at)
		}
	}
}

// TestCalmByDegrees: with long-lived views a limit is reported the less often the further it is from exhaustion, and one that is watched for its
// soft rate, or to ban, at least every 10 ms.
func TestCalmByDegrees(t *testing.T) {
	cfg := DefaultConfig()
	cfg.TTL, cfg.Lease = 200*time.Millisecond, 500*time.Millisecond
	for _, tt := range []struct {
		name        string
		burst       int64 // at 100,000 a second
		soft        int64
		least, most uint64 // reports in a second
	}{
		{"burst of 10 s", 1_000_000, 0, 11, 14},
		{"burst of 400 ms", 40_000, 0, 23, 28},
		{"burst of 100 ms", 10_000, 0, 95, 105},
		{"burst of 70 ms", 7000, 0, 400, 1000},
		{"soft rate", 1_000_000, 1e6, 95, 105},
	} {
		b := newLocalBenchWith(t, cfg, Policy{Tenant: "t", Metric: ReadIOPS, Generation: 1, Rate: 2e6, Burst: tt.burst, LocalBurst: tt.burst, SoftRate: tt.soft, Enabled: true})
		b.now = 20_000 * perSecond
		b.reportsIn(1000*ms, 10)
		if n := b.reportsIn(1000*ms, 10); n < tt.least || n > tt.most {
			t.Errorf("%s: %d reports in a second, want %d to %d", tt.name, n, tt.least, tt.most)
		}
	}
}

// TestBeat: between half an interval and one and a half from now, at times that all limits share, those of half the interval included.
func TestBeat(t *testing.T) {
	const d = 10 * ms
	for now := int64(0); now < 3*d; now += d / 64 {
		if at := beat(d, now); at%d != 0 || at-now < d/2 || at-now > d*3/2 {
			t.Errorf("beat(%d, %d) = %d", d, now, at)
		}
	}
}

// TestCalmIntervals: two of the longest fit in a TTL, and it is the shortest doubled, so that their beats are common.
func TestCalmIntervals(t *testing.T) {
	for _, ttl := range []time.Duration{7, 10, 20, 30, 79, 80, 200, 1000} {
		cfg := DefaultConfig()
		cfg.TTL = ttl * time.Millisecond
		least, most := cfg.calmLeast(), cfg.calmMost()
		if most%least != 0 || least < int64(cfg.SyncMax) || 2*most > max(int64(cfg.TTL), 2*int64(cfg.SyncMax)) || 4*most <= int64(cfg.TTL) {
			t.Errorf("TTL %v: %v to %v", cfg.TTL, time.Duration(least), time.Duration(most))
		}
	}
}
