package sched

// Stats are the counters of one tenant on one ring.
type Stats struct {
	Got       int64 // bytes sent
	Throttled int64 // ns that its limit made it sleep
	Queued    int64 // requests that wait for their first dispatch now
	Started   uint64
	Waited    int64 // ns that the started ones had waited, in all
	WaitedMax int64 // ns
	Refused   [Reasons]uint64
}

// Stats returns the counters of a tenant on this ring.
func (r *Ring) Stats(t *Tenant) Stats {
	if int(t.id) >= len(r.seats) || r.seats[t.id].t != t {
		return Stats{}
	}
	s := &r.seats[t.id]
	st := s.stats
	st.Throttled = s.throttled(r.now)
	return st
}

// Counters are what a ring has done, in all.
type Counters struct {
	Picks    uint64 // decisions: dispatches and refusals
	Expiries uint64 // tenants whose waiting or sleeping ended in the wheel
	Stalls   uint64 // times that the worker's bucket had too little
	Idle     uint64 // calls of Next that found nothing though nothing had happened since the last one found nothing: a spinning loop
}

// Counters returns what the ring has done.
func (r *Ring) Counters() Counters { return r.counters }
