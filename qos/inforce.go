package qos

import "math"

// Verdict is what became of a snapshot that reached a worker.
type Verdict uint8

const (
	// InForce: a new view is in force; whatever waits for the limit should ask again.
	InForce Verdict = iota + 1
	// Taken: its acknowledgement was taken, but no view is in force: it is too old, of another generation, or empty while the owner
	// has enough.
	Taken
	// Older: not newer than what has been seen.
	Older
	// Foreign: for another worker, incarnation or ring, or a limit that is not known.
	Foreign
	// Bad: it contradicts what this worker has reported.
	Bad
)

// Apply takes in a snapshot. It must have come from the worker that the ring of snapshot's epoch makes the owner; that is the
// connection's to check.
func (r *Reporter) Apply(s *RateSnapshot, now int64) Verdict {
	c := r.ledger.known(s.Key.Limit())
	switch {
	case c == nil || s.To != (ReporterID{Worker: r.self, Epoch: r.epoch, Cell: c.id}) || s.RingEpoch != r.ledger.ring:
		r.Stats.Dropped++
		return Foreign
	case !r.plausible(c, s, now):
		r.Stats.Bad++
		return Bad
	case s.Mark.Compare(c.rep.seen) <= 0:
		r.Stats.Dropped++
		return Older
	}
	r.acknowledge(c, s, now)
	v := r.viewOf(c, s, now)
	r.ledger.publish(c, v)
	r.reschedule(c, v, now)
	if v.expires == never {
		return Taken
	}
	r.Stats.Snapshots++
	return InForce
}

// plausible reports whether a snapshot can be an answer to what was reported.
func (r *Reporter) plausible(c *Cell, s *RateSnapshot, now int64) bool {
	a, sent := s.Acknowledged, c.rep.sent
	return a.Refunded >= 0 && a.Refunded <= a.Charged && a.Charged <= sent.Charged && a.Refunded <= sent.Refunded &&
		s.Remaining >= 0 && s.Remaining <= 2*MaxBurst && s.Stamp <= min(c.rep.sentAt, now) && s.BanLeft >= 0 && s.Turn >= 0
}

// acknowledge takes what the snapshot says about reports.
func (r *Reporter) acknowledge(c *Cell, s *RateSnapshot, now int64) {
	rep := &c.rep
	if s.AckSequence >= rep.sequence && rep.sentMore.dead.Compare(rep.told) > 0 {
		rep.told = rep.sentMore.dead
	}
	if s.Remaining > 0 || rep.missed && !s.Queued { // that there is nothing in this one does not say that nothing is kept for one that never came
		rep.held, rep.missed = s.Mark, false
	}
	rep.missed = rep.missed || s.Queued
	rep.seen, rep.queued = s.Mark, s.Queued
	rep.acked.Charged = max(rep.acked.Charged, s.Acknowledged.Charged)
	rep.acked.Refunded = max(rep.acked.Refunded, s.Acknowledged.Refunded)
	if rep.open && s.AckSequence >= rep.sequence {
		rep.open = false
		if rep.tries == 1 { // which of several sendings was answered cannot be known
			rep.trip += (max(now-rep.sentAt, 0) - rep.trip) / 8
		}
	}
}

// viewOf turns a snapshot into the next view. Freshness counts from when the report that it acknowledges was sent, on this machine's
// clock: counted from arrival, a snapshot that was stuck in a socket for a second would look new.
func (r *Reporter) viewOf(c *Cell, s *RateSnapshot, now int64) *View {
	rep, v := &c.rep, new(View)
	*v = *c.view.Load()
	v.mark = s.Mark
	v.ceiling, v.acked = s.Ceiling(), s.Acknowledged.Used()
	v.expires = s.Stamp + int64(r.cfg.TTL)
	rep.late, rep.calm = now >= v.expires, r.calm(c, s)
	if rep.late {
		r.Stats.Late++
		v.expires = never
	}
	// A view with nothing in it is put in force only where there is nothing to be had: it would bar the worker from its allowance.
	if empty := s.Remaining == 0 && !s.Exhausted && !s.Queued; empty || rep.policy == nil || s.Key.Generation != rep.policy.Generation || r.flush {
		v.expires = never
	}
	r.ledger.allow(c, v)
	v.early = math.MaxInt64
	if v.expires != never {
		// A quarter of what there is, or the threshold, whichever is later; but no later than when all of it is used: a worker that gets less than
		// the threshold would else report once per interval, while those who get more report at once and take what is free.
		part := s.Remaining / 4
		if rep.calm > 0 {
			part *= 3
		}
		v.early = v.acked + max(min(max(part, r.cfg.threshold(c.limit.Metric)), s.Remaining), 1)
	}
	v.pause = max(2*rep.trip, int64(r.cfg.SyncMin)/4)
	v.turn, v.exhausted, v.soft = 0, s.Exhausted, s.Soft
	if s.Turn > 0 {
		v.turn = now + min(s.Turn, int64(r.cfg.Lease))
	}
	v.barred = never
	switch {
	case s.Queued: // until it would have asked again and been answered
		v.barred = s.Stamp + int64(r.cfg.Lease)/2 + int64(r.cfg.TTL)
	case s.Exhausted: // as long as the owner says, and while the word is news
		v.barred = now + min(max(s.Turn, int64(r.cfg.TTL)), int64(r.cfg.Lease))
	}
	v.banned = 0
	if s.BanLeft > 0 {
		v.banned = now + min(s.BanLeft, math.MaxInt64-max(now, 0))
	}
	return v
}

// reschedule sets when a cell that has got a snapshot reports next: at its interval, or at once if what it needs is not in it and the owner
// keeps no place for it, or if it was its turn and the push came too late to use: it asks again, or gives back what nothing waits for any more.
func (r *Reporter) reschedule(c *Cell, v *View, now int64) {
	rep := &c.rep
	if rep.index < 0 {
		c.note.CompareAndSwap(quiet, active)
		rep.due = max(v.expires, now)
		r.due.push(c)
		return
	}
	if !rep.open && rep.due == rep.retryAt {
		rep.due = max(rep.nextAt, now)
	}
	need, _ := c.waiting()
	switch {
	case rep.queued || need == 0 && !(rep.late && rep.holds()):
	case (v.expires == never || c.used.Load()+need > v.ceiling) && !rep.open:
		rep.due = min(rep.due, max(now, rep.sentAt+int64(r.cfg.SyncMin)))
	}
	if v.expires != never {
		rep.due = min(rep.due, v.expires)
	}
	r.due.fix(c)
}

// Redirected takes in that a report was not taken. The totals stay, and go again after a while, to whoever is the owner by then.
func (r *Reporter) Redirected(d *Redirect, now int64) {
	c := r.ledger.known(d.Key.Limit())
	if c == nil || c.rep.index < 0 || d.To != (ReporterID{Worker: r.self, Epoch: r.epoch, Cell: c.id}) || d.Sequence != c.rep.sequence {
		return
	}
	r.Stats.Redirects++
	if c.rep.policy == nil && d.Reason == UnknownPolicy { // a limit that is gone has no owner to tell
		c.rep.acked, c.rep.told, c.rep.open = c.rep.sent, c.rep.seen, false
		return
	}
	c.rep.open, c.rep.queued = true, false // still to be told
	wait := int64(r.cfg.SyncMax)
	if d.Reason == OldEpoch {
		r.fenced, wait = true, int64(r.cfg.Lease)
	}
	c.rep.retryAt = now + r.jitter(wait)
	c.rep.due = c.rep.retryAt
	r.due.fix(c)
}
