package server

import (
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
