package server

import (
	"math"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/uring"
)

const (
	// acceptBackoff is how long a listener rests after the machine ran out of
	// descriptors or memory, in ns, unless a connection gives a descriptor back before:
	// then others are served again within 100 ms of the end of the shortage.
	acceptBackoff = 50e6

	// budgetLook is how often a listener that rests because the budget is spent
	// looks for what other loops have given back, in ns.
	budgetLook = 20e6

	// headroomMost bounds the part of the budget that is kept free for newcomers.
	headroomMost = 1024

	// shedMost is how many connections are closed at one time to make room: one
	// look at all connections (10 us) then pays for that many, and a turn is not held
	// up by more.
	shedMost = 16

	// singlesMost bounds the single accepts that one loop has out, and so what it
	// takes in one turn near the limit.
	singlesMost = 16

	// turnedAwayMost is how many clients one rest turns away through the reserve.
	turnedAwayMost = 64
)

// headroomOf is the part of a budget that those who ask for nothing leave free for
// newcomers.
func headroomOf(budget int) int { return min(budget/16, headroomMost) }

// singleBelowOf is what must be left of the budget for a multishot accept to be
// armed: all that the backlogs of all loops may bring before these look again.
func singleBelowOf(rings int) int64 { return int64(rings) * backlog }

// singlesOf is how many single accepts a loop has out near the limit. All loops
// together set aside half of the headroom at most, but each one place.
func singlesOf(headroom, rings int) int { return max(min(headroom/(2*rings), singlesMost), 1) }

// acceptState is the listener's side of a loop. Far from the limit a multishot
// accept is armed. It takes whatever has come to the backlog without asking for
// budget, so while less is left than it may bring, accepts of one connection each
// take its place, and each sets a place aside before it is armed: who comes then
// has one, or waits in the backlog while the oldest of those who ask for nothing go.
// One by one, every connection costs an entry and an attempt that fails more, which
// cannot be measured beside the rest of a connection, but far from the limit buys
// nothing either.
type acceptState struct {
	armed     bool  // the multishot accept is out
	singles   int   // single accepts out; Invariant: each holds one place of the budget
	cancelled bool  // their cancellation is out
	restUntil int64 // mono ns before which none is armed
	lookAt    int64 // mono ns of the next look at a spent budget; 0 while it is not
	reserve   int   // a descriptor to do without when there is no other; -1 when it is in use
	shedding  int   // connections closed to make room and not yet gone
	deaf      bool  // a drain has limited the hops of what the listener hears, see limitHops

	aside atomic.Int64 // singles, for other threads
}

// out reports whether the kernel has an accept.
func (a *acceptState) out() bool { return a.armed || a.singles > 0 }

// setAside counts n more single accepts, or fewer.
func (a *acceptState) setAside(n int) {
	a.singles += n
	a.aside.Store(int64(a.singles))
}

// acceptWake is when a resting listener must be looked at.
func (l *loop) acceptWake() int64 {
	if a := &l.accepting; !a.out() && l.listen >= 0 && l.listening() {
		return max(a.restUntil, a.lookAt)
	}
	return math.MaxInt64
}

// cancelAccept stops all accepts. The queue may be full: then the next turn asks
// again.
func (l *loop) cancelAccept() {
	if a := &l.accepting; !a.cancelled {
		a.cancelled = l.ring.CancelFD(l.listen, uring.Tag(uint8(opIgnore), 0, 0))
	}
}

// keepAccepting arms what the budget allows once the listener's rest is over.
func (l *loop) keepAccepting() {
	a := &l.accepting
	if a.armed {
		if l.budget.Load() < l.singleBelow {
			l.cancelAccept()
		}
		return
	}
	if a.cancelled || l.listen < 0 || !l.listening() || l.now.mono < a.restUntil {
		return
	}
	l.renewReserve()
	switch {
	case l.budget.Load()+int64(a.singles) < l.singleBelow+int64(l.headroom):
		l.armSingles()
	case a.singles > 0:
		l.cancelAccept()
	default:
		if a.armed = l.ring.Accept(l.listen, uring.Tag(uint8(opAccept), 0, 0)); a.armed {
			l.stats.AcceptRearms++
		}
	}
}

// armSingles arms as many single accepts as there are places for. While there is
// none and somebody waits, the oldest who ask for nothing go.
func (l *loop) armSingles() {
	a := &l.accepting
	for a.singles < l.singlesMost {
		if l.budget.Add(-1) < 0 {
			l.budget.Add(1)
			break
		}
		if !l.ring.AcceptOne(l.listen, uring.Tag(uint8(opAcceptOne), 0, 0)) {
			l.budget.Add(1)
			return
		}
		a.setAside(+1)
	}
	switch {
	case a.singles > 0:
		a.lookAt = 0
	case l.now.mono >= a.lookAt:
		if a.lookAt == 0 {
			l.stats.AcceptPausesBudget++
		}
		a.lookAt = l.now.mono + budgetLook
		if a.shedding == 0 && l.someoneWaits() {
			l.shed()
		}
	}
}

// accepted takes a new connection, or learns why none can be had. A multishot
// accept dies silently on any error: it is armed again by cause.
func (l *loop) accepted(cq uring.Completion) {
	if !cq.More() {
		l.accepting.armed = false
	}
	if cq.Res >= 0 {
		l.admitConn(int(cq.Res))
	}
	l.acceptFailed(cq.Err())
}

// acceptedOne is accepted for a single accept, whose place is the connection's.
func (l *loop) acceptedOne(cq uring.Completion) {
	l.accepting.setAside(-1)
	if cq.Res >= 0 {
		l.open(int(cq.Res))
		l.keepHeadroom()
	} else {
		l.budget.Add(1)
	}
	l.acceptFailed(cq.Err())
}

// acceptFailed ends what both have in common.
func (l *loop) acceptFailed(err unix.Errno) {
	a := &l.accepting
	a.cancelled = a.cancelled && a.out()
	switch err {
	case unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS:
		if l.now.mono >= a.restUntil { // else another accept has told
			l.outOfFiles()
		}
	}
}

// admitConn takes a connection for which no place was set aside, if there is one
// left.
func (l *loop) admitConn(fd int) {
	if l.budget.Add(-1) < 0 {
		l.budget.Add(1)
		l.stats.RefusedBudget++
		l.turnAway(fd)
		return
	}
	l.open(fd)
	l.keepHeadroom()
}

// keepHeadroom closes some of those who ask for nothing when newcomers have used
// what they leave free.
func (l *loop) keepHeadroom() {
	if a := &l.accepting; int(l.budget.Load())+a.singles+a.shedding < l.headroom {
		l.shed()
	}
}

// open starts a connection in a free slot.
func (l *loop) open(fd int) {
	slot := l.free[len(l.free)-1]
	l.free = l.free[:len(l.free)-1]
	c := &l.conns[slot]
	c.fd, c.state = fd, stateReading
	if l.accepting.deaf {
		_ = limitHops(fd, 0) // what could be set can be lifted
	}
	l.stats.Accepted++
	l.stats.Open++
	l.awaitRequest(c, l.cfg.HeaderTimeout)
	l.arm(c, opRecv)
}

// shed closes a few connections: of those of a tenant that floods the ring with what is
// refused, or those that have gone longest without asking for anything, or without coming to the end of it; never one that is being answered,
// and never one of this turn. Newcomers get their places.
func (l *loop) shed() (closed int) {
	if closed = l.endHeld(); closed > 0 {
		return closed
	}
	l.oldest = l.waiting.oldest(l.oldest[:0], l.shedMost, l.now.mono)
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
