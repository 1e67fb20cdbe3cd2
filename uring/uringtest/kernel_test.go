package uringtest_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/uring"
	"github.com/talon-worker/talon/uring/uringtest"
)

// start makes an enabled ring on the seeded kernel, on the test's locked thread.
func start(t *testing.T, seed uint64) (*uring.Ring, *uringtest.Kernel) {
	t.Helper()
	runtime.LockOSThread()
	r, k, err := uringtest.New(seed, uring.Config{Entries: 16})
	check(err)
	check(r.Enable())
	t.Cleanup(func() {
		check(r.Close())
		runtime.UnlockOSThread()
	})
	return r, k
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

// closer keeps a test's descriptors.
type closer []int

func (c *closer) pair() (ours, theirs int) {
	p := must(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0))
	*c = append(*c, p[0], p[1])
	return p[0], p[1]
}

func (c *closer) close() {
	for _, fd := range *c {
		unix.Close(fd)
	}
}

// trace runs a fixed script and writes down what completed in which turn.
func trace(t *testing.T, seed uint64) string {
	var out strings.Builder
	t.Run(fmt.Sprint(seed), func(t *testing.T) {
		var fds closer
		defer fds.close()
		r, k := start(t, seed)
		b := must(r.NewBuffers(1, 8, 16))
		for i := range uint32(4) {
			ours, theirs := fds.pair()
			must(unix.Write(theirs, []byte("0123456789abcdef0123456789abcdef")))
			r.Recv(ours, 1, uring.Tag(1, i, 1))
			r.PollOut(ours, uring.Tag(2, i, 1))
		}
		for turn := range 30 {
			check(r.Wait(0))
			for c, ok := r.Next(); ok; c, ok = r.Next() {
				fmt.Fprintln(&out, turn, c)
				if id, ok := c.Buffer(); ok {
					b.Release(id)
				}
			}
		}
		fmt.Fprintf(&out, "%+v", k.Counts())
	})
	return out.String()
}

func TestASeedIsARun(t *testing.T) {
	runs := map[string]bool{}
	for seed := range uint64(10) {
		once, again := trace(t, seed), trace(t, seed)
		if once != again {
			t.Fatalf("seed %d gave two runs:\n%s\n\n%s", seed, once, again)
		}
		runs[once] = true
	}
	if len(runs) < 10 {
		t.Errorf("10 seeds gave %d runs", len(runs))
	}
}

// A wait without limit comes back although nothing will ever complete.
func TestNeverSleeps(t *testing.T) {
	r, k := start(t, 1)
	k.Quiet()
	for _, d := range []time.Duration{-1, time.Hour, 0} {
		if err := r.Wait(d); err != nil {
			t.Errorf("wait of %v: %v", d, err)
		}
		if c, ok := r.Next(); ok {
			t.Errorf("wait of %v: got %v", d, c)
		}
	}
}

// A request keeps its socket open, as on Linux: the peer sees no end until it is cancelled.
func TestARequestHoldsItsFile(t *testing.T) {
	var fds closer
	defer fds.close()
	r, k := start(t, 1)
	k.Quiet()
	check2(r.NewBuffers(1, 2, 16))
	ours, theirs := fds.pair()
	r.Recv(ours, 1, uring.Tag(1, 1, 1))
	check(r.Wait(0))
	check(unix.Close(ours))
	fds = fds[1:]
	if _, err := unix.Read(theirs, make([]byte, 1)); err != unix.EAGAIN {
		t.Errorf("with a receive armed the peer got %v, want EAGAIN", err)
	}
	r.Cancel(uring.Tag(1, 1, 1), uring.Tag(2, 1, 1))
	check(r.Wait(0))
	if n, err := unix.Read(theirs, make([]byte, 1)); n != 0 || err != nil {
		t.Errorf("after the cancellation the peer got %d, %v, want the end", n, err)
	}
	if k.Pending() != 0 {
		t.Errorf("%d requests are in flight, want none", k.Pending())
	}
}

func check2[T any](_ T, err error) { check(err) }

// A buffer is overwritten once it has been released, and not before.
func TestReleasedBuffersArePoisoned(t *testing.T) {
	var fds closer
	defer fds.close()
	r, k := start(t, 1)
	k.Quiet()
	b := must(r.NewBuffers(1, 2, 8))
	ours, theirs := fds.pair()
	r.Recv(ours, 1, uring.Tag(1, 1, 1))
	must(unix.Write(theirs, []byte("fine")))
	check(r.Wait(0))
	c, _ := r.Next()
	id, ok := c.Buffer()
	if !ok {
		t.Fatalf("got %v, want a buffer", c)
	}
	p := b.Bytes(id, 4)
	check(r.Wait(-1))
	if string(p) != "fine" {
		t.Errorf("on lease the buffer holds %q", p)
	}
	b.Release(id)
	check(r.Wait(-1))
	if slices.ContainsFunc(p, func(c byte) bool { return c != 0xdb }) {
		t.Errorf("released, the buffer holds %q, want poison", p)
	}
}

// The other threads get what Linux gives them.
func TestOneThread(t *testing.T) {
	r, k := start(t, 1)
	k.Quiet()
	r.PollOut(0, 1)
	err := make(chan error)
	go func() { err <- r.Submit() }()
	if e := <-err; e == nil || !strings.Contains(e.Error(), "does not own the ring") {
		t.Errorf("got %v, want a refusal", e)
	}
}

// Faults set by hand: each alone, always, is seen by the caller.
func TestEachFault(t *testing.T) {
	for _, c := range []struct {
		name   string
		faults uringtest.Faults
		want   string // of the first completion
		fired  func(uringtest.Counts) uint64
	}{
		{"late", uringtest.Faults{Late: 1, MaxLate: 1}, "with 8", func(c uringtest.Counts) uint64 { return c.Late }},
		{"short", uringtest.Faults{Short: 1}, "with", func(c uringtest.Counts) uint64 { return c.Short }},
		{"errno", uringtest.Faults{Error: 1, Errnos: uringtest.Errnos{Recv: []unix.Errno{unix.ECONNRESET}}}, "connection reset",
			func(c uringtest.Counts) uint64 { return c.Errors }},
		{"end of multishot", uringtest.Faults{EndMultishot: 1}, "with 8", func(c uringtest.Counts) uint64 { return c.MultishotEnds }},
		{"no buffers", uringtest.Faults{NoBuffers: 1}, "no buffer space", func(c uringtest.Counts) uint64 { return c.NoBuffers }},
	} {
		t.Run(c.name, func(t *testing.T) {
			var fds closer
			defer fds.close()
			r, k := start(t, 1)
			k.SetFaults(c.faults)
			check2(r.NewBuffers(1, 2, 8))
			ours, theirs := fds.pair()
			must(unix.Write(theirs, []byte("01234567")))
			r.Recv(ours, 1, uring.Tag(1, 1, 1))
			for range 5 {
				check(r.Wait(0))
			}
			done, ok := r.Next()
			if !ok || !strings.Contains(done.String(), c.want) || c.fired(k.Counts()) == 0 {
				t.Errorf("got %v %v with %+v, want %q", done, ok, k.Counts(), c.want)
			}
			ended := c.name == "end of multishot" || done.Res < 0
			if done.More() == ended {
				t.Errorf("got more %v, want %v", done.More(), !ended)
			}
			if c.name == "short" && done.Res >= 8 {
				t.Errorf("got all %d bytes, want a part", done.Res)
			}
		})
	}
}
