package sched

// reserve takes n bytes from the worker's bucket for a dispatch with a deadline, or notes when to ask again. Where the bucket has too little, rings with earlier
// deadlines come first: else chance would say whose turn it is, and V has nothing to say, as it is beyond all of them.
func (r *Ring) reserve(n, deadline int64) bool {
	if r.plan.mode != paced {
		deadline = 0 // keys of rings that share no clock say nothing to each other: who asks first is first
	}
	if r.stall != 0 {
		if deadline-r.beacon.deadline.Load() < 0 {
			r.beacon.deadline.Store(deadline)
		}
		return false
	}
	granted, cut := r.plan.granted(r.now)
	ok, need := r.w.bucket.take(n, r.w.claims(r.beacon, deadline), granted, cut, r.plan.burst)
	if ok {
		r.unclaim()
	} else {
		if r.claim == 0 {
			r.w.bucket.claims.Add(1)
		}
		r.claim = n
		r.beacon.deadline.Store(deadline)
		r.beacon.claim.Store(n)
		r.stall = max(r.plan.whenGranted(need), r.now+1)
		r.counters.Stalls++
		r.beacon.stalls.Store(int64(r.counters.Stalls))
		if r.w.hurry.CompareAndSwap(false, true) {
			r.w.replan(r.now)
		}
	}
	return ok
}

// unclaim says that the ring does not wait for the bucket any more.
func (r *Ring) unclaim() {
	if r.claim != 0 {
		r.claim = 0
		r.beacon.claim.Store(0)
		r.w.bucket.claims.Add(-1)
	}
}

// pool notes that what a flow holds is reserved in the bucket, where there is one and nothing else binds.
func (r *Ring) pool(f *flow, held int64) {
	if f.pooled = r.plan.rate > 0; f.pooled {
		r.spend(held)
	}
}

func (r *Ring) spend(n int64) {
	r.used += n
	r.beacon.used.Store(r.used)
}

// settle ends what a flow holds, of which sent bytes of payload have been used. It runs once for each reservation.
func (r *Ring) settle(f *flow, s *seat, back int64) {
	r.flying -= f.held
	s.flying -= f.held
	if f.pooled {
		r.w.bucket.settle(f.held, back)
		r.spend(-back)
	}
	if f.cost != 0 && back != 0 {
		r.recost(f, s, f.held-back)
	}
	f.payload, f.held, f.cost, f.pooled = 0, 0, 0, false
}

// recost makes what a flow has been charged in virtual time the cost of n bytes.
func (r *Ring) recost(f *flow, s *seat, n int64) {
	to := s.t.cfg.Load().cost(n)
	if r.plan.mode == local {
		s.own += to - f.cost
		f.cost = to
		return
	}
	vt := s.t.vt.Add(to - f.cost)
	if to > f.cost && r.plan.mode == paced {
		r.w.advance(vt) // else V would never come so far
	}
	f.cost = to
}

// resize changes what a flow holds by n bytes, for which the bucket has been asked.
func (r *Ring) resize(f *flow, s *seat, n int64) {
	f.held += n
	f.payload += n
	r.flying += n
	s.flying += n
	if f.pooled {
		r.spend(n)
	}
	if f.cost != 0 {
		r.recost(f, s, f.held)
	}
}
