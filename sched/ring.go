package sched

import "fmt"

// Ring is one loop's part of the scheduler. Only that loop's thread calls it, except where said otherwise.
type Ring struct {
	w      *Worker
	beacon *beacon

	plan    plan  // the last one seen
	seq     int64 // its number
	filed   int64 // pace that the waiting seats were filed by
	fperiod int64 // period in which they were
	now     int64 // the newest seen
	v       int64 // free mode and RingLocal: key of the last dispatch; never goes back
	order   int64 // flows that have become ready, in all
	used    int64
	slumber int64 // ns that it slept because all that was ready waited for V
	dozed   int64 // ns since when it does; 0: it does not
	asleep  bool

	flows []flow
	seats []seat // by Tenant.id
	heap  heap
	wheel wheel

	waiting []int32 // seats that wait for V
	late    []int32 // seats whose oldest request is late
	picked  int32   // slot that Next has named last, until something is done with it
	flying  int64   // bytes picked or in flight
	stall   int64   // ns until which the bucket has too little
	claim   int64   // bytes that it waits for, or did until then; see bucket

	news     bool // something has happened since Next has found nothing
	counters Counters
}

// Pick is what Next has decided.
type Pick struct {
	Slot   uint32
	Tenant *Tenant
	Bytes  int64  // what it may send at most
	First  bool   // nothing of the response has been dispatched before
	Refuse Reason // Go, or why it must be answered with a refusal instead; it is over for the scheduler then
	Wait   int64  // First: ns since it was admitted
}

// Ring makes the part of loop i, with flows for so many connection slots.
func (w *Worker) Ring(i, slots int) *Ring {
	r := &Ring{w: w, beacon: &w.rings[i], flows: make([]flow, slots), picked: none}
	for i := range r.flows {
		r.flows[i] = flow{seat: none, took: w.cfg.Chunk}
	}
	r.wheel.init()
	r.grow(1)
	r.plan, r.seq = w.plans.read()
	return r
}

// clock notes the time, and that something has happened.
func (r *Ring) clock(now int64) { r.now, r.news = max(r.now, now), true }

// look takes in what has happened to the shared clock. Every call that may make a tenant eligible begins with it: the ring may have slept since its last turn, and
// others may have come meanwhile; by a plan from before them V would be far ahead, and a tenant that joins it would wait until it really is there. Not in the
// middle of a call: a new frame files every seat anew, that one, too.
func (r *Ring) look() {
	if r.w.plans.seq.Load() == r.seq {
		return
	}
	old := r.plan.frame
	r.plan, r.seq = r.w.plans.read()
	r.news = true
	switch {
	case r.plan.frame != old:
		r.stall = 0
		r.unclaim()
		r.reframe()
	case r.plan.pace > r.filed || r.plan.period != r.fperiod:
		r.refile()
	default:
		return
	}
	r.filed, r.fperiod = r.plan.pace, r.plan.period
}

// turn is what every pass begins with.
func (r *Ring) turn(now int64) {
	r.now = max(r.now, now)
	if r.asleep {
		r.asleep = false
		r.beacon.until.Store(0)
		if r.dozed != 0 {
			r.slumber += r.now - r.dozed
			r.dozed = 0
			r.beacon.slumber.Store(r.slumber)
		}
	}
	if r.stall != 0 && r.now >= r.stall {
		r.stall, r.news = 0, true
	}
	r.look()
	if r.plan.mode.planned() && (r.now >= r.plan.due || r.w.hurry.Load() && r.now >= r.plan.at+hurried) {
		r.w.replan(r.now)
		r.look()
	}
	for r.wheel.count > 0 {
		id := r.wheel.expired(r.now)
		if id == none {
			break
		}
		r.expire(&r.seats[id])
	}
	r.picked = none
}

// expire acts on a seat that has left the wheel.
func (r *Ring) expire(s *seat) {
	r.news = true
	r.counters.Expiries++
	late := r.lateAt(s) <= r.now
	switch {
	case s.state == seatWaiting:
		r.unwait(s)
		s.state = seatIdle
		r.file(s) // if it is late and V has not come so far, Next lets it wait again
	case s.until <= r.now:
		r.unfile(s)
		r.file(s)
	case !late: // what was late has gone meanwhile
		r.wheel.add(s.id, min(s.until, r.lateAt(s)))
	}
	if late && !s.late {
		s.late = true
		r.late = append(r.late, s.id)
	}
}

// Next returns the flow to dispatch now, or one to refuse, or false: then there is nothing to do until Wake, a Done, or news.
func (r *Ring) Next(now int64) (Pick, bool) {
	r.turn(now)
	p, ok := Pick{}, false
	if len(r.late) > 0 {
		p, ok = r.refuseLate()
	}
	if !ok {
		p, ok = r.pick()
	}
	switch {
	case ok:
		r.counters.Picks++
	case !r.news:
		r.counters.Idle++
	}
	r.news = ok
	return p, ok
}

func (r *Ring) pick() (Pick, bool) {
	for r.heap.len() > 0 {
		top := r.heap.e[0]
		s := &r.seats[top.seat]
		if r.plan.mode == paced {
			if vt := s.t.vt.Load(); vt-r.virtual() > 0 {
				r.await(s, vt)
				continue
			}
		}
		if r.plan.mode != solo {
			if key := r.key(s); key != top.key {
				r.heap.fix(s.id, key)
				if r.heap.e[0].seat != top.seat {
					continue
				}
				top.key = key
			}
		}
		slot := s.head
		f := &r.flows[slot]
		if f.fresh {
			if why := r.judge(f, s); why != Go {
				return r.refuse(f, s, slot, why), true
			}
		}
		held := f.want
		if f.fresh {
			held += ResponseCost
		}
		most := r.w.cfg.Chunk * int64(r.w.cfg.Depth)
		if r.flying > 0 && r.flying+held > most {
			return Pick{}, false
		}
		if s.flying > 0 && s.flying+held > max(most-r.w.cfg.Chunk, r.w.cfg.Chunk) && r.heap.len() > 1 && r.plan.mode != fifo {
			r.heap.remove(s.id)
			p, ok := r.pick()
			if r.plan.mode == free {
				r.forfeit(s) // whose part of the ring is in flight has no claim on what others get meanwhile
			}
			r.heap.push(s.id, r.key(s))
			if ok {
				return p, true
			}
		}
		if r.plan.mode.planned() && r.plan.rate > 0 && !r.reserve(held, top.key) {
			return Pick{}, false
		}
		return r.dispatch(f, s, slot, held), true
	}
	return Pick{}, false
}

func (r *Ring) dispatch(f *flow, s *seat, slot int32, held int64) Pick {
	p := Pick{Slot: uint32(slot), Tenant: s.t, Bytes: f.want, First: f.fresh}
	if f.fresh {
		p.Wait = r.now - f.admitted
	}
	r.dequeue(f, s)
	f.state, f.payload, f.held = flowPicked, f.want, held
	r.flying += held
	s.flying += held
	r.picked = slot
	switch r.plan.mode {
	case paced:
		cfg := s.t.cfg.Load()
		f.cost = cfg.cost(held)
		vt := s.t.charge(f.cost, r.served()-cfg.lag)
		raise(&r.w.begun, vt-f.cost)
		r.w.advance(vt)
		f.pooled = true
		r.spend(held)
	case free:
		cfg := s.t.cfg.Load()
		key := s.t.vt.Load() - s.off
		if key-r.v > 0 {
			r.v = key
		} else if floor := r.v - cfg.lag; key-floor < 0 {
			s.off += key - floor
		}
		f.cost = cfg.cost(held)
		s.t.vt.Add(f.cost)
	case local:
		r.v = max(r.v, s.own)
		f.cost = s.t.cfg.Load().cost(held)
		s.own += f.cost
		r.pool(f, held)
	case fifo:
		r.pool(f, held)
	}
	if s.ready == 0 {
		r.unfile(s)
	} else if r.plan.mode != solo && r.heap.has(s.id) {
		r.heap.fix(s.id, r.key(s))
	}
	return p
}

// at returns a flow in use and its seat.
func (r *Ring) at(slot uint32, doing string, states ...flowState) (*flow, *seat) {
	f := &r.flows[slot]
	for _, st := range states {
		if f.state == st {
			return f, &r.seats[f.seat]
		}
	}
	panic(fmt.Sprintf("sched: %s of slot %d in state %d", doing, slot, f.state))
}

// reuse makes a slot free for a new request. One that was dropped in flight and never done keeps what it was charged.
func (r *Ring) reuse(f *flow, slot uint32) {
	if f.state == flowFree {
		return
	}
	if f.state != flowFlying || !f.dropped {
		panic(fmt.Sprintf("sched: Admit on slot %d, which is in state %d", slot, f.state))
	}
	s := &r.seats[f.seat]
	r.settle(f, s, 0)
	r.finish(f, s)
}

// Push makes an admitted response ready to send. want is what it would send first, in bytes: all of it, or an estimate; the scheduler cuts it to
// the chunk and to what the socket has been taking.
func (r *Ring) Push(slot uint32, want, now int64) {
	r.clock(now)
	r.look()
	f, s := r.at(slot, "Push", flowQueued)
	f.want, f.rest = r.estimate(f, want), want
	f.pushed, f.throttled = r.now, s.throttled(r.now)
	r.ready(f, s, slot)
}

// ready makes a flow that is not live ready.
func (r *Ring) ready(f *flow, s *seat, slot uint32) {
	if f.fresh {
		r.addFresh(f, s, int32(slot))
	}
	r.enqueue(f, s, int32(slot), false)
	r.rise(s)
	if s.state == seatParked && s.first == int32(slot) && r.wheel.has(s.id) {
		r.wheel.remove(s.id)
		r.wheel.add(s.id, min(s.until, r.lateAt(s)))
	}
	r.file(s)
}

// Charge says that n bytes of a flow that Next has named are about to be submitted, and returns how many may be. What the Pick allowed has been reserved, and
// is given back at once where n is less. A response that turned out larger than its Push said may get up to a chunk, if there is so much.
func (r *Ring) Charge(slot uint32, n, now int64) int64 {
	r.clock(now)
	f, s := r.at(slot, "Charge", flowPicked)
	r.commit(f, s, slot)
	n = min(max(n, 0), max(f.payload, r.w.cfg.Chunk))
	if n >= f.rest {
		r.ended(f, s)
	}
	switch back := f.payload - n; {
	case back > 0:
		if f.pooled {
			r.w.bucket.settle(back, back)
		}
		r.resize(f, s, -back)
	case back < 0:
		if f.pooled {
			granted, cut := r.plan.granted(r.now)
			if ok, _ := r.w.bucket.take(-back, 0, granted, cut, r.plan.burst); !ok {
				return f.payload
			}
		}
		r.resize(f, s, -back)
	}
	return n
}

func (r *Ring) commit(f *flow, s *seat, slot uint32) {
	if f.fresh {
		wait := r.now - f.admitted
		s.stats.Started++
		s.stats.Waited += wait
		s.stats.WaitedMax = max(s.stats.WaitedMax, wait)
	}
	r.dispatched(f, s)
	f.state = flowFlying
	if r.picked == int32(slot) {
		r.picked = none
	}
}

// Done says that sent bytes of a charged flow have been accepted by its socket. What was charged beyond is given back, once. next > 0: the response goes on
// and would send so many bytes, as in Push; 0: it is over.
func (r *Ring) Done(slot uint32, sent, next, now int64) {
	r.clock(now)
	f, s := r.at(slot, "Done", flowFlying, flowPicked)
	if f.last && next > 0 {
		r.look()
	}
	if f.state == flowPicked {
		r.commit(f, s, slot)
	}
	f.learn(sent, f.payload, r.w.cfg.Chunk)
	s.stats.Got += sent
	r.settle(f, s, f.payload-sent)
	s.observe(sent, r.now)
	f.want, f.rest = r.estimate(f, next), next
	switch {
	case f.dropped || next <= 0:
		r.ended(f, s)
		r.finish(f, s)
	case f.block:
		r.ended(f, s)
		f.state, f.block, f.last = flowBlocked, false, false
	default:
		if f.last {
			f.last = false
			r.rise(s)
		}
		r.enqueue(f, s, int32(slot), false)
		r.file(s)
	}
}

// ended makes a flow in flight not live any more, as nothing of it is left to send. That it is not done does not keep its tenant active: else, when the tenant
// had more to send, it would still be owed what it was behind before.
func (r *Ring) ended(f *flow, s *seat) {
	if !f.last {
		f.last = true
		r.fall(s)
	}
}

// Block says that a response waits for its socket or the disk: it is not backlogged meanwhile. One in flight blocks when it is done; one that
// Next has named gives back its reservation, and has not been dispatched.
func (r *Ring) Block(slot uint32) {
	f, s := r.at(slot, "Block", flowReady, flowPicked, flowFlying, flowBlocked)
	switch f.state {
	case flowFlying:
		f.block = true
		return
	case flowBlocked:
		return
	case flowPicked:
		r.unpick(f, s, slot)
	}
	r.dequeue(f, s)
	r.dropFresh(f, s)
	f.state = flowBlocked
	r.fall(s)
	r.emptied(s)
}

// unpick takes back a decision of Next: nothing of it is left, and the flow is first among its tenant's.
func (r *Ring) unpick(f *flow, s *seat, slot uint32) {
	r.settle(f, s, f.held)
	r.enqueue(f, s, int32(slot), true)
	if s.state == seatReady && r.plan.mode != solo {
		r.heap.fix(s.id, r.key(s))
	}
	r.file(s)
	if r.picked == int32(slot) {
		r.picked = none
	}
}

// Unblock makes a blocked response ready again.
func (r *Ring) Unblock(slot uint32, now int64) {
	r.clock(now)
	r.look()
	f, s := r.at(slot, "Unblock", flowBlocked, flowFlying, flowReady, flowPicked)
	switch f.state {
	case flowBlocked:
		r.ready(f, s, slot)
	case flowFlying:
		f.block = false
	}
}

// Park lets a tenant sleep on this ring until a time (ns), or until WakeTenant: its limit has too little. What Next has named last of it gives back its
// reservation and keeps its place. A sleeping tenant earns nothing.
func (r *Ring) Park(t *Tenant, until int64) {
	s := r.seat(t)
	if r.picked != none && r.flows[r.picked].seat == s.id {
		r.unpick(&r.flows[r.picked], s, uint32(r.picked))
	}
	if until <= r.now {
		return // asked again at once, it would spin: Next follows in the same pass anyhow
	}
	r.unfile(s)
	s.until = until
	r.file(s)
}

// WakeTenant ends a tenant's sleep on this ring.
func (r *Ring) WakeTenant(t *Tenant, now int64) {
	r.clock(now)
	r.look()
	s := r.seat(t)
	s.until = 0
	if s.state == seatParked {
		r.unfile(s)
		r.file(s)
	}
}

// Drop ends a flow, whatever its state: its connection has passed a deadline or closes, and what its socket takes is forgotten. What is in flight stays charged until Done says what was
// sent; then it is over. On a free slot Drop does nothing else.
func (r *Ring) Drop(slot uint32, now int64) {
	r.clock(now)
	r.look()
	f := &r.flows[slot]
	f.took = r.w.cfg.Chunk
	if f.state == flowFree {
		return
	}
	s := &r.seats[f.seat]
	switch f.state {
	case flowFlying:
		f.dropped = true
		r.ended(f, s)
		return
	case flowPicked:
		r.unpick(f, s, slot)
		fallthrough
	case flowReady:
		r.dequeue(f, s)
		r.dispatched(f, s)
		r.fall(s)
		r.finish(f, s)
		r.emptied(s)
	default: // queued, blocked
		r.finish(f, s)
	}
	f.took = r.w.cfg.Chunk
}
