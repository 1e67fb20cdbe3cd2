package uringtest

import (
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/uring"
	"github.com/talon-worker/talon/uring/internal/abi"
)

// Kernel is the seeded kernel of one ring. It belongs to the ring's thread.
type Kernel struct {
	rand   *rand.Rand
	faults Faults
	counts Counts

	mem              abi.Memory
	sqes             []abi.SQE
	cqes             []abi.CQE
	array            []uint32
	sqHead, sqTail   *uint32
	cqHead, cqTail   *uint32
	sqFlags          *uint32
	owner            int // thread that enabled the ring; 0 before
	allowedOps       map[uint8]bool
	allowedRegisters map[uint8]bool
	allowedFlags     uint8
	restricted       bool

	groups   map[uint16]*group
	pending  []*request // in the order of their submission
	posted   []reply    // done, not yet in the completion queue; in the order of their completion
	overflow []abi.CQE  // found the completion queue full
	lastID   uint64
}

// New makes a ring on a seeded kernel with DefaultFaults. Enable it on the thread that owns it, as any ring.
func New(seed uint64, cfg uring.Config) (*uring.Ring, *Kernel, error) {
	k := &Kernel{rand: rand.New(rand.NewPCG(seed, 0x7a10)), faults: DefaultFaults(), groups: map[uint16]*group{},
		allowedOps: map[uint8]bool{}, allowedRegisters: map[uint8]bool{}}
	r, err := uring.NewOn(k, cfg)
	return r, k, err
}

// Quiet ends all faults. What is late already stays late.
func (k *Kernel) Quiet() { k.faults = Faults{} }

// SetFaults replaces the faults.
func (k *Kernel) SetFaults(f Faults) { k.faults = f }

// Counts returns how often each fault has fired.
func (k *Kernel) Counts() Counts { return k.counts }

// Pending is how many requests are in flight: not over, or over with a completion that is not yet in the queue.
func (k *Kernel) Pending() int { return len(k.pending) + len(k.posted) }

// Offsets of the shared words, a cache line each; then the array, then the completions.
const (
	offSQHead, offSQTail, offSQFlags = 0, 64, 128
	offCQHead, offCQTail             = 192, 256
	offArray                         = 320
)

// Setup is part of the seam to package uring.
func (k *Kernel) Setup(entries uint32, p *abi.Params) (mem abi.Memory, err error) {
	p.SQEntries = entries
	p.Features = abi.FeatSingleMmap | abi.FeatNoDrop | abi.FeatExtArg
	cqes := (offArray + entries*4 + 63) &^ 63
	p.SQOff = abi.SQOffsets{Head: offSQHead, Tail: offSQTail, Flags: offSQFlags, Array: offArray}
	p.CQOff = abi.CQOffsets{Head: offCQHead, Tail: offCQTail, CQEs: cqes}
	if k.mem.Rings, err = anonymous(int(cqes + p.CQEntries*16)); err != nil {
		return mem, err
	}
	if k.mem.SQEs, err = anonymous(int(entries) * 64); err != nil {
		return mem, errors.Join(err, k.Close())
	}
	word := func(off uint32) *uint32 { return (*uint32)(unsafe.Pointer(&k.mem.Rings[off])) }
	k.sqHead, k.sqTail, k.sqFlags = word(offSQHead), word(offSQTail), word(offSQFlags)
	k.cqHead, k.cqTail = word(offCQHead), word(offCQTail)
	k.sqes = unsafe.Slice((*abi.SQE)(unsafe.Pointer(&k.mem.SQEs[0])), entries)
	k.cqes = unsafe.Slice((*abi.CQE)(unsafe.Pointer(&k.mem.Rings[cqes])), p.CQEntries)
	k.array = unsafe.Slice(word(offArray), entries)
	k.start()
	return k.mem, nil
}

// start makes the array the identity, and lets the indexes begin shortly before they overflow: Linux begins at 0, where a mistake in
// the arithmetic shows after 2^32 requests.
func (k *Kernel) start() {
	for i := range k.array {
		k.array[i] = uint32(i)
	}
	first := uint32(0) - k.rand.Uint32N(64)
	for _, w := range []*uint32{k.sqHead, k.sqTail, k.cqHead, k.cqTail} {
		*w = first
	}
}

func anonymous(n int) ([]byte, error) {
	return unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
}

// Adopt is part of the seam to package uring; there is nothing to register.
func (k *Kernel) Adopt() unix.Errno { return 0 }

// Enter is part of the seam to package uring: submit, let everything in flight make progress, post what is due.
func (k *Kernel) Enter(submit, wait, flags uint32, _ unsafe.Pointer, _ uintptr) unix.Errno {
	switch k.owner {
	case 0:
		return unix.EBADFD
	case unix.Gettid():
	default:
		return unix.EEXIST
	}
	k.counts.Enters++
	if errno := k.refuse(); errno != 0 {
		return errno
	}
	k.watchGroups()
	took := k.take(submit)
	if submit > 0 && took == 0 {
		return unix.EAGAIN
	}
	k.progress()
	if flags&abi.EnterGetEvents != 0 {
		k.flushOverflow()
	}
	k.post()
	k.showWork()
	if ready := atomic.LoadUint32(k.cqTail) - atomic.LoadUint32(k.cqHead); ready < wait && took == 0 {
		return unix.ETIME
	}
	return 0
}

func (k *Kernel) refuse() unix.Errno {
	if k.chance(k.faults.Interrupted, &k.counts.Interrupted) {
		return unix.EINTR
	}
	if k.chance(k.faults.Busy, &k.counts.Busy) {
		return []unix.Errno{unix.EBUSY, unix.EAGAIN, unix.ENOMEM}[k.rand.IntN(3)]
	}
	return 0
}

// take consumes up to n submission entries and returns how many.
func (k *Kernel) take(n uint32) uint32 {
	head := *k.sqHead
	n = min(n, atomic.LoadUint32(k.sqTail)-head)
	if n > 0 && k.chance(k.faults.Partial, &k.counts.Partial) {
		n = k.rand.Uint32N(n)
	}
	var chain *request
	for i := range n {
		at := k.array[(head+i)&uint32(len(k.array)-1)]
		r := k.admit(k.sqes[at])
		if chain != nil {
			chain.next = r
		} else {
			k.begin(r)
		}
		chain = nil
		if r.sqe.Flags&abi.SQEHardlink != 0 {
			chain = r
		}
	}
	atomic.StoreUint32(k.sqHead, head+n)
	return n
}

// showWork sets the flags by which the ring knows that an enter would do something.
func (k *Kernel) showWork() {
	var flags uint32
	if k.Pending() > 0 {
		flags |= abi.SQTaskrun
	}
	if len(k.overflow) > 0 {
		flags |= abi.SQCQOverflow
	}
	atomic.StoreUint32(k.sqFlags, flags)
}

// Close is part of the seam to package uring.
func (k *Kernel) Close() error {
	k.dropAll()
	var errs []error
	for _, mem := range [][]byte{k.mem.Rings, k.mem.SQEs} {
		if mem != nil {
			errs = append(errs, unix.Munmap(mem))
		}
	}
	k.mem, k.owner = abi.Memory{}, 0
	return errors.Join(errs...)
}
