package sim

import (
	"github.com/talon-worker/talon/sched"
)

type connState uint8

const (
	resting  connState = iota // no request
	opening                   // admitted
	ready                     // pushed
	sending                   // with the ring, to be done later
	blocked                   // its socket is full
	fetching                  // its pages are being read
)

// conn is one connection and its reader.
type conn struct {
	w      *World
	id     int32
	gen    uint32
	setup  *ConnSetup
	tenant *tenant
	ring   int
	slot   uint32
	state  connState
	left   int64 // bytes of the response
	fresh  bool
	warm   bool  // what it sends next is in memory
	came   int64 // when it had a request
	asked  int64 // and when its ring saw that, by its clock

	filled int64 // bytes in the socket at since
	since  int64
	flying int64 // bytes charged and with the ring
}

func (c *conn) sched() scheduler { return c.w.rings[c.ring].sched }
func (c *conn) clock() int64     { return c.w.rings[c.ring].clock }

// room is what the socket takes now.
func (c *conn) room() int64 {
	if c.setup.Drain == 0 {
		return c.setup.Buffer
	}
	drained := (c.w.now - c.since) * (c.setup.Drain / 1000) / msec
	c.filled = max(c.filled-drained, 0)
	c.since = c.w.now
	return c.setup.Buffer - c.filled
}

// drained is when the socket has no more than so many bytes in it, or a little later.
func (c *conn) drained(to int64) int64 {
	wait := 10 * usec
	if c.setup.Drain > 0 {
		wait = max(wait, (c.filled-to)*msec/(c.setup.Drain/1000))
	}
	return c.w.now + wait
}

func (c *conn) later(mean int64) int64 {
	if mean == 0 {
		return c.w.now
	}
	return c.w.now + c.w.rnd.Int64N(2*mean)
}

// happened acts on mail, at the beginning of a turn.
func (c *conn) happened(what kind) {
	w := c.w
	switch what {
	case anArrival:
		if w.over {
			c.sched().Drop(c.slot, c.clock())
			return
		}
		c.left = c.setup.Least
		if more := c.setup.Most - c.setup.Least; more > 0 {
			c.left += w.rnd.Int64N(more)
		}
		c.asked = c.clock()
		v := c.sched().Admit(c.tenant.sched, c.slot, c.left, c.clock())
		w.note(uint64(c.id), uint64(v.Reason))
		w.r.Verdicts[v.Reason]++
		w.check.admitted(w, c, v)
		if v.Reason != sched.Go {
			c.again(min(max(v.Wait, msec), sec))
			return
		}
		c.fresh, c.warm = true, false
		if c.setup.Leave > 0 && w.rnd.IntN(1000) < c.setup.Leave {
			w.at(c.later(msec), aLeaving, c.id, c.gen)
		}
		if c.setup.Open > 0 {
			c.state = opening
			w.at(c.later(c.setup.Open), aReady, c.id, c.gen)
			return
		}
		c.push()
	case aReady:
		switch c.state {
		case opening:
			c.push()
		case fetching:
			c.warm = true
			c.unblock()
		}
	case aRoom:
		if c.state == blocked {
			c.unblock()
		}
	case aSent:
		c.sent(c.flying)
		w.check.touch(w, c.tenant)
	case aLeaving:
		c.leave()
	}
}

// leave closes the connection; another one takes its place.
func (c *conn) leave() {
	w := c.w
	switch c.state {
	case resting:
		c.sched().Drop(c.slot, c.clock())
		return
	case sending: // it ends when what was submitted does
		c.sched().Drop(c.slot, c.clock())
		return
	}
	w.r.Left++
	w.check.gone(w, c)
	c.sched().Drop(c.slot, c.clock())
	c.filled = 0
	c.again(msec)
}

func (c *conn) push() {
	c.state = ready
	c.sched().Push(c.slot, c.left, c.clock())
	c.w.check.readied(c.w, c)
}

func (c *conn) unblock() {
	c.state = ready
	c.sched().Unblock(c.slot, c.clock())
	c.w.check.readied(c.w, c)
}

// again makes the next request, after at least a while.
func (c *conn) again(while int64) {
	c.state = resting
	c.gen++
	if !c.w.over {
		c.w.at(c.later(c.setup.Think)+while, anArrival, c.id, c.gen)
	}
}

// picked sends, and returns how long that took the ring.
func (c *conn) picked(p *sched.Pick) int64 {
	defer c.w.check.touch(c.w, c.tenant)
	w, now := c.w, c.clock()
	w.note(uint64(c.id), uint64(p.Bytes), uint64(p.Refuse)<<8)
	if p.Refuse != sched.Go {
		w.r.Verdicts[p.Refuse]++
		c.fresh = false
		c.again(msec)
		return c.w.rings[c.ring].cost(0)
	}
	n := min(p.Bytes, c.left)
	if !c.warm && c.setup.Cold > 0 && w.rnd.IntN(1000) < c.setup.Cold {
		c.state = fetching
		c.sched().Block(c.slot)
		w.check.unpicked(w, c, 0)
		w.at(c.later(2*msec), aReady, c.id, c.gen)
		return c.w.rings[c.ring].cost(0)
	}
	if l := c.tenant.limit; l != nil {
		if ok, until := l.take(n, now); !ok {
			c.sched().Park(c.tenant.sched, until)
			w.check.unpicked(w, c, until)
			return c.w.rings[c.ring].cost(0)
		}
	}
	if got := c.sched().Charge(c.slot, n, now); got != n {
		w.check.failf("%d bytes may be charged, %d were picked", got, n)
	}
	w.check.charged(w, c, n)
	c.warm = false
	if c.fresh {
		c.fresh = false
		w.r.Responses++
		if w.late {
			c.tenant.delays = append(c.tenant.delays, w.now-c.came)
		}
	}
	c.flying = n
	if c.setup.Reset > 0 && w.rnd.IntN(1000) < c.setup.Reset {
		c.broken()
		return c.w.rings[c.ring].cost(0)
	}
	if n <= c.setup.Small && n == c.left {
		c.state = sending
		at := w.now + 5*usec + w.rnd.Int64N(200*usec)
		if c.room() < n {
			at = max(at, c.drained(c.setup.Buffer-n)) // as io_uring's, the send waits until its socket takes all of it
		}
		w.at(at, aSent, c.id, c.gen)
		return c.w.rings[c.ring].cost(n)
	}
	room := c.room()
	sent := min(n, room)
	c.sent(sent)
	return c.w.rings[c.ring].cost(sent)
}

// sent takes what the socket has accepted of what was charged.
func (c *conn) sent(sent int64) {
	w := c.w
	if sent < 0 || sent > c.flying || sent > c.room() {
		w.check.failf("connection %d: its socket takes %d bytes of %d, and has room for %d", c.id, sent, c.flying, c.room())
	}
	if c.setup.Drain > 0 {
		c.filled += sent
	}
	c.left -= sent
	short := sent < c.flying
	if l := c.tenant.limit; l != nil {
		l.back(c.flying - sent)
	}
	next := c.left
	w.check.done(w, c, sent)
	c.sched().Done(c.slot, sent, next, c.clock())
	switch {
	case next == 0:
		w.check.over(w, c)
		c.again(0)
	case short:
		c.state = blocked
		c.sched().Block(c.slot)
		w.at(c.drained(c.setup.Buffer/2), aRoom, c.id, c.gen)
	default:
		c.state = ready
		w.check.readied(w, c)
	}
}

// broken ends the connection while something of it is in flight; another one takes its place.
func (c *conn) broken() {
	w := c.w
	w.r.Resets++
	sent := w.rnd.Int64N(c.flying + 1)
	if l := c.tenant.limit; l != nil {
		l.back(c.flying - sent)
	}
	w.check.done(w, c, sent)
	w.check.over(w, c)
	c.sched().Drop(c.slot, c.clock())
	c.sched().Done(c.slot, sent, c.left, c.clock())
	c.filled = 0
	c.again(msec)
}

// limit is a tenant's own limit, exact, for all rings.
type limit struct {
	rate, burst, level, at int64 // level in 1e-9 bytes
}

func newLimit(rate, burst, now int64) *limit {
	return &limit{rate: rate, burst: burst, level: burst * sec, at: now}
}

func (l *limit) take(n, now int64) (ok bool, until int64) {
	if now > l.at {
		l.level = min(l.level+min(now-l.at, l.burst*sec/l.rate+1)*l.rate, l.burst*sec)
		l.at = now
	}
	if l.level < n*sec {
		return false, now + (n*sec-l.level+l.rate-1)/l.rate
	}
	l.level -= n * sec
	return true, 0
}

func (l *limit) back(n int64) { l.level = min(l.level+n*sec, l.burst*sec) }
