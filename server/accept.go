package server

import (
	"math"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/uring"
)

const (
	// acceptBackoff is how long a listener rests after the machine ran out of
	// descriptors or memory, in ns.
	acceptBackoff = 100e6

	// budgetLook is how often a listener that rests because the budget is spent
	// looks for what other loops have given back, in ns.
	budgetLook = 20e6

	// headroomMost bounds the part of the budget that is kept free for newcomers.
	headroomMost = 1024

	// shedMost is how many connections are closed at one time to make room: one
	// look at all connections then pays for that many.
	shedMost = 64

	// burstMost is how many connections may be open beyond the budget while as
	// many others are being closed for them.
	burstMost = 512

	// turnedAwayMost is how many clients one rest turns away through the reserve.
	turnedAwayMost = 64
)

// headroomOf is the part of a budget that those who ask for nothing leave free for
// newcomers.
func headroomOf(budget int) int { return min(budget/16, headroomMost) }

// burstOf is how many slots there are beyond a budget: a multishot accept brings
// what has come to the backlog since the last turn, and those who are closed for it
// need a turn or two to go. A slot is half a KiB.
func burstOf(budget int) int { return 1 + min(budget/2, burstMost) }

// acceptState is the listener's side of a loop: a multishot accept that is
// armed, being cancelled, or resting.
//
// A multishot accept takes what comes without asking for budget. So it is armed
// only while there is some, the budget keeps headroom, and what it took beyond
// gets the place of a connection that is being closed for it.
type acceptState struct {
	armed     bool
	cancelled bool  // a cancellation is out
	wanted    bool  // unarmed, and to be armed when there is budget and the rest is over
	restUntil int64 // mono ns before which it is not armed again
	lookAt    int64 // mono ns of the next look at a spent budget
	reserve   int   // a descriptor to do without when there is no other; -1 when it is in use
	shedding  int   // connections closed to make room and not yet gone
}

// wake is when a resting listener must be looked at.
func (a *acceptState) wake() int64 {
	if !a.wanted {
		return math.MaxInt64
	}
	return max(a.restUntil, a.lookAt)
}

func (l *loop) armAccept() {
	a := &l.accepting
	a.wanted = !l.ring.Accept(l.listen, uring.Tag(uint8(opAccept), 0, 0))
	a.armed = !a.wanted
}

// cancelAccept stops a multishot accept. The queue may be full: then the next
// turn asks again.
func (l *loop) cancelAccept() {
	if a := &l.accepting; a.armed && !a.cancelled {
		a.cancelled = l.ring.Cancel(uring.Tag(uint8(opAccept), 0, 0), uring.Tag(uint8(opIgnore), 0, 0))
	}
}

// keepAccepting arms the listener again once its rest is over and the worker has
// room. While there is none and somebody waits, the oldest who ask for nothing go.
func (l *loop) keepAccepting() {
	a := &l.accepting
	if !a.wanted || l.now.mono < a.restUntil {
		return
	}
	l.renewReserve()
	if l.budget.Load() > 0 {
		a.lookAt = 0
		l.stats.AcceptRearms++
		l.armAccept()
		return
	}
	if l.now.mono >= a.lookAt {
		a.lookAt = l.now.mono + budgetLook
		if a.shedding == 0 && l.someoneWaits() {
			l.shed()
		}
	}
}

// accepted takes a new connection, or learns why none can be had. A multishot
// accept dies silently on any error: it is armed again by cause.
func (l *loop) accepted(cq uring.Completion) {
	a := &l.accepting
	if !cq.More() {
		a.armed, a.cancelled = false, false
		a.wanted = l.listening()
	}
	if fd := int(cq.Res); fd >= 0 {
		l.admitConn(fd)
		return
	}
	switch cq.Err() {
	case unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS:
		l.outOfFiles()
	}
}

// admitConn gives the connection a slot if the worker's budget allows. The last
// one within the budget also stops the accept, so that further clients wait in
// the backlog and are not turned away one by one.
func (l *loop) admitConn(fd int) {
	a := &l.accepting
	left := int(l.budget.Add(-1))
	if left+a.shedding < l.headroom {
		l.shed()
	}
	if left+a.shedding < 0 || len(l.free) == 0 {
		l.budget.Add(1)
		l.stats.RefusedBudget++
		l.turnAway(fd)
	} else {
		l.open(fd)
	}
	if left <= 0 && a.armed && !a.cancelled {
		l.stats.AcceptPausesBudget++
		l.cancelAccept()
	}
}

// open starts a connection in a free slot.
func (l *loop) open(fd int) {
	slot := l.free[len(l.free)-1]
	l.free = l.free[:len(l.free)-1]
	c := &l.conns[slot]
	c.fd, c.state = fd, stateReading
	l.stats.Accepted++
	l.stats.Open++
	l.awaitRequest(c, l.cfg.HeaderTimeout)
	l.arm(c, opRecv)
}

// shed closes a few connections, those that have gone longest without asking for
// anything, or without coming to the end of it; never one that is being answered,
// and never one of this turn. Newcomers get their places.
func (l *loop) shed() (closed int) {
	l.oldest = l.waiting.oldest(l.oldest[:0], cap(l.oldest), l.now.mono)
	for _, slot := range l.oldest {
		l.accepting.shedding++
		l.close(&l.conns[slot], ClosedForRoom)
	}
	return len(l.oldest)
}

// outOfFiles acts on a process or a machine without a free descriptor. What can
// be done without is given up: an open file that nobody reads, connections that
// ask for nothing. If there is neither, the clients in the backlog are told, for
// they would wait for nothing; either way the listener rests.
func (l *loop) outOfFiles() {
	l.stats.AcceptPausesFiles++
	l.accepting.restUntil = l.now.mono + acceptBackoff
	fd := l.files.Evict()
	l.closeFile(fd)
	if l.shed() == 0 && fd < 0 {
		l.turnAwayBacklog()
	}
}

// turnAwayBacklog answers those who wait, through the reserve descriptor.
func (l *loop) turnAwayBacklog() {
	a := &l.accepting
	if a.reserve < 0 {
		return
	}
	unix.Close(a.reserve)
	a.reserve = -1
	for range turnedAwayMost {
		fd, ok := l.takeWaiting()
		if !ok {
			break
		}
		l.stats.RefusedFiles++
		l.turnAway(fd)
	}
	l.renewReserve()
}

// renewReserve takes a descriptor to keep for the time when there is no other. A
// copy of any will do; that of an eventfd holds nothing else open.
func (l *loop) renewReserve() {
	if a := &l.accepting; a.reserve < 0 {
		if fd, err := unix.FcntlInt(uintptr(l.mail.eventf), unix.F_DUPFD_CLOEXEC, 0); err == nil {
			a.reserve = fd
		}
	}
}

// turnAway tells a client that there is no place for it and closes the
// connection: a balancer then tries elsewhere, where a silent reset would look
// like a crash. What it has asked already is read, because closing over unread
// bytes resets the connection and the answer with it.
func (l *loop) turnAway(fd int) {
	l.away = head{date: l.date[:], requestID: l.nextRequestID(), minor: 1, close: true}
	b := appendFault(l.headBuf[:0], &l.away, faultBusy, methodGet)
	_ = unix.Send(fd, b, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL) // a client that is gone needs no answer
	_ = unix.Shutdown(fd, unix.SHUT_WR)
	_, _, _ = unix.Recvfrom(fd, l.headBuf[:cap(l.headBuf)], unix.MSG_DONTWAIT|unix.MSG_TRUNC)
	unix.Close(fd)
}

// someoneWaits reports whether the backlog holds a connection.
func (l *loop) someoneWaits() bool {
	p := []unix.PollFd{{Fd: int32(l.listen), Events: unix.POLLIN}}
	n, _ := unix.Poll(p, 0)
	return n > 0
}

// takeWaiting accepts a connection without the ring, if one waits. The listener
// is non-blocking only meanwhile (listenOne says why).
func (l *loop) takeWaiting() (fd int, ok bool) {
	if unix.SetNonblock(l.listen, true) != nil {
		return -1, false
	}
	fd, _, err := unix.Accept4(l.listen, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	_ = unix.SetNonblock(l.listen, false) // what could be set could be unset
	return fd, err == nil
}
