//go:build invariants

package uring_test

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/uring"
)

// wantPanic runs f, which must panic with a text that holds want.
func wantPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
			t.Errorf("panic %q, want one with %q", got, want)
		}
	}()
	f()
}

// poke writes beyond a slice, as a wrong length in a submission entry would, and returns how to take it back.
func poke(p []byte, at int) (undo func()) {
	b := (*byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(p)), at))
	was := *b
	*b ^= 1
	return func() { *b = was }
}

func TestASlabIsGuarded(t *testing.T) {
	for _, size := range []int{64, 100} {
		s := must(uring.NewSlabs(3, size))
		id, p, _ := s.Get()
		for _, at := range []int{size, size + 63} {
			undo := poke(p, at)
			wantPanic(t, "behind slab", func() { s.Put(id) })
			undo()
		}
		p[size-1]++
		s.Put(id)
		id, p, _ = s.Get()
		if p[0] != 0xdb || p[size-1] != 0xdb {
			t.Errorf("a slab that came back holds %#x", p)
		}
		s.Put(id)
		undo := poke(p, -1) // slab 0 is the first to be taken
		wantPanic(t, "before a mapping", func() { s.Free() })
		undo()
		check(s.Free())
	}
}

func TestABufferIsGuarded(t *testing.T) {
	onKernels(t, uring.Config{}, func(g *rig) {
		b := must(g.NewBuffers(1, 4, 48))
		ours, theirs := g.pair()
		g.ok(g.Recv(ours, 1, tag(opRecv, 1, 1)))
		must(unix.Write(theirs, make([]byte, 48)))
		id, _ := g.want(tag(opRecv, 1, 1), "bytes came").Buffer()
		p := b.Bytes(id, 48)
		for _, at := range []int{48, 48 + 63} {
			undo := poke(p, at)
			wantPanic(t, "behind buffer", func() { b.Release(id) })
			undo()
		}
		b.Release(id)
	})
}
