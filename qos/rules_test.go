package qos

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

// The tests here are counter-examples: each is a schedule under which a rule, as first written, admitted too much or served too little.

// TestGradualRefundsDoNotGather: work that was charged long ago is given back bit by bit, each bit reported and acknowledged, while the level is full.
// A bound on what is unreported alone lets all of it gather in one worker's hands: the burst and then twelve local bursts at once.
func TestGradualRefundsDoNotGather(t *testing.T) {
	p := goodPolicy() // R 1000/s, B 100, b 20
	c := newCluster(t, 1, p)
	w := c.workers[0]
	c.now = 10 * perSecond // the level has filled since
	c.excess = NewExcess(c.now, p.Rate, p.Burst)
	charged := int64(0)
	for ; charged < 12*p.LocalBurst; charged++ {
		c.ask(0, 1)
		c.step(ms)
	}
	for range 300 { // idle: the level fills
		c.step(ms)
	}
	for back := int64(0); back < charged; back += 10 {
		w.cell.Refund(10)
		c.excess.Admit(c.now, -10)
		for range 8 { // told, and answered
			c.step(ms)
		}
	}
	for range 40 { // and now as fast as can be
		for range 400 {
			c.ask(0, 1)
		}
		c.step(ms)
		w.queue = nil
	}
	bound := p.LocalBurst + mulDiv(p.Rate, int64(c.cfg.TTL), perSecond)
	if got := c.excess.Worst(); got > bound {
		t.Errorf("excess %d, bound N*b + R*d = %d", got, bound)
	}
}

// TestWorkersBesideTheRingRefillNothing: eight workers serve, one of them is the ring. If each refilled the rate by the number of members, that is one, together
// they would refill nine times the rate.
func TestWorkersBesideTheRingRefillNothing(t *testing.T) {
	for _, tt := range []struct{ members, want int64 }{{0, 4}, {10, 4 + 100}, {1, 4 + 1000}} {
		l := must(NewLedger(DefaultConfig(), 1))
		r := must(NewReporter(l.cfg, l, "w", 1, 1))
		r.SetRing(1, int(tt.members), func(Limit) WorkerID { return "o" }, 0)
		p := goodPolicy()
		check(t, l.SetPolicy(&p, 0))
		c, admitted := l.Cell(p.Limit()), int64(0)
		for now := int64(0); now <= perSecond; now += ms / 2 {
			v := *c.View()
			v.acked = c.Used()
			l.publish(c, &v)
			for c.Admit(1, now).Outcome == Go {
				admitted++
			}
		}
		if admitted != tt.want {
			t.Errorf("%d members: admitted %d in a second without a view, want %d", tt.members, admitted, tt.want)
		}
	}
}

// alike is a second of n workers, the first of which owns the limit, that all want an equal part of so many tenths of the rate.
func alike(t *testing.T, p Policy, n int, tenths int64) *cluster {
	c := newCluster(t, n, p)
	c.owner = must(NewOwner(c.cfg, "w0", 1))
	check(t, c.owner.SetPolicy(&p, 0))
	c.owner.SetRing(1, 0, func(Limit) bool { return true }, 0)
	c.owner.Settle(0)
	c.owner.Confirm(1 << 62)
	for _, w := range c.workers {
		w.rep.SetRing(2, n, func(Limit) WorkerID { return "w0" }, 0)
		w.rep.SetRing(1, n, func(Limit) WorkerID { return "w0" }, 0)
	}
	owed := make([]int64, n)
	for c.now < perSecond {
		for w := range owed {
			for owed[w] += tenths * p.Rate / 10 * ms / 10 / int64(n); owed[w] >= perSecond; owed[w] -= perSecond {
				if len(c.workers[w].queue) < 1024 {
					c.ask(w, 1)
				}
			}
		}
		c.step(ms / 10)
	}
	return c
}

// TestOwnWorkerIsNotStarvedByOthers: no advance for the owner's own worker would be exact, and where others use the limit too it would starve it: they keep the
// level below zero, out of which it could never be served. It goes without only where it is alone.
func TestOwnWorkerIsNotStarvedByOthers(t *testing.T) {
	p := Policy{Tenant: "t", Metric: ReadIOPS, Generation: 1, Rate: 200_000, Burst: 1000, LocalBurst: 100, Enabled: true}
	const n = 5
	c := alike(t, p, n, 12)
	fair := p.Rate / n
	for _, w := range c.workers {
		if w.went < fair*95/100 || w.went > fair*105/100 {
			t.Errorf("%s was served %d, a fair share is %d", w.name, w.went, fair)
		}
	}
	if c.delivered() < p.Rate*97/100 {
		t.Errorf("served %d of %d", c.delivered(), p.Rate)
	}
}

// TestAlikeWorkersAreServedAlike: where more is wanted than there is, everybody has a part in proportion to what he wants. With a half of what is free for
// each who asks, those who are served well ask often and take it from the others: the least had 0.83 to 0.87 of the most here.
func TestAlikeWorkersAreServedAlike(t *testing.T) {
	for _, tt := range []struct {
		n                   int
		rate, burst, tenths int64
	}{{8, 10_000, 32, 50}, {8, 10_000, 200, 12}, {8, 50_000, 1000, 50}, {5, 50_000, 1000, 20}} {
		p := Policy{Tenant: "t", Metric: ReadIOPS, Generation: 1, Rate: tt.rate, Burst: tt.burst, LocalBurst: max(tt.burst/10, 4), Enabled: true}
		c := alike(t, p, tt.n, tt.tenths)
		least, most := p.Rate, int64(0)
		for _, w := range c.workers {
			least, most = min(least, w.went), max(most, w.went)
		}
		if least*10 < most*9 || c.delivered() < p.Rate*97/100 {
			t.Errorf("%+v: the least served had %d, the most %d, all %d", tt, least, most, c.delivered())
		}
	}
}

// TestForgottenReporterIsNotCreditedTwice: the answer to a report was lost, the lease has ended, and the reporter comes back with a base that is older than
// what was applied. Whatever it charged and gave back before and since, the owner's level is never above that of a bucket that saw it once.
func TestForgottenReporterIsNotCreditedTwice(tt *testing.T) {
	rapid.Check(tt, func(t *rapid.T) {
		b := newOwnerBench(tt, func(p *Policy) { p.Rate, p.Burst, p.LocalBurst = 1, 100_000, 5_000 })
		b.ask("other", 50_000, 0, 0) // room for all that comes back
		b.to["other"].Base = b.to["other"].Total
		twin := b.meter().level
		var seen, acked Total
		units := rapid.Int64Range(0, 900)
		for range rapid.IntRange(2, 8).Draw(t, "reports") {
			u := b.report("w", units.Draw(t, "charged"), 0, 0, 0)
			u.Total.Refunded += min(units.Draw(t, "given back"), u.Total.Used())
			u.Base = acked
			b.apply(u.measured())
			twin.Advance(b.now)
			twin.Take(u.Total.Charged - seen.Charged)
			twin.Give(u.Total.Refunded - seen.Refunded)
			if seen = u.Total; b.meter().level.Now() > twin.Now() {
				t.Fatalf("level %d, a bucket that saw everything once has %d", b.meter().level.Now(), twin.Now())
			}
			if rapid.Bool().Draw(t, "answered") {
				acked = u.Total
			}
			if rapid.Bool().Draw(t, "silent for a lease") {
				b.now += int64(b.o.cfg.Lease) + ms
				b.ask("other", 0, 0, 0)
			}
		}
	})
}

// TestExpiredPromisesLeaveTheLivingTheirs: workers with much in hand are cut off. What they hold stays subtracted from the level, but it cannot be spent any
// more: were it also counted in what all promises together may be, one that lives would get nothing while the level is high, for as long as it takes to fill.
func TestExpiredPromisesLeaveTheLivingTheirs(t *testing.T) {
	b := newOwnerBench(t, func(p *Policy) { p.Rate, p.Burst, p.LocalBurst = 100, 10_000, 1_000 })
	b.now = 200 * perSecond // the level is full
	for i := range 4 {
		b.ask(WorkerID(fmt.Sprint("cut off ", i)), 0, 1_000, 500)
	}
	b.ask("alive", 4_000, 0, 0) // the level must not be full: then it pays
	b.to["alive"].Base = b.to["alive"].Total
	b.now += int64(b.o.cfg.Lease) + ms
	level, held := b.meter().level.Now(), b.meter().reserved
	if b.ask("alive", 0, 0, 0); held < 4*1_000 || level < held+1_000 {
		t.Fatalf("level %d, reserved %d: not the schedule that this is about", level, held)
	}
	if s := b.ask("alive", 0, 1_000, 500); s.Remaining < 1_000 {
		t.Errorf("level %d, %d of it held by workers that are cut off: one that lives gets %d, wants 1000 at once", level, held, s.Remaining)
	}
	if m := b.meter(); m.level.Now()+m.refillIn(int64(m.cfg.Advance)) < m.reserved {
		t.Errorf("level %d, reserved %d", m.level.Now(), m.reserved)
	}
}

// TestGoodbyeIsFinal: a reporter leaves while its owner has promised it more than it knows of. A copy of its last report must not make the promise twice, nor
// keep it for ever.
func TestGoodbyeIsFinal(t *testing.T) {
	b := newOwnerBench(t, nil)
	b.ask("w", 0, 10, 10)
	b.now += 30 * ms // the view has expired, and nobody named it dead
	b.ask("other", 60, 0, 0)
	last := *b.report("w", 0, 0, 0, 0)
	last.Final = true
	b.apply(&last)
	held := b.meter().reserved
	for range 3 {
		again := last
		again.Stamp++
		if b.apply(&again); b.meter().reserved != held {
			t.Fatalf("reserved %d, was %d", b.meter().reserved, held)
		}
	}
	b.now += 2 * perSecond // the level has filled, and overflowed by more than that
	b.o.Push(b.now, nil)
	if b.audit(); b.meter() != nil {
		t.Errorf("the meter is kept: reserved %d", b.meter().reserved)
	}
}
