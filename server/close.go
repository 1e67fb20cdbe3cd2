package server

import (
	"golang.org/x/sys/unix"
)

// linger ends an answered connection the polite way: our FIN goes out behind the
// last byte, and what the client still sends is discarded until its FIN. Closing
// at once would answer unread input with a reset, which destroys the response on
// its way (RFC 9112 §9.6).
func (l *loop) lingerOn(c *conn, why CloseReason) {
	c.reason = why
	if c.peerEOF {
		l.close(c, why)
		return
	}
	if unix.Shutdown(c.fd, unix.SHUT_WR) != nil {
		l.close(c, ClosedReset)
		return
	}
	c.state = stateLingering
	l.waiting.clear(c.slot)
	c.linger = 0
	l.ins.free(&c.in)
	l.dead.set(c.slot, l.now.mono+lingerTime)
	l.resumeRecv(c)
}

// close ends a connection now: the socket is shut down, which completes most of
// what the kernel holds for it, the rest is cancelled, and the slot is free when
// all has come back.
func (l *loop) close(c *conn, why CloseReason) {
	if c.state == stateClosing || c.state == stateFree {
		return
	}
	l.leave(c)
	l.unhold(c)
	c.state, c.reason = stateClosing, why
	l.waiting.clear(c.slot)
	l.dead.set(c.slot, 0)
	l.ins.free(&c.in)
	if c.opening != nil {
		c.opening.abandon()
		c.opening = nil
	}
	if c.pend != 0 {
		_ = unix.Shutdown(c.fd, unix.SHUT_RDWR) // ENOTCONN: the client was faster
		l.cancelAll(c)
	}
	l.tryFree(c)
}

// cancelAll cancels what the kernel holds for the socket, each by its name: a
// cancellation by descriptor looks at every request in flight, those of 16,384 idle
// connections, too.
func (l *loop) cancelAll(c *conn) {
	for _, by := range [...]struct{ what, cancel op }{{opRecv, opCancel}, {opSend, opCancelSend}, {opPoll, opCancelPoll}} {
		if c.pend.has(by.what) {
			l.arm(c, by.cancel)
		}
	}
}

// reset is close for a client that does not read: a RST frees what the kernel
// has queued for it at once, where a FIN would wait behind it.
func (l *loop) reset(c *conn, why CloseReason) {
	_ = unix.SetsockoptLinger(c.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	l.close(c, why)
}

// tryFree gives a closing connection's slot back once no completion is
// outstanding.
func (l *loop) tryFree(c *conn) {
	if c.pend != 0 || c.cancels != 0 {
		return
	}
	unix.Close(c.fd)
	l.accepting.restUntil = 0 // whoever rests for want of a descriptor has one now
	l.dropResponse(c)
	c.disown()
	l.budget.Add(1)
	l.stats.Open--
	l.stats.Closed[c.reason]++
	if c.reason == ClosedForRoom {
		l.accepting.shedding--
	}
	*c = conn{slot: c.slot, gen: c.gen + 1, fd: -1, slab: noSlab, raw: noSlab, in: input{slab: noSlab}}
	l.free = append(l.free, c.slot)
}

// dropResponse gives back what the response in progress holds.
func (l *loop) dropResponse(c *conn) {
	switch {
	case c.file == nil:
	case c.pend.has(opPrefetch) && c.ahead.file == c.file && !c.ahead.orphan:
		c.ahead.orphan = true
	default:
		l.releaseFile(c.file)
	}
	c.file = nil
	l.putSlab(c)
	c.openErr = nil
}

// expire acts on a deadline that has passed, by what the connection was doing.
func (l *loop) expire(slot uint32) {
	c := &l.conns[slot]
	switch c.state {
	case stateReading:
		if c.heading {
			l.refuseLate(c)
		} else {
			l.endIdle(c)
		}
	case stateSending, stateBlocked:
		l.judgeDrain(c)
	case stateQueued, stateHeld, stateOpening, stateStarved, stateFilling, stateVerifying, stateReady, stateParked:
		l.startDrainWindow(c) // we are slow, not the client
	case stateLingering:
		l.close(c, c.reason)
	}
}

// startDrainWindow begins a period over which the client's reading is judged. It
// begins anew whenever the response has waited for us.
func (l *loop) startDrainWindow(c *conn) {
	c.taken = unknown
	l.dead.set(c.slot, l.now.mono+int64(DrainWindow))
}

// judgeDrain resets a client that has taken too little in a window. What counts is
// what it has acknowledged: room in the socket comes in steps of a third of its
// buffer, for which a client well over the minimum may need longer than a window.
// The first window of a response only finds out where it stands, so that a request
// costs no system call for this.
func (l *loop) judgeDrain(c *conn) {
	if l.cfg.MinDrainRate == 0 {
		return
	}
	least := int64(l.cfg.MinDrainRate) * int64(DrainWindow/1e9)
	taken := c.sent() - unacknowledged(c.fd)
	if c.taken != unknown && taken-c.taken < least {
		l.reset(c, ClosedSlow)
		return
	}
	l.startDrainWindow(c)
	c.taken = taken
}

// unacknowledged is how many bytes the socket holds that the client does not have
// yet (tcp(7), SIOCOUTQ).
func unacknowledged(fd int) int64 {
	n, _ := unix.IoctlGetInt(fd, unix.SIOCOUTQ) // it fails only for what is no stream socket
	return int64(n)
}
