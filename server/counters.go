package server

import (
	"sync"
	"time"
)

// counters is how other goroutines come by a loop's Stats. However many ask,
// however often, at most one question is in the mailbox: a loop that hangs must
// not gather mail. A loop that has ended has left its last answer here.
type counters struct {
	mu    sync.Mutex    // between those who ask; the loop never takes it
	asked *answer       // the last question, nil before the first
	ended chan struct{} // closed when the loop will read no more mail
	last  Stats         // written before ended is closed, never after
}

// answer is one question and its reply: stats is written before done is closed.
type answer struct {
	message
	stats Stats
	done  chan struct{}
}

func newCounters() counters { return counters{ended: make(chan struct{})} }

// ask posts a question, or joins the one that is on its way.
func (c *counters) ask(mail *mailbox) *answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.asked != nil && !closed(c.asked.done) {
		return c.asked
	}
	a := &answer{done: make(chan struct{})}
	a.run = func(l *loop) {
		a.stats = l.snapshot()
		close(a.done)
	}
	c.asked = a
	mail.post(&a.message)
	return a
}

// wait returns the reply to a, or the loop's last word; ok is false when late
// fires first. With hurry it does not wait.
func (c *counters) wait(a *answer, late <-chan time.Time, hurry bool) (s Stats, ok bool) {
	if !hurry {
		select {
		case <-a.done:
		case <-c.ended:
		case <-late:
		}
	}
	switch {
	case closed(c.ended):
		return c.last, true
	case closed(a.done):
		return a.stats, true
	}
	return Stats{}, false
}

// end leaves the last snapshot. Only release calls it, once.
func (c *counters) end(last Stats) {
	c.last = last
	close(c.ended)
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
