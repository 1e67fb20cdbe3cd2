package uring

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/uring/internal/abi"
)

// Buffers is a group of equal buffers that the kernel fills as data arrives (IORING_REGISTER_PBUF_RING), so that an idle connection
// holds none. It belongs to the thread of its ring.
//
// The two sides share an array of slots. We write a buffer's address into the slot at our tail; the kernel takes slots at a head
// that it does not show, in order, and says in the completion which buffer it took.
//
// Counts go up to 32,768, half of what the 16-bit tail can count, so slot numbers are computed in uint16 (they wrap with
// the tail) and addresses never are: an offset of slot * 16 overflows from 4,096 slots on.
type Buffers struct {
	ring  *Ring
	group uint16

	slots     []abi.Buf
	mask      uint16
	tail      uint16 // the next slot to fill
	published uint16 // the tail that the kernel sees
	// slot0 is slot 0's buffer id and, in the upper half, the shared tail. Go has no 16-bit atomic store; storing both is right because
	// only we write the id and it does not change with the store.
	slot0 *uint32

	data []byte
	size uint32
	lent []uint64 // one bit per buffer: set while it is on lease to the caller
	held int

	slotMem []byte
}

// Bounds of a group, and of the groups of a ring.
const (
	maxBuffers    = 32768   // the kernel's, for a 16-bit tail
	maxGroupBytes = 1 << 30 // ours: the memory is populated at once
	maxGroups     = 8       // ours: every enter looks at each
)

// NewBuffers makes a group of count buffers (a power of two up to 32,768) of size bytes each, 1 GiB at most together, all on lease
// to the kernel. Call it on any thread before Enable, and on the ring's afterwards.
func (r *Ring) NewBuffers(group uint16, count, size uint32) (*Buffers, error) {
	if err := r.validateGroup(group, count, size); err != nil {
		return nil, err
	}
	b := &Buffers{ring: r, group: group, mask: uint16(count - 1), size: size, lent: make([]uint64, (count+63)/64)}
	if err := b.mapGroup(count); err != nil {
		return nil, errors.Join(err, b.unmap())
	}
	arg := &abi.BufReg{RingAddr: address(b.slotMem), RingEntries: count, Group: group}
	if errno := r.kernel.Register(abi.RegisterPbufRing, unsafe.Pointer(arg), 1); errno != 0 {
		return nil, errors.Join(fmt.Errorf("uring: register buffer group %d: %w", group, errno), b.unmap())
	}
	for id := range count {
		b.fill(uint16(id))
	}
	b.publish()
	r.groups = append(r.groups, b)
	return b, nil
}

func (r *Ring) validateGroup(group uint16, count, size uint32) error {
	switch {
	case !powerOfTwo(count) || count > maxBuffers:
		return fmt.Errorf("uring: %d buffers: want a power of two up to %d", count, maxBuffers)
	case size == 0 || uint64(count)*uint64(size) > maxGroupBytes:
		return fmt.Errorf("uring: %d buffers of %d bytes: want at least 1 byte each and at most %d together", count, size, maxGroupBytes)
	case r.findGroup(group) != nil:
		return fmt.Errorf("uring: buffer group %d exists already", group)
	case len(r.groups) == maxGroups:
		return fmt.Errorf("uring: %d buffer groups are the most that a ring takes", maxGroups)
	}
	return nil
}

func (b *Buffers) mapGroup(count uint32) (err error) {
	if b.slotMem, err = mapMemory(int(count)*int(unsafe.Sizeof(abi.Buf{})), unix.MAP_POPULATE); err != nil {
		return err
	}
	b.slots = unsafe.Slice((*abi.Buf)(unsafe.Pointer(&b.slotMem[0])), count)
	b.slot0 = (*uint32)(unsafe.Pointer(&b.slots[0].ID))
	if b.data, err = mapMemory(int(count)*b.stride(), unix.MAP_POPULATE); err != nil {
		return err
	}
	for id := range count {
		guard(b.behind(uint16(id)))
	}
	return nil
}

// Bytes is the first n bytes of a buffer on lease. The slice is dead after Release.
func (b *Buffers) Bytes(id uint16, n int) []byte {
	if !b.isLent(id) {
		panic(fmt.Sprintf("uring: buffer %d is read but not on lease", id))
	}
	off := int(id) * b.stride()
	return b.data[off : off+n : off+int(b.size)]
}

// Release gives a buffer back. The kernel sees it at the next Submit or Wait.
func (b *Buffers) Release(id uint16) {
	if !b.isLent(id) {
		panic(fmt.Sprintf("uring: buffer %d is released but not on lease", id))
	}
	checkGuard(b.behind(id), "behind buffer", int(id))
	b.lent[id/64] &^= 1 << (id % 64)
	b.held--
	b.fill(id)
}

// stride is the distance from buffer to buffer.
func (b *Buffers) stride() int { return int(b.size) + guardSize }

// behind is the guard of a buffer; it is empty unless the build is one with guards.
func (b *Buffers) behind(id uint16) []byte {
	off := int(id)*b.stride() + int(b.size)
	return b.data[off : off+guardSize]
}

// Held is how many buffers are on lease to the caller.
func (b *Buffers) Held() int { return b.held }

// Free ends the group. Requests that receive into it must be over (Cancel), and all buffers released.
func (b *Buffers) Free() error {
	if b.held != 0 {
		return fmt.Errorf("uring: buffer group %d: %d buffers are still on lease", b.group, b.held)
	}
	arg := &abi.BufReg{Group: b.group}
	if errno := b.ring.kernel.Register(abi.UnregisterPbufRing, unsafe.Pointer(arg), 1); errno != 0 {
		return fmt.Errorf("uring: unregister buffer group %d: %w", b.group, errno)
	}
	b.ring.forget(b)
	return b.unmap()
}

func (b *Buffers) isLent(id uint16) bool { return b.lent[id/64]&(1<<(id%64)) != 0 }

// lend notes that the kernel has given the buffer to the caller. It cannot have it twice: if it does, two connections share memory.
func (b *Buffers) lend(id uint16) {
	if id > b.mask || b.isLent(id) {
		panic(fmt.Sprintf("uring: the kernel filled buffer %d of group %d, which is not its own", id, b.group))
	}
	b.lent[id/64] |= 1 << (id % 64)
	b.held++
}

// fill puts a buffer into the slot at the tail. It leaves the slot's last two bytes alone: in slot 0 they are the tail.
func (b *Buffers) fill(id uint16) {
	s := &b.slots[b.tail&b.mask]
	s.Addr = address(b.data) + uint64(int(id)*b.stride())
	s.Len = b.size
	s.ID = id
	b.tail++
}

func (b *Buffers) publish() {
	if b.published != b.tail {
		b.published = b.tail
		atomic.StoreUint32(b.slot0, uint32(b.slots[0].ID)|uint32(b.tail)<<16)
	}
}

func (b *Buffers) unmap() error {
	if b.data != nil {
		for id := range len(b.slots) {
			checkGuard(b.behind(uint16(id)), "behind buffer", id)
		}
	}
	var errs []error
	for _, mem := range [][]byte{b.data, b.slotMem} {
		if mem != nil {
			errs = append(errs, unmapMemory(mem))
		}
	}
	b.data, b.slotMem, b.slots, b.slot0 = nil, nil, nil, nil
	return errors.Join(errs...)
}
