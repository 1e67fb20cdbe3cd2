package server

import (
	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/origin"
	"github.com/talon-worker/talon/uring"
)

// answer parses the request at the start of b and starts its response. It
// returns how many bytes that took, all of b after a refusal that ends the
// connection. 0 means that nothing has happened that would need them less: the
// request is not complete, or it cannot be started yet and c.state says what it
// waits for.
func (l *loop) answer(c *conn, b []byte) int {
	r := &l.req
	n := consumeRequest(b, r)
	if n == 0 {
		return 0
	}
	l.waiting.clear(c.slot)
	if n < 0 && !l.needSlab(c) {
		return 0
	}
	c.heading = false
	if !c.admitted { // else the opener has replied
		c.resp = response{start: l.now.mono, method: r.method}
		c.resp.head.minor = r.minor
	}
	c.resp.head.close = !r.keepAlive || l.draining
	if n < 0 {
		l.refuse(c, r.fault, ClosedBadRequest)
		return len(b)
	}
	l.startDrainWindow(c)
	if !l.serve(c, r, b[:n]) {
		return 0
	}
	return n
}

// serve decides who the request is from, whether it may be worked on now, and what its response will be. head is the request's own bytes; nil says that it has
// been admitted and waited as bytes, and that it is its turn. serve returns false if the opener has to be waited for, which needs the bytes once more; else it
// has been planned, waits, or has been answered.
func (l *loop) serve(c *conn, r *request, head []byte) bool {
	tenant, why := l.roster.authenticate(r.authorization)
	if why == faultNone && c.admitted && c.seat.account != tenant.t.account {
		why = faultUnauthorized // the token has become another tenant's meanwhile
	}
	if why != faultNone {
		l.denyNow(c, why)
		return true
	}
	c.resp.tenant = tenant
	var key []byte
	if r.method == methodGet || r.method == methodHead {
		key, why = decodeKey(l.key[:0], r.path)
		if why == faultNone && !tenant.t.allows(key) {
			l.denyNow(c, faultNotAllowed)
			return true
		}
	}
	if !c.admitted && !l.admit(c, tenant.t, head) {
		return true
	}
	switch {
	case r.method == methodOptions:
		c.resp.status = 204
	case r.method == methodOther:
		c.resp.fault = faultMethodNotAllowed
	case why != faultNone:
		c.resp.fault = why
	default:
		f, why, parked := l.find(c, key)
		switch {
		case parked:
			return false
		case why == faultNone:
			l.respond(c, r, f)
		case why == faultBusy:
			l.uncount(c)
		}
		if why != faultNone {
			c.resp.fault = why
		}
	}
	c.resp.planned = true
	if head != nil {
		l.push(c, c.resp.end-c.resp.off)
	}
	return true
}

// denyNow refuses, out of turn, a request of one who may not ask, or not that; if it has been admitted, it is so no longer.
func (l *loop) denyNow(c *conn, why fault) {
	if c.admitted {
		l.uncount(c)
		l.leave(c)
	}
	c.resp.fault, c.resp.planned = why, true
	if t := c.resp.tenant.t; t != nil {
		l.hold(c, l.seatOf(t.account))
	} else {
		l.hold(c, &l.telling.strangers)
	}
}

// respond plans the answer to a GET or HEAD with the file f, of which it takes over
// the reference.
func (l *loop) respond(c *conn, r *request, f *origin.File) {
	c.file = f
	h := &c.resp.head
	l.object = objectHeadOf(f)
	h.weak = l.now.wall-f.Info.ModTimeNs < weakFor
	h.size = f.Info.Size
	v := l.object.validator(h.weak)
	verdict := evaluate(r, &v)
	switch verdict {
	case notModified:
		h.status = 304
		return
	case preconditionFailed:
		c.resp.fault = faultPrecondition
		return
	}
	off, n := int64(0), h.size
	h.status = 200
	if r.rang != nil && r.method == methodGet && verdict == proceed {
		o, m, kind := parseRange(r.rang, h.size)
		switch kind {
		case rangeUnsatisfiable:
			c.resp.fault = faultRange
			return
		case rangePart:
			h.status, off, n = 206, o, m
		}
	}
	h.rangeOff, h.contentLength = off, n
	if r.method == methodGet {
		c.resp.off, c.resp.end, c.resp.bodyLen = off, off+n, n
	}
}

// weakFor is how young a file must be for its ETag to be weak, in ns: its
// timestamp may not tell two versions apart yet.
const weakFor = 2e9

// stamp fills in what every response head has.
func (l *loop) stamp(c *conn) *head {
	h := &c.resp.head
	h.date = l.date[:]
	h.requestID = l.nextRequestID()
	if c.file != nil {
		l.object = objectHeadOf(c.file)
		h.object = &l.object
	}
	return h
}

// deny answers with a fault after a request that was read whole: the connection
// goes on if the client wants it to.
func (l *loop) deny(c *conn, why fault) {
	if c.file != nil {
		l.releaseFile(c.file)
		c.file = nil
	}
	l.fault(c, why)
}

// refuse answers with a fault after which the connection cannot go on.
func (l *loop) refuse(c *conn, why fault, reason CloseReason) {
	if !l.takeSlab(c) {
		l.close(c, reason)
		return
	}
	l.waiting.clear(c.slot)
	c.resp.head.close = true
	c.reason = reason
	l.startDrainWindow(c)
	l.fault(c, why)
}

// refuseLate refuses a head that is not complete in time: for what is wrong with
// it already, which is not looked for with every byte that comes (worthParsing), or
// for being late.
func (l *loop) refuseLate(c *conn) {
	why, reason := faultHeaderTimeout, ClosedHeaderTime
	if consumeRequest(l.ins.bytes(&c.in), &l.req) < 0 {
		why, reason = l.req.fault, ClosedBadRequest
	}
	l.ins.free(&c.in)
	c.resp = response{start: l.now.mono, method: l.req.method}
	l.refuse(c, why, reason)
}

func (l *loop) fault(c *conn, why fault) {
	p := l.slabs.Bytes(c.slab)
	out := appendFault(p[:0], l.stamp(c), why, c.resp.method)
	c.resp.head.status = why.status()
	c.resp.off, c.resp.end, c.resp.bodyLen = 0, 0, 0
	l.sendSlab(c, len(out))
}

// sendHead sends a head that no body follows.
func (l *loop) sendHead(c *conn) {
	p := l.slabs.Bytes(c.slab)
	l.sendSlab(c, len(appendHead(p[:0], l.stamp(c))))
}

// sendCopy reads a small body behind its head and sends both in one piece. What
// is not in memory, the ring reads.
func (l *loop) sendCopy(c *conn) {
	if c.filled {
		c.filled = false
		c.resp.off = c.resp.end
		l.verify(c)
		return
	}
	p := l.slabs.Bytes(c.slab)
	at := len(appendHead(p[:0], l.stamp(c)))
	n := int(c.resp.end - c.resp.off)
	c.sendOff, c.fillEnd, c.sendEnd = 0, at, at+n
	got, _ := c.file.ReadNow(p[at:at+n], c.resp.off) // what it cannot read, the ring reads or fails to
	c.fillEnd += got
	if c.fillEnd < c.sendEnd {
		l.fill(c)
		return
	}
	c.resp.off = c.resp.end
	l.verify(c)
}

// fill lets the ring read the rest of a small body. The disk's time is nobody's turn.
func (l *loop) fill(c *conn) {
	l.ground(c, c.resp.bodyLen)
	c.state = stateFilling
	l.stats.Parked++
	l.arm(c, opRead)
}

// fillOff is the offset in the file of the slab's next byte to fill.
func (c *conn) fillOff() int64 {
	return c.resp.end - int64(c.sendEnd-c.fillEnd)
}

// filled takes what the ring has read of a small body.
func (l *loop) filled(c *conn, cq uring.Completion) {
	c.pend.remove(opRead)
	if c.state != stateFilling {
		return
	}
	switch err := cq.Err(); {
	case err == unix.EINTR || err == unix.EAGAIN || err == unix.ECANCELED:
	case cq.Res <= 0:
		l.unreadable(c, err)
		return
	default:
		c.fillEnd += int(cq.Res)
	}
	if c.fillEnd < c.sendEnd {
		l.arm(c, opRead)
		return
	}
	l.startDrainWindow(c)
	if c.filled = !c.seat.egress.waits; !c.filled {
		l.putSlab(c) // a tenant that waits for its limit holds no memory; it is in the page cache now
	}
	l.resume(c)
}

// unreadable ends a response whose object cannot be read on: err says why, 0 that the
// file ends too early. As long as the client has heard nothing it is told; behind a
// head only the end of the connection says that not all has come.
func (l *loop) unreadable(c *conn, err unix.Errno) {
	why := faultInternal
	switch err {
	case 0:
		why = faultChanged
		l.outdated(c.file)
	case unix.ENOMEM:
		why = faultBusy
	}
	if c.resp.headOut || !l.takeSlab(c) {
		l.close(c, ClosedFile)
		return
	}
	l.startDrainWindow(c)
	l.deny(c, why)
}

// sendSlab hands the first n bytes of the slab to the ring.
func (l *loop) sendSlab(c *conn, n int) {
	c.sendOff, c.sendEnd = 0, n
	c.state, c.sending = stateSending, l.now.mono
	if c.flying {
		l.handed = append(l.handed, c.slot)
	}
	l.arm(c, opSend)
}

// slabSent takes what the socket accepted of a slab.
func (l *loop) slabSent(c *conn, cq uring.Completion) {
	c.pend.remove(opSend)
	if cq.Res > 0 {
		c.sendOff += int(cq.Res)
	}
	switch err := cq.Err(); {
	case c.state != stateSending:
		l.land(c, c.bodyOut(), c.sendOff > 0)
		return
	case err == unix.EINTR || err == unix.EAGAIN:
	case cq.Res <= 0:
		l.land(c, c.bodyOut(), c.sendOff > 0)
		l.close(c, ClosedReset)
		return
	}
	if c.sendOff < c.sendEnd {
		l.stats.ShortSends++
		l.arm(c, opSend)
		return
	}
	if c.resp.off < c.resp.end { // it was the rest of a large body's head
		l.putSlab(c)
		l.resume(c)
		return
	}
	l.stats.SentCopy += uint64(c.resp.bodyLen)
	l.land(c, c.resp.bodyLen, true)
	l.finish(c)
}

// bodyOut is how much of the body the socket has taken of a slab that holds head and body.
func (c *conn) bodyOut() int64 {
	return max(int64(c.sendOff)-(int64(c.sendEnd)-c.resp.bodyLen), 0)
}
