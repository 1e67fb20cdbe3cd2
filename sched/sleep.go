package sched

// Wake returns the time (ns) at which Next may have something to say if nothing else happens before, or never (math.MaxInt64); a time that has
// passed means now. It says that the ring is about to sleep: until the next call of Next, whoever moves the shared clock wakes it if need be.
func (r *Ring) Wake() int64 {
	wake := r.wheel.wake()
	switch {
	case r.heap.len() == 0: // what it has waited for is gone
		r.unclaim()
	case r.stall != 0:
		wake = min(wake, r.stall)
	}
	if r.plan.mode != paced {
		if r.w.cfg.Rings > 1 || r.w.tenants.Load() > 0 {
			r.sleep(wake, never)
		}
		return r.settled(wake)
	}
	awaits := int64(never)
	if len(r.waiting) > 0 {
		awaits = r.plan.virtual(wake) // or a little less
		wake = min(wake, r.plan.due)
		if r.heap.len() == 0 {
			r.dozed = r.now
		}
	}
	r.sleep(wake, awaits)
	return r.settled(wake)
}

func (r *Ring) sleep(wake, awaits int64) {
	r.asleep = true
	r.beacon.awaits.Store(awaits)
	r.beacon.until.Store(wake)
}

// settled is wake, or now if the clock has moved while the ring said that it sleeps.
func (r *Ring) settled(wake int64) int64 {
	if r.w.plans.seq.Load() != r.seq {
		return r.now
	}
	return wake
}
