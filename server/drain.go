package server

import (
	"math"

	"golang.org/x/sys/unix"
)

// startDrain stops a loop gently: no new connection, idle ones close, the others
// after the response they are in. At mono time until it ends all the same; a
// second call can only hasten it.
func (l *loop) startDrain(until int64) {
	if l.over {
		return
	}
	if l.draining {
		l.hasten = min(l.hasten, until)
		return
	}
	l.draining, l.hasten = true, until
	l.accepting.wanted = false
	l.stopListening()
	for i := range l.conns {
		if c := &l.conns[i]; c.state == stateReading && c.in.empty() {
			l.close(c, ClosedDrain)
		}
	}
}

// stopListening cancels the accept; what the backlog holds is reset when the
// listener closes, so it is taken first and closed in order.
func (l *loop) stopListening() { l.cancelAccept() }

// listening reports whether the accept is to be armed again when it ends.
func (l *loop) listening() bool { return !l.draining }

// keepDraining closes the listener once the kernel has let go of it, and all
// connections once the time is over.
func (l *loop) keepDraining() {
	if !l.draining {
		return
	}
	if l.accepting.armed {
		l.stopListening() // the queue may have been full
	} else if l.listen >= 0 {
		unix.Close(l.listen)
		l.listen = -1
	}
	if l.now.mono < l.hasten {
		return
	}
	for i := range l.conns {
		if c := &l.conns[i]; c.state != stateFree {
			l.close(c, ClosedDrain)
		}
	}
}

// drainWake is when a drain must be looked at.
func (l *loop) drainWake() int64 {
	switch {
	case !l.draining:
		return math.MaxInt64
	case l.now.mono < l.hasten:
		return l.hasten
	}
	return l.now.mono + sweepEvery
}

// stopped reports whether nothing is left to do.
func (l *loop) stopped() bool {
	return l.err != nil || l.draining && l.stats.Open == 0 && l.listen < 0
}
