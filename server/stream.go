package server

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/origin"
	"github.com/talon-worker/talon/uring"
)

// sendChunk sends the next chunk of a large body, at most most bytes, and returns how
// many bytes of the turn's budget that cost.
func (l *loop) sendChunk(c *conn, most int64) int64 {
	n := int(c.seat.egress.piece(min(l.nextChunk(c), most)))
	if !l.resident(c, n) {
		l.flows.Block(c.slot)
		return 0
	}
	if !l.pay(c, int64(n)) {
		return 0
	}
	l.flows.Charge(c.slot, int64(n), l.now.mono)
	l.firstTurn(c)
	if !c.resp.headOut && !l.sendLargeHead(c) {
		return 0
	}
	sent, err := origin.SendFile(c.fd, c.file.FD, c.resp.off, n)
	if err != 0 {
		sent = 0
	}
	c.resp.off += int64(sent)
	l.stats.SentSendfile += uint64(sent)
	l.settle(c, int64(sent), true)
	full := err == unix.EAGAIN || err == 0 && 0 < sent && sent < n
	if full {
		l.flows.Block(c.slot)
	}
	rest := c.resp.end - c.resp.off
	l.flows.Done(c.slot, int64(sent), rest, l.now.mono)
	switch {
	case full:
		l.block(c)
	case err == unix.EINTR:
	case err == unix.EIO || err == unix.ENOMEM || err == unix.ESTALE: // of the file, not of the socket
		l.close(c, ClosedFile)
	case err != 0:
		l.close(c, ClosedReset)
	case sent == 0: // the file is shorter than its head said
		l.outdated(c.file)
		l.close(c, ClosedFile)
	case rest == 0:
		c.flow = false
		l.verify(c)
	}
	return int64(sent)
}

// nextChunk is the size of the next chunk: up to the next multiple of the
// transfer chunk in the file, so that a chunk never straddles two of the pieces by
// which residency is known; and where a fetch has ended early, up to there, so that
// the next begins at what kept it from going on.
func (l *loop) nextChunk(c *conn) int64 {
	chunk := int64(l.cfg.TransferChunk)
	n := min(c.resp.end-c.resp.off, chunk-c.resp.off%chunk)
	if c.resp.off < c.resp.fetched {
		n = min(n, c.resp.fetched-c.resp.off)
	}
	return n
}

// sendLargeHead sends the head of a large body with MSG_MORE, so that it leaves
// in one segment with the body's first bytes. A head that the socket does not
// take whole, which only a full socket does, goes on as a slab.
func (l *loop) sendLargeHead(c *conn) bool {
	b := appendHead(l.headBuf[:0], l.stamp(c))
	n, err := sendMore(c.fd, b)
	switch {
	case err == unix.EAGAIN:
		l.ground(c, c.resp.end-c.resp.off)
		l.block(c)
		return false
	case err != 0:
		l.ground(c, c.resp.end-c.resp.off)
		l.close(c, ClosedReset)
		return false
	}
	c.resp.headOut, c.resp.opened = true, true
	if n == len(b) {
		return true
	}
	l.ground(c, c.resp.end-c.resp.off)
	if !l.takeSlab(c) {
		l.close(c, ClosedReset)
		return false
	}
	l.stats.ShortSends++
	copy(l.slabs.Bytes(c.slab), b[n:])
	l.sendSlab(c, len(b)-n)
	return false
}

// sendMore sends b now, or as much of it as fits, and tells TCP that more follows
// at once (send(2), MSG_MORE). A raw call: it does not sleep on a non-blocking
// socket, so the scheduler need not know.
func sendMore(fd int, b []byte) (n int, err unix.Errno) {
	r, _, err := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
		unix.MSG_MORE|unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, 0, 0)
	return int(r), err
}

// block waits for room in the socket.
func (l *loop) block(c *conn) {
	l.stats.ShortSends++
	c.state = stateBlocked
	if !c.pend.has(opPoll) {
		l.arm(c, opPoll)
	}
}

// writable makes a blocked response due again. What is wrong with a socket, if
// anything, the next send tells.
func (l *loop) writable(c *conn) {
	c.pend.remove(opPoll)
	if c.state == stateBlocked {
		l.resume(c)
	}
}

// resident makes sure that the next n bytes can be sent without waiting for a
// disk. If they cannot, the response parks until the ring has read them.
func (l *loop) resident(c *conn, n int) bool {
	if l.cfg.NoResidencyProbe {
		return true
	}
	if c.resp.off < c.resp.fetched || c.file.Probe(c.resp.off, int64(n), l.now.mono) == origin.Resident {
		l.stats.ProbeHits++
		if c.resp.cold {
			l.readAhead(c, c.resp.off+int64(n))
		}
		return true
	}
	c.resp.cold = true
	c.state = stateParked
	l.stats.Parked++
	if !c.pend.has(opPrefetch) { // else the read-ahead of this chunk is on its way
		l.prefetch(c, c.resp.off, n)
	}
	return false
}

// readAhead prefetches the chunk after the one about to be sent on a stream that
// was found cold once: the disk works while the socket does.
func (l *loop) readAhead(c *conn, off int64) {
	n := int(min(c.resp.end-off, int64(l.cfg.TransferChunk)))
	if n <= 0 || c.pend.has(opPrefetch) {
		return
	}
	if c.file.Probe(off, int64(n), l.now.mono) != origin.Resident {
		l.prefetch(c, off, n)
	}
}

func (l *loop) prefetch(c *conn, off int64, n int) {
	l.stats.Prefetches++
	c.ahead = ahead{file: c.file, off: off, n: n}
	l.arm(c, opPrefetch)
}

// prefetched notes what the ring has brought into memory and wakes a response
// that waited for it. The response may be a later one than the prefetch was made
// for: it looks again.
func (l *loop) prefetched(c *conn, cq uring.Completion) {
	c.pend.remove(opPrefetch)
	a := c.ahead
	c.ahead = ahead{}
	if cq.Res > 0 {
		if a.file.Waits { // the bytes were read, not the last of them
			a.n = int(cq.Res)
		}
		a.file.Mark(a.off, int64(a.n), l.now.mono)
	}
	if a.orphan {
		l.releaseFile(a.file)
	}
	if c.state != stateParked {
		return
	}
	switch {
	case a.orphan:
	case prefetchFailed(cq):
		l.unreadable(c, cq.Err())
		return
	case cq.Res > 0 && a.off <= c.resp.off:
		// Sent without asking again: where the kernel never says that it has a page,
		// the response would be fetching for ever.
		c.resp.fetched = a.off + int64(a.n)
	}
	l.startDrainWindow(c)
	l.resume(c)
}

// prefetchFailed reports whether the bytes cannot be had: the file has shrunk, or
// the disk fails. An interruption is not a failure.
func prefetchFailed(cq uring.Completion) bool {
	switch cq.Err() {
	case 0:
		return cq.Res == 0
	case unix.EINTR, unix.EAGAIN, unix.ECANCELED:
		return false
	}
	return true
}
