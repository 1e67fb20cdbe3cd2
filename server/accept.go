package server

import (
	"math"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/uring"
)

// acceptBackoff is how long a listener rests after the machine ran out of
// descriptors or memory, in ns.
const acceptBackoff = 100e6

// acceptState is the listener's side of a loop: a multishot accept that is
// armed, being cancelled, or resting.
type acceptState struct {
	armed     bool
	cancelled bool  // a cancellation is out
	restUntil int64 // mono ns before which it is not armed again
	wanted    bool  // unarmed, and to be armed when there is budget and the rest is over
}

// wake is when a resting listener must be looked at.
func (a *acceptState) wake() int64 {
	if !a.wanted {
		return math.MaxInt64
	}
	return a.restUntil
}

func (l *loop) armAccept() {
	a := &l.accepting
	a.wanted = !l.ring.Accept(l.listen, uring.Tag(uint8(opAccept), 0, 0))
	a.armed = !a.wanted
}

// keepAccepting arms the listener again once its rest is over and the worker has
// room.
func (l *loop) keepAccepting() {
	a := &l.accepting
	if !a.wanted || l.draining || l.now.mono < a.restUntil {
		return
	}
	if l.budget.Load() <= 0 {
		a.restUntil = l.now.mono + acceptBackoff
		return
	}
	l.stats.AcceptRearms++
	l.armAccept()
}

// accepted takes a new connection, or learns why none can be had. A multishot
// accept dies silently on any error: it is armed again by cause.
func (l *loop) accepted(cq uring.Completion) {
	a := &l.accepting
	if !cq.More() {
		a.armed, a.cancelled = false, false
		a.wanted = !l.draining
	}
	if fd := int(cq.Res); fd >= 0 {
		l.admitConn(fd)
		return
	}
	switch cq.Err() {
	case unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS:
		l.closeFile(l.files.Evict())
		a.restUntil = l.now.mono + acceptBackoff
	}
}

// admitConn gives the connection a slot if the worker's budget allows. The last
// one within the budget also stops the accept, so that further clients wait in
// the backlog and are not turned away one by one.
func (l *loop) admitConn(fd int) {
	left := l.budget.Add(-1)
	if left < 0 || l.draining {
		l.budget.Add(1)
		l.stats.Closed[ClosedNoSlot]++
		unix.Close(fd)
	} else {
		l.open(fd)
	}
	if left <= 0 && l.accepting.armed && !l.accepting.cancelled {
		l.accepting.cancelled = l.ring.Cancel(uring.Tag(uint8(opAccept), 0, 0), uring.Tag(uint8(opIgnore), 0, 0))
		l.accepting.restUntil = l.now.mono + acceptBackoff
	}
}

// open starts a connection in a free slot. There is one: every loop has as many
// slots as the worker has budget.
func (l *loop) open(fd int) {
	slot := l.free[len(l.free)-1]
	l.free = l.free[:len(l.free)-1]
	c := &l.conns[slot]
	c.fd, c.state = fd, stateReading
	l.stats.Accepted++
	l.stats.Open++
	l.dead.set(slot, l.now.mono+int64(l.cfg.HeaderTimeout))
	l.arm(c, opRecv)
}
