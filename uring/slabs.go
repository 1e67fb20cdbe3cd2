package uring

import "fmt"

// Slabs is a bounded pool of equal buffers outside the Go heap, for what is sent and for what is read from disk. One goroutine owns it.
// The pool hands out the slab that came back last, which is the one that is still in the cache, so pages that load never
// needs are never touched.
type Slabs struct {
	mem    []byte
	size   int
	stride int
	free   []uint32 // a stack
	out    []uint64 // one bit per slab: set from Get to Put
}

// NewSlabs makes a pool of count slabs of size bytes each, 64 GiB at most together, as address space: memory is taken when a slab is first used.
func NewSlabs(count, size int) (*Slabs, error) {
	if count < 1 || size < 1 || count > maxSlabs || size > maxSlabBytes/count {
		return nil, fmt.Errorf("uring: %d slabs of %d bytes: want at least 1 of each, at most %d slabs and %d bytes", count, size, maxSlabs, maxSlabBytes)
	}
	s := &Slabs{size: size, stride: (size + guardSize + cacheLine - 1) &^ (cacheLine - 1), free: make([]uint32, count), out: make([]uint64, (count+63)/64)}
	var err error
	if s.mem, err = mapMemory(count*s.stride, 0); err != nil {
		return nil, err
	}
	for i := range s.free {
		s.free[i] = uint32(count - 1 - i)
		guard(s.behind(uint32(i)))
	}
	return s, nil
}

const (
	maxSlabs     = 1 << 24
	maxSlabBytes = 1 << 36
	cacheLine    = 64
)

// Get takes a slab; ok is false when all are out: the caller parks until one comes back. What a slab held before is still in it.
func (s *Slabs) Get() (id uint32, p []byte, ok bool) {
	last := len(s.free) - 1
	if last < 0 {
		return 0, nil, false
	}
	id = s.free[last]
	s.free = s.free[:last]
	s.out[id/64] |= 1 << (id % 64)
	return id, s.at(id), true
}

// Bytes is the whole of a slab that is out.
func (s *Slabs) Bytes(id uint32) []byte {
	if !s.isOut(id) {
		panic(fmt.Sprintf("uring: slab %d is used but not taken", id))
	}
	return s.at(id)
}

// Put gives a slab back. No request may still name it.
func (s *Slabs) Put(id uint32) {
	if !s.isOut(id) {
		panic(fmt.Sprintf("uring: slab %d is put back but not taken", id))
	}
	checkGuard(s.behind(id), "behind slab", int(id))
	spoil(s.at(id))
	s.out[id/64] &^= 1 << (id % 64)
	s.free = append(s.free, id)
}

// Held is how many slabs are out.
func (s *Slabs) Held() int { return cap(s.free) - len(s.free) }

// Free ends the pool, after the ring that was given its slabs has closed. All must be back.
func (s *Slabs) Free() error {
	if n := s.Held(); n != 0 {
		return fmt.Errorf("uring: %d slabs are still out", n)
	}
	for _, id := range s.free {
		checkGuard(s.behind(id), "behind slab", int(id))
	}
	s.free = nil
	return unmapMemory(s.mem)
}

func (s *Slabs) isOut(id uint32) bool {
	return int(id/64) < len(s.out) && s.out[id/64]&(1<<(id%64)) != 0
}

func (s *Slabs) at(id uint32) []byte {
	off := int(id) * s.stride
	return s.mem[off : off+s.size : off+s.size]
}

// behind is the guard of a slab; it is empty unless the build is one with guards.
func (s *Slabs) behind(id uint32) []byte {
	off := int(id)*s.stride + s.size
	return s.mem[off : off+guardSize]
}
