package qos

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

const ms = int64(time.Millisecond)

// A cluster is a few workers and one owner on a network that delays and loses nothing by itself: enough to test the halves against each other
// in one screen. The simulator has the faults.
type cluster struct {
	t       testing.TB
	cfg     Config
	now     int64
	policy  Policy
	owner   *Owner
	workers []*clusterWorker
	wire    []parcel
	delay   int64
	excess  *Excess
	msgs    int
	serial  int
	drop    func(parcel) bool
	rng     *rand.Rand // of the network: without it all workers march in step, and the last in order is served last for ever
}

type clusterWorker struct {
	name   WorkerID
	ledger *Ledger
	rep    *Reporter
	cell   *Cell
	queue  []int64 // sizes that wait
	went   int64
	wanted int64
}

type parcel struct {
	at       int64
	serial   int
	to       int
	report   *UsageReport
	snapshot *RateSnapshot
	redirect *Redirect
}

func newCluster(t testing.TB, n int, p Policy) *cluster {
	c := &cluster{t: t, cfg: DefaultConfig(), policy: p, delay: ms / 2, rng: rand.New(rand.NewPCG(3, 4)), excess: NewExcess(0, p.Rate, p.Burst)}
	c.owner = must(NewOwner(c.cfg, "owner", 1))
	check(t, c.owner.SetPolicy(&p, 0))
	c.owner.SetRing(1, 0, func(Limit) bool { return true }, 0)
	c.owner.Settle(0)
	c.owner.Confirm(1 << 62)
	for i := range n {
		w := &clusterWorker{name: WorkerID(fmt.Sprintf("w%d", i)), ledger: must(NewLedger(c.cfg, 2))}
		w.rep = must(NewReporter(c.cfg, w.ledger, w.name, 1, uint64(i)))
		w.rep.SetRing(1, n, func(Limit) WorkerID { return "owner" }, 0)
		check(t, w.ledger.SetPolicy(&p, 0))
		w.cell = w.ledger.Cell(p.Limit())
		c.workers = append(c.workers, w)
	}
	return c
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) send(l parcel) {
	c.msgs++
	c.serial++
	l.at, l.serial = c.now+c.delay*(80+c.rng.Int64N(41))/100, c.serial
	if c.drop != nil && c.drop(l) {
		return
	}
	c.wire = append(c.wire, l)
}

// ask lets n units arrive at worker w.
func (c *cluster) ask(w int, n int64) {
	x := c.workers[w]
	x.wanted += n
	x.queue = append(x.queue, n)
	c.tryAll(x)
}

func (c *cluster) tryAll(w *clusterWorker) {
	w.ledger.Enter(0)
	for len(w.queue) > 0 && w.cell.Admit(w.queue[0], c.now).Outcome == Go {
		w.went += w.queue[0]
		c.excess.Admit(c.now, w.queue[0])
		w.queue = w.queue[1:]
	}
	w.ledger.Leave(0)
	need, sum := int64(0), int64(0)
	for _, n := range w.queue {
		sum += n
	}
	if len(w.queue) > 0 {
		need = w.queue[0]
	}
	w.cell.Await(0, need, sum)
}

// step is one tick of everything: deliveries, reports, pushes.
func (c *cluster) step(dt int64) {
	c.now += dt
	for i := 0; i < len(c.wire); {
		l := c.wire[i]
		if l.at > c.now {
			i++
			continue
		}
		c.wire = append(c.wire[:i], c.wire[i+1:]...)
		c.deliver(l)
	}
	for i, w := range c.workers {
		for _, a := range w.rep.Poll(c.now, nil) {
			c.send(parcel{to: -1 - i, report: &a.Report})
		}
		_ = i
	}
	for _, s := range c.owner.Push(c.now, nil) {
		c.sendTo(&s)
	}
}

func (c *cluster) sendTo(s *RateSnapshot) {
	for i, w := range c.workers {
		if w.name == s.To.Worker {
			c.send(parcel{to: i, snapshot: s})
		}
	}
}

func (c *cluster) deliver(l parcel) {
	switch {
	case l.report != nil:
		s, why := c.owner.Apply(l.report, c.now)
		if why == Accepted {
			c.sendTo(&s)
			return
		}
		d := c.owner.Redirect(l.report, why)
		c.send(parcel{to: -1 - l.to, redirect: &d})
	case l.redirect != nil:
		c.workers[l.to].rep.Redirected(l.redirect, c.now)
	default:
		w := c.workers[l.to]
		w.rep.Apply(l.snapshot, c.now)
		c.tryAll(w)
	}
}

func (c *cluster) delivered() (sum int64) {
	for _, w := range c.workers {
		sum += w.went
	}
	return sum
}

// TestClusterDelivers runs demand of every shape through workers and owner without a fault: what is due is delivered, nothing more is
// admitted than an ideal bucket allows but for the advance, and messages stay few.
func TestClusterDelivers(t *testing.T) {
	iops := func(rate, burst, local int64) Policy {
		return Policy{Tenant: "t", Metric: ReadIOPS, Generation: 1, Rate: rate, Burst: burst, LocalBurst: local, Enabled: true}
	}
	egress := Policy{Tenant: "t", Metric: ClientEgressBytes, Generation: 1, Rate: 50 << 20, Burst: 1 << 20, LocalBurst: 256 << 10, Enabled: true}
	for _, tt := range []struct {
		name    string
		n       int
		p       Policy
		load    float64 // demand as a part of the rate
		size    int64
		share   func(i, n int, now int64) float64 // part of the demand
		atLeast float64                           // of min(demand, rate)
		msgs    int                               // at most, a second; 0 any
	}{
		{"one worker", 1, iops(20_000, 400, 100), 0.9, 1, uniform, 0.995, 0},
		{"one worker, four times the rate", 1, iops(20_000, 400, 100), 4, 1, uniform, 0.97, 0},
		{"uniform", 10, iops(200_000, 4000, 400), 0.9, 1, uniform, 0.99, 0},
		{"uniform overload", 10, iops(200_000, 4000, 400), 2, 1, uniform, 0.97, 0},
		{"80 percent on one", 100, iops(200_000, 4000, 40), 0.9, 1, hotOne, 0.97, 0},
		{"hot worker moves every 100ms", 100, iops(200_000, 4000, 40), 0.9, 1, hotMoves, 0.90, 0},
		{"100 requests a second over 100 workers", 100, iops(100, 20, 4), 1, 1, uniform, 0.95, 1500},
		{"half of 100 requests a second over 100 workers", 100, iops(100, 20, 4), 0.5, 1, uniform, 0.99, 1500},
		{"50 MiB/s in chunks over 32 workers", 32, egress, 1.2, 256 << 10, uniform, 0.95, 0},
		{"burst of 5 ms of rate", 10, iops(200_000, 1000, 100), 0.9, 1, uniform, 0.97, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCluster(t, tt.n, tt.p)
			rng := rand.New(rand.NewPCG(1, 2))
			const dt, warm = ms / 4, 100
			total := int64(2e9) / dt
			owed := make([]float64, tt.n)
			var at0, asked, msgs0 int64
			for i := range total {
				if i == warm*ms/dt {
					at0, asked, msgs0 = c.delivered(), 0, int64(c.msgs)
				}
				for w := range owed {
					owed[w] += tt.load * float64(tt.p.Rate) * float64(dt) / 1e9 * tt.share(w, tt.n, c.now) * rng.Float64() * 2
					for ; owed[w] >= float64(tt.size); owed[w] -= float64(tt.size) {
						if len(c.workers[w].queue) < 1024 {
							c.ask(w, tt.size)
						}
						asked += tt.size
					}
				}
				c.step(dt)
			}
			secs := float64(total*dt-warm*ms) / 1e9
			due := min(float64(asked), float64(tt.p.Rate)*secs)
			got := float64(c.delivered() - at0)
			rate := int(float64(int64(c.msgs)-msgs0) / secs)
			excess := c.excess.Worst()
			bound := int64(tt.n)*tt.p.LocalBurst + mulDiv(tt.p.Rate, int64(c.cfg.TTL), perSecond)
			t.Logf("delivered %.4f of due, excess %d of %d, %d messages/s", got/due, excess, bound, rate)
			if got/due < tt.atLeast {
				t.Errorf("delivered %.4f of what is due, want %.3f", got/due, tt.atLeast)
			}
			if excess > bound {
				t.Errorf("excess %d, bound %d", excess, bound)
			}
			if tt.msgs > 0 && rate > tt.msgs {
				t.Errorf("%d messages a second, want at most %d", rate, tt.msgs)
			}
		})
	}
}

func uniform(_, n int, _ int64) float64 { return 1 / float64(n) }

func hotOne(i, n int, _ int64) float64 {
	if i == n-1 {
		return 0.8
	}
	return 0.2 / float64(n-1)
}

func hotMoves(i, n int, now int64) float64 {
	if int64(i) == now/(100*ms)*7%int64(n) {
		return 0.8
	}
	return 0.2 / float64(n-1)
}
