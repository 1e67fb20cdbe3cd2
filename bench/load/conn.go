package load

import (
	"slices"

	"golang.org/x/sys/unix"
)

// connState says what a connection waits for.
//
//	broken ──redial──▶ connecting ──▶ idle ──issue──▶ busy ──response──▶ idle
//	   ▲                   │                            │
//	   └───────────────────┴────────────fault───────────┘
type connState uint8

const (
	broken     connState = iota // no socket; waits in worker.broken for its next dial
	connecting                  // connect(2) under way
	idle                        // nothing in flight; in the closed loop only for an instant
	busy                        // one request in flight
)

// conn is one connection of one stream. Its worker owns it.
type conn struct {
	fd     int
	slot   int32 // index in worker.conns, the epoll cookie
	gen    int32 // counts sockets, so that an event of a closed one is known as stale
	state  connState
	stream *streamWork

	tries int    // that the request in flight has had before
	start int64  // when the request in flight was sent, or was due in the open loop
	since int64  // when the connect or the request began by the clock, for the timeout
	want  expect // what its response must be
	out   []byte // request bytes that the socket has not taken yet
	buf   []byte // memory for requests
	frame frame
	span  span
}

// smallBody is the largest body that is copied behind its head in one call. A second call to discard
// costs more than the copy of one page.
const smallBody = 4 << 10

// issue sends the next request; start is the time its latency counts from.
func (w *worker) issue(c *conn, start, now int64) {
	c.out, c.want = c.stream.plan.next(c.buf)
	c.start, c.since, c.state = start, now, busy
	w.flush(c)
}

func (w *worker) flush(c *conn) {
	n, errno := sysSend(c.fd, c.out)
	switch errno {
	case 0:
		c.out = c.out[n:] // a rest goes out on EPOLLOUT
	case unix.EAGAIN, unix.EINTR:
	case unix.EPIPE, unix.ECONNRESET:
		w.fault(c, FaultEOF)
	default:
		w.fault(c, FaultSend)
	}
}

// readable takes what has arrived. Events are edge triggered: it reads until a short read says that
// nothing is left, or until the response is complete, after which nothing can come before we ask.
func (w *worker) readable(c *conn) {
	for c.state == busy {
		n, asked, errno := w.receive(c)
		switch {
		case errno == unix.EAGAIN:
			return
		case errno == unix.EINTR:
			continue
		case errno == unix.ECONNRESET || errno == 0 && n == 0:
			w.fault(c, FaultEOF)
			return
		case errno != 0:
			w.fault(c, FaultRecv)
			return
		}
		if w.advance(c, n) || int64(n) < asked {
			return
		}
	}
}

// receive reads a head, with the body if that is small, or discards body bytes.
func (w *worker) receive(c *conn) (n int, asked int64, errno unix.Errno) {
	if c.frame.body {
		if !w.copyBody {
			n, errno = sysDiscard(c.fd, c.frame.left)
			return n, min(c.frame.left, 1<<30), errno
		}
		asked = min(c.frame.left, int64(len(w.buf)))
	} else if asked = maxHead; c.want.length > smallBody && !w.copyBody {
		asked = 1 << 10
	}
	n, errno = sysRecv(c.fd, w.buf[:asked])
	return n, asked, errno
}

// advance tells the frame about n more bytes and says whether this response is over.
func (w *worker) advance(c *conn, n int) (over bool) {
	before := c.frame.got()
	var done bool
	var err error
	if c.frame.body {
		done = c.frame.skip(int64(n))
	} else {
		done, err = c.frame.feed(w.buf[:n])
	}
	if err != nil {
		w.fault(c, FaultHead)
		return true
	}
	w.count(c, c.frame.got()-before)
	if done {
		w.complete(c)
	}
	return done
}

// count tallies body bytes; those of a refusal are not what was asked for. The clock is read only for slices.
func (w *worker) count(c *conn, n int64) {
	if !c.frame.body || n == 0 || slices.Contains(c.stream.cfg.Refusals, c.frame.head.status) {
		return
	}
	now := int64(0)
	if w.cfg.SliceS > 0 {
		now = w.clock()
	}
	c.stream.tally.received(&c.span, n, w.lookedAt, now)
}

// complete judges a whole response and, in the closed loop, asks for the next one.
func (w *worker) complete(c *conn) {
	now := w.clock()
	t, h := c.stream.tally, c.frame.head
	c.state = idle
	c.frame.reset()
	if d := c.stream.detector; d != nil {
		d.note(now, h.status < 500)
	}
	switch {
	case slices.Contains(c.stream.cfg.Refusals, h.status):
		t.turnedAway(&c.span, c.start, now)
		c.stream.failed(c)
	case h.status != c.want.status:
		t.faults[FaultStatus]++
		t.statuses[h.status]++
		t.stop(&c.span, c.start, now)
	case h.length != c.want.length:
		t.faults[FaultLength]++
		t.stop(&c.span, c.start, now)
	default:
		t.completed(&c.span, c.start, now)
	}
	if h.close {
		t.redials++
		w.drop(c, now)
		return
	}
	w.ready(c)
}

// ready is called when a connection can carry a request.
func (w *worker) ready(c *conn) {
	c.state = idle
	if c.stream.open {
		c.stream.free = append(c.stream.free, c)
		return
	}
	now := w.clock()
	w.issue(c, now, now)
}

// writable follows a connect to its end and sends what is left of a request.
func (w *worker) writable(c *conn) {
	if c.state == connecting {
		if e, err := unix.GetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_ERROR); err != nil || e != 0 {
			w.fault(c, FaultConnect)
			return
		}
		w.ready(c)
		return
	}
	if c.state == busy && len(c.out) > 0 {
		w.flush(c)
	}
}

// hangup handles a server that closes. With nothing owed that is its right. With a request in flight
// readable must look again: it may have stopped before the end of the stream, and there is no other event.
func (w *worker) hangup(c *conn) {
	if c.state != idle {
		w.readable(c)
		return
	}
	c.stream.tally.redials++
	c.stream.forget(c)
	w.drop(c, w.clock())
}

// fault counts an error and gives up the connection; it is dialled again after retryAfter.
func (w *worker) fault(c *conn, f Fault) {
	now := w.clock()
	c.stream.tally.faults[f]++
	if d := c.stream.detector; d != nil {
		d.note(now, false)
	}
	if c.state == busy {
		c.stream.tally.stop(&c.span, c.start, now)
		c.stream.failed(c)
	}
	w.drop(c, now+retryAfter)
}

// drop closes the socket and queues the connection for a dial at retryAt.
func (w *worker) drop(c *conn, retryAt int64) {
	if c.fd >= 0 {
		unix.Close(c.fd)
	}
	c.fd, c.state, c.since, c.out = -1, broken, retryAt, nil
	c.frame.reset()
	w.broken = append(w.broken, c)
}
