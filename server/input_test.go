package server

import (
	"bytes"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/talon-worker/talon/uring"
)

// Whatever the sizes and however it is consumed, an input yields the bytes that
// were added, in order, and gives back all memory. The receive buffers are a real
// group's, so that a double release panics.
func TestInputAgainstBuffer(t *testing.T) {
	withRing(t, func(src *source) {
		rapid.Check(t, func(t *rapid.T) {
			pool := rapid.IntRange(0, 2).Draw(t, "slabs")
			slabs, err := uring.NewSlabs(max(pool, 1), inputSize)
			if err != nil {
				t.Fatal(err)
			}
			defer slabs.Free()
			if pool == 0 {
				slabs.Get()
			}
			checkInput(t, src, slabs, pool > 0)
		})
	})
}

func checkInput(t *rapid.T, src *source, slabs *uring.Slabs, room bool) {
	bufs := src.bufs
	before := slabs.Held()
	is := newInputs(bufs, slabs, 64)
	in := input{slab: noSlab}
	var twin []byte
	next := byte(0)
	for range rapid.IntRange(1, 60).Draw(t, "steps") {
		if in.held < 20 && rapid.Bool().Draw(t, "add") {
			n := rapid.IntRange(1, recvSize).Draw(t, "n")
			id := src.receive(n, next)
			twin = append(twin, bufs.Bytes(id, n)...)
			next++
			is.add(&in, id, n)
		} else {
			is.refill(&in)
			got := is.bytes(&in)
			if !bytes.HasPrefix(twin, got) {
				t.Fatalf("stored bytes are not the next ones")
			}
			if len(twin) > 0 && len(got) == 0 && room {
				t.Fatalf("%d bytes are there and none is to be had", len(twin))
			}
			if len(got) > 0 {
				n := rapid.IntRange(1, len(got)).Draw(t, "consume")
				is.consume(&in, n)
				twin = twin[n:]
			}
		}
		if in.empty() != (len(twin) == 0) {
			t.Fatalf("empty is %v with %d bytes left", in.empty(), len(twin))
		}
	}
	is.free(&in)
	if !in.empty() || bufs.Held() != 0 || slabs.Held() != before {
		t.Fatalf("after free: %d buffers and %d slabs held", bufs.Held(), slabs.Held()-before)
	}
}

// source is a ring that receives what the test writes, message by message.
type source struct {
	t    *testing.T
	ring *uring.Ring
	bufs *uring.Buffers
	pair [2]int
}

func withRing(t *testing.T, f func(*source)) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	check := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	ring, err := uring.New(uring.Config{Entries: 8})
	check(err)
	defer ring.Close()
	check(ring.Enable())
	bufs, err := ring.NewBuffers(0, 64, recvSize)
	check(err)
	defer bufs.Free()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	check(err)
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	src := &source{t, ring, bufs, pair}
	src.arm()
	f(src)
}

func (s *source) arm() { s.ring.Recv(s.pair[0], 0, uring.Tag(1, 0, 1)) }

// receive returns a buffer with n fresh bytes.
func (s *source) receive(n int, fill byte) uint16 {
	if _, err := unix.Write(s.pair[1], pattern(n, fill)); err != nil {
		s.t.Fatal(err)
	}
	for {
		if err := s.ring.Wait(-1); err != nil {
			s.t.Fatal(err)
		}
		for {
			c, ok := s.ring.Next()
			if !ok {
				break
			}
			if !c.More() {
				s.arm()
			}
			if id, ok := c.Buffer(); ok && int(c.Res) == n {
				return id
			}
		}
	}
}
