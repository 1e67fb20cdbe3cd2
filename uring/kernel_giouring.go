//go:build giouring

package uring

import (
	"errors"
	"fmt"
	"reflect"
	"unsafe"

	"github.com/pawelgaczynski/giouring"
	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/uring/internal/abi"
)

// With the build tag giouring the ring is set up, mapped, entered and closed by github.com/pawelgaczynski/giouring, and everything above
// stays as it is: a second implementation of the border that the same tests hold to the same promises. It links only with
// -ldflags=-checklinkname=0.
func newKernel() abi.Kernel { return &gio{ring: giouring.NewRing()} }

type gio struct {
	ring    *giouring.Ring
	open    bool
	adopted bool
}

// Setup hands giouring our Params under its own name: the layout is the kernel's, and its fields cannot be set from outside.
func (k *gio) Setup(entries uint32, p *abi.Params) (abi.Memory, error) {
	if err := k.ring.QueueInitParams(entries, (*giouring.Params)(unsafe.Pointer(p))); err != nil {
		return abi.Memory{}, err
	}
	k.open = true
	sq := reflect.ValueOf(k.ring).Elem().FieldByName("sqRing").Elem() // it has no accessor for its memory
	rings := (*byte)(sq.FieldByName("ringPtr").UnsafePointer())
	sqes := (*byte)(sq.FieldByName("sqes").UnsafePointer())
	mem := abi.Memory{
		Rings: unsafe.Slice(rings, sq.FieldByName("ringSize").Uint()),
		SQEs:  unsafe.Slice(sqes, uintptr(p.SQEntries)*unsafe.Sizeof(abi.SQE{})),
	}
	// RingDontFork does the same but reports success as an error, Errno(0) (sys.go).
	for _, m := range [][]byte{mem.Rings, mem.SQEs} {
		if err := unix.Madvise(m, unix.MADV_DONTFORK); err != nil {
			return abi.Memory{}, errors.Join(fmt.Errorf("uring: keep the ring from forks: %w", err), k.Close())
		}
	}
	return mem, nil
}

func (k *gio) Adopt() unix.Errno {
	_, err := k.ring.RegisterRingFd()
	k.adopted = err == nil
	var errno unix.Errno
	errors.As(err, &errno)
	return errno
}

func (k *gio) Enter(submit, wait, flags uint32, arg unsafe.Pointer, size uintptr) unix.Errno {
	if k.adopted {
		flags |= abi.EnterRegisteredRing
	}
	_, err := k.ring.Enter2(submit, wait, flags, arg, int(size))
	errno, _ := err.(unix.Errno) // Enter2 returns nothing else, and errors.As would allocate
	return errno
}

func (k *gio) Register(op uint32, arg unsafe.Pointer, n uint32) unix.Errno {
	_, errno := k.ring.Register(k.ring.RingFd(), op, arg, n)
	return errno
}

// Close gives the registered descriptor back itself: UnregisterRingFd tests its flag the wrong way round and always refuses
// (register.go:371), so the thread would keep the ring.
func (k *gio) Close() error {
	var err error
	if k.adopted {
		slot := reflect.ValueOf(k.ring).Elem().FieldByName("enterRingFd").Int()
		arg := &abi.RsrcUpdate{Offset: uint32(slot)}
		if errno := k.Register(abi.UnregisterRingFDs, unsafe.Pointer(arg), 1); errno != 0 {
			err = fmt.Errorf("uring: unregister the ring from its thread: %w", errno)
		}
	}
	if k.open {
		k.ring.QueueExit()
	}
	*k = gio{ring: giouring.NewRing()}
	return err
}
