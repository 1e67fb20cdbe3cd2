package uring_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/talon-worker/talon/uring"
)

// The pool against a set: the same answers, and no slab overlaps another.
func TestSlabsAgainstASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		count := rapid.IntRange(1, 70).Draw(t, "count")
		size := rapid.IntRange(1, 300).Draw(t, "size")
		s := must(uring.NewSlabs(count, size))
		out := map[uint32]byte{}
		mark := byte(0)
		t.Repeat(map[string]func(*rapid.T){
			"get": func(t *rapid.T) {
				id, p, ok := s.Get()
				if ok != (len(out) < count) {
					t.Fatalf("get with %d of %d out: ok is %v", len(out), count, ok)
				}
				if !ok {
					return
				}
				if _, taken := out[id]; taken || int(id) >= count || len(p) != size || cap(p) != size {
					t.Fatalf("got slab %d (len %d, cap %d), taken %v", id, len(p), cap(p), taken)
				}
				mark++
				out[id] = mark
				for i := range p {
					p[i] = mark
				}
			},
			"put": func(t *rapid.T) {
				id := uint32(rapid.IntRange(0, count+70).Draw(t, "id"))
				_, taken := out[id]
				if panicked := panics(func() { s.Put(id) }); panicked == taken {
					t.Fatalf("put of slab %d, taken %v: panicked %v", id, taken, panicked)
				}
				delete(out, id)
			},
			"": func(t *rapid.T) {
				if s.Held() != len(out) {
					t.Fatalf("%d are held, want %d", s.Held(), len(out))
				}
				for id, mark := range out {
					if p := s.Bytes(id); p[0] != mark || p[size-1] != mark {
						t.Fatalf("slab %d was overwritten", id)
					}
				}
			},
		})
		if err := s.Free(); (err != nil) != (len(out) > 0) {
			t.Fatalf("free with %d out: %v", len(out), err)
		}
		for id := range out {
			s.Put(id)
		}
		if len(out) > 0 {
			check(s.Free())
		}
	})
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}

func TestSlabBounds(t *testing.T) {
	for _, c := range [][2]int{{0, 8}, {8, 0}, {-1, 8}, {8, -1}, {1 << 25, 1}, {2, 1 << 36}, {1 << 20, 1 << 62}} {
		if _, err := uring.NewSlabs(c[0], c[1]); err == nil || !strings.Contains(err.Error(), "want at least 1 of each") {
			t.Errorf("%d of %d: got %v", c[0], c[1], err)
		}
	}
}

func TestSlabAllocations(t *testing.T) {
	s := must(uring.NewSlabs(4, 100))
	got := testing.AllocsPerRun(100, func() {
		id, p, _ := s.Get()
		p[0] = 1
		s.Put(id)
	})
	if got != 0 {
		t.Errorf("got %v allocations per slab, want 0", got)
	}
	check(s.Free())
}
