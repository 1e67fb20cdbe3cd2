package server

import (
	"runtime"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// message is one errand for a loop: run is called on the loop's thread. It is
// owned by the mailbox from post until run returns, and may be posted again
// then.
type message struct {
	next *message
	run  func(*loop)
}

// mailbox is the only door into a loop from another goroutine: a stack of
// messages that posters push and the loop takes whole. It has no lock, so a
// poster that is descheduled in mid-post delays nobody. It needs no bound of its
// own: every message is embedded in something bounded (an open ticket) or has a
// caller who waits for it.
type mailbox struct {
	top    atomic.Pointer[message]
	asleep atomic.Bool  // the loop waits, or is about to, and must be woken
	rising atomic.Int32 // goroutines that may be about to write to eventf
	eventf int          // eventfd the loop has a READ armed on
}

// post hands m to the loop and wakes it if it sleeps.
func (m *mailbox) post(msg *message) {
	for {
		top := m.top.Load()
		msg.next = top
		if m.top.CompareAndSwap(top, msg) {
			break
		}
	}
	m.rouse()
}

// rouse wakes the loop if it sleeps, without an errand.
func (m *mailbox) rouse() {
	m.rising.Add(1)
	if m.asleep.Swap(false) {
		one := [8]byte{1}
		// An eventfd write fails only when the counter is full, and then the
		// loop is awake already.
		_, _ = unix.Write(m.eventf, one[:])
	}
	m.rising.Add(-1)
}

// sleep says that the loop is about to wait. It returns false if there is mail:
// the loop then must not wait. A post that comes later sees asleep and writes
// the eventfd.
func (m *mailbox) sleep() bool {
	m.asleep.Store(true)
	if m.top.Load() == nil {
		return true
	}
	m.asleep.Store(false)
	return false
}

// awake says that the loop is up again and looks at its mail by itself.
func (m *mailbox) awake() { m.asleep.Store(false) }

// drain runs all messages in the order of their posts.
func (m *mailbox) drain(l *loop) {
	if m.top.Load() == nil {
		return
	}
	var first *message
	for msg := m.top.Swap(nil); msg != nil; {
		next := msg.next
		msg.next = first
		first, msg = msg, next
	}
	for first != nil {
		msg := first
		first = msg.next
		msg.next = nil
		msg.run(l)
	}
}

// close gives the eventfd back, when the loop has ended. Posts may come all the same,
// and go nowhere. It waits for who has found the loop asleep and not woken it yet: that
// would be written to whatever has the descriptor's number by then.
func (m *mailbox) close() {
	m.asleep.Store(false)
	for m.rising.Load() > 0 {
		runtime.Gosched()
	}
	if m.eventf >= 0 {
		unix.Close(m.eventf)
		m.eventf = -1
	}
}
