//go:build !giouring

package uring

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/uring/internal/abi"
)

func newKernel() abi.Kernel { return &linux{fd: -1} }

// linux is the running kernel.
type linux struct {
	fd      int
	enterFD uintptr // fd, or its index among the thread's registered rings
	flags   uint32  // what every Enter adds
	mem     abi.Memory
}

func (k *linux) Setup(entries uint32, p *abi.Params) (abi.Memory, error) {
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, uintptr(entries), uintptr(unsafe.Pointer(p)), 0)
	if errno != 0 {
		return abi.Memory{}, errno
	}
	k.fd, k.enterFD = int(fd), fd
	if err := k.mapRings(p); err != nil {
		return abi.Memory{}, errors.Join(err, k.Close())
	}
	array := unsafe.Slice((*uint32)(unsafe.Pointer(&k.mem.Rings[p.SQOff.Array])), p.SQEntries)
	for i := range array {
		array[i] = uint32(i)
	}
	return k.mem, nil
}

func (k *linux) mapRings(p *abi.Params) (err error) {
	sq := p.SQOff.Array + p.SQEntries*4
	cq := p.CQOff.CQEs + p.CQEntries*uint32(unsafe.Sizeof(abi.CQE{}))
	if k.mem.Rings, err = k.mmap(abi.OffRings, int(max(sq, cq))); err != nil {
		return err
	}
	k.mem.SQEs, err = k.mmap(abi.OffSQEs, int(p.SQEntries)*int(unsafe.Sizeof(abi.SQE{})))
	return err
}

func (k *linux) mmap(off int64, n int) ([]byte, error) {
	mem, err := unix.Mmap(k.fd, off, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("uring: map the ring: %w", err)
	}
	if err := unix.Madvise(mem, unix.MADV_DONTFORK); err != nil {
		return nil, errors.Join(fmt.Errorf("uring: keep the ring from forks: %w", err), unix.Munmap(mem))
	}
	return mem, nil
}

func (k *linux) Adopt() unix.Errno {
	arg := &abi.RsrcUpdate{Offset: abi.RingFDAny, Data: uint64(k.fd)}
	if errno := k.Register(abi.RegisterRingFDs, unsafe.Pointer(arg), 1); errno != 0 {
		return errno
	}
	k.enterFD, k.flags = uintptr(arg.Offset), abi.EnterRegisteredRing
	return 0
}

// Enter is raw unless it may sleep. A raw call keeps the Go scheduler's processor and costs 40 to 70 ns less; a sleeping one must give it up,
// or every other goroutine and the garbage collector wait with it.
func (k *linux) Enter(submit, wait, flags uint32, arg unsafe.Pointer, size uintptr) unix.Errno {
	if wait == 0 {
		_, _, errno := unix.RawSyscall6(unix.SYS_IO_URING_ENTER, k.enterFD, uintptr(submit), 0, uintptr(flags|k.flags), uintptr(arg), size)
		return errno
	}
	_, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, k.enterFD, uintptr(submit), uintptr(wait), uintptr(flags|k.flags), uintptr(arg), size)
	return errno
}

func (k *linux) Register(op uint32, arg unsafe.Pointer, n uint32) unix.Errno {
	_, _, errno := unix.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(k.fd), uintptr(op), uintptr(arg), uintptr(n), 0, 0)
	return errno
}

func (k *linux) Close() error {
	var errs []error
	if k.flags&abi.EnterRegisteredRing != 0 {
		arg := &abi.RsrcUpdate{Offset: uint32(k.enterFD)}
		if errno := k.Register(abi.UnregisterRingFDs, unsafe.Pointer(arg), 1); errno != 0 {
			errs = append(errs, fmt.Errorf("uring: unregister the ring from its thread: %w", errno))
		}
	}
	for _, mem := range [][]byte{k.mem.SQEs, k.mem.Rings} {
		if mem != nil {
			errs = append(errs, unix.Munmap(mem))
		}
	}
	errs = append(errs, unix.Close(k.fd))
	*k = linux{fd: -1}
	return errors.Join(errs...)
}
