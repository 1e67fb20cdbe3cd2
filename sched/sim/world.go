package sim

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"

	"github.com/talon-worker/talon/sched"
)

// scheduler is what a loop asks: the production one, or an ablation.
type scheduler interface {
	Admit(t *sched.Tenant, slot uint32, bytes, now int64) sched.Verdict
	Push(slot uint32, want, now int64)
	Next(now int64) (sched.Pick, bool)
	Charge(slot uint32, n, now int64) int64
	Done(slot uint32, sent, next, now int64)
	Block(slot uint32)
	Unblock(slot uint32, now int64)
	Park(t *sched.Tenant, until int64)
	WakeTenant(t *sched.Tenant, now int64)
	Drop(slot uint32, now int64)
	Wake() int64
}

// World is a run.
type World struct {
	s      Setup
	rnd    *rand.Rand
	now    int64
	jumped int64 // the rings' clock is that much ahead
	queue  events
	worker *sched.Worker
	rings  []*ring
	turn   *ring // whose it is
	conns  []*conn
	tenant []*tenant
	byID   map[*sched.Tenant]*tenant
	over   bool // no new requests
	rate   int64
	mails  uint64 // delivered
	empty  uint64 // passes that found nothing

	sum   uint64 // hash of the trace
	check checks
	r     Result
	look  func() // if set, called every millisecond
	next  int64
	late  bool // note delays
}

// tenant is what the world knows of one.
type tenant struct {
	id     int
	setup  *TenantSetup
	sched  *sched.Tenant
	weight int64
	limit  *limit
	conns  int

	sent   int64   // bytes
	delays []int64 // ns between a request and the first dispatch of its response
}

// New makes a world that has not begun.
func New(s Setup) (*World, error) {
	w := &World{s: s, rnd: rand.New(rand.NewPCG(s.Seed, 1)), byID: map[*sched.Tenant]*tenant{}, now: sec, next: sec, rate: s.Rate}
	var err error
	w.worker, err = sched.NewWorker(sched.Config{Order: s.Order, Rings: s.Rings, Rate: s.Rate, Chunk: s.Chunk, Depth: s.Depth, Wake: w.rouse})
	if err != nil {
		return nil, err
	}
	for i := range s.Tenants {
		ts := &s.Tenants[i]
		t := &tenant{id: i, setup: ts, weight: int64(ts.Config.Weight)}
		if t.sched, err = w.worker.NewTenant(ts.Config); err != nil {
			return nil, err
		}
		if ts.Limit > 0 {
			t.limit = newLimit(ts.Limit, ts.Burst, w.now)
		}
		w.tenant, w.byID[t.sched] = append(w.tenant, t), t
		for j := range ts.Conns {
			for k := range ts.Conns[j].Count {
				c := &conn{w: w, id: int32(len(w.conns)), setup: &ts.Conns[j], tenant: t, ring: ts.Conns[j].Ring}
				if c.ring < 0 {
					c.ring = w.rnd.IntN(s.Rings)
				}
				w.conns = append(w.conns, c)
				t.conns++
				w.at(w.now+c.setup.From+int64(k), anArrival, c.id, 0)
			}
		}
	}
	slots := make([]int, s.Rings)
	for _, c := range w.conns {
		c.slot = uint32(slots[c.ring])
		slots[c.ring]++
	}
	shared := newShared(s.Rate, w.worker.Burst(s.Rate), w.now)
	for i := range s.Rings {
		r := &ring{w: w, id: i, bySlot: make([]*conn, slots[i])}
		if r.prod = w.worker.Ring(i, slots[i]); s.Policy == Production {
			r.sched = r.prod
		} else {
			r.sched = newAblation(s.Policy, shared, slots[i], s.Chunk)
		}
		w.rings = append(w.rings, r)
	}
	for _, c := range w.conns {
		w.rings[c.ring].bySlot[c.slot] = c
	}
	for i, d := range s.Deeds {
		w.at(w.now+d.At, aDeed, int32(i), 0)
	}
	w.check.init(w)
	return w, nil
}

func (w *World) at(at int64, k kind, who int32, gen uint32) {
	w.queue.push(event{at: at, tie: w.rnd.Uint64(), kind: k, who: who, gen: gen})
}

// Run lets clients make requests for Setup.For, and then lets what is under way end.
func (w *World) Run() (Result, error) {
	end, still := w.now+w.s.For, 0
	for len(w.queue) > 0 {
		e := w.queue.pop()
		for w.look != nil && w.next <= e.at {
			w.now = max(w.next, w.now)
			w.look()
			w.next += msec
		}
		if e.at < w.now {
			return w.r, fmt.Errorf("time goes back from %d to %d ns", w.now, e.at)
		}
		if still++; e.at > w.now {
			still = 0
		}
		if w.now = e.at; still > 100_000 {
			return w.r, fmt.Errorf("P6: the rings spin at %d ns", w.now)
		}
		if !w.over && (w.now >= end || w.s.Most > 0 && w.r.Decisions >= w.s.Most) {
			w.over = true
			w.check.unfair = true
			for _, c := range w.conns {
				w.at(w.now+w.rnd.Int64N(100*msec), aLeaving, c.id, c.gen)
			}
		}
		w.r.Events++
		w.act(e)
		if spin := 100_000 + 20*(w.r.Decisions+w.mails) + uint64((w.now-sec)/(100*usec))*uint64(len(w.rings)); w.empty > spin {
			return w.r, fmt.Errorf("P6: the rings have woken %d times for nothing until %d ns", w.empty, w.now)
		}
		if w.r.Events%64 == 0 && w.s.Policy == Production {
			w.check.audit(w)
		}
		if w.check.err != nil {
			return w.r, w.check.err
		}
		if w.now > end+600*sec {
			return w.r, fmt.Errorf("%d requests are not over ten minutes after the last", w.busy())
		}
	}
	w.check.quiet(w)
	w.r.Hash = w.sum
	for _, r := range w.rings {
		c := r.prod.Counters()
		w.r.Expiries += c.Expiries
		w.r.Stalls += c.Stalls
		w.r.Idle += c.Idle
	}
	return w.r, w.check.err
}

func (w *World) busy() (n int) {
	for _, c := range w.conns {
		if c.state != resting {
			n++
		}
	}
	return n
}

func (w *World) act(e event) {
	switch e.kind {
	case aTurn:
		if r := w.rings[e.who]; r.gen == e.gen {
			r.step()
		}
	case aDeed:
		w.do(&w.s.Deeds[e.who])
	default:
		c := w.conns[e.who]
		if c.gen != e.gen && !(w.over && e.kind == aLeaving) {
			return
		}
		if e.kind == aLeaving && c.state == resting {
			return
		}
		if e.kind == anArrival && (w.over || c.setup.To > 0 && w.now > sec+c.setup.To) {
			return
		}
		if e.kind == anArrival {
			c.came = w.now
		}
		w.rings[c.ring].deliver(mail{c, e.kind, e.gen})
	}
}

func (w *World) do(d *Deed) {
	switch d.What {
	case SetRate:
		w.rate = d.N
		w.worker.SetRate(d.N, w.now+w.jumped)
		w.check.rateChanged(w)
	case SetWeight:
		t := w.tenant[d.Tenant]
		cfg := t.setup.Config
		cfg.Weight = int(d.N)
		t.sched.Configure(cfg)
		t.weight = d.N
		w.check.rateChanged(w)
	case Stall:
		w.rings[d.Ring].stalled = w.now + d.N
		w.check.rateChanged(w)
	case Jump:
		w.jumped += d.N
		w.check.rateChanged(w)
		for _, r := range w.rings {
			if r.asleep {
				r.doze()
			}
		}
	case Wakes:
		for _, r := range w.rings {
			r.news = append(r.news, w.tenant[d.Tenant])
			r.wake()
		}
	}
}

// rouse is Config.Wake.
func (w *World) rouse(ring int) { w.rings[ring].wake() }

// note adds to the trace.
func (w *World) note(values ...uint64) {
	h := fnv.New64a()
	var b [8]byte
	for _, v := range append(values, w.sum, uint64(w.now)) {
		for i := range b {
			b[i] = byte(v >> (8 * i))
		}
		h.Write(b[:])
	}
	w.sum = h.Sum64()
}
