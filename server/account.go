package server

// finish ends a response whose last byte the socket has taken: what it was is
// counted, what it held is given back, and the connection goes on to its next
// request or ends. What the head said holds: a client that was not told of a drain
// may have sent its next request already.
func (l *loop) finish(c *conn) {
	l.stats.Requests[statusIndex[c.resp.status]]++
	l.stats.Duration.Observe(l.now.mono - c.resp.start)
	l.tally(c)
	l.logAccess(c)
	l.leave(c)
	last := c.resp.head.close
	l.dropResponse(c)
	c.resp, c.seat = response{}, nil
	if last {
		if c.reason == ClosedByPeer {
			c.reason = ClosedAfter
		}
		l.lingerOn(c, c.reason)
		return
	}
	c.state = stateReading
	l.awaitRequest(c, l.cfg.IdleTimeout)
	l.advance(c)
	l.resumeRecv(c)
}

// needSlab gets c a send slab, or lets it wait for one.
func (l *loop) needSlab(c *conn) bool {
	if l.takeSlab(c) {
		return true
	}
	c.state = stateStarved
	l.stats.Starved++
	l.starved.push(c.slot)
	return false
}

// takeSlab gets c a send slab if it has none.
func (l *loop) takeSlab(c *conn) bool {
	if c.slab != noSlab {
		return true
	}
	id, _, ok := l.slabs.Get()
	if ok {
		c.slab = id
	}
	return ok
}

func (l *loop) putSlab(c *conn) {
	if c.slab != noSlab {
		l.slabs.Put(c.slab)
		c.slab = noSlab
	}
}

// feedStarved lets those that waited for a send slab try again, the
// oldest first, as long as there are slabs.
func (l *loop) feedStarved() {
	for l.starved.len() > 0 && l.slabs.Held() < sendSlabs {
		c := &l.conns[l.starved.pop()]
		switch {
		case c.state != stateStarved:
		case c.resp.refused:
			l.takeSlab(c)
			l.sayRefusal(c)
		case c.resp.planned && !c.admitted:
			l.takeSlab(c)
			l.deny(c, c.resp.fault)
		case c.resp.planned:
			l.resume(c)
		default:
			c.state = stateReading
			c.in.tried = 0
			l.advance(c)
			l.resumeRecv(c)
		}
	}
	if l.starved.len() > 0 && l.now.mono >= l.relief {
		l.relief = l.now.mono + stalledAfter
		l.shedStalled()
	}
}

// stalledAfter is how long a SEND may hold a slab that others wait for, in ns.
const stalledAfter = 1e9

// shedStalled resets the clients that have not taken a small response for
// stalledAfter: only a full socket takes so long, and slow readers may not keep
// everybody else's slabs.
func (l *loop) shedStalled() {
	for i := range l.conns {
		c := &l.conns[i]
		if c.state == stateSending && l.now.mono-c.sending >= stalledAfter {
			l.reset(c, ClosedSlow)
		}
	}
}
