package uring

import (
	"unsafe"

	"github.com/talon-worker/talon/uring/internal/abi"
)

// WithNop allows the no-op, which only tests and the probe submit.
func (c Config) WithNop() Config {
	c.extraOps = append(c.extraOps, abi.OpNop)
	return c
}

// Nop prepares a no-op.
func (r *Ring) Nop(ud UserData) bool { return r.nop(ud) }

// PrefetchInto is Prefetch with any address.
func (r *Ring) PrefetchInto(fd int, off int64, n uint32, addr uint64, ud UserData) {
	sqeWillneed(r.take(), fd, off, n)
	sqeRead(r.take(), fd, addr, 1, off+int64(n)-1, ud)
}

// Workers reads the caps on kernel workers back.
func (r *Ring) Workers() (bounded, unbounded uint32) {
	var v [2]uint32
	r.kernel.Register(abi.RegisterIOWQMaxWorkers, unsafe.Pointer(&v), 2)
	return v[0], v[1]
}

// Forget takes back what was prepared since the last enter.
func (r *Ring) Forget() { r.sqTail = r.sqPublished }
