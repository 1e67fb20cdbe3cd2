package sched

// A Reason says why a request was refused.
type Reason uint8

const (
	Go            Reason = iota
	QueueRequests        // too many requests of the tenant wait
	QueueBytes           // too many bytes
	PredictedWait        // it would wait longer than the deadline
	Inflight             // too many requests of the tenant are being answered
	Expired              // it has waited longer than the deadline
	Shed                 // a queue has been standing, and it has waited twice the target
	Reasons              // how many there are
)

func (r Reason) String() string {
	return [...]string{"go", "queue_requests", "queue_bytes", "predicted_wait", "inflight", "expired", "shed"}[r]
}

// A Verdict is the answer to a request. Wait is how long it would have waited as far as is known, in ns: what a Retry-After may say.
type Verdict struct {
	Reason Reason
	Wait   int64
}

// codelInterval is how long the least wait must have been over the target, in ns.
const codelInterval = int64(100e6)

// codel tells a standing queue from a burst by the least wait of an interval (Nichols and Jacobson), and sheds what has waited twice the target, as
// folly does; CoDel's ever faster drops are for senders that slow down.
type codel struct {
	start, least int64
	over         bool
}

// shed takes in that a request has waited d at now, and says whether to refuse it.
func (c *codel) shed(d, target, now int64) bool {
	switch age := now - c.start; {
	case age >= 2*codelInterval: // nothing has come for a whole interval
		c.start, c.least, c.over = now, d, false
	case age >= codelInterval:
		c.over = c.least > target
		c.start, c.least = now, d
	default:
		c.least = min(c.least, d)
	}
	return c.over && d > 2*target
}

// Admit decides in O(1) whether a request of t on slot may wait for its turn, when it has been parsed and its tenant is known; bytes is what it asks for,
// as far as that is known. On Go it counts in the tenant's queue until its first dispatch, its refusal by Next, or Drop, and Push must follow.
func (r *Ring) Admit(t *Tenant, slot uint32, bytes, now int64) Verdict {
	r.clock(now)
	f, s := &r.flows[slot], r.seat(t)
	r.reuse(f, slot)
	cfg := t.cfg.Load()
	if cfg.MaxInflight > 0 {
		if t.inflight.Add(1) > int64(cfg.MaxInflight) {
			t.inflight.Add(-1)
			return r.turnAway(s, Inflight)
		}
		f.inInflight = true
	}
	why := Go
	if cfg.QueueRequests > 0 {
		f.inRequests = true
		if t.queued.Add(1) > int64(cfg.QueueRequests) {
			why = QueueRequests
		}
	}
	if cfg.QueueBytes > 0 && why == Go {
		f.inBytes, f.bytes = true, min(max(bytes, 0), 1<<50)
		if sum := t.queuedBytes.Add(f.bytes); sum > cfg.QueueBytes && sum > f.bytes {
			why = QueueBytes
		}
	}
	if cfg.Deadline > 0 && why == Go && r.predict(s) > cfg.Deadline {
		why = PredictedWait
	}
	if why != Go {
		if f.inRequests {
			t.queued.Add(-1)
		}
		if f.inBytes {
			t.queuedBytes.Add(-f.bytes)
		}
		if f.inInflight {
			t.inflight.Add(-1)
		}
		*f = flow{seat: none, took: f.took}
		return r.turnAway(s, why)
	}
	f.state, f.fresh, f.seat, f.admitted = flowQueued, true, s.id, r.now
	s.flows++
	s.stats.Queued++
	return Verdict{}
}

func (r *Ring) turnAway(s *seat, why Reason) Verdict {
	s.stats.Refused[why]++
	return Verdict{why, r.predict(s)}
}

// predict is how long a request that came now would wait for its first dispatch on this ring, in ns: for the turns of those before it, at the
// speed that the tenant has had, and for its limit. 0 if nothing is known.
func (r *Ring) predict(s *seat) int64 {
	wait := max(s.until-r.now, 0)
	if s.speed > 0 && s.turn > 0 {
		wait = max(wait, mulDiv(s.turn, second, s.speed))
	}
	return wait
}

// turnCost is what a dispatch takes beside its bytes, in bytes that could be sent meanwhile: about 5 us.
const turnCost = 16 << 10

// observe measures the speed of a seat that has had ready flows for a whole period without a pause.
func (s *seat) observe(sent, now int64) {
	s.served += sent + turnCost
	span := now - s.window
	if span < period {
		return
	}
	speed := max(mulDiv(s.served, second, span), 1)
	if s.speed == 0 {
		s.speed = speed
	}
	s.speed += (speed - s.speed) / 4
	s.window, s.served = now, 0
}

// lateAt is when the oldest request of a seat that waits will be late, or never.
func (r *Ring) lateAt(s *seat) int64 {
	deadline := s.t.cfg.Load().Deadline
	if deadline == 0 || s.first == none {
		return never
	}
	return addCapped(r.flows[s.first].admitted, deadline+1)
}

// judge says whether a fresh flow must be refused now that its turn has come.
func (r *Ring) judge(f *flow, s *seat) Reason {
	cfg := s.t.cfg.Load()
	if cfg.Deadline > 0 && r.now-f.admitted > cfg.Deadline {
		return Expired
	}
	if cfg.Target > 0 {
		own := s.throttled(r.now) - f.throttled // what its own limit made it wait
		if s.codel.shed(r.now-f.pushed-own, cfg.Target, r.now) {
			return Shed
		}
	}
	return Go
}

// throttled is how long the tenant has been parked here, until now.
func (s *seat) throttled(now int64) int64 {
	if s.state == seatParked {
		return s.stats.Throttled + now - s.parked
	}
	return s.stats.Throttled
}

// refuse ends a ready flow that will not be dispatched.
func (r *Ring) refuse(f *flow, s *seat, slot int32, why Reason) Pick {
	p := Pick{Slot: uint32(slot), Tenant: s.t, First: true, Refuse: why, Wait: r.now - f.admitted}
	r.dequeue(f, s)
	s.stats.Refused[why]++
	r.fall(s)
	r.finish(f, s)
	r.emptied(s)
	return p
}

// refuseLate refuses what has become late in seats that wait.
func (r *Ring) refuseLate() (Pick, bool) {
	for len(r.late) > 0 {
		s := &r.seats[r.late[len(r.late)-1]]
		if slot := s.first; slot != none && r.flows[slot].state == flowReady && r.lateAt(s) <= r.now {
			return r.refuse(&r.flows[slot], s, slot, Expired), true
		}
		r.late = r.late[:len(r.late)-1]
		if s.late = false; s.state == seatParked && !r.wheel.has(s.id) {
			r.wheel.add(s.id, min(s.until, r.lateAt(s)))
		}
	}
	return Pick{}, false
}
