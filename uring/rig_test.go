package uring_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/uring"
	"github.com/talon-worker/talon/uring/uringtest"
)

// rig is a ring on its own locked thread, the test's.
type rig struct {
	*testing.T
	*uring.Ring
	waits time.Duration // how long a Wait may sleep; the fake never does
}

// kernels is what every behavioural test runs on.
var kernels = []struct {
	name string
	make func(uring.Config) (*uring.Ring, error)
}{
	{"kernel", uring.New},
	{"fake", quietFake},
}

// quietFake is a ring on the seeded kernel without faults.
func quietFake(cfg uring.Config) (*uring.Ring, error) {
	r, k, err := uringtest.New(1, cfg)
	k.Quiet()
	return r, err
}

// onKernels runs the test once per kernel.
func onKernels(t *testing.T, cfg uring.Config, f func(*rig)) {
	for _, k := range kernels {
		t.Run(k.name, func(t *testing.T) { onRing(t, cfg, k.make, f) })
	}
}

// onRing locks the test's goroutine to its thread and runs f on an enabled ring.
func onRing(t *testing.T, cfg uring.Config, make func(uring.Config) (*uring.Ring, error), f func(*rig)) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	r, err := make(cfg)
	if err != nil {
		t.Fatalf("these tests need io_uring: %v", err)
	}
	if err := r.Enable(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	}()
	f(&rig{T: t, Ring: r, waits: 100 * time.Millisecond})
}

// turns bounds how often a test goes round before it gives up: enough for the slowest machine, and for the fake's delays.
const turns = 200

// next returns the next completion, waiting for it.
func (g *rig) next() uring.Completion {
	g.Helper()
	for range turns {
		if c, ok := g.Next(); ok {
			return c
		}
		if err := g.Wait(g.waits); err != nil {
			g.Fatal(err)
		}
	}
	g.Fatalf("no completion: %+v", g.Stats())
	panic("unreachable")
}

// want takes the next completion, which must be ud's.
func (g *rig) want(ud uring.UserData, why string) uring.Completion {
	g.Helper()
	c := g.next()
	if c.UserData != ud {
		g.Fatalf("got %v, want request %#x: %s", c, uint64(ud), why)
	}
	return c
}

// wantRes takes the next completion, which must be ud's and have that result.
func (g *rig) wantRes(ud uring.UserData, res int32, why string) uring.Completion {
	g.Helper()
	c := g.want(ud, why)
	if c.Res != res {
		g.Fatalf("got %d (%v), want %d: %s", c.Res, c.Err(), res, why)
	}
	return c
}

// wantNone wants no completion, now.
func (g *rig) wantNone(why string) {
	g.Helper()
	for range 3 {
		if err := g.Wait(0); err != nil {
			g.Fatal(err)
		}
		if c, ok := g.Next(); ok {
			g.Fatalf("got %v, want no completion: %s", c, why)
		}
	}
}

// ok fails the test where a Prepare method found no room.
func (g *rig) ok(prepared bool) {
	g.Helper()
	if !prepared {
		g.Fatal("the submission queue is full")
	}
}

// must fails the test on an error of a system call.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

// pair is a connected pair of non-blocking stream sockets, closed with the test.
func (g *rig) pair() (ours, theirs int) {
	g.Helper()
	p := must(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0))
	g.Cleanup(func() { unix.Close(p[0]); unix.Close(p[1]) })
	return p[0], p[1]
}

// listen is a listening TCP socket on loopback and its address.
func (g *rig) listen() (int, unix.Sockaddr) {
	g.Helper()
	fd := must(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0))
	g.Cleanup(func() { unix.Close(fd) })
	check(unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	check(unix.Listen(fd, 64))
	return fd, must(unix.Getsockname(fd))
}

// dial connects to a listening socket and leaves the client's end to the test's end.
func (g *rig) dial(to unix.Sockaddr) int {
	g.Helper()
	fd := must(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))
	g.Cleanup(func() { unix.Close(fd) })
	check(unix.Connect(fd, to))
	return fd
}

// file is an open file with the given bytes.
func (g *rig) file(text string) int {
	g.Helper()
	path := filepath.Join(g.TempDir(), "file")
	check(os.WriteFile(path, []byte(text), 0o600))
	fd := must(unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0))
	g.Cleanup(func() { unix.Close(fd) })
	return fd
}

// memory is n bytes outside the Go heap.
func (g *rig) memory(n int) []byte {
	g.Helper()
	p := must(unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS))
	g.Cleanup(func() { check(unix.Munmap(p)) })
	return p
}

func (g *rig) text(s string) []byte {
	p := g.memory(len(s))
	copy(p, s)
	return p
}
