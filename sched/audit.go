package sched

import "fmt"

// Audit checks everything that must hold of a ring between two calls. It looks at every slot and tenant: the simulator asks it, a loop does not.
func (r *Ring) Audit() error {
	count := make([]seat, len(r.seats))
	flying := int64(0)
	for i := range r.flows {
		f := &r.flows[i]
		if f.state == flowFree {
			if f.seat != none || f.held != 0 {
				return fmt.Errorf("slot %d is free and holds something", i)
			}
			continue
		}
		c := &count[f.seat]
		c.flows++
		switch f.state {
		case flowReady:
			c.ready++
			c.live++
			c.turn += f.want + turnCost
		case flowPicked:
			c.live++
		case flowFlying:
			if !f.last {
				c.live++
			}
		}
		if f.held != 0 && f.state != flowPicked && f.state != flowFlying {
			return fmt.Errorf("slot %d holds %d bytes in state %d", i, f.held, f.state)
		}
		c.flying += f.held
		flying += f.held
	}
	if flying != r.flying {
		return fmt.Errorf("%d bytes in flight, counted %d", flying, r.flying)
	}
	ready, waiting, filed := 0, 0, 0
	for i := range r.seats {
		s, c := &r.seats[i], &count[i]
		if s.flows != c.flows || s.ready != c.ready || s.live != c.live || s.flying != c.flying || s.turn != c.turn {
			return fmt.Errorf("tenant %d: flows %d ready %d live %d flying %d turn %d, counted %d %d %d %d %d",
				i, c.flows, c.ready, c.live, c.flying, c.turn, s.flows, s.ready, s.live, s.flying, s.turn)
		}
		if err := r.auditSeat(s); err != nil {
			return fmt.Errorf("tenant %d: %w", i, err)
		}
		switch s.state {
		case seatReady:
			ready++
		case seatWaiting:
			waiting++
		}
		if r.wheel.has(s.id) {
			filed++
		}
	}
	if ready != r.heap.len() || waiting != len(r.waiting) || filed != r.wheel.count {
		return fmt.Errorf("%d ready, %d waiting, %d in the wheel; counted %d, %d, %d", ready, waiting, filed, r.heap.len(), len(r.waiting), r.wheel.count)
	}
	for i := 1; i < r.heap.len(); i++ {
		if r.heap.e[i].key-r.heap.e[(i-1)/4].key < 0 {
			return fmt.Errorf("heap out of order at %d", i)
		}
	}
	return nil
}

func (r *Ring) auditSeat(s *seat) error {
	inHeap, inWheel := r.heap.has(s.id), r.wheel.has(s.id)
	fits := false
	switch s.state {
	case seatIdle:
		fits = s.ready == 0 && !inHeap && !inWheel
	case seatReady:
		fits = s.ready > 0 && inHeap && !inWheel && int(r.heap.pos[s.id]) < r.heap.len() && r.heap.e[r.heap.pos[s.id]].seat == s.id
	case seatWaiting:
		fits = s.ready > 0 && !inHeap && inWheel && r.waiting[s.place] == s.id
	case seatParked:
		fits = s.ready > 0 && !inHeap && inWheel != s.late
	}
	if !fits {
		return fmt.Errorf("state %d with %d ready flows, in the heap %v, in the wheel %v, late %v", s.state, s.ready, inHeap, inWheel, s.late)
	}
	if s.t != nil && s.active != (s.live > 0 && s.state != seatParked) {
		return fmt.Errorf("active %v with %d live flows in state %d", s.active, s.live, s.state)
	}
	for slot := s.first; s.t != nil && slot != none; slot = r.flows[slot].after {
		if f := &r.flows[slot]; !f.fresh || !f.listed || f.seat != s.id || f.state != flowReady && f.state != flowPicked {
			return fmt.Errorf("slot %d is out of place among the fresh", slot)
		}
	}
	queued, prev := int32(0), int32(none)
	for slot := s.head; s.t != nil && slot != none; slot = r.flows[slot].next {
		if f := &r.flows[slot]; f.state != flowReady || f.seat != s.id || f.prev != prev {
			return fmt.Errorf("slot %d is out of place among the ready", slot)
		}
		queued, prev = queued+1, slot
	}
	if queued != s.ready {
		return fmt.Errorf("%d flows in the queue, %d are ready", queued, s.ready)
	}
	return nil
}

// Audit checks what must hold of a worker while no ring is in the middle of a call; rings are all of them.
func (w *Worker) Audit(rings []*Ring) error {
	held, used := int64(0), int64(0)
	live := map[*Tenant]int64{}
	for i, r := range rings {
		if err := r.Audit(); err != nil {
			return fmt.Errorf("ring %d: %w", i, err)
		}
		for j := range r.flows {
			if r.flows[j].pooled {
				held += r.flows[j].held
			}
		}
		used += r.used
		for j := range r.seats {
			if s := &r.seats[j]; s.t != nil {
				live[s.t] += 0
				if s.counted {
					live[s.t]++
				}
			}
		}
	}
	claims := int64(0)
	for _, r := range rings {
		if r.claim != 0 {
			claims++
		}
		if r.beacon.claim.Load() != r.claim {
			return fmt.Errorf("a ring waits for %d bytes, others see %d", r.claim, r.beacon.claim.Load())
		}
	}
	if n := w.bucket.claims.Load(); n != claims {
		return fmt.Errorf("%d rings wait for the bucket, counted %d", claims, n)
	}
	if pending := w.bucket.pending.Load(); pending != held {
		return fmt.Errorf("%d bytes reserved in the bucket, flows hold %d", pending, held)
	}
	for t, n := range live { // any order: which error comes first does not matter
		if t.live.Load() != n {
			return fmt.Errorf("tenant %d: %d live seats, counted %d", t.id, n, t.live.Load())
		}
	}
	for _, t := range w.active {
		if !t.member.Load() {
			return fmt.Errorf("tenant %d is active and no member", t.id)
		}
	}
	return nil
}

// Standing is how a tenant stands where a rate binds, for the simulator.
type Standing struct {
	Ready    bool    // on this ring, and not waiting for V or for its limit
	VT       float64 // its virtual time, in bytes/weight, as what follows
	Floor    float64 // what a charge that came now would lift it to, if it was behind that
	Forgiven float64 // what it has been lifted by in all: it was behind, and will not be given that
}

// Standing returns how a tenant stands, seen from this ring.
func (r *Ring) Standing(t *Tenant) (st Standing) {
	const unit = 1 << unitBits
	st.VT, st.Forgiven = float64(t.vt.Load())/unit, float64(t.lifted.Load())/unit
	if st.Floor = st.VT; r.plan.mode == paced && t.frame.Load() == r.plan.frame {
		st.Floor = float64(r.served()-t.cfg.Load().lag) / unit
	}
	st.Ready = int(t.id) < len(r.seats) && r.seats[t.id].state == seatReady
	return st
}
