package server

import (
	"github.com/talon-worker/talon/sched"
)

// push hands an admitted response to the scheduler; it expects to send want bytes first.
func (l *loop) push(c *conn, want int64) {
	if c.resp.planned && c.file != nil {
		c.unsent = true
		l.unsent++
	}
	c.state = stateReady
	l.flows.Push(c.slot, want, l.now.mono)
	l.more = true
}

// begun notes that a response does not wait with an open file any more: it is under way, or gone.
func (l *loop) begun(c *conn) {
	if c.unsent {
		c.unsent = false
		l.unsent--
	}
}

// firstTurn notes that a response has had its first turn: it is charged, and about to be submitted.
func (l *loop) firstTurn(c *conn) {
	l.begun(c)
	if c.resp.started {
		return
	}
	c.resp.started = true
	c.seat.stats.Wait.Observe(c.resp.queued)
	if c.resp.queued > 0 {
		c.seat.stats.Waited++
	}
}

// resume lets a response that has waited for disk, slab or socket stand in line again.
func (l *loop) resume(c *conn) {
	c.state = stateReady
	l.flows.Unblock(c.slot, l.now.mono)
	l.more = true
}

// sendChunks lets the responses whose turn it is send one piece each, until nobody's is or the budget of the loop's turn is spent. The
// budget is what a request may have to wait for while others are served.
func (l *loop) sendChunks() {
	l.more = false
	for budget := turnChunks * int64(l.cfg.TransferChunk); budget > 0; {
		p, ok := l.flows.Next(l.now.mono)
		if !ok {
			return
		}
		budget -= l.dispatch(&l.conns[p.Slot], &p)
	}
	l.more = true
}

// dispatch lets a response send its next piece, of at most p.Bytes, and returns how many bytes of the budget that cost. Every
// path tells the scheduler what became of it: Charge and Done, Block, Park, or Drop.
func (l *loop) dispatch(c *conn, p *sched.Pick) int64 {
	if p.Refuse != sched.Go {
		c.flow = false
		l.turnDown(c, l.refusalBy(c.seat, c.resp.tenant.t, p.Refuse, 0, c.resp.start))
		return 0
	}
	if p.First {
		c.resp.queued = p.Wait
	}
	if c.raw != noSlab && !l.unwrap(c) {
		return 0
	}
	n := c.resp.end - c.resp.off
	if c.resp.headOut || n > int64(l.cfg.CopyBelow) || n > c.seat.egress.piece(n) {
		return l.sendChunk(c, p.Bytes)
	}
	if !l.needSlab(c) {
		l.flows.Block(c.slot)
		return 0
	}
	return l.sendSmall(c, n)
}

// unwrap reads a request again that has waited as bytes, and plans its response. It returns false if that has to wait for the opener, or if the
// request has been answered already: whoever has lost its rights meanwhile is refused.
func (l *loop) unwrap(c *conn) bool {
	r := &l.req
	consumeRequest(l.raws.Bytes(c.raw)[:c.rawLen], r) // whole and right, as it was
	if !l.serve(c, r, nil) {
		l.flows.Block(c.slot)
		return false
	}
	if c.admitted {
		l.unstow(c)
	}
	return c.admitted
}

// sendSmall charges and sends a response that goes out in one piece, n bytes of body.
func (l *loop) sendSmall(c *conn, n int64) int64 {
	if !l.pay(c, n) {
		return 0
	}
	l.flows.Charge(c.slot, n, l.now.mono)
	c.flying, c.payload = true, n
	l.firstTurn(c)
	switch {
	case c.resp.fault != faultNone:
		l.deny(c, c.resp.fault)
	case n == 0:
		l.sendHead(c)
	default:
		l.sendCopy(c)
	}
	return n
}

// land says what has become of a piece that was handed to the ring: the socket took so many bytes of the body, and the response is over. left
// says that some of it has left, its head at least.
func (l *loop) land(c *conn, sent int64, left bool) {
	if c.flying {
		c.flying, c.flow = false, false
		l.flows.Done(c.slot, sent, 0, l.now.mono)
	}
	l.settle(c, sent, left)
}

// ground takes back a piece that was not handed to the ring after all: the response waits for something, and will ask again for n bytes.
func (l *loop) ground(c *conn, n int64) {
	c.flying = false
	l.flows.Block(c.slot)
	l.flows.Done(c.slot, 0, n, l.now.mono)
	l.settle(c, 0, false)
}

// noteStalled takes SENDs that are not done a turn after they were handed over off the scheduler's hands: their sockets are full, and what is in flight
// bounds what the ring does for others. To the scheduler such a response has been sent; the tenant's limit gets back what never is.
func (l *loop) noteStalled() {
	for _, slot := range l.handed {
		if c := &l.conns[slot]; c.flying && c.state == stateSending {
			c.flying = false
			l.flows.Block(slot)
			l.flows.Done(slot, c.payload, 1, l.now.mono)
		}
	}
	l.handed = l.handed[:0]
}
