package uring_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/uring"
)

// recvText takes the next completion, which must be a receive of ud, and returns its bytes; the buffer is released.
func (g *rig) recvText(b *uring.Buffers, ud uring.UserData) (string, uring.Completion) {
	g.Helper()
	c := g.want(ud, "a receive")
	id, ok := c.Buffer()
	if !ok {
		return "", c
	}
	text := string(b.Bytes(id, int(max(c.Res, 0))))
	b.Release(id)
	return text, c
}

func TestRecv(t *testing.T) {
	onKernels(t, uring.Config{}, func(g *rig) {
		b := must(g.NewBuffers(7, 4, 8))
		ours, theirs := g.pair()
		ud := tag(opRecv, 1, 1)
		g.ok(g.Recv(ours, 7, ud))
		g.wantNone("nothing was sent")
		for i := range 20 { // five times round the group
			want := fmt.Sprintf("n%d", i)
			must(unix.Write(theirs, []byte(want)))
			if got, c := g.recvText(b, ud); got != want || !c.More() {
				g.Fatalf("got %q, more %v; want %q and more", got, c.More(), want)
			}
		}
		must(unix.Write(theirs, []byte("0123456789")))
		first, _ := g.recvText(b, ud)
		second, _ := g.recvText(b, ud)
		if first+second != "0123456789" || len(first) > 8 {
			g.Errorf("got %q and %q, want 10 bytes in buffers of 8", first, second)
		}
		check(unix.Shutdown(theirs, unix.SHUT_WR))
		if text, c := g.recvText(b, ud); text != "" || c.Res != 0 || c.More() {
			g.Errorf("got %q, %d, more %v; want the end of the stream", text, c.Res, c.More())
		}
		if b.Held() != 0 {
			g.Errorf("%d buffers are on lease, want 0", b.Held())
		}
		check(b.Free())
	})
}

// A receive that finds no buffer ends; armed again after a release it goes on, with every byte.
func TestRecvRunsOutOfBuffers(t *testing.T) {
	onKernels(t, uring.Config{}, func(g *rig) {
		b := must(g.NewBuffers(1, 2, 4))
		ours, theirs := g.pair()
		ud := tag(opRecv, 1, 1)
		g.ok(g.Recv(ours, 1, ud))
		must(unix.Write(theirs, []byte("aaaabbbbcccc")))
		var ids []uint16
		got := ""
		for {
			c := g.want(ud, "a receive")
			id, ok := c.Buffer()
			if !ok {
				if c.Err() != unix.ENOBUFS || c.More() {
					g.Fatalf("got %v, more %v; want ENOBUFS, and no more", c.Err(), c.More())
				}
				break
			}
			got += string(b.Bytes(id, int(c.Res)))
			ids = append(ids, id)
		}
		if got != "aaaabbbb" || b.Held() != 2 {
			g.Fatalf("got %q with %d on lease, want two buffers full", got, b.Held())
		}
		for _, id := range ids {
			b.Release(id)
		}
		g.ok(g.Recv(ours, 1, ud))
		if text, c := g.recvText(b, ud); text != "cccc" || !c.More() {
			g.Errorf("got %q, more %v; want the rest", text, c.More())
		}
	})
}

// A receive that is armed while no buffer is free ends at once, before there is anything to receive: re-arming blindly would spin.
func TestRecvArmedWithoutBuffers(t *testing.T) {
	onKernels(t, uring.Config{}, func(g *rig) {
		b := must(g.NewBuffers(1, 1, 4))
		first, toFirst := g.pair()
		second, _ := g.pair()
		g.ok(g.Recv(first, 1, tag(opRecv, 1, 1)))
		must(unix.Write(toFirst, []byte("a")))
		c := g.want(tag(opRecv, 1, 1), "a receive")
		id, _ := c.Buffer()
		g.ok(g.Recv(second, 1, tag(opRecv, 2, 1)))
		if c := g.wantRes(tag(opRecv, 2, 1), -int32(unix.ENOBUFS), "the only buffer is on lease"); c.More() {
			g.Error("a receive that found no buffer promises more")
		}
		b.Release(id)
		g.ok(g.Recv(second, 1, tag(opRecv, 2, 2)))
		g.wantNone("there is a buffer, and nothing to receive")
	})
}

// The tail is 16 bits and the slots are up to 32,768: go round more than once, at every size where an offset could overflow.
func TestBufferCounts(t *testing.T) {
	for _, count := range []uint32{1, 2, 64, 4096, 8192, 32768} {
		onKernels(t, uring.Config{}, func(g *rig) {
			b := must(g.NewBuffers(1, count, 16))
			ours, theirs := g.pair()
			ud := tag(opRecv, 1, 1)
			g.ok(g.Recv(ours, 1, ud))
			seen := make([]int, count)
			lot := max(1, min(count/2, 64)) // messages per write, so that the test costs few system calls
			p := make([]byte, 16*lot)
			for i := uint32(0); i < 2*count+3; i += lot {
				for k := range lot {
					binary.LittleEndian.PutUint32(p[16*k:], i+k)
				}
				must(unix.Write(theirs, p))
				for k := range lot {
					c := g.want(ud, "a receive")
					id, ok := c.Buffer()
					if !ok || c.Res != 16 || binary.LittleEndian.Uint32(b.Bytes(id, 16)) != i+k {
						g.Fatalf("message %d of %d buffers: got %v", i+k, count, c)
					}
					seen[id]++
					b.Release(id)
					if !c.More() {
						g.Fatalf("message %d: the receive ended", i+k)
					}
				}
			}
			for id, n := range seen {
				if n < 2 {
					g.Fatalf("buffer %d of %d came %d times in more than two rounds", id, count, n)
				}
			}
			g.ok(g.CancelFD(ours, tag(opCancel, 1, 1)))
			g.wantBoth(ud, -int32(unix.ECANCELED), tag(opCancel, 1, 1), 1)
			check(b.Free())
		})
	}
}

// A group that was freed leaves its number and its operation to another.
func TestBuffersAgain(t *testing.T) {
	onKernels(t, uring.Config{}, func(g *rig) {
		for _, group := range []uint16{5, 5, 6} {
			b := must(g.NewBuffers(group, 2, 8))
			ours, theirs := g.pair()
			ud := tag(opRecv, 1, 1)
			g.ok(g.Recv(ours, group, ud))
			must(unix.Write(theirs, []byte("again")))
			if text, _ := g.recvText(b, ud); text != "again" {
				g.Fatalf("got %q in group %d", text, group)
			}
			g.ok(g.Cancel(ud, tag(opCancel, 1, 1)))
			g.wantBoth(ud, -int32(unix.ECANCELED), tag(opCancel, 1, 1), 0)
			check(b.Free())
		}
	})
}

// Each group fills its own buffers.
func TestTwoGroups(t *testing.T) {
	onKernels(t, uring.Config{}, func(g *rig) {
		small, large := must(g.NewBuffers(1, 4, 16)), must(g.NewBuffers(2, 4, 4096))
		a, toA := g.pair()
		b, toB := g.pair()
		g.ok(g.Recv(a, 1, tag(opRecv, 1, 1)))
		g.ok(g.Recv(b, 2, tag(opRead, 2, 1)))
		must(unix.Write(toA, []byte("small")))
		if text, _ := g.recvText(small, tag(opRecv, 1, 1)); text != "small" {
			g.Errorf("got %q in the small group", text)
		}
		must(unix.Write(toB, []byte(strings.Repeat("large", 100))))
		if text, _ := g.recvText(large, tag(opRead, 2, 1)); text != strings.Repeat("large", 100) {
			g.Errorf("got %q in the large group", text)
		}
	})
}

func TestBufferMisuse(t *testing.T) {
	onKernels(t, uring.Config{}, func(g *rig) {
		b := must(g.NewBuffers(1, 4, 8))
		ours, theirs := g.pair()
		g.ok(g.Recv(ours, 1, tag(opRecv, 1, 1)))
		must(unix.Write(theirs, []byte("x")))
		c := g.want(tag(opRecv, 1, 1), "a receive")
		id, _ := c.Buffer()
		if err := b.Free(); err == nil || !strings.Contains(err.Error(), "1 buffers are still on lease") {
			g.Errorf("free with a lease: got %v", err)
		}
		b.Release(id)
		for _, p := range []struct {
			what, want string
			do         func()
		}{
			{"a second release", "is released but not on lease", func() { b.Release(id) }},
			{"a use after release", "is read but not on lease", func() { b.Bytes(id, 1) }},
			{"a release of what was never lent", "is released but not on lease", func() { b.Release((id + 1) % 4) }},
			{"a group that does not exist", "has no buffer group 9", func() { g.Recv(ours, 9, tag(opRead, 1, 1)) }},
			{"two groups for one operation", "receives into buffer groups 1 and 2", func() {
				must(g.NewBuffers(2, 1, 1))
				g.Recv(ours, 2, tag(opRecv, 2, 1))
			}},
		} {
			g.wantPanic(p.what, p.want, p.do)
		}
	})
}

func (g *rig) wantPanic(what, want string, do func()) {
	g.Helper()
	defer func() {
		g.Helper()
		if s := fmt.Sprint(recover()); !strings.Contains(s, want) {
			g.Errorf("%s: got panic %q, want %q", what, s, want)
		}
	}()
	do()
}

func TestBufferBounds(t *testing.T) {
	onKernels(t, uring.Config{}, func(g *rig) {
		for _, c := range []struct {
			count, size uint32
			want        string
		}{
			{0, 8, "0 buffers: want a power of two"},
			{3, 8, "3 buffers: want a power of two"},
			{65536, 8, "65536 buffers: want a power of two up to 32768"},
			{8, 0, "8 buffers of 0 bytes"},
			{32768, 1 << 16, "at most 1073741824 together"},
		} {
			if _, err := g.NewBuffers(1, c.count, c.size); err == nil || !strings.Contains(err.Error(), c.want) {
				g.Errorf("%d of %d: got %v, want %q", c.count, c.size, err, c.want)
			}
		}
		for i := range uint16(8) {
			must(g.NewBuffers(i, 1, 1))
		}
		if _, err := g.NewBuffers(7, 1, 1); err == nil || !strings.Contains(err.Error(), "group 7 exists already") {
			g.Errorf("a group twice: got %v", err)
		}
		if _, err := g.NewBuffers(8, 1, 1); err == nil || !strings.Contains(err.Error(), "8 buffer groups are the most") {
			g.Errorf("a ninth group: got %v", err)
		}
	})
}

func TestRecvAllocations(t *testing.T) {
	onRing(t, uring.Config{}, uring.New, func(g *rig) {
		b := must(g.NewBuffers(1, 4, 64))
		ours, theirs := g.pair()
		g.ok(g.Recv(ours, 1, tag(opRecv, 1, 1)))
		p := []byte("0123456789")
		got := testing.AllocsPerRun(100, func() {
			must(unix.Write(theirs, p))
			c := g.next()
			id, _ := c.Buffer()
			if len(b.Bytes(id, int(c.Res))) != len(p) {
				g.Fatal("short")
			}
			b.Release(id)
		})
		if got != 0 {
			g.Errorf("got %v allocations per receive, want 0", got)
		}
	})
}
