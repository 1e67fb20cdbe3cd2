package server

import (
	"time"

	"golang.org/x/sys/unix"
)

// instant is one reading of the clock, taken once per turn.
type instant struct {
	mono int64 // ns since the server started; deadlines and durations
	wall int64 // ns since 1970; Date, ETag ages
	boot int64 // ns of CLOCK_BOOTTIME, the ledger's time; only where there is one
}

// ringClock is the clock of one ring's thread. now takes 60 ns.
type ringClock struct {
	start time.Time
	boot  *bootClock // nil: there is no ledger
}

func (c *ringClock) now() instant {
	t := time.Now()
	now := instant{mono: int64(t.Sub(c.start)), wall: t.UnixNano()}
	if c.boot != nil {
		now.boot = c.boot.at(now.mono, now.wall)
	}
	return now
}

// bootClock knows CLOCK_BOOTTIME, which goes on while the machine is suspended, without reading it each time: Go has no fast way to it (vdso(7)), and the
// system call takes 200 ns. It is CLOCK_MONOTONIC and the time that the machine has been suspended, which goes by on the wall, too: while wall and monotonic
// time keep their distance, there was no suspension, and boot and monotonic time keep theirs. A wall clock that is set costs a reading.
type bootClock struct {
	read  func() (mono, boot int64) // both clocks, read together
	ahead int64                     // boot less mono, as of the last reading
	apart int64                     // wall less mono then
	known bool
}

// bootSlack is by how many ns wall and monotonic time may come apart unnoticed: the two are not read in the same instant. No suspension is so short.
const bootSlack = 20e3

func (b *bootClock) at(mono, wall int64) int64 {
	if apart := wall - mono; !b.known || max(apart-b.apart, b.apart-apart) > bootSlack {
		m, boot := b.read()
		b.ahead, b.apart, b.known = boot-m, apart, true
	}
	return mono + b.ahead
}

// readBoth reads the time since the server's start and CLOCK_BOOTTIME: in this order, so that a thread that is stopped in between takes views for older
// than they are, and again if they are far apart.
func readBoth(start time.Time) (mono, boot int64) {
	for range 4 {
		mono, boot = int64(time.Since(start)), bootTime()
		if int64(time.Since(start))-mono < bootSlack {
			break
		}
	}
	return mono, boot
}

// bootTime is CLOCK_BOOTTIME in ns.
func bootTime() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // it fails only for a clock that does not exist
	return ts.Nano()
}

// newClock makes the clock of one ring.
func (s *Server) newClock() *ringClock {
	c := &ringClock{start: s.start}
	if s.cfg.Ledger != nil {
		c.boot = &bootClock{read: func() (int64, int64) { return readBoth(s.start) }}
	}
	return c
}
