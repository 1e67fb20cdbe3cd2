package sched

type flowState uint8

const (
	flowFree    flowState = iota
	flowQueued            // admitted; its response is being prepared
	flowReady             // its turn will come
	flowPicked            // Next has named it; its estimate is reserved
	flowFlying            // charged, submitted
	flowBlocked           // waits for its socket or the disk
)

// flow is a response on its connection slot.
type flow struct {
	state flowState
	fresh bool // not dispatched yet
	// listed among the fresh flows of its seat: while it is ready or picked.
	listed bool
	// What of the tenant's counters it is in.
	inRequests, inBytes, inInflight bool
	block                           bool // while in flight: it will be blocked when it is done
	dropped                         bool // while in flight: it will be over when it is done
	last                            bool // while in flight: nothing of it is left to send, so that it is not live any more
	pooled                          bool // what it holds is reserved in the bucket, too

	seat        int32
	next, prev  int32 // among the ready flows of its seat
	after, fore int32 // among the fresh ones
	want        int64 // bytes of its next dispatch
	rest        int64 // bytes that it has left to send, as far as Push or Done were told
	payload     int64 // bytes reserved for it, picked or in flight
	held        int64 // payload, and ResponseCost the first time
	cost        int64 // held, in virtual time as it was charged
	bytes       int64 // what it counts in Tenant.queuedBytes
	order       int64 // when it became ready: the how manieth
	admitted    int64 // ns
	pushed      int64 // ns
	throttled   int64 // Stats.Throttled of its seat when it was pushed
	took        int64 // moving average of what its socket takes at a time
}

// learn takes in what the socket took of what it was offered. A socket that took all might have taken more.
func (f *flow) learn(sent, offered, chunk int64) {
	if sent >= offered {
		sent = min(2*max(sent, f.took), chunk)
	}
	f.took += (sent - f.took) / 4
}

// estimate cuts what a response would send next to what is worth reserving for it.
func (r *Ring) estimate(f *flow, want int64) int64 {
	return max(min(want, r.plan.piece, max(LeastEstimate, f.took+f.took/4)), 0)
}

// enqueue makes a flow ready, behind the others of its seat or, where its turn was taken back, before them.
func (r *Ring) enqueue(f *flow, s *seat, slot int32, before bool) {
	f.state = flowReady
	if before {
		f.prev, f.next = none, s.head
	} else {
		f.prev, f.next = s.tail, none
		r.order++
		f.order = r.order
	}
	if f.prev == none {
		s.head = slot
	} else {
		r.flows[f.prev].next = slot
	}
	if f.next == none {
		s.tail = slot
	} else {
		r.flows[f.next].prev = slot
	}
	if s.ready++; s.ready == 1 {
		s.window, s.served = r.now, 0
	}
	s.turn += f.want + turnCost
}

// dequeue takes a ready flow out of its seat's queue.
func (r *Ring) dequeue(f *flow, s *seat) {
	if f.prev == none {
		s.head = f.next
	} else {
		r.flows[f.prev].next = f.next
	}
	if f.next == none {
		s.tail = f.prev
	} else {
		r.flows[f.next].prev = f.prev
	}
	s.ready--
	s.turn -= f.want + turnCost
}

// emptied puts a seat away that has no ready flow any more, and re-keys one whose first has changed.
func (r *Ring) emptied(s *seat) {
	switch {
	case s.ready == 0:
		r.unfile(s)
	case s.state == seatReady && r.plan.mode == paced:
		r.heap.fix(s.id, r.key(s))
	}
}

// addFresh lists a flow that is ready for the first time among those of its seat: last, or first if it has waited longest, having been blocked before.
func (r *Ring) addFresh(f *flow, s *seat, slot int32) {
	f.listed, f.fore, f.after = true, s.last, none
	if s.first != none && f.admitted < r.flows[s.first].admitted {
		f.fore, f.after = none, s.first
	}
	if f.fore == none {
		s.first = slot
	} else {
		r.flows[f.fore].after = slot
	}
	if f.after == none {
		s.last = slot
	} else {
		r.flows[f.after].fore = slot
	}
}

func (r *Ring) dropFresh(f *flow, s *seat) {
	if !f.listed {
		return
	}
	f.listed = false
	if f.fore == none {
		s.first = f.after
	} else {
		r.flows[f.fore].after = f.after
	}
	if f.after == none {
		s.last = f.fore
	} else {
		r.flows[f.after].fore = f.fore
	}
}

// dispatched takes a flow out of the tenant's queue: it is dispatched for the first time, refused or dropped.
func (r *Ring) dispatched(f *flow, s *seat) {
	if !f.fresh {
		return
	}
	f.fresh = false
	r.dropFresh(f, s)
	if f.inRequests {
		s.t.queued.Add(-1)
	}
	if f.inBytes {
		s.t.queuedBytes.Add(-f.bytes)
	}
	f.inRequests, f.inBytes = false, false
	s.stats.Queued--
}

// finish ends a flow that is in no queue any more. What its socket takes is remembered for the next response.
func (r *Ring) finish(f *flow, s *seat) {
	r.dispatched(f, s)
	if f.inInflight {
		s.t.inflight.Add(-1)
	}
	s.flows--
	*f = flow{seat: none, took: f.took}
}
