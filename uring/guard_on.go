//go:build invariants

package uring

import (
	"fmt"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// With the build tag invariants everything that the kernel may write lies between guards: a cache line behind each slab and each
// provided buffer, looked at when it comes back, and a page on both sides of each mapping, looked at when it is unmapped. The race detector
// does not see the kernel, and a stray write of ours into a mapping is no race either. A guard that has changed panics. What comes back to
// a pool of slabs is overwritten, as the fake kernel does with buffers, so that a send that still names it is seen to be wrong.
const guardSize = cacheLine

const (
	guardByte = 0xc5
	spoilByte = 0xdb
	guardPage = 4096
)

// guarded maps the first byte of a mapping to all of it, guards included.
var guarded = struct {
	sync.Mutex
	whole map[*byte][]byte
}{whole: map[*byte][]byte{}}

func mmap(n, flags int) ([]byte, error) {
	room := (n + guardPage - 1) &^ (guardPage - 1)
	whole, err := unix.Mmap(-1, 0, room+2*guardPage, protection, mapping|flags)
	if err != nil {
		return nil, err
	}
	guard(whole[:guardPage])
	guard(whole[guardPage+n:])
	mem := whole[guardPage : guardPage+n : guardPage+n]
	guarded.Lock()
	defer guarded.Unlock()
	guarded.whole[unsafe.SliceData(mem)] = whole
	return mem, nil
}

func unmapMemory(mem []byte) error {
	guarded.Lock()
	defer guarded.Unlock()
	whole := guarded.whole[unsafe.SliceData(mem)]
	if whole == nil {
		return unix.EINVAL // as munmap of what is not mapped
	}
	checkGuard(whole[:guardPage], "before a mapping of bytes", len(mem))
	checkGuard(whole[guardPage+len(mem):], "behind a mapping of bytes", len(mem))
	delete(guarded.whole, unsafe.SliceData(mem))
	return unix.Munmap(whole)
}

// guard writes a guard.
func guard(p []byte) { fill(p, guardByte) }

// spoil makes what a slab held useless.
func spoil(p []byte) { fill(p, spoilByte) }

func fill(p []byte, b byte) {
	for i := range p {
		p[i] = b
	}
}

func checkGuard(p []byte, where string, n int) {
	for i, b := range p {
		if b != guardByte {
			panic(fmt.Sprintf("uring: byte %d %s %d has been overwritten with %#02x", i, where, n, b))
		}
	}
}
