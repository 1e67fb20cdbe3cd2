package server

import (
	"github.com/talon-worker/talon/qos"
	"github.com/talon-worker/talon/sched"
)

// seat is a tenant on one ring. Only that ring's thread touches it.
type seat struct {
	account *account

	reads, egress meter
	flows         int   // its requests that are admitted and not over
	door          fifo  // of them, those that wait for read_iops, oldest first
	mean          int64 // moving average of the bytes that its responses have
	stowed        int   // of them, those that wait as bytes
	listed        bool  // in loop.waits

	refused fifo // its requests whose refusal is not told yet, oldest first
	telling pace // of telling them
	tells   bool // in loop.telling
	stats   tenantCounters
}

// meter is one limit of a tenant as a ring sees it.
type meter struct {
	which limit
	cell  *qos.Cell

	lost     bool    // the cell had no policy when it was last asked
	waits    bool    // the last charge was denied: something waits for the limit
	told     bool    // the cell has been told so
	denied   refusal // what those are told who have waited for it as long as they may
	deniedAt int64   // mono ns of the last denial
	again    int64   // mono ns at which asking again may help, while waits

	pass    uint64 // the reading of the clock under which charged was charged
	charged int64
}

// whyOf are the reasons of qos as refusals tell them.
var whyOf = [...]why{
	qos.Exhausted: whyExhausted, qos.StaleView: whyStaleView, qos.NoPolicy: whyUnknownPolicy, qos.TooLarge: whyTooLarge,
	qos.Banned: whyBanned, qos.BadCharge: whyTooLarge, qos.LimitsFull: whyLimitsFull,
}

// metricOf are the limits that have a cell in the ledger.
var metricOf = [numLimits]qos.Metric{limitReadIOPS: qos.ReadIOPS, limitEgress: qos.ClientEgressBytes}

// policy is the version in force, nil if none is known.
func (m *meter) policy() *qos.Policy {
	if m.cell == nil {
		return nil
	}
	return m.cell.View().Policy()
}

// burst is the most that the limit can ever hold, 0 where it stops nobody.
func (m *meter) burst() int64 {
	if p := m.policy(); p != nil && p.Limits() && p.Mode == qos.Enforce {
		return p.Burst
	}
	return 0
}

// lookUp finds the cell, again where the one that is known has no policy: it may be a stand-in, or one that the ledger has forgotten since.
func (l *loop) lookUp(s *seat, m *meter) {
	if m.cell != nil && !m.lost {
		return
	}
	cell := l.ledger.Cell(qos.Limit{Tenant: s.account.id, Metric: metricOf[m.which]})
	if m.told && cell != m.cell {
		l.await(m, 0, 0)
	}
	m.cell, m.lost = cell, false
}

// charge asks a limit of the seat's tenant for n units. Of anything but Go it notes what to tell the client, and when to ask again.
//
// What is charged under one reading of the clock is at most the policy's local burst divided by the rings, or the clock is read at the charge: else
// a ring that is stopped in mid-turn would spend from a view that has died meanwhile, on top of what the others then get.
func (l *loop) charge(s *seat, m *meter, n int64) qos.Decision {
	l.lookUp(s, m)
	if m.pass != l.reading {
		m.pass, m.charged = l.reading, 0
	}
	if p := m.policy(); p != nil && (m.charged+n)*int64(l.ledger.Rings()) > p.LocalBurst {
		l.readBoot()
		m.pass, m.charged = l.reading, 0
	}
	d := m.cell.Admit(n, l.now.boot)
	if d.Outcome == qos.Go {
		m.charged += n
		m.waits = false
		s.stats.went(m.which, d)
		if d.Charged() {
			l.noteAdmission(s, m, n)
		}
		return d
	}
	s.stats.Denied[m.which]++
	m.lost = d.Reason == qos.NoPolicy || d.Reason == qos.LimitsFull
	wait := max(d.Until-l.now.boot, leastPark)
	m.waits, m.deniedAt, m.again = d.Outcome == qos.Wait, l.now.mono, l.now.mono+wait
	m.denied = refusal{limit: m.which, why: whyOf[d.Reason], wait: wait}
	if p := m.policy(); p != nil {
		m.denied.quota, m.denied.generation = p.Rate, p.Generation
	}
	l.list(s)
	return d
}

// leastPark is the least time after which a limit is asked again that has just said no, in ns, unless there is news.
const leastPark = 100e3

// await tells the cell what waits for it on this ring: the next charge, and the sum of all.
func (l *loop) await(m *meter, need, waiting int64) {
	if m.told = need > 0; m.cell != nil {
		m.cell.Await(l.index, need, waiting)
	}
}

// responseCost is what is charged to client_egress_bytes for every response beside its body, so that floods of tiny objects pay.
const responseCost = sched.ResponseCost

// pay charges the next n bytes of a response's body to client_egress_bytes, and the fixed part before the first of them, for what is
// about to be submitted. If there is too little, the whole tenant sleeps on this ring and the response keeps its place, or it is
// refused; then pay returns false, and the scheduler knows.
func (l *loop) pay(c *conn, n int64) bool {
	if l.ledger == nil {
		return true
	}
	s, r := c.seat, &c.resp
	fixed := int64(0)
	if !r.opened {
		fixed = s.egress.fixed()
	}
	d := l.charge(s, &s.egress, n+fixed)
	if d.Outcome == qos.Go {
		if d.Charged() {
			r.paid, r.fixed = n, fixed
		}
		return true
	}
	switch {
	case d.Close:
		l.reset(c, ClosedBanned)
		return false
	case d.Outcome == qos.Refuse && !r.opened:
		s.egress.cell.Refuse(n + fixed)
		l.turnDown(c, s.egress.denied)
		return false
	}
	s.egress.waits = true // what has begun is never refused, only paced
	l.await(&s.egress, n+fixed, (n+fixed)*int64(s.flows))
	l.putSlab(c)
	c.filled, c.state = false, stateReady
	l.flows.Park(r.tenant.t.flow, s.egress.again)
	return false
}

// fixed is the fixed part of a response, less where the limit could not even hold that.
func (m *meter) fixed() int64 {
	if b := m.burst(); b > 0 {
		return min(responseCost, (b+1)/2)
	}
	return responseCost
}

// piece cuts n bytes to what the limit can hold at a time: a quarter of its burst, so that it is not always waited for the
// last unit of it, but at least 64 KiB, which a system call is worth, if it holds so much.
func (m *meter) piece(n int64) int64 {
	if b := m.burst(); b > 0 {
		return max(min(n, max(b/4, 64<<10), b-m.fixed()), 1)
	}
	return n
}

// settle ends the payment for a piece: sent bytes of the body were accepted by the socket, and what was charged beyond comes back, once. left says that
// some of the response has left, its head at least; then its fixed part is spent.
func (l *loop) settle(c *conn, sent int64, left bool) {
	r := &c.resp
	back := max(r.paid-sent, 0)
	if r.opened = r.opened || left; !r.opened {
		back += r.fixed
	}
	if c.seat != nil {
		c.seat.stats.Charged += uint64(r.paid + r.fixed - back)
		if back > 0 {
			c.seat.stats.Refunded += uint64(back)
			c.seat.egress.cell.Refund(back)
			l.noteAdmission(c.seat, &c.seat.egress, -back)
		}
	}
	r.paid, r.fixed = 0, 0
}

// uncount gives the request's read_iops back: it is refused after all.
func (l *loop) uncount(c *conn) {
	if c.resp.counted {
		c.resp.counted = false
		c.seat.stats.Uncounted++
		c.seat.reads.cell.Refund(1)
		l.noteAdmission(c.seat, &c.seat.reads, -1)
	}
}

// readBoot reads the clock of the ledger, within a turn.
func (l *loop) readBoot() {
	l.now.boot = l.clock().boot
	l.reading++
}
