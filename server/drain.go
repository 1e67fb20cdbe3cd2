package server

import (
	"math"

	"golang.org/x/sys/unix"
)

// A drain loses no request that a client could have thought to be taken. When it
// begins, some connections are in the middle of their handshake, some in the
// backlog, some open with their request on its way. So for drainGrace
//
//   - the listener begins no new handshake but completes those it has begun,
//   - what the backlog holds is accepted and answered,
//   - a connection that was opened or answered a moment ago may still ask;
//
// then the listener takes what is left in its backlog and closes, and those who ask
// for nothing get our FIN. Every answer carries Connection: close.

// drainGrace is longer than the round trip of any client, in ns.
const drainGrace = 1e9

// startDrain stops a loop gently. At mono time until it ends all the same; a
// second call can only hasten it.
func (l *loop) startDrain(until int64) {
	if l.over {
		return
	}
	if l.draining {
		l.hasten, l.listenUntil = min(l.hasten, until), min(l.listenUntil, until)
		return
	}
	l.draining, l.hasten = true, until
	l.listenUntil = min(l.now.mono+drainGrace, until)
	l.beginNoHandshake()
	for i := range l.conns {
		c := &l.conns[i]
		switch since := l.waiting.since[i]; {
		case c.state != stateReading || c.heading:
		case since+drainGrace <= l.now.mono:
			l.endIdle(c)
		default:
			l.dead.set(c.slot, since+drainGrace)
		}
	}
}

// beginNoHandshake makes a TCP listener drop every segment that would begin a
// handshake. Closing it at once would reset the clients whose handshake is half done.
// Whoever knocks now sends its SYN again after a second, and is then refused by the
// closed port, or taken by another listener of it.
//
// A filter is the better way, but newer kernels (6.18) want CAP_NET_ADMIN for one on
// TCP. The other needs no right.
func (l *loop) beginNoHandshake() {
	if filterHandshakes(l.listen) == nil {
		return
	}
	if err := limitHops(l.listen, 255); err != nil {
		l.cfg.Logger.Warn("the port begins handshakes while it drains; the last may be reset", "err", err)
		return
	}
	l.accepting.deaf = true
}

// filterHandshakes drops segments with SYN and without ACK, by a classic BPF filter
// (socket(7), SO_ATTACH_FILTER; offset 13 of a TCP header holds the flags).
func filterHandshakes(listen int) error {
	const synAck, syn = 0x12, 0x02
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_B | unix.BPF_ABS, K: 13},
		{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: synAck},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: syn},
		{Code: unix.BPF_RET | unix.BPF_K, K: 0},
		{Code: unix.BPF_RET | unix.BPF_K, K: math.MaxUint32},
	}
	return unix.SetsockoptSockFprog(listen, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
}

// limitHops makes a socket drop what has been forwarded or was sent with fewer than
// that many hops to live (ip(7), IP_MINTTL): with 255 all that hosts send. A listener
// looks at it for a SYN and not for what ends a handshake. But its new connections
// inherit the limit: they are deaf until it is lifted, and what they missed is sent
// again after a fifth of a second.
func limitHops(fd, least int) error {
	err := unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_MINTTL, least)
	if domain, derr := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN); err == nil && derr == nil && domain == unix.AF_INET6 {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MINHOPCOUNT, least)
	}
	return err
}

// listening reports whether the accept is to be armed again when it ends.
func (l *loop) listening() bool { return !l.draining || l.now.mono < l.listenUntil }

// keepDraining closes the listener once its grace is over, and all connections
// once the time is.
func (l *loop) keepDraining() {
	if !l.draining {
		return
	}
	if l.listen >= 0 && !l.listening() {
		l.endListening()
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

// endListening closes the listener as soon as the kernel has let go of it. The
// kernel resets what a closing listener has in its backlog; so that is taken first.
func (l *loop) endListening() {
	if l.accepting.out() {
		l.cancelAccept()
		return
	}
	for {
		fd, ok := l.takeWaiting()
		if !ok {
			break
		}
		l.admitConn(fd)
	}
	unix.Close(l.listen)
	l.listen = -1
}

// endIdle ends a connection that has no request here. One that the ring is about
// to bring stays; one that is on its way meets our FIN, not a reset, and the client
// knows that it was not looked at (RFC 9112 section 9.3.1 lets it try again).
func (l *loop) endIdle(c *conn) {
	if !l.draining {
		l.close(c, ClosedIdle)
		return
	}
	if n, err := unix.IoctlGetInt(c.fd, unix.SIOCINQ); err == nil && n > 0 {
		l.dead.set(c.slot, l.now.mono+drainGrace)
		return
	}
	l.lingerOn(c, ClosedDrain)
}

// drainWake is when a drain must be looked at.
func (l *loop) drainWake() int64 {
	if !l.draining {
		return math.MaxInt64
	}
	wake := l.hasten
	if l.listen >= 0 {
		wake = min(wake, l.listenUntil)
	}
	if wake <= l.now.mono { // a cancellation is out, or found no room
		wake = l.now.mono + sweepEvery
	}
	return wake
}

// stopped reports whether nothing is left to do.
func (l *loop) stopped() bool {
	return l.draining && l.stats.Open == 0 && l.listen < 0
}
