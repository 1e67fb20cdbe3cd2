package uring

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/uring/internal/abi"
)

// Ring is an io_uring for one thread; see the package documentation for who may call what from where.
type Ring struct {
	kernel abi.Kernel

	// Submission queue. sqHead <= sqPublished <= sqTail and sqTail-sqHead <= len(sqes), in arithmetic modulo 2^32.
	sqes        []abi.SQE
	sqMask      uint32
	sqTail      uint32  // the next slot to fill
	sqPublished uint32  // *ksqTail
	sqHead      uint32  // *ksqHead after the last enter; it moves nowhere else
	ksqHead     *uint32 // written by the kernel
	ksqTail     *uint32 // written by us
	ksqFlags    *uint32 // written by the kernel

	// Completion queue. cqPublished <= cqHead <= cqTail.
	cqes        []abi.CQE
	cqMask      uint32
	cqHead      uint32  // the next completion to reap
	cqPublished uint32  // *kcqHead
	cqTail      uint32  // *kcqTail as last seen
	kcqHead     *uint32 // written by us
	kcqTail     *uint32 // written by the kernel

	groups  []*Buffers    // at most maxGroups
	lenders [256]*Buffers // by the caller's operation code: the group that it receives into

	wait    *waitArg // outside the Go heap, since the kernel gets its address
	waitMem []byte

	cfg      Config
	enabled  bool
	refusals int    // enters in a row that the kernel has refused
	ended    uint64 // requests whose last completion has been reaped
	stats    Stats
}

// New makes a ring, disabled, on any thread. Where io_uring is denied or missing the error is an *Unavailable.
func New(cfg Config) (*Ring, error) { return NewOn(newKernel(), cfg) }

// NewOn makes a ring on another kernel than the running one; it is for uringtest, as the internal type of its argument says.
func NewOn(k abi.Kernel, cfg Config) (*Ring, error) {
	cfg = cfg.defaulted()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	p := cfg.setup()
	mem, err := k.Setup(cfg.Entries, &p)
	if err != nil {
		return nil, unavailable(err)
	}
	if missing := p.Features ^ wantFeatures; missing&wantFeatures != 0 {
		return nil, errors.Join(tooOld(fmt.Errorf("features %#x are missing", missing&wantFeatures)), k.Close())
	}
	r := &Ring{kernel: k, cfg: cfg}
	r.attach(mem, &p)
	if r.waitMem, err = mapMemory(int(unsafe.Sizeof(waitArg{})), unix.MAP_POPULATE); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	r.wait = (*waitArg)(unsafe.Pointer(&r.waitMem[0]))
	return r, nil
}

// wantFeatures: one mapping for both queues, completions that overflow are kept, timeouts as an argument of enter.
const wantFeatures = abi.FeatSingleMmap | abi.FeatNoDrop | abi.FeatExtArg

func (r *Ring) attach(mem abi.Memory, p *abi.Params) {
	word := func(off uint32) *uint32 { return (*uint32)(unsafe.Pointer(&mem.Rings[off])) }
	r.sqes = unsafe.Slice((*abi.SQE)(unsafe.Pointer(&mem.SQEs[0])), p.SQEntries)
	r.cqes = unsafe.Slice((*abi.CQE)(unsafe.Pointer(&mem.Rings[p.CQOff.CQEs])), p.CQEntries)
	r.sqMask, r.cqMask = p.SQEntries-1, p.CQEntries-1
	r.ksqHead, r.ksqTail, r.ksqFlags = word(p.SQOff.Head), word(p.SQOff.Tail), word(p.SQOff.Flags)
	r.kcqHead, r.kcqTail = word(p.CQOff.Head), word(p.CQOff.Tail)
	r.sqHead = atomic.LoadUint32(r.ksqHead)
	r.sqTail, r.sqPublished = r.sqHead, r.sqHead
	r.cqHead = atomic.LoadUint32(r.kcqHead)
	r.cqTail, r.cqPublished = r.cqHead, r.cqHead
}

// Enable hands the ring to the calling thread, which must be locked (runtime.LockOSThread) and stay until Close: the restrictions and the cap
// on kernel workers are set, the ring is enabled, and its descriptor is registered with the thread.
func (r *Ring) Enable() error {
	if err := r.restrict(); err != nil {
		return err
	}
	workers := [2]uint32{r.cfg.BoundedWorkers, r.cfg.UnboundedWorkers}
	if errno := r.kernel.Register(abi.RegisterIOWQMaxWorkers, unsafe.Pointer(&workers), 2); errno != 0 {
		return fmt.Errorf("uring: cap the kernel workers: %w", errno)
	}
	if errno := r.kernel.Register(abi.RegisterEnableRings, nil, 0); errno != 0 {
		return fmt.Errorf("uring: enable the ring: %w", errno)
	}
	if errno := r.kernel.Adopt(); errno != 0 {
		return fmt.Errorf("uring: register the ring with its thread: %w", errno)
	}
	r.enabled = true
	return nil
}

// restrict limits the ring to what this package submits, so that a stray write into its memory cannot open, connect or write anything.
// A kernel that does not know restrictions (EINVAL) runs without.
func (r *Ring) restrict() error {
	var list []abi.Restriction
	for _, op := range append(r.cfg.extraOps, allowedOps...) {
		list = append(list, abi.Restriction{Opcode: abi.RestrictSQEOp, Value: op})
	}
	for _, op := range allowedRegisterOps {
		list = append(list, abi.Restriction{Opcode: abi.RestrictRegisterOp, Value: op})
	}
	list = append(list, abi.Restriction{Opcode: abi.RestrictSQEFlags, Value: abi.SQEBufferSelect | abi.SQEHardlink | abi.SQEAsync})
	errno := r.kernel.Register(abi.RegisterRestrictions, unsafe.Pointer(&list[0]), uint32(len(list)))
	if errno != 0 && errno != unix.EINVAL {
		return fmt.Errorf("uring: restrict the operations: %w", errno)
	}
	return nil
}

var (
	allowedOps = []uint8{abi.OpAccept, abi.OpRecv, abi.OpSend, abi.OpRead, abi.OpFadvise, abi.OpPollAdd, abi.OpAsyncCancel}

	allowedRegisterOps = []uint8{abi.RegisterIOWQMaxWorkers, abi.RegisterRingFDs, abi.UnregisterRingFDs, abi.RegisterPbufRing,
		abi.UnregisterPbufRing, abi.RegisterSyncCancel}
)

// Close ends the ring on its own thread. Everything in flight is cancelled and waited for, so that the kernel holds no lease on any
// buffer afterwards; then the mappings and the descriptor go, and with them the buffer groups, leases or not. Completions that are
// not reaped are lost, a connection that was just accepted included: end the accepts first. The caller closes what requests named.
//
// If something does not end within five seconds (a disk that hangs) the error says so and the buffer groups stay mapped.
func (r *Ring) Close() error {
	var errs []error
	if r.enabled {
		r.sqTail = r.sqPublished // what was only prepared has never been
		errs = append(errs, r.cancelAll())
	}
	errs = append(errs, r.kernel.Close(), unmapMemory(r.waitMem))
	if !r.enabled || r.InFlight() == 0 {
		for _, b := range r.groups {
			errs = append(errs, b.unmap())
		}
	}
	r.enabled = false
	r.wait, r.waitMem = nil, nil
	r.groups, r.lenders = nil, [256]*Buffers{}
	return errors.Join(errs...)
}

// InFlight is how many requests the kernel has taken whose last completion has not been reaped, the ring's own included.
func (r *Ring) InFlight() int { return int(r.stats.Submitted - r.ended) }

// cancelAll waits until nothing is in flight. Without it the kernel would cancel in the background after close, with requests still
// holding files, ports and memory that is about to be unmapped. IORING_REGISTER_SYNC_CANCEL alone is not enough: it returns when all
// have been told, and the requests end in the task work of the next enters.
func (r *Ring) cancelAll() error {
	arg := &abi.SyncCancelReg{FD: -1, Flags: abi.CancelAny | abi.CancelAll, Timeout: abi.Timespec{Sec: 1}}
	for range closeWaits {
		if r.InFlight() == 0 {
			return nil
		}
		errno := r.kernel.Register(abi.RegisterSyncCancel, unsafe.Pointer(arg), 1)
		if errno != 0 && errno != unix.ENOENT && errno != unix.EINTR && errno != unix.ETIME {
			return fmt.Errorf("uring: cancel what is in flight: %w", errno)
		}
		if err := r.Wait(closeWait); err != nil {
			return err
		}
		for _, ok := r.Next(); ok; _, ok = r.Next() {
		}
	}
	return fmt.Errorf("uring: %d requests did not end when they were cancelled", r.InFlight())
}

const (
	closeWaits = 500
	closeWait  = 10 * time.Millisecond
)

// Stats returns the counters; on the ring's thread only.
func (r *Ring) Stats() Stats { return r.stats }
