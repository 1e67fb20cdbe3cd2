package uring_test

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/uring"
)

// benchRing is an enabled ring on the benchmark's locked thread.
func benchRing(b *testing.B) *uring.Ring {
	runtime.LockOSThread()
	r := must(uring.New(uring.Config{}.WithNop()))
	check(r.Enable())
	b.Cleanup(func() {
		check(r.Close())
		runtime.UnlockOSThread()
	})
	b.ReportAllocs()
	return r
}

// One request, one enter, one completion.
func BenchmarkNop(b *testing.B) {
	r := benchRing(b)
	for b.Loop() {
		r.Nop(1)
		check(r.Wait(-1))
		r.Next()
	}
}

// 32 requests per enter; the figure is for one of them.
func BenchmarkNopBatch32(b *testing.B) { benchmarkBatch(b, 32) }

func BenchmarkNopBatch256(b *testing.B) { benchmarkBatch(b, 256) }

func benchmarkBatch(b *testing.B, lot int) {
	r := benchRing(b)
	n := 0
	for b.Loop() {
		r.Nop(1)
		if n++; n%lot == 0 {
			check(r.Wait(-1))
			for {
				if _, ok := r.Next(); !ok {
					break
				}
			}
		}
	}
}

// What a request costs before the kernel sees it. The queue is thrown away, so no enter is in the figure.
func BenchmarkPrepareSend(b *testing.B) {
	r := benchRing(b)
	p := make([]byte, 16) // never seen by the kernel
	for b.Loop() {
		r.Send(1, p, 0, 1)
		r.Forget()
	}
}

// A message through a socket pair: write(2) by the benchmark, multishot receive, release.
func BenchmarkRecv(b *testing.B) {
	r := benchRing(b)
	group := must(r.NewBuffers(1, 1024, 2048))
	pair := must(unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0))
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	r.Recv(pair[0], 1, tag(opRecv, 1, 1))
	p := make([]byte, 64)
	for b.Loop() {
		must(unix.Write(pair[1], p))
		check(r.Wait(-1))
		c, _ := r.Next()
		id, _ := c.Buffer()
		group.Release(id)
	}
}

// A wait that finds nothing to do makes no system call.
func BenchmarkIdlePoll(b *testing.B) {
	r := benchRing(b)
	for b.Loop() {
		check(r.Wait(0))
	}
}

// One of 2,000 armed polls is cancelled and armed again, by its name and by its descriptor.
func BenchmarkCancelAmongMany(b *testing.B)   { benchmarkCancel(b, false) }
func BenchmarkCancelFDAmongMany(b *testing.B) { benchmarkCancel(b, true) }

func benchmarkCancel(b *testing.B, byFD bool) {
	const many = 2000
	r := benchRing(b)
	full := []byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff} // an eventfd that cannot be written
	fds := make([]int, many)
	for i := range fds {
		fds[i] = must(unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK))
		defer unix.Close(fds[i])
		must(unix.Write(fds[i], full))
		r.PollOut(fds[i], tag(opPoll, uint32(i), 1))
	}
	check(r.Wait(0))
	n := uint32(0)
	for b.Loop() {
		i := n % many
		if n++; byFD {
			r.CancelFD(fds[i], tag(opCancel, i, 1))
		} else {
			r.Cancel(tag(opPoll, i, 1), tag(opCancel, i, 1))
		}
		for got := 0; got < 2; {
			check(r.Wait(-1))
			for _, ok := r.Next(); ok; _, ok = r.Next() {
				got++
			}
		}
		r.PollOut(fds[i], tag(opPoll, i, 1))
	}
}
