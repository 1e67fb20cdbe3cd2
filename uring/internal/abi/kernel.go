package abi

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Kernel is everything of a ring that leaves the process: three system calls and the mappings. Three kernels exist: Linux (package
// uring), Linux through giouring (build tag giouring) and the seeded fake of uringtest. All methods but Setup belong to the ring's
// thread.
type Kernel interface {
	// Setup is io_uring_setup(2) and the mmap(2)s of what it made. It fills p with what the kernel answered; the SQ array is the identity.
	Setup(entries uint32, p *Params) (Memory, error)

	// Adopt registers the ring's descriptor with the calling thread (IORING_REGISTER_RING_FDS), so that Enter spares the look-up.
	Adopt() unix.Errno

	// Enter is io_uring_enter(2). It may sleep only if wait is not 0. arg lies outside the Go heap.
	Enter(submit, wait, flags uint32, arg unsafe.Pointer, size uintptr) unix.Errno

	// Register is io_uring_register(2).
	Register(op uint32, arg unsafe.Pointer, n uint32) unix.Errno

	// Close gives back the adoption, the mappings and the descriptor, in that order.
	Close() error
}

// Memory is what a ring and its kernel share.
type Memory struct {
	Rings []byte // both queues: the words at the offsets of Params, the SQ array and the CQEs
	SQEs  []byte
}
