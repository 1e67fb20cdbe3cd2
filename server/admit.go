package server

import (
	"math"

	"github.com/talon-worker/talon/qos"
	"github.com/talon-worker/talon/sched"
)

// Admission stands between who a request is from and any work for it:
//
//	MaxConnections -> MaxInflight, queue bounds, predicted wait -> read_iops
//
// What must wait for read_iops stands at the door of its tenant, in the order of arrival; what must wait for
// client_egress_bytes, or for the worker, waits with the scheduler. Either way the request waits as the bytes that came: nothing is opened
// for it, or a few tenants that wait would hold all descriptors.
//
// admit returns whether to go on with the request now; if not it waits, or has been answered. head is the request's own bytes, valid during the call.
func (l *loop) admit(c *conn, t *tenant, head []byte) bool {
	if c.owner != t.account && !l.claim(c, t) {
		return false
	}
	s := l.seatOf(t.account)
	if v := l.flows.Admit(t.flow, c.slot, s.mean, l.now.mono); v.Reason != sched.Go {
		l.turnDown(c, l.refusalBy(s, t, v.Reason, v.Wait, l.now.mono))
		return false
	}
	c.seat, c.admitted, c.flow = s, true, true
	s.flows++
	s.stats.Admitted++
	if l.ledger == nil {
		return true
	}
	if s.door.len > 0 {
		l.waitAtDoor(c, head)
		return false
	}
	switch d := l.charge(s, &s.reads, 1); {
	case d.Outcome == qos.Wait:
		l.waitAtDoor(c, head)
		return false
	case d.Outcome == qos.Refuse:
		l.shutOut(c, d)
		return false
	default:
		c.resp.counted = d.Charged()
	}
	if !s.egress.waits && l.unsent < l.cfg.OpenFiles/2 {
		return true
	}
	if l.stow(c, head) {
		l.push(c, s.guess(l.cfg))
	}
	return false
}

// claim makes the connection one of the tenant's, unless it has as many as it may.
func (l *loop) claim(c *conn, t *tenant) bool {
	if n := t.connections.Add(1); t.MaxConnections > 0 && n > int64(t.MaxConnections) {
		t.connections.Add(-1)
		c.resp.head.close = true
		l.turnDown(c, refusal{limit: limitConnections, why: whyFull, generation: t.Generation})
		return false
	}
	c.disown()
	c.owner = t.account
	return true
}

// disown ends that the connection counts as somebody's.
func (c *conn) disown() {
	if c.owner != nil {
		c.owner.connections.Add(-1)
		c.owner = nil
	}
}

// seatOf is the tenant's seat on this ring. It is made when the tenant is first seen here.
func (l *loop) seatOf(a *account) *seat {
	s := a.seats[l.index]
	if s == nil {
		s = &seat{account: a, door: emptyFifo, refused: emptyFifo, telling: pace{each: l.telling.each}, reads: meter{which: limitReadIOPS}, egress: meter{which: limitEgress}}
		a.seats[l.index] = s
	}
	return s
}

// guess is what to tell the scheduler of a response whose object is not open yet.
func (s *seat) guess(cfg *Config) int64 {
	if s.mean > int64(cfg.CopyBelow) {
		return int64(cfg.TransferChunk)
	}
	return max(int64(cfg.CopyBelow), 4<<10) // all that a small one may have
}

// stow keeps the bytes of a request that has to wait unopened. If there is no room it is refused: a tenant may have as much of the memory as is
// left, so that those who wait first leave something for others.
func (l *loop) stow(c *conn, head []byte) bool {
	s := c.seat
	if len(head) <= rawSize && s.stowed < rawSlabs-l.raws.Held() {
		if id, p, ok := l.raws.Get(); ok {
			c.raw, c.rawLen = id, copy(p, head)
			s.stowed++
			return true
		}
	}
	l.turnDown(c, refusal{limit: limitWorker, why: whyMemory})
	return false
}

func (l *loop) unstow(c *conn) {
	if c.raw != noSlab {
		l.raws.Put(c.raw)
		c.raw = noSlab
		c.seat.stowed--
	}
}

func (l *loop) waitAtDoor(c *conn, head []byte) {
	if l.stow(c, head) {
		c.state = stateQueued
		c.seat.door.push(l.conns, c)
		l.list(c.seat)
	}
}

// shutOut refuses a request for which there is no read_iops and will not be soon.
func (l *loop) shutOut(c *conn, d qos.Decision) {
	if d.Close {
		l.reset(c, ClosedBanned)
		return
	}
	c.seat.reads.cell.Refuse(1)
	l.turnDown(c, c.seat.reads.denied)
}

// list notes that something of the seat waits for a limit.
func (l *loop) list(s *seat) {
	l.lookAt = 0
	if !s.listed {
		s.listed = true
		l.waits = append(l.waits, s)
		l.anyWaits.Store(true)
	}
}

// openDoors lets in those who waited for read_iops and may have it, and refuses those who have waited too long. It looks when one of both may be,
// or when there is news.
func (l *loop) openDoors() {
	if l.now.mono < l.lookAt {
		return
	}
	l.lookAt = math.MaxInt64
	for _, s := range l.waits {
		for s.door.len > 0 && l.openDoor(s) {
		}
		if s.door.len > 0 {
			l.lookAt = min(l.lookAt, s.reads.again, l.conns[s.door.first].lateAt())
		}
	}
}

// lateAt is when the request will have waited as long as it may, in mono ns.
func (c *conn) lateAt() int64 { return c.resp.start + int64(c.resp.tenant.t.QueueDeadline) + 1 }

// openDoor deals with the first of those who wait, or returns false: it has to wait on.
func (l *loop) openDoor(s *seat) bool {
	c := &l.conns[s.door.first]
	if l.now.mono >= c.lateAt() {
		s.reads.cell.Refuse(1)
		l.turnDown(c, l.refusalBy(s, c.resp.tenant.t, sched.Expired, 0, c.resp.start))
		return true
	}
	if l.now.mono < s.reads.again && !l.nudged {
		return false
	}
	d := l.charge(s, &s.reads, 1)
	switch d.Outcome {
	case qos.Go:
		s.door.remove(l.conns, c)
		c.resp.counted = d.Charged()
		l.push(c, s.guess(l.cfg))
	case qos.Refuse:
		l.shutOut(c, d)
	default:
		return false
	}
	return true
}

// tellWaits tells the ledger's cells, at the end of a turn, what waits for them now.
func (l *loop) tellWaits() {
	l.nudged = false
	kept := l.waits[:0]
	for _, s := range l.waits {
		switch {
		case s.door.len > 0:
			l.await(&s.reads, 1, int64(s.door.len))
		case s.reads.told:
			l.await(&s.reads, 0, 0)
		}
		if s.egress.waits = s.egress.waits && s.flows > 0; s.egress.told && !s.egress.waits {
			l.await(&s.egress, 0, 0)
		}
		if s.listed = s.door.len > 0 || s.egress.waits; s.listed {
			kept = append(kept, s)
		}
	}
	clear(l.waits[len(kept):])
	if l.waits = kept; len(kept) == 0 && l.anyWaits.Load() {
		l.anyWaits.Store(false)
	}
}

// nudge makes the loop ask the limits again for which something waits. Any goroutine may call it.
func (l *loop) nudge() {
	if l.anyWaits.Load() && l.nudging.CompareAndSwap(false, true) {
		l.mail.post(&l.news)
	}
}

// hearNews is nudge's errand.
func (l *loop) hearNews() {
	l.nudging.Store(false)
	l.nudged, l.lookAt = true, 0
	for _, s := range l.waits {
		if s.egress.waits {
			l.flows.WakeTenant(s.account.flow, l.now.mono)
		}
	}
}

// Nudge says that views of the ledger have changed: requests that wait for their tenant's limits are looked at again. Any goroutine may call it.
func (s *Server) Nudge() {
	for _, l := range s.loops {
		l.nudge()
	}
}

// refusalBy is what a request is told that the scheduler, or its deadline, has refused. since is when it began to wait, in mono ns.
func (l *loop) refusalBy(s *seat, t *tenant, reason sched.Reason, wait, since int64) refusal {
	r := refusal{limit: limitWorker, generation: t.Generation, wait: wait}
	switch reason {
	case sched.QueueRequests:
		r.limit, r.why, r.quota = limitQueueRequests, whyFull, int64(t.QueueRequests)
	case sched.QueueBytes:
		r.limit, r.why, r.quota = limitQueueBytes, whyFull, t.QueueBytes
	case sched.Inflight:
		r.limit, r.why, r.quota = limitInflight, whyFull, int64(t.MaxInflight)
	case sched.Shed:
		r.why = whyShed
	case sched.PredictedWait:
		r.why = whyPredicted
		s.blame(&r, l.now.mono)
	default:
		r.why = whyDeadline
		s.blame(&r, since)
	}
	r.wait = max(r.wait, s.backlog(t))
	return r
}

// blame names the limit of the tenant's that has been in the way since a time, if any: of two the one that lasts longer.
func (s *seat) blame(r *refusal, since int64) {
	wait := int64(-1)
	for _, m := range [...]*meter{&s.reads, &s.egress} {
		if (m.waits || m.deniedAt >= since && m.deniedAt > 0) && m.denied.wait > wait {
			wait = m.denied.wait
			*r = m.denied
		}
	}
}

// backlog is how long the tenant's limits need for what waits in this worker, in ns, the longer of both.
func (s *seat) backlog(t *tenant) (wait int64) {
	requests, bytes := t.flow.Queued()
	if p := s.reads.policy(); p != nil && p.Limits() && s.reads.waits {
		wait = max(wait, int64(float64(requests)/float64(p.Rate)*1e9))
	}
	if p := s.egress.policy(); p != nil && p.Limits() && s.egress.waits {
		wait = max(wait, int64(float64(bytes)/float64(p.Rate)*1e9))
	}
	return wait
}

// turnDown answers a request with a refusal, whatever it has been through; nothing that was charged for it stays charged.
func (l *loop) turnDown(c *conn, r refusal) {
	t := c.resp.tenant.t
	s := l.seatOf(t.account)
	s.stats.Refused[r.limit][r.why]++
	l.uncount(c)
	l.leave(c)
	if c.file != nil {
		l.releaseFile(c.file)
		c.file = nil
	}
	c.refusal, c.refusal.dialect = r, t.Dialect
	c.resp.refused, c.resp.planned, c.resp.bodyLen, c.resp.off, c.resp.end = true, true, 0, 0, 0
	l.hold(c, s)
}

func (l *loop) sayRefusal(c *conn) {
	p := l.slabs.Bytes(c.slab)
	out := appendRefusal(p[:0], l.stamp(c), c.resp.tenant.ID(), &c.refusal, c.resp.method)
	c.resp.status = c.refusal.status()
	l.sendSlab(c, len(out))
}

// leave ends a request's part in admission and scheduling, wherever it is: at the door, with the scheduler, or being opened. What of it is with
// the ring is settled when that is done.
func (l *loop) leave(c *conn) {
	if !c.admitted {
		return
	}
	c.admitted = false
	c.seat.flows--
	if c.state == stateQueued {
		c.seat.door.remove(l.conns, c)
	}
	l.unstow(c)
	l.begun(c)
	if c.flow {
		c.flow = false
		l.flows.Drop(c.slot, l.now.mono)
	}
}

// Fixed sizes of the memory in which requests wait as bytes.
const (
	rawSlabs = 2048    // requests of one ring that wait for their tenant's limits
	rawSize  = 4 << 10 // bytes of one; hardly a head is longer
)

// noSlot is no connection's slot.
const noSlot = ^uint32(0)

// fifo is a queue of connections in the order of their arrival, linked through conn.door, from which any can be taken out.
type fifo struct {
	first, last uint32
	len         int
}

type link struct{ prev, next uint32 }

var emptyFifo = fifo{first: noSlot, last: noSlot}

func (q *fifo) push(conns []conn, c *conn) {
	c.door = link{prev: q.last, next: noSlot}
	if q.last == noSlot {
		q.first = c.slot
	} else {
		conns[q.last].door.next = c.slot
	}
	q.last = c.slot
	q.len++
}

// remove takes out a connection that is in it.
func (q *fifo) remove(conns []conn, c *conn) {
	if c.door.prev == noSlot {
		q.first = c.door.next
	} else {
		conns[c.door.prev].door.next = c.door.next
	}
	if c.door.next == noSlot {
		q.last = c.door.prev
	} else {
		conns[c.door.next].door.prev = c.door.prev
	}
	c.door = link{}
	q.len--
}
