package qos

import "testing"

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
			l.publish(c, v)
			for c.Admit(1, now).Outcome == Go {
				admitted++
			}
		}
		if admitted != tt.want {
			t.Errorf("%d members: admitted %d in a second without a view, want %d", tt.members, admitted, tt.want)
		}
	}
}

// TestOwnWorkerIsNotStarvedByOthers: no advance for the owner's own worker would be exact, and where others use the limit too it would starve it: they keep the
// level below zero, out of which it could never be served. It goes without only where it is alone.
func TestOwnWorkerIsNotStarvedByOthers(t *testing.T) {
	p := Policy{Tenant: "t", Metric: ReadIOPS, Generation: 1, Rate: 200_000, Burst: 1000, LocalBurst: 100, Enabled: true}
	const n = 5
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
	var owed [n]int64
	for c.now < perSecond {
		for w := range owed {
			for owed[w] += 12 * p.Rate / 10 * ms / 10 / n; owed[w] >= perSecond; owed[w] -= perSecond {
				if len(c.workers[w].queue) < 1024 {
					c.ask(w, 1)
				}
			}
		}
		c.step(ms / 10)
	}
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
