package server

import (
	"runtime"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func newMailbox(t *testing.T) *mailbox {
	t.Helper()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	m := &mailbox{eventf: fd}
	t.Cleanup(m.close)
	return m
}

// woken reports whether the eventfd was written, and resets it.
func woken(m *mailbox) bool {
	var b [8]byte
	n, _ := unix.Read(m.eventf, b[:])
	return n == 8
}

func TestMailKeepsItsOrder(t *testing.T) {
	m := newMailbox(t)
	var got []int
	for i := range 5 {
		m.post(&message{run: func(*loop) { got = append(got, i) }})
	}
	m.drain(nil)
	if !slices.Equal(got, []int{0, 1, 2, 3, 4}) {
		t.Errorf("ran %v", got)
	}
}

func TestMailWakesOnlyASleeper(t *testing.T) {
	m := newMailbox(t)
	nothing := func() *message { return &message{run: func(*loop) {}} }
	m.post(nothing())
	if woken(m) {
		t.Error("a loop that is awake was woken")
	}
	if m.sleep() {
		t.Error("a loop with mail may not sleep")
	}
	m.drain(nil)
	if !m.sleep() {
		t.Error("a loop without mail may sleep")
	}
	m.post(nothing())
	m.post(nothing())
	if !woken(m) || woken(m) {
		t.Error("a sleeper is woken once")
	}
}

// Posters on several goroutines lose nothing, and a loop that sleeps whenever it
// may is woken for everything.
func TestMailFromManyLosesNothing(t *testing.T) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	m := &mailbox{eventf: fd}
	t.Cleanup(m.close)
	const posters, each = 8, 2000
	var group sync.WaitGroup
	for range posters {
		group.Go(func() {
			for range each {
				m.post(&message{run: func(l *loop) { l.opens++ }})
			}
		})
	}
	l := &loop{}
	for l.opens < posters*each {
		if m.sleep() {
			var b [8]byte
			unix.Read(m.eventf, b[:]) // blocks: a lost wake-up hangs the test
		}
		m.awake()
		m.drain(l)
	}
	group.Wait()
}

// TestMailCloses: whoever has found the loop asleep writes to its eventfd, and to nothing else that has the number afterwards; later posts write nothing.
func TestMailCloses(t *testing.T) {
	m := newMailbox(t)
	if !m.sleep() {
		t.Fatal("a loop without mail may sleep")
	}
	posted := make(chan struct{})
	go func() {
		m.post(&message{run: func(*loop) {}})
		<-posted
	}()
	// A loop hears of it by its ring, which tells the race detector no more than this.
	if _, err := unix.Poll([]unix.PollFd{{Fd: int32(m.eventf), Events: unix.POLLIN}}, 10_000); err != nil {
		t.Fatal(err)
	}
	m.close()
	close(posted)

	m = newMailbox(t)
	m.sleep() // a loop that has failed may end so
	m.rising.Add(1)
	closed := make(chan struct{})
	go func() {
		m.close()
		close(closed)
	}()
	runtime.Gosched()
	select {
	case <-closed:
		t.Error("closed while somebody was about to write")
	default:
	}
	m.rising.Add(-1)
	<-closed
	m.post(&message{run: func(*loop) {}})
	if m.eventf != -1 || m.asleep.Load() {
		t.Errorf("eventfd %d, asleep %v after the end", m.eventf, m.asleep.Load())
	}
}
