package sched

type seatState uint8

const (
	seatIdle    seatState = iota // no flow is ready
	seatReady                    // in the heap
	seatWaiting                  // in the wheel until V reaches vt
	seatParked                   // in the wheel until its limit has enough, or its oldest request is late
)

// seat is one tenant on one ring.
// Invariant: in the heap exactly when ready; while waiting, or parked and not late, in the wheel.
type seat struct {
	t     *Tenant
	id    int32
	state seatState
	late  bool // in Ring.late
	// active: it has live flows and is not parked. counted: Tenant.live knows.
	active, counted bool
	place           int32 // in Ring.waiting

	head, tail  int32 // flows that are ready, in turn
	first, last int32 // flows that are ready or picked for the first time, oldest first
	ready       int32
	live        int32 // flows ready, picked, or in flight with more to send
	flows       int32 // all

	flying int64 // bytes picked or in flight
	turn   int64 // estimates of the ready flows, each with turnCost: what a newcomer waits for
	off    int64 // free mode: vt - off is its key on this ring
	own    int64 // RingLocal: its virtual time on this ring, and its key

	until  int64 // parked until
	parked int64 // ns since when

	window, served int64 // since when it has had ready flows without a pause, and what was sent since, with turnCosts
	speed          int64 // of that, bytes/s; 0: not known

	codel codel
	stats Stats
}

// seat returns the tenant's seat on this ring.
func (r *Ring) seat(t *Tenant) *seat {
	if int(t.id) >= len(r.seats) {
		r.grow(int(t.id) + 1)
	}
	s := &r.seats[t.id]
	if s.t != t {
		if s.flows > 0 {
			panic("sched: a removed tenant still has flows")
		}
		*s = seat{t: t, id: t.id, head: none, tail: none, first: none, last: none}
	}
	return s
}

// grow makes room for n tenants at least. It is the only thing of a ring that allocates, when a tenant is new to it.
func (r *Ring) grow(n int) {
	n = min(max(n, 2*len(r.seats), 16), MaxTenants)
	for i := len(r.seats); i < n; i++ {
		r.seats = append(r.seats, seat{id: int32(i)})
		r.heap.pos = append(r.heap.pos, none)
		r.wheel.node = append(r.wheel.node, node{list: none})
	}
	for _, s := range []*[]int32{&r.waiting, &r.late} {
		*s = append(make([]int32, 0, n), *s...)
	}
	r.heap.e = append(make([]entry, 0, n), r.heap.e...)
}

// rise counts a flow that has become live.
func (r *Ring) rise(s *seat) {
	if s.live++; s.live == 1 && s.state != seatParked {
		r.activate(s)
	}
}

// fall counts a flow that is not live any more.
func (r *Ring) fall(s *seat) {
	if s.live--; s.live == 0 {
		r.deactivate(s)
	}
}

// activate makes a seat eligible again. No credit: it starts at most one chunk behind.
func (r *Ring) activate(s *seat) {
	s.active = true
	switch r.plan.mode {
	case paced:
		r.adopt(s.t)
		r.stamp(s.t)
		s.counted = true
		if s.t.live.Add(1) == 1 {
			if r.now-s.t.since.Load() > period/128 { // a store that others see costs as much as all else here
				s.t.since.Store(r.now)
			}
			s.t.lift(r.start() - s.t.cfg.Load().chunk)
		}
	case free:
		r.forfeit(s)
		if most := r.v + s.t.cfg.Load().lag; s.t.vt.Load()-s.off-most > 0 {
			s.off = s.t.vt.Load() - most
		}
	case local:
		cfg := s.t.cfg.Load()
		s.own = min(max(s.own, r.v-cfg.chunk), r.v+cfg.lag)
	}
}

// forfeit takes from a seat what it is behind by more than a chunk, where no rate binds.
func (r *Ring) forfeit(s *seat) {
	least := r.v - s.t.cfg.Load().chunk
	if vt := s.t.vt.Load(); vt-s.off-least < 0 {
		s.off = vt - least
	}
}

func (r *Ring) deactivate(s *seat) {
	s.active = false
	if s.counted {
		s.counted = false
		s.t.live.Add(-1)
	}
}

// virtual is V now. It never runs ahead of the foremost tenant: where the bucket or the rings are what binds, V follows the service. If it ran
// on by time, every tenant would fall behind it by more than the clamp of a charge forgives, and the clamps would decide who gets how much.
func (r *Ring) virtual() int64 {
	v := r.plan.virtual(r.now)
	if front := r.w.front.Load(); v-front > 0 {
		return front
	}
	return v
}

// served is how far the service has come: V, or where V has promised more than rings and bucket can carry, the furthest virtual time that was dispatched, as in
// start-time fair queueing. Who is ready on the ring that did that is at most its own chunk behind it, because an earlier deadline goes first. What is
// forgiven is counted from here; from V, those whose chunks cost least would forfeit first, and others would get their shares.
func (r *Ring) served() int64 {
	v := r.virtual()
	if begun := r.w.begun.Load(); v-begun > 0 {
		return begun
	}
	return v
}

// start is where a tenant starts that comes, or comes back: at V if nobody is ready on this ring, so that the service is there, too; else where the service is,
// or it would wait until all of them have come as far as V.
func (r *Ring) start() int64 {
	if r.heap.len() > 0 {
		return r.served()
	}
	v := r.virtual()
	raise(&r.w.begun, v)
	return v
}

// adopt gives a tenant whose virtual time is of another frame a new one.
func (r *Ring) adopt(t *Tenant) {
	if f := t.frame.Load(); f != r.plan.frame && t.frame.CompareAndSwap(f, r.plan.frame) {
		t.vt.Store(r.start() - t.phase())
	}
}

// stamp says that the tenant has work in this period.
func (r *Ring) stamp(t *Tenant) {
	if t.stamp.Load() < r.plan.period {
		t.stamp.Store(r.plan.period)
	}
	if t.member.Load() {
		return
	}
	stale := r.now-t.idle.Load() > staleAfter
	if r.w.join(t) {
		if stale {
			t.vt.Store(r.start() - t.phase())
		}
		r.w.replan(r.now)
	}
}

// key is what the seat stands in the heap by.
func (r *Ring) key(s *seat) int64 {
	switch r.plan.mode {
	case paced:
		return s.t.vt.Load() + s.t.cfg.Load().cost(r.flows[s.head].want)
	case free:
		key := s.t.vt.Load() - s.off
		if most := r.v + s.t.cfg.Load().lag; key-most > 0 {
			s.off += key - most // overshoot is repaid up to here; what it gets elsewhere cannot starve it here for longer
			key = most
		}
		return key
	case local:
		return s.own
	case fifo:
		return r.flows[s.head].order
	}
	return 0
}

// file puts an idle seat with ready flows where it belongs.
func (r *Ring) file(s *seat) {
	if s.state != seatIdle || s.ready == 0 {
		return
	}
	if s.until > r.now {
		r.park(s)
		return
	}
	s.state = seatReady
	r.heap.push(s.id, r.key(s))
}

// unfile takes a seat out of heap or wheel.
func (r *Ring) unfile(s *seat) {
	switch s.state {
	case seatReady:
		r.heap.remove(s.id)
	case seatWaiting:
		r.unwait(s)
		r.wheel.remove(s.id)
	case seatParked:
		s.stats.Throttled += r.now - s.parked
		if r.wheel.has(s.id) {
			r.wheel.remove(s.id)
		}
		if s.state = seatIdle; s.live > 0 {
			r.activate(s)
		}
	}
	s.state = seatIdle
}

// await lets a ready seat wait until V has reached vt.
func (r *Ring) await(s *seat, vt int64) {
	r.heap.remove(s.id)
	s.state, s.place = seatWaiting, int32(len(r.waiting))
	r.waiting = append(r.waiting, s.id)
	r.awaitUntil(s, vt)
}

func (r *Ring) awaitUntil(s *seat, vt int64) {
	at := r.plan.when(vt)
	if at == never {
		at = r.now + period // somebody plans right now
	}
	r.wheel.add(s.id, min(at, r.lateAt(s)))
}

func (r *Ring) unwait(s *seat) {
	last := r.waiting[len(r.waiting)-1]
	r.waiting[s.place] = last
	r.seats[last].place = s.place
	r.waiting = r.waiting[:len(r.waiting)-1]
}

// park lets an idle seat with ready flows sleep until s.until.
func (r *Ring) park(s *seat) {
	s.state, s.parked = seatParked, r.now
	r.deactivate(s)
	r.wheel.add(s.id, min(s.until, r.lateAt(s)))
}

// refile looks at every waiting seat again, because V has become faster.
func (r *Ring) refile() {
	for _, id := range r.waiting {
		s := &r.seats[id]
		r.stamp(s.t)
		r.wheel.remove(id)
		r.awaitUntil(s, s.t.vt.Load())
	}
	for _, e := range r.heap.e {
		r.stamp(r.seats[e.seat].t)
	}
}

// reframe files everything anew, because virtual times mean something else now.
func (r *Ring) reframe() {
	r.v = 0
	for i := range r.seats {
		s := &r.seats[i]
		if s.t == nil {
			continue
		}
		if s.state == seatReady || s.state == seatWaiting {
			r.unfile(s)
		}
		s.off = s.t.vt.Load()
		if s.active {
			r.deactivate(s)
			r.activate(s)
		}
		r.file(s)
	}
}
