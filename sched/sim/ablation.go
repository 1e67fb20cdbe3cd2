package sim

import (
	"math"

	"github.com/talon-worker/talon/sched"
)

// shared is one bucket for all rings that serves them in the order in which they ask: who asks reserves, and goes when its time has come.
type shared struct{ rate, full, burst int64 }

func newShared(rate, burst, now int64) *shared {
	s := &shared{rate: rate, full: now}
	if rate > 0 {
		s.burst = burst * sec / rate
	}
	return s
}

// ticket is when n bytes may go.
func (s *shared) ticket(n, now int64) int64 {
	if s.rate == 0 {
		return now
	}
	s.full = max(s.full, now) + n*sec/s.rate
	return s.full - s.burst
}

// ablation is a scheduler that was not chosen: fair on its ring, or not at all, with one bucket for all rings.
type ablation struct {
	shared *shared
	chunk  int64
	fair   bool
	flow   []waiting
	turns  []*round // FIFO: one of all tenants
	of     map[*sched.Tenant]*round
	now    int64
	ready  int64 // a ticket was taken for the first that is due: when it may go; 0: none
}

type waiting struct {
	t    *sched.Tenant
	want int64
	in   bool
	new  bool
}

// round is a tenant's part of deficit round robin.
type round struct {
	slots   []uint32
	deficit int64
	in      bool
}

func newAblation(p Policy, s *shared, slots int, chunk int64) *ablation {
	return &ablation{shared: s, chunk: chunk, fair: p == RingDRR, flow: make([]waiting, slots), of: map[*sched.Tenant]*round{}}
}

func (a *ablation) Admit(t *sched.Tenant, slot uint32, bytes, now int64) sched.Verdict {
	a.flow[slot] = waiting{t: t, new: true}
	return sched.Verdict{}
}

func (a *ablation) Push(slot uint32, want, now int64) {
	f := &a.flow[slot]
	f.want = min(want, a.chunk)
	a.enqueue(slot)
}

func (a *ablation) enqueue(slot uint32) {
	key := a.flow[slot].t
	if !a.fair {
		key = nil
	}
	r := a.of[key]
	if r == nil {
		r = &round{}
		a.of[key] = r
	}
	a.flow[slot].in = true
	r.slots = append(r.slots, slot)
	if !r.in {
		r.in = true
		a.turns = append(a.turns, r)
	}
}

func (a *ablation) Next(now int64) (sched.Pick, bool) {
	a.now = now
	for len(a.turns) > 0 {
		r := a.turns[0]
		for len(r.slots) > 0 && !a.flow[r.slots[0]].in {
			r.slots = r.slots[1:]
		}
		if len(r.slots) == 0 {
			r.in, r.deficit = false, 0
			a.turns = a.turns[1:]
			continue
		}
		slot := r.slots[0]
		f := &a.flow[slot]
		if a.fair && r.deficit < f.want {
			r.deficit += a.chunk
			a.turns = append(a.turns[1:], r)
			if r.deficit < f.want || len(a.turns) > 1 {
				continue
			}
		}
		if a.ready == 0 {
			a.ready = max(a.shared.ticket(f.want, now), 1)
		}
		if now < a.ready {
			return sched.Pick{}, false
		}
		a.ready = 0
		r.deficit -= f.want
		r.slots = r.slots[1:]
		p := sched.Pick{Slot: slot, Tenant: f.t, Bytes: f.want, First: f.new}
		f.in, f.new = false, false
		return p, true
	}
	return sched.Pick{}, false
}

func (a *ablation) Charge(slot uint32, n, now int64) int64 { return n }

func (a *ablation) Done(slot uint32, sent, next, now int64) {
	if next > 0 {
		a.Push(slot, next, now)
	}
}

func (a *ablation) Block(slot uint32)               { a.flow[slot].in = false }
func (a *ablation) Unblock(slot uint32, now int64)  { a.enqueue(slot) }
func (a *ablation) Park(*sched.Tenant, int64)       {}
func (a *ablation) WakeTenant(*sched.Tenant, int64) {}
func (a *ablation) Drop(slot uint32, now int64)     { a.flow[slot].in = false }

func (a *ablation) Wake() int64 {
	if a.ready > a.now {
		return a.ready
	}
	return math.MaxInt64
}
