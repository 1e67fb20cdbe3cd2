package server

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/talon-worker/talon/origin"
)

// mailed counts the messages that wait.
func mailed(m *mailbox) (n int) {
	for msg := m.top.Load(); msg != nil; msg = msg.next {
		n++
	}
	return n
}

// A ring that does not answer is named, however often it is asked it has one
// question to read, and once it is back it answers.
func TestAHungRingGathersNoMail(t *testing.T) {
	dir, err := origin.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	s, err := New(Config{Listen: "127.0.0.1:0", Origin: dir, Rings: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 20 {
		if _, err := s.Stats(time.Microsecond); err == nil || !strings.Contains(err.Error(), "ring [0 1]") {
			t.Fatalf("two rings that do not run: %v", err)
		}
	}
	for i, l := range s.loops {
		if n := mailed(&l.mail); n != 1 {
			t.Errorf("ring %d: %d messages wait, want 1", i, n)
		}
	}
	back := s.loops[1]
	back.stats.Turns = 7
	asked := back.counters.asked
	back.mail.drain(back)
	if got, ok := back.counters.wait(asked, nil, false); !ok || got.Turns != 7 {
		t.Errorf("ring 1 is back and says %d turns, %v", got.Turns, ok)
	}
	s.Stats(0)
	if n := mailed(&back.mail); n != 1 || back.counters.asked == asked {
		t.Errorf("after an answer %d questions wait, want a new one", n)
	}
}

// A ring that has ended has left its last counters, before and after Close.
func TestStatsOfAFinishedRing(t *testing.T) {
	r := startRig(t, func(c *Config) { c.Rings = 2; c.MinDrainRate = -1 })
	r.put("big", pattern(64<<20, 1))
	c := r.dial()
	c.send(getRequest("/big"))
	c.r.Peek(1)
	r.s.Drain(waitLong)
	finished := func() (n int) {
		for _, l := range r.s.loops {
			if closed(l.counters.ended) {
				n++
			}
		}
		return n
	}
	for end := time.Now().Add(waitLong); finished() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the ring without a connection never ended")
		}
	}
	if got := r.stats(); got.Open != 1 || got.Accepted != 1 {
		t.Errorf("with one ring ended: %d open of %d, want 1 of 1", got.Open, got.Accepted)
	}
	if _, body := c.reply("GET"); len(body) != 64<<20 {
		t.Errorf("the download ended after %d bytes", len(body))
	}
	io.Copy(io.Discard, c.r)
	c.conn.Close()
	for end := time.Now().Add(waitLong); finished() < 2 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if got := r.stats(); got.Open != 0 || got.Requests[0] != 1 {
		t.Errorf("at the end: %d open, %d answers, want 0 and 1", got.Open, got.Requests[0])
	}
}
