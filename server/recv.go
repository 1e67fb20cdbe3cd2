package server

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/uring"
)

// lingerMax is how many bytes are discarded after our FIN before the client is
// cut off; lingerTime is how long it may take, in ns.
const (
	lingerMax  = 256 << 10
	lingerTime = 2e9
)

// received takes what a multishot receive brought. It dies silently whenever
// MORE is missing: received arms it again, or leaves that to resumeRecv.
func (l *loop) received(c *conn, cq uring.Completion) {
	if !cq.More() {
		c.pend.remove(opRecv)
	}
	id, has := cq.Buffer()
	switch {
	case c.state == stateClosing:
		l.discardBuffer(cq)
		return
	case cq.Res > 0 && has:
		l.take(c, id, int(cq.Res))
	case cq.Res == 0:
		l.discardBuffer(cq)
		c.peerEOF = true
		l.peerClosed(c)
	default:
		l.recvFailed(c, cq.Err())
	}
	l.resumeRecv(c)
}

// take puts n received bytes where they belong. A request that arrives whole
// while nothing else is going on is parsed where it lies; everything else waits
// behind the bytes before it.
func (l *loop) take(c *conn, id uint16, n int) {
	if c.state == stateLingering {
		l.bufs.Release(id)
		if c.linger += n; c.linger > lingerMax {
			l.close(c, c.reason)
		}
		return
	}
	if c.state != stateReading || !c.in.empty() {
		l.ins.add(&c.in, id, n)
		l.advance(c)
		return
	}
	b := l.bufs.Bytes(id, n)
	used := l.answer(c, b)
	if used < n && c.state != stateClosing && c.state != stateFree {
		l.keep(c, b[used:], used == 0)
	}
	l.bufs.Release(id)
}

// keep stores the bytes of a buffer that is about to be given back. tried says
// that they are all of an incomplete request, and that nothing new can be read
// from them.
func (l *loop) keep(c *conn, b []byte, tried bool) {
	l.makeInputRoom()
	if l.ins.store(&c.in, b) != len(b) {
		l.close(c, ClosedBuffers)
		return
	}
	if tried {
		c.in.tried = len(b)
	}
	l.awaitHead(c)
}

// advance starts the next request if its bytes are here and nothing is in
// progress.
func (l *loop) advance(c *conn) {
	if c.state != stateReading {
		return
	}
	l.ins.refill(&c.in)
	b := l.ins.bytes(&c.in)
	if len(b) == 0 && c.in.held > 0 { // no memory to put them in a row
		l.makeInputRoom()
		l.ins.refill(&c.in)
		if b = l.ins.bytes(&c.in); len(b) == 0 {
			l.close(c, ClosedBuffers)
			return
		}
	}
	if len(b) > 0 {
		tried := c.in.tried
		c.in.tried = len(b)
		if worthParsing(b, tried) || c.peerEOF { // what is wrong by now is all that will be

			n := l.answer(c, b)
			if c.state == stateClosing || c.state == stateFree {
				return
			}
			if n > 0 {
				l.ins.consume(&c.in, n)
			}
		}
	}
	if c.state != stateReading {
		return
	}
	l.awaitHead(c)
	if c.peerEOF {
		l.close(c, ClosedByPeer)
	}
}

// makeInputRoom sees to a free input slab. When there is none, heads that never end
// hold them, or nearly all: those that have been incomplete longest are refused as
// late before their time, so that who sends a head in two pieces still gets through.
func (l *loop) makeInputRoom() {
	if l.ins.slabs.Held() < inputSlabs || l.noHeads == l.stats.Turns {
		return
	}
	heads := l.oldestHeads()
	if len(heads) == 0 {
		l.noHeads = l.stats.Turns
	}
	for _, slot := range heads {
		l.refuseLate(&l.conns[slot])
	}
}

// oldestHeads lists up to shedMost connections with a stored, incomplete head, the
// one whose deadline is next first.
func (l *loop) oldestHeads() []uint32 {
	out, at := l.oldest[:0], l.dead.at
	for slot := range l.conns {
		if at[slot] == 0 || len(out) == shedMost && at[slot] >= at[out[shedMost-1]] {
			continue
		}
		if c := &l.conns[slot]; !c.heading || c.state != stateReading || c.in.slab == noSlab {
			continue
		}
		if len(out) < shedMost {
			out = append(out, 0)
		}
		i := len(out) - 1
		for ; i > 0 && at[out[i-1]] > at[slot]; i-- {
			out[i] = out[i-1]
		}
		out[i] = uint32(slot)
	}
	return out
}

// awaitRequest starts the time that a connection may be silent. In a drain it is
// the grace for a request on its way.
func (l *loop) awaitRequest(c *conn, limit time.Duration) {
	if l.draining {
		limit = min(limit, drainGrace)
	}
	l.waiting.set(c.slot, l.now.mono)
	l.dead.set(c.slot, l.now.mono+int64(limit))
}

// awaitHead starts the header deadline at the first byte of a request. It is a
// deadline for the whole head: a byte now and then does not extend it.
func (l *loop) awaitHead(c *conn) {
	if c.state == stateReading && !c.heading && !c.in.empty() {
		c.heading = true
		l.dead.set(c.slot, l.now.mono+int64(l.cfg.HeaderTimeout))
	}
}

// resumeRecv keeps a receive armed while there is room for what it brings, and
// cancels it while there is none: then TCP's window tells the client to wait.
func (l *loop) resumeRecv(c *conn) {
	if c.peerEOF || c.state == stateClosing || c.state == stateFree {
		return
	}
	armed := c.pend.has(opRecv)
	full := c.in.held > 0 && c.state != stateLingering
	switch {
	case !full && !armed:
		c.paused = false
		l.stats.RecvRearms++
		l.arm(c, opRecv)
	case full && armed && !c.paused:
		c.paused = true
		l.stats.RecvPauses++
		l.arm(c, opCancel)
	}
}

// peerClosed acts on the client's FIN: a half-closed connection still gets the
// answers to what it asked before.
func (l *loop) peerClosed(c *conn) {
	switch c.state {
	case stateLingering:
		l.close(c, c.reason)
	case stateReading:
		l.advance(c)
	}
}

// recvFailed sorts the errors of a receive. ECANCELED is our own pause. ENOBUFS
// came before buffers were given back in this turn; if there are none to give
// back, whoever holds the most has to go.
func (l *loop) recvFailed(c *conn, err unix.Errno) {
	switch err {
	case unix.ECANCELED, unix.EINTR, unix.EAGAIN:
	case unix.ENOBUFS:
		l.stats.BuffersOut++
		if l.bufs.Held() == recvBuffers {
			l.shedHolder()
		}
	default:
		l.close(c, ClosedReset)
	}
}

// shedHolder closes the connection that holds the most receive buffers: a client
// that sends requests without end and does not read the answers.
func (l *loop) shedHolder() {
	most := &l.conns[0]
	for i := range l.conns {
		if c := &l.conns[i]; c.in.held > most.in.held {
			most = c
		}
	}
	if most.in.held > 0 {
		l.reset(most, ClosedBuffers)
	}
}
