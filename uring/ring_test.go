package uring_test

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/uring"
	"github.com/talon-worker/talon/uring/uringtest"
)

// The operations as these tests tag them.
const (
	opAccept uint8 = iota + 1
	opRecv
	opSend
	opRead
	opPrefetch
	opPoll
	opCancel
	opNop
)

var tag = uring.Tag

func TestAccept(t *testing.T) {
	onKernels(t, uring.Config{}, func(g *rig) {
		fd, addr := g.listen()
		g.ok(g.Accept(fd, tag(opAccept, 1, 1)))
		g.wantNone("nobody has called")
		for range 3 {
			g.dial(addr)
			c := g.want(tag(opAccept, 1, 1), "a client connected")
			if c.Res < 0 || !c.More() {
				g.Fatalf("got %d (%v), more %v, want a descriptor and more to come", c.Res, c.Err(), c.More())
			}
			status := must(unix.FcntlInt(uintptr(c.Res), unix.F_GETFL, 0))
			onExec := must(unix.FcntlInt(uintptr(c.Res), unix.F_GETFD, 0))
			if status&unix.O_NONBLOCK == 0 || onExec&unix.FD_CLOEXEC == 0 {
				g.Errorf("got flags %#x and %#x, want O_NONBLOCK and FD_CLOEXEC", status, onExec)
			}
			check(unix.Close(int(c.Res)))
		}
		g.ok(g.Cancel(tag(opAccept, 1, 1), tag(opCancel, 1, 1)))
		g.wantBoth(tag(opAccept, 1, 1), -int32(unix.ECANCELED), tag(opCancel, 1, 1), 0)
	})
}

// A single accept takes one connection and is over, whatever waits behind it; it can be cancelled, also by its listener.
func TestAcceptOne(t *testing.T) {
	onKernels(t, uring.Config{}, func(g *rig) {
		fd, addr := g.listen()
		status := must(unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0))
		must(unix.FcntlInt(uintptr(fd), unix.F_SETFL, status&^unix.O_NONBLOCK)) // else it does not wait
		g.ok(g.AcceptOne(fd, tag(opAccept, 1, 1)))
		g.wantNone("nobody has called")
		for gen := range uint32(3) {
			g.dial(addr)
			g.dial(addr)
			c := g.want(tag(opAccept, 1, gen+1), "two clients connected")
			if c.Res < 0 || c.More() {
				g.Fatalf("got %d (%v), more %v, want a descriptor and no more", c.Res, c.Err(), c.More())
			}
			status := must(unix.FcntlInt(uintptr(c.Res), unix.F_GETFL, 0))
			if status&unix.O_NONBLOCK == 0 {
				g.Errorf("got flags %#x, want O_NONBLOCK", status)
			}
			check(unix.Close(int(c.Res)))
			g.wantNone("the second is not to be taken")
			g.ok(g.AcceptOne(fd, tag(opAccept, 1, gen+2)))
			c = g.want(tag(opAccept, 1, gen+2), "the second waits")
			check(unix.Close(int(c.Res)))
			g.ok(g.AcceptOne(fd, tag(opAccept, 1, gen+2)))
			g.wantNone("the backlog is empty")
		}
		g.ok(g.AcceptOne(fd, tag(opAccept, 2, 1)))
		g.ok(g.CancelFD(fd, tag(opCancel, 1, 1)))
		ended := 0
		for range 3 {
			if c := g.next(); c.UserData.Op() == opAccept && c.Res == -int32(unix.ECANCELED) {
				ended++
			}
		}
		if ended != 2 {
			g.Errorf("%d of two accepts were cancelled", ended)
		}
	})
}

// wantBoth takes two completions in either order.
func (g *rig) wantBoth(a uring.UserData, resA int32, b uring.UserData, resB int32) {
	g.Helper()
	want := map[uring.UserData]int32{a: resA, b: resB}
	for len(want) > 0 {
		c := g.next()
		res, ok := want[c.UserData]
		if !ok || c.Res != res {
			g.Fatalf("got %#x with %d (%v); want one of %v", c.UserData, c.Res, c.Err(), want)
		}
		if c.More() {
			g.Errorf("%#x is over and promises more", c.UserData)
		}
		delete(want, c.UserData)
	}
}

func TestSend(t *testing.T) {
	onKernels(t, uring.Config{}, func(g *rig) {
		ours, theirs := g.pair()
		p := g.text("hello")
		g.ok(g.Send(ours, p, 0, tag(opSend, 1, 1)))
		g.wantRes(tag(opSend, 1, 1), 5, "the socket is empty")
		got := make([]byte, 16)
		if n := must(unix.Read(theirs, got)); string(got[:n]) != "hello" {
			g.Errorf("the peer got %q, want %q", got[:n], "hello")
		}
		check(unix.Shutdown(theirs, unix.SHUT_RD))
		g.ok(g.Send(ours, p, 0, tag(opSend, 1, 2)))
		g.wantRes(tag(opSend, 1, 2), -int32(unix.EPIPE), "nobody reads, and no SIGPIPE kills the test")
	})
}

// A non-blocking socket takes what fits, and the completion says how much.
func TestSendShort(t *testing.T) {
	onKernels(t, uring.Config{}, func(g *rig) {
		ours, theirs := g.pair()
		p := g.memory(4 << 20)
		g.ok(g.Send(ours, p, 0, tag(opSend, 1, 1)))
		c := g.want(tag(opSend, 1, 1), "the socket takes a part")
		if c.Res <= 0 || int(c.Res) >= len(p) {
			g.Fatalf("got %d (%v), want a part of %d", c.Res, c.Err(), len(p))
		}
		g.ok(g.PollOut(ours, tag(opPoll, 1, 1)))
		g.wantNone("the socket is full")
		for sink := make([]byte, 1<<20); ; {
			if _, err := unix.Read(theirs, sink); err != nil {
				break
			}
		}
		if c := g.want(tag(opPoll, 1, 1), "the peer read"); c.Res&unix.POLLOUT == 0 || c.More() {
			g.Errorf("got events %#x, more %v; want POLLOUT, once", c.Res, c.More())
		}
	})
}

func TestRead(t *testing.T) {
	for _, aside := range []bool{false, true} {
		onKernels(t, uring.Config{}, func(g *rig) {
			read := g.Read
			if aside {
				read = g.ReadAside
			}
			fd := g.file("0123456789")
			p := g.memory(4)
			for _, c := range []struct {
				off  int64
				want string
			}{{0, "0123"}, {3, "3456"}, {8, "89"}, {10, ""}} {
				g.ok(read(fd, p, c.off, tag(opRead, 1, uint32(c.off))))
				got := g.want(tag(opRead, 1, uint32(c.off)), "a read of a file")
				if got.Res != int32(len(c.want)) || string(p[:max(got.Res, 0)]) != c.want {
					g.Errorf("at %d: got %d %q, want %q", c.off, got.Res, p[:max(got.Res, 0)], c.want)
				}
			}
			g.ok(read(g.closedFD(), p, 0, tag(opRead, 2, 0)))
			g.wantRes(tag(opRead, 2, 0), -int32(unix.EBADF), "the descriptor is closed")
		})
	}
}

// closedFD is a number that is no descriptor.
func (g *rig) closedFD() int { return 1 << 20 }

func TestReadEventfd(t *testing.T) {
	onKernels(t, uring.Config{}, func(g *rig) {
		fd := must(unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK))
		defer unix.Close(fd)
		p := g.memory(8)
		for i := range byte(3) {
			g.ok(g.Read(fd, p, -1, tag(opRead, 1, uint32(i))))
			g.wantNone("nobody rang")
			must(unix.Write(fd, []byte{i + 1, 0, 0, 0, 0, 0, 0, 0}))
			g.wantRes(tag(opRead, 1, uint32(i)), 8, "somebody rang")
			if p[0] != i+1 {
				g.Errorf("got %d rings, want %d", p[0], i+1)
			}
		}
	})
}

// Whatever becomes of the two halves, the caller sees one completion.
func TestPrefetch(t *testing.T) {
	onKernels(t, uring.Config{}, func(g *rig) {
		fd := g.file(strings.Repeat("x", 10000) + "!")
		var pipe [2]int
		check(unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK))
		defer unix.Close(pipe[0])
		check(unix.Close(pipe[1]))
		p := g.memory(1)
		for i, c := range []struct {
			why string
			fd  int
			off int64
			n   uint32
			res int32
		}{
			{"the whole file", fd, 0, 10001, 1},
			{"one byte", fd, 10000, 1, 1},
			{"beyond the end", fd, 0, 20000, 0},
			{"a pipe takes no advice, and this one has ended", pipe[0], 0, 10, 0},
			{"no such descriptor", g.closedFD(), 0, 10, -int32(unix.EBADF)},
		} {
			p[0] = 0
			g.ok(g.Prefetch(c.fd, c.off, c.n, p, tag(opPrefetch, 1, uint32(i))))
			g.wantRes(tag(opPrefetch, 1, uint32(i)), c.res, c.why)
			if c.res == 1 && p[0] != '!' {
				g.Errorf("%s: read %q, want the last byte", c.why, p[0])
			}
		}
		g.wantNone("the advice completes under the ring's own name")
	})
}

// The kernel refuses the read before it issues the advice, since the address is its own.
func TestPrefetchThatCannotBePrepared(t *testing.T) {
	onRing(t, uring.Config{}, uring.New, func(g *rig) {
		g.PrefetchInto(g.file("0123456789"), 0, 10, 0xffff800000000000, tag(opPrefetch, 1, 1))
		if c := g.want(tag(opPrefetch, 1, 1), "the read's completion, not the advice's"); c.Res >= 0 {
			g.Errorf("got %d, want an error", c.Res)
		}
		g.wantNone("one completion per prefetch")
	})
}

func TestCancel(t *testing.T) {
	onKernels(t, uring.Config{}, func(g *rig) {
		fd := must(unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK))
		defer unix.Close(fd)
		p := g.memory(16)
		g.ok(g.Cancel(tag(opRead, 9, 9), tag(opCancel, 1, 0)))
		g.wantRes(tag(opCancel, 1, 0), -int32(unix.ENOENT), "there is no such request")

		g.ok(g.Read(fd, p[:8], -1, tag(opRead, 1, 1)))
		g.ok(g.Read(fd, p[8:], -1, tag(opRead, 1, 2)))
		g.wantNone("both wait")
		g.ok(g.Cancel(tag(opRead, 1, 2), tag(opCancel, 1, 1)))
		g.wantBoth(tag(opRead, 1, 2), -int32(unix.ECANCELED), tag(opCancel, 1, 1), 0)

		g.ok(g.Read(fd, p[8:], -1, tag(opRead, 1, 3)))
		g.ok(g.CancelFD(fd, tag(opCancel, 1, 2)))
		got := map[uring.UserData]int32{}
		for range 3 {
			c := g.next()
			got[c.UserData] = c.Res
		}
		if got[tag(opCancel, 1, 2)] != 2 || got[tag(opRead, 1, 1)] != -int32(unix.ECANCELED) || got[tag(opRead, 1, 3)] != -int32(unix.ECANCELED) {
			g.Errorf("got %v, want two cancelled reads and a count of 2", got)
		}
		g.ok(g.CancelFD(fd, tag(opCancel, 1, 3)))
		g.wantRes(tag(opCancel, 1, 3), 0, "nothing is left on the descriptor")
	})
}

// The queues are indexes modulo 2^32 over a small array: go round often, in lots that do and do not divide it.
func TestManyTurns(t *testing.T) {
	for _, lot := range []int{1, 3, 8, 13} {
		onKernels(t, uring.Config{Entries: 8, CQEntries: 16}, func(g *rig) {
			fd := g.file("0123456789")
			p := g.memory(16)
			for i := range 300 {
				for k := range lot {
					g.ok(g.Read(fd, p[k:k+1], int64((i+k)%10), tag(opRead, uint32(k), uint32(i))))
				}
				seen := 0
				for range lot {
					c := g.next()
					if c.UserData.Gen() != uint32(i) || c.Res != 1 {
						g.Fatalf("turn %d: got %#x with %d", i, c.UserData, c.Res)
					}
					if k := c.UserData.Slot(); p[k] != byte('0'+(i+int(k))%10) {
						g.Fatalf("turn %d, slot %d: read %q", i, k, p[k])
					}
					seen |= 1 << c.UserData.Slot()
				}
				if seen != 1<<lot-1 {
					g.Fatalf("turn %d: slots %b completed, want %d of them once each", i, seen, lot)
				}
			}
			if s := g.Stats(); lot > 8 && s.SQFull == 0 || s.Completed != uint64(300*lot) {
				g.Errorf("got %+v, want %d completions, and a full queue for lots above 8", s, 300*lot)
			}
		})
	}
}

// An enter that takes a part is followed by another, as long as each takes something.
func TestPartialSubmission(t *testing.T) {
	completed := 0
	for seed := range uint64(20) {
		var k *uringtest.Kernel
		make := func(cfg uring.Config) (r *uring.Ring, err error) {
			r, k, err = uringtest.New(seed, cfg)
			return r, err
		}
		onRing(t, uring.Config{Entries: 8}, make, func(g *rig) {
			k.SetFaults(uringtest.Faults{Partial: 0.5})
			for i := range uint32(8) {
				g.ok(g.Cancel(tag(opPoll, i, 1), tag(opCancel, i, 1)))
			}
			check(g.Submit())
			s := g.Stats()
			if s.Partial > 0 && s.Submitted == 8 {
				completed++
			}
			if s.Submitted < 8 && s.Busy == 0 {
				g.Errorf("got %+v: it stopped although the kernel took more each time", s)
			}
			k.Quiet()
			for range 8 {
				g.next()
			}
		})
	}
	if completed == 0 {
		t.Error("no submission was completed in parts: the test tests nothing")
	}
}

// More completions than the queue holds wait in the kernel; none is lost.
func TestCompletionOverflow(t *testing.T) {
	onRing(t, uring.Config{Entries: 8, CQEntries: 8}.WithNop(), uring.New, func(g *rig) {
		g.waits = 0
		for i := range 48 {
			g.ok(g.Nop(tag(opNop, uint32(i), 0)))
		}
		for i := range 48 {
			g.wantRes(tag(opNop, uint32(i), 0), 0, "in order")
		}
		if g.Stats().CQOverflow == 0 {
			g.Error("48 completions fitted a queue of 8: the test tests nothing")
		}
	})
}

// A loop that never sleeps is told by the kernel's flag that there is something to enter for, however much there is at once.
func TestPollingSeesEverything(t *testing.T) {
	onKernels(t, uring.Config{}, func(g *rig) {
		g.waits = 0
		p := g.memory(8 * 200)
		var events []int
		for i := range uint32(200) {
			fd := must(unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK))
			defer unix.Close(fd)
			events = append(events, fd)
			g.ok(g.Read(fd, p[8*i:8*i+8], -1, tag(opRead, i, 1)))
		}
		g.wantNone("nobody rang")
		for _, fd := range events {
			must(unix.Write(fd, []byte{1, 0, 0, 0, 0, 0, 0, 0}))
		}
		for range events {
			if c := g.next(); c.Res != 8 {
				g.Fatalf("got %v, want a ring", c)
			}
		}
		enters := g.Stats().Enters
		g.wantNone("all have completed")
		if g.Stats().Enters != enters {
			g.Error("with nothing to do it entered the kernel")
		}
	})
}

func TestWaitTimesOut(t *testing.T) {
	onRing(t, uring.Config{}, uring.New, func(g *rig) {
		for _, d := range []time.Duration{0, 1, time.Millisecond} {
			if err := g.Wait(d); err != nil {
				g.Errorf("wait of %v: %v", d, err)
			}
		}
		if s := g.Stats(); s.Waits != 2 || s.Enters != 2 {
			g.Errorf("got %+v, want two sleeping enters and none for a wait of 0 with nothing to do", s)
		}
	})
}

// A wait without limit ends with a completion.
func TestWaitWithoutLimit(t *testing.T) {
	onRing(t, uring.Config{}, uring.New, func(g *rig) {
		fd := must(unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK))
		defer unix.Close(fd)
		g.ok(g.Read(fd, g.memory(8), -1, tag(opRead, 1, 1)))
		check(g.Submit())
		rung := make(chan struct{})
		go func() {
			defer close(rung)
			must(unix.Write(fd, []byte{1, 0, 0, 0, 0, 0, 0, 0}))
		}()
		g.waits = -1
		g.wantRes(tag(opRead, 1, 1), 8, "somebody rang")
		<-rung
	})
}

// The Go scheduler interrupts a thread whenever it likes; a wait that is interrupted comes back with nothing and without an error.
func TestInterruptedWait(t *testing.T) {
	onRing(t, uring.Config{}, uring.New, func(g *rig) {
		fd := must(unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK))
		defer unix.Close(fd)
		g.ok(g.Read(fd, g.memory(8), -1, tag(opRead, 1, 1)))
		pid, tid := os.Getpid(), unix.Gettid()
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				default:
					_ = unix.Tgkill(pid, tid, unix.SIGURG)
				}
			}
		}()
		for g.Stats().Interrupted < 10 {
			if err := g.Wait(-1); err != nil {
				g.Fatal(err)
			}
		}
		must(unix.Write(fd, []byte{1, 0, 0, 0, 0, 0, 0, 0}))
		g.wantRes(tag(opRead, 1, 1), 8, "somebody rang")
		close(stop)
		<-stopped
	})
}

func TestRestrictions(t *testing.T) {
	onRing(t, uring.Config{}, uring.New, func(g *rig) {
		g.ok(g.Nop(tag(opNop, 1, 1)))
		g.wantRes(tag(opNop, 1, 1), -int32(unix.EACCES), "the no-op is not on the list")
	})
}

func TestWorkersAreCapped(t *testing.T) {
	for _, c := range []struct {
		cfg                uring.Config
		bounded, unbounded uint32
	}{{uring.Config{}, 4, 4}, {uring.Config{BoundedWorkers: 2, UnboundedWorkers: 3}, 2, 3}} {
		onRing(t, c.cfg, uring.New, func(g *rig) {
			if b, u := g.Workers(); b != c.bounded || u != c.unbounded {
				g.Errorf("got %d and %d workers, want %d and %d", b, u, c.bounded, c.unbounded)
			}
		})
	}
}

// The kernel refuses every thread but the owner, and a ring that is not enabled; the error says which.
func TestWrongThread(t *testing.T) {
	onRing(t, uring.Config{}.WithNop(), uring.New, func(g *rig) {
		g.ok(g.Nop(tag(opNop, 1, 1)))
		err := make(chan error)
		go func() { err <- g.Submit() }() // the test's thread is locked, so this is another
		if e := <-err; e == nil || !strings.Contains(e.Error(), "does not own the ring") {
			g.Errorf("got %v, want a refusal that names the thread", e)
		}
		g.wantRes(tag(opNop, 1, 1), 0, "the owner still can")
	})
	r := must(uring.New(uring.Config{}.WithNop()))
	r.Nop(1)
	if err := r.Submit(); !errors.Is(err, unix.EBADFD) {
		t.Errorf("before Enable: got %v, want EBADFD", err)
	}
	check(r.Close())
}

// Close waits until the kernel lets go: closing the descriptor afterwards ends the connection at once. What was prepared and never
// submitted does not happen.
func TestCloseCancels(t *testing.T) {
	for _, k := range kernels {
		t.Run(k.name, func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			g := &rig{T: t}
			ours, theirs := must2(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0))
			defer unix.Close(theirs)
			r := must(k.make(uring.Config{}))
			check(r.Enable())
			must(r.NewBuffers(1, 2, 8))
			g.ok(r.Read(ours, g.memory(8), -1, tag(opRead, 1, 1)))
			g.ok(r.Recv(ours, 1, tag(opRecv, 1, 1)))
			g.ok(r.Prefetch(g.file("0123456789"), 0, 10, g.memory(1), tag(opPrefetch, 1, 1)))
			check(r.Submit())
			if n := r.InFlight(); n < 2 {
				t.Errorf("%d requests are in flight, want a read and a receive at least", n)
			}
			g.ok(r.Send(ours, g.text("never"), 0, tag(opSend, 1, 1)))
			check(r.Close())
			if n := r.InFlight(); n != 0 {
				t.Errorf("%d requests are in flight after close", n)
			}
			check(unix.Close(ours))
			if n, err := unix.Read(theirs, make([]byte, 8)); n != 0 || err != nil {
				t.Errorf("the peer got %d, %v; want the end of the stream", n, err)
			}
		})
	}
}

func must2(p [2]int, err error) (int, int) {
	check(err)
	return p[0], p[1]
}

func TestConfig(t *testing.T) {
	for _, c := range []struct {
		cfg  uring.Config
		want string
	}{
		{uring.Config{Entries: 3}, "3 entries: want a power of two"},
		{uring.Config{Entries: 1}, "1 entries: want a power of two"},
		{uring.Config{Entries: 65536}, "65536 entries: want a power of two"},
		{uring.Config{Entries: 8, CQEntries: 4}, "4 completion entries"},
		{uring.Config{Entries: 8, CQEntries: 24}, "24 completion entries"},
		{uring.Config{Entries: 8, CQEntries: 1 << 17}, "131072 completion entries"},
	} {
		r, err := uring.New(c.cfg)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %q", c.cfg, err, c.want)
		}
		if r != nil {
			check(r.Close())
		}
	}
}

func TestUserDataZeroIsRefused(t *testing.T) {
	onKernels(t, uring.Config{}, func(g *rig) {
		defer func() {
			if s, _ := recover().(string); !strings.Contains(s, "the ring's own") {
				g.Errorf("got %q, want a panic that says whose it is", s)
			}
		}()
		g.PollOut(0, 0)
	})
}

// Nothing in the loop allocates.
func TestAllocations(t *testing.T) {
	onRing(t, uring.Config{}, uring.New, func(g *rig) {
		fd := g.file("0123456789")
		ours, theirs := g.pair()
		p := g.memory(64)
		sink := make([]byte, 64)
		got := testing.AllocsPerRun(100, func() {
			g.ok(g.Read(fd, p, 0, tag(opRead, 1, 1)))
			g.ok(g.Prefetch(fd, 0, 10, p, tag(opPrefetch, 1, 1)))
			g.ok(g.Send(ours, p, 0, tag(opSend, 1, 1)))
			g.ok(g.PollOut(ours, tag(opPoll, 1, 1)))
			g.ok(g.Cancel(tag(opPoll, 2, 2), tag(opCancel, 1, 1)))
			g.ok(g.CancelFD(fd, tag(opCancel, 1, 2)))
			for range 6 {
				g.next()
			}
			if err := g.Wait(1); err != nil {
				g.Fatal(err)
			}
			_, _ = unix.Read(theirs, sink)
		})
		if got != 0 {
			g.Errorf("got %v allocations per turn, want 0", got)
		}
	})
}
