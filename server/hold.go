package server

import "math"

// A tenant that is refused over and over costs the others what its refusals cost: 6 to 20 us of the ring each with the kernel's part, least where many come in one
// turn; and every answer that says no brings the next request. So a refusal is told when there is time for it: after the answers of its turn, in the order in
// which the tenant's were refused, at refusalRate a second for one tenant on one ring and refusalRateAll for all of them, a few in a turn. Until then
// the connection waits, and with it whatever its client has sent behind the request: TCP's window holds the flood.
//
// Rejected: telling 20,000 a second at once and the others 100 ms later, which came back together, and resetting those for whom there was no room: a
// connection that is opened anew costs several times what a refusal does. With 2,048 connections that asked 100,000 times a second a neighbour that had waited
// 0.1 ms waited 15.
const (
	refusalRate    = 5_000  // a second, for one tenant on one ring: 3 to 10 % of a core
	refusalRateAll = 20_000 // for all tenants on one ring
	refusalBurst   = 16     // of either after a pause
	tellMost       = 4      // in one turn, and where the ring is idle it sleeps until so many may be told: what is due meanwhile waits for them
	holdMost       = 2 * refusalRate
	holdKeep       = 1024 // of one tenant on one ring; those beyond give their places to newcomers where connections run out
)

// pace is a bucket that holds refusalBurst and refills by one in each ns, as the time at which it is full (the virtual scheduling algorithm, ITU-T I.371).
type pace struct{ each, full int64 }

// when is the time in ns from which on n may be taken, refusalBurst at most.
func (p *pace) when(n int) int64 { return p.full - int64(refusalBurst-n)*p.each }

// take counts one at now.
func (p *pace) take(now int64) { p.full = max(p.full, now) + p.each }

// telling is what a ring knows of the refusals that it has to tell.
type telling struct {
	seats []*seat // that hold some, or did when they were last looked at; each once
	next  int     // of them, the one whose turn it is
	all   pace
	each  int64 // ns between two refusals of a tenant
	most  int   // refusals of a tenant that are held at a time
	keep  int   // of them, those that do not go when newcomers need room

	strangers seat // of those whose tenant is not known
}

func newTelling(each int64) telling {
	return telling{all: pace{each: 1e9 / refusalRateAll}, each: each, most: holdMost, keep: holdKeep, strangers: seat{refused: emptyFifo, telling: pace{each: each}}}
}

// hold lets a refusal wait until it is told, or ends its connection where too many of the seat's wait already.
func (l *loop) hold(c *conn, s *seat) {
	t := &l.telling
	l.putSlab(c)
	if s.refused.len >= t.most {
		l.reset(c, ClosedRefused)
		return
	}
	if n := s.refused.len + 1; n > refusalBurst || l.now.mono < s.telling.when(n) {
		l.stats.RefusalsHeld++
	}
	c.state, c.holder, c.heldSince = stateHeld, s, l.now.mono
	s.refused.push(l.conns, c)
	if !s.tells {
		s.tells = true
		t.seats = append(t.seats, s)
	}
}

// unhold takes a connection out of the queue in which it waits, if it does.
func (l *loop) unhold(c *conn) {
	if c.state == stateHeld {
		c.holder.refused.remove(l.conns, c)
		c.holder = nil
	}
}

// tellRefusals tells those whose turn it is, of one tenant after the other.
func (l *loop) tellRefusals() {
	t := &l.telling
	for told, idle := 0, 0; told < tellMost && idle < len(t.seats) && t.all.when(1) <= l.now.mono; {
		if t.next >= len(t.seats) {
			t.next = 0
		}
		s := t.seats[t.next]
		switch {
		case s.refused.len == 0:
			s.tells = false
			last := len(t.seats) - 1
			t.seats[t.next], t.seats[last] = t.seats[last], nil
			t.seats = t.seats[:last]
			continue
		case s.telling.when(1) > l.now.mono:
			idle++
		default:
			s.telling.take(l.now.mono)
			t.all.take(l.now.mono)
			l.tell(s)
			told, idle = told+1, 0
		}
		t.next++
	}
}

// tell answers the request that was refused first of those that the seat holds. What it is told to wait counts from then on.
func (l *loop) tell(s *seat) {
	c := &l.conns[s.refused.first]
	l.unhold(c)
	c.refusal.wait -= l.now.mono - c.heldSince
	l.startDrainWindow(c)
	switch {
	case !l.needSlab(c):
	case c.resp.refused:
		l.sayRefusal(c)
	default:
		l.deny(c, c.resp.fault)
	}
}

// tellWake is when the next of them are due.
func (l *loop) tellWake() int64 {
	t, wake := &l.telling, int64(math.MaxInt64)
	for _, s := range t.seats {
		n := min(s.refused.len, tellMost)
		wake = min(wake, max(s.telling.when(n), t.all.when(n)))
	}
	return wake
}

// endHeld resets some connections of a tenant of whose refusals more than telling.keep wait, those that came last: newcomers need their places.
func (l *loop) endHeld() (ended int) {
	for _, s := range l.telling.seats {
		for ; ended < l.shedMost && s.refused.len > l.telling.keep; ended++ {
			l.accepting.shedding++
			l.reset(&l.conns[s.refused.last], ClosedForRoom)
		}
	}
	return ended
}
