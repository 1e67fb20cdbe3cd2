package sim

import (
	"fmt"
	"time"

	"github.com/talon-worker/talon/qos"
)

// A Load is a cluster and what its tenants want, without faults: to see what the limiter costs and delivers.
type Load struct {
	Workers int
	Keys    int
	Users   int // workers that use a key; 0 all
	Rate    int64
	Burst   int64
	Local   int64
	Need    int64 // units a request
	Bytes   bool  // the metric counts bytes
	Wanted  int64 // of each key, in percent of Rate
	Shape   Shape
	Period  int64 // ns, of Moving
	Warm    int64 // ns before the measuring; at least 600 ms, by when the first owners may act
}

// A Row is what a load came to.
type Row struct {
	Load
	Span      float64 // virtual seconds measured
	Messages  float64 // a second, between workers, of all kinds
	Votes     float64 // of them, asks and answers of who may act as owner
	Bytes     float64 // a second
	Reports   float64 // a second
	Delivered float64 // of the least of what was wanted and R
	Ideal     float64 // the same of one bucket that sees everything
	Excess    float64 // worst, as a part of N*b + R*d
	Share     []int64 // what each worker was given, of the first key
}

// Run simulates a load for a while to settle and then for span ns.
func (l Load) Run(span int64) (Row, error) {
	w, err := New(l.setup())
	if err != nil {
		return Row{}, err
	}
	w.Until(max(l.Warm, 600e6))
	w.beginMeasure()
	before := w.result
	w.Until(w.now + span)
	row := Row{Load: l, Span: float64(span) / 1e9}
	per := func(a, b int64) float64 { return float64(a-b) / row.Span }
	row.Votes, row.Bytes, row.Reports = per(w.result.Votes, before.Votes), per(w.result.Bytes, before.Bytes), per(w.result.Reports, before.Reports)
	row.Messages = per(w.result.Messages, before.Messages) + row.Votes
	var got, due int64
	for _, m := range w.limits {
		got += m.net() - m.from.charged
		due += min(m.offered-m.from.offered-w.justCome(m), mul(m.policy.Rate, span, 1e9))
		row.Excess = max(row.Excess, m.ratio)
	}
	row.Delivered = float64(got) / float64(max(due, 1))
	row.Ideal = l.ideal(span)
	for _, k := range w.workers {
		if u := k.use(0); u != nil && l.Keys == 1 {
			row.Share = append(row.Share, u.charged)
		}
	}
	return row, w.err
}

func (l Load) setup() Setup {
	c := qos.DefaultConfig()
	c.Confirm = 100 * time.Millisecond // a fifth of the default: what is asked for its sake counts five times here
	s := Setup{
		Seed: 1, Workers: l.Workers, Rings: 1, Config: c, Pass: 1e6, Spread: 1e6, Sparse: true,
		Network: NetworkSetup{Base: 200e3, Jitter: 300e3},
	}
	if l.Workers > 200 || l.Keys > 200 {
		s.Pass = 2e6
	}
	for i := range l.Keys {
		p := qos.Policy{
			Tenant: fmt.Sprintf("t%d", i), Metric: qos.ReadIOPS, Generation: 1, Enabled: true,
			Rate: l.Rate, Burst: l.Burst, LocalBurst: l.Local,
		}
		if l.Bytes {
			p.Metric = qos.ClientEgressBytes
		}
		d := Demand{Rate: l.Rate * l.Wanted / 100, Need: l.Need, Shape: l.Shape, Period: l.Period}
		set := LimitSetup{Policy: p, Demand: d, Deadline: 200e6, Queue: max(1024, d.Rate/l.Need/5), Pair: -1}
		for u := range l.Users {
			set.Users = append(set.Users, (i*7+u*13)%l.Workers)
		}
		s.Limits = append(s.Limits, set)
	}
	return s
}

// ideal is what one bucket that sees every request at once delivers of the same demand: all of it up to R, to a unit.
func (l Load) ideal(span int64) float64 {
	b := qos.NewLevel(l.Rate, l.Burst, l.Burst, 0)
	const step = 1e6
	var got, asked, acc int64
	for t := int64(0); t < span; t += step {
		b.Advance(t)
		acc += mul(l.Rate*l.Wanted, step, 100)
		want := acc / 1e9 / l.Need * l.Need
		acc -= want * 1e9
		asked += want
		if left := b.Now() / l.Need * l.Need; left > 0 {
			b.Take(min(left, want))
			got += min(left, want)
		}
	}
	return float64(got) / float64(max(min(asked, mul(l.Rate, span, 1e9)), 1))
}

// Global is a model of how gubernator's GLOBAL behaviour treats the same load, from a reading of its source at 3182244: every peer decides by a
// leaky bucket of its own that leaks at the full rate; a peer sends its hits to the owner every sync; the owner takes them off its bucket
// and forgets what the bucket does not hold; it sends the bucket to every peer every sync, and that replaces the peer's own, hits not yet
// sent and all. Steps are 1 ms, messages take none.
func (l Load) Global(sync, span int64) (delivered, messages float64) {
	n := l.Workers
	if l.Users > 0 {
		n = l.Users
	}
	const step = int64(1e6)
	peers := make([]qos.Level, n)
	hits, acc := make([]int64, n), make([]int64, n)
	owner := qos.NewLevel(l.Rate, l.Burst, l.Burst, 0)
	for i := range peers {
		peers[i] = owner
	}
	d := Demand{Rate: l.Rate * l.Wanted / 100, Need: l.Need, Shape: l.Shape}
	var got, asked, sent int64
	for t := step; t <= span; t += step {
		period := 0
		if l.Period > 0 {
			period = int(t / l.Period)
		}
		for i := range peers {
			acc[i] += mul(d.Rate*step/1000, d.share(i, n, period), 1e6)
			want := acc[i] / 1e6 / l.Need * l.Need
			acc[i] -= want * 1e6
			asked += want
			peers[i].Advance(t)
			gone := min(want, max(peers[i].Now(), 0)/l.Need*l.Need)
			peers[i].Take(gone)
			hits[i] += want // refused ones are sent as well
			got += gone
		}
		if t%sync == 0 {
			sent += global(&owner, peers, hits, t)
		}
	}
	return float64(got) / float64(max(min(asked, mul(l.Rate, span, 1e9)), 1)), float64(sent) * float64(l.Keys) * 1e9 / float64(span)
}

// global is one sync: hits to the owner, its bucket to all.
func global(owner *qos.Level, peers []qos.Level, hits []int64, t int64) (sent int64) {
	owner.Advance(t)
	for i, h := range hits {
		if h > 0 {
			owner.Take(min(h, max(owner.Now(), 0))) // DRAIN_OVER_LIMIT: down to nothing, and no debt
			hits[i] = 0
			sent++
		}
	}
	for i := range peers {
		peers[i] = *owner
		sent++
	}
	return sent
}
