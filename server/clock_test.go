package server

import (
	"testing"
	"time"
)

// TestBootClock is the story of a machine's clocks: boot time is right at every moment, to the slack, and it is read when it has to be.
func TestBootClock(t *testing.T) {
	const second = int64(time.Second)
	var mono, wall, boot int64 = 5, 1_700_000_000 * second, 300 * second
	reads := 0
	c := &bootClock{read: func() (int64, int64) { reads++; return mono, boot }}
	for _, step := range []struct {
		what            string
		runs, suspended int64 // ns
		set             int64 // ns by which the wall clock is set
		read            int
	}{
		{"the first look", 0, 0, 0, 1},
		{"time goes by", second, 0, 0, 0},
		{"a day goes by", 86400 * second, 0, 0, 0},
		{"the two clocks are read 10 us apart", second, 0, 10e3, 0},
		{"and so again: what is within the slack does not add up", second, 0, -10e3, 0},
		{"a suspension", second, 3600 * second, 0, 1},
		{"after it", second, 0, 0, 0},
		{"the shortest suspension", 0, 1e6, 0, 1},
		{"the wall clock is set forward", second, 0, 3 * second, 1},
		{"and back, by more", second, 0, -7 * second, 1},
		{"a suspension, and the wall clock is set back after it", second, 60 * second, -2 * second, 1},
		{"after it", second, 0, 0, 0},
	} {
		before := reads
		mono += step.runs
		boot += step.runs + step.suspended
		wall += step.runs + step.suspended + step.set
		if got := c.at(mono, wall); got != boot {
			t.Errorf("%s: %d, want %d", step.what, got, boot)
		}
		if reads-before != step.read {
			t.Errorf("%s: boot time was read %d times, want %d", step.what, reads-before, step.read)
		}
	}
}

// TestRingClock: on this machine, the clock of a ring with a ledger agrees with CLOCK_BOOTTIME, and never lags by more than the slack.
func TestRingClock(t *testing.T) {
	s := &Server{start: time.Now()}
	c := &ringClock{start: s.start, boot: &bootClock{read: func() (int64, int64) { return readBoth(s.start) }}}
	for range 100_000 {
		before := bootTime()
		if now := c.now(); now.boot < before-bootSlack {
			t.Fatalf("boot time is %d, and was %d before", now.boot, before)
		}
	}
	if now := c.now(); now.wall < s.start.UnixNano() || now.mono <= 0 {
		t.Errorf("%+v", now)
	}
}

func BenchmarkClock(b *testing.B) {
	s := &Server{start: time.Now()}
	c := &ringClock{start: s.start, boot: &bootClock{read: func() (int64, int64) { return readBoth(s.start) }}}
	b.ReportAllocs()
	for b.Loop() {
		c.now()
	}
}
