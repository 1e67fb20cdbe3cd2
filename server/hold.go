package server

import "math"

// A tenant that is refused over and over costs the others what its refusals cost. So their number is bounded: what is over refusalRate for one tenant on one
// ring is told holdTime later, and its client, which waits for that, asks less often; and when holdMost wait so, the next one's connection is reset.
//
// 131,000 refusals a second took four fifths of a ring from its neighbour, at 5.5 us each with the system calls.
const (
	refusalRate  = 20_000 // a second, for one tenant on one ring: about a tenth of a core
	refusalBurst = 2_000
	holdTime     = 100e6 // ns
	holdMost     = 1024  // on one ring
)

// paceOfRefusals is a bucket that holds refusalBurst and refills at refusalRate, as the time at which it is full (the virtual scheduling algorithm, ITU-T I.371).
type paceOfRefusals struct{ full int64 }

// take reports whether one more refusal may be told at now, in ns.
func (p *paceOfRefusals) take(now int64) bool {
	const each, whole = int64(1e9 / refusalRate), int64(refusalBurst * (1e9 / refusalRate))
	full := max(p.full, now)
	if full+each > now+whole {
		return false
	}
	p.full = full + each
	return true
}

// hold lets a refusal wait, or ends its connection where too many wait already.
func (l *loop) hold(c *conn) {
	l.putSlab(c)
	if l.held.len() >= holdMost {
		l.reset(c, ClosedRefused)
		return
	}
	l.stats.RefusalsHeld++
	c.state, c.heldUntil = stateHeld, l.now.mono+holdTime
	l.held.push(c.slot)
}

// releaseHeld tells the refusals whose time has come. They are in the order of their times, but for a slot whose connection has ended and that is held again
// for another: that keeps its place, and those behind it may wait as long once more.
func (l *loop) releaseHeld() {
	for l.held.len() > 0 {
		c := &l.conns[l.held.first()]
		if c.state == stateHeld && c.heldUntil > l.now.mono {
			return
		}
		l.held.pop()
		if c.state != stateHeld {
			continue
		}
		l.startDrainWindow(c)
		if l.needSlab(c) {
			l.sayRefusal(c)
		}
	}
}

// heldWake is when the next of them is due.
func (l *loop) heldWake() int64 {
	if l.held.len() == 0 {
		return math.MaxInt64
	}
	return l.conns[l.held.first()].heldUntil
}
