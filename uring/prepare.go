package uring

import (
	"unsafe"

	"github.com/talon-worker/talon/uring/internal/abi"
)

// Every method here writes one request into the submission queue and returns at once; the kernel sees it at the next Submit or Wait.
// false means that the queue is full although one attempt to submit it was made: the caller parks the request and tries after the next Wait.

// Accept takes connections from the listening socket fd until the completion that has no More: multishot, non-blocking and close-on-exec,
// without the peer's address. Res is the new descriptor.
func (r *Ring) Accept(fd int, ud UserData) bool {
	e := r.claim(ud)
	if e == nil {
		return false
	}
	sqeAccept(e, fd, ud)
	return true
}

// AcceptOne takes one connection from fd, as Accept does, and is over: for a caller who may not take more than it has room for.
func (r *Ring) AcceptOne(fd int, ud UserData) bool {
	e := r.claim(ud)
	if e == nil {
		return false
	}
	sqeAcceptOne(e, fd, ud)
	return true
}

// Recv receives from fd into the provided buffers of group until the completion that has no More: multishot. Res is the number
// of bytes, 0 the peer's end of sending. A completion with a buffer lends it to the caller, also one that the caller has no use for. One
// operation code of ud receives from one group.
func (r *Ring) Recv(fd int, group uint16, ud UserData) bool {
	r.receive(ud.Op(), group)
	e := r.claim(ud)
	if e == nil {
		return false
	}
	sqeRecv(e, fd, group, ud)
	return true
}

// Send sends p, which must lie outside the Go heap (a slab) and is the kernel's until the completion. MSG_NOSIGNAL is always
// added to msgFlags. Res is the number of bytes taken, and short is normal on a non-blocking socket.
func (r *Ring) Send(fd int, p []byte, msgFlags uint32, ud UserData) bool {
	e := r.claim(ud)
	if e == nil {
		return false
	}
	sqeSend(e, fd, address(p), uint32(len(p)), msgFlags, ud)
	return true
}

// Read reads at offset off into p, which must lie outside the Go heap and is the kernel's until the completion. off -1 reads at the
// current position, for what has none (an eventfd). Res is the number of bytes.
func (r *Ring) Read(fd int, p []byte, off int64, ud UserData) bool {
	e := r.claim(ud)
	if e == nil {
		return false
	}
	sqeRead(e, fd, address(p), uint32(len(p)), off, ud)
	return true
}

// ReadAside is Read on a worker thread of the kernel from the start (IOSQE_ASYNC), for a file whose file system cannot be told not to wait.
// Read tries such a file at once where it has a poll of its own, as those of FUSE have, and the thread waits for the disk inside enter.
func (r *Ring) ReadAside(fd int, p []byte, off int64, ud UserData) bool {
	e := r.claim(ud)
	if e == nil {
		return false
	}
	sqeReadAside(e, fd, address(p), uint32(len(p)), off, ud)
	return true
}

// Prefetch brings n > 0 bytes of the file from off into the page cache: advice that lets the kernel read ahead, hard-linked to a
// read of the last byte into p[:1], which waits for the disk where nobody else has to. One completion, the read's, reaches the caller:
// Res is 1, or 0 if the file ends before. It takes two entries, side by side, or none.
func (r *Ring) Prefetch(fd int, off int64, n uint32, p []byte, ud UserData) bool {
	checkUserData(ud)
	if r.free() < 2 && !r.makeRoom(2) {
		return false
	}
	sqeWillneed(r.take(), fd, off, n)
	sqeRead(r.take(), fd, address(p[:1]), 1, off+int64(n)-1, ud)
	return true
}

// PollOut completes once, when fd can be written, has failed or has been hung up. Res is the poll(2) events.
func (r *Ring) PollOut(fd int, ud UserData) bool {
	e := r.claim(ud)
	if e == nil {
		return false
	}
	sqePollOut(e, fd, ud)
	return true
}

// Cancel asks for the end of the request that was made as target. Both complete: target with ECANCELED, or as if nothing
// had happened when it was faster; this one with 0, ENOENT (no such request) or EALREADY (too late, but it will complete).
func (r *Ring) Cancel(target, ud UserData) bool {
	e := r.claim(ud)
	if e == nil {
		return false
	}
	sqeCancel(e, target, ud)
	return true
}

// CancelFD asks for the end of every request on fd. Res is how many it found. It looks at every request in flight, where Cancel finds its own
// by a hash: among 2,000 armed polls it takes twenty times as long (BenchmarkCancelFDAmongMany). Do it before close: closing alone ends no request,
// and a peer gets no FIN while one holds the socket.
func (r *Ring) CancelFD(fd int, ud UserData) bool {
	e := r.claim(ud)
	if e == nil {
		return false
	}
	sqeCancelFD(e, fd, ud)
	return true
}

// nop completes with 0; for the tests, the probe and the benchmarks.
func (r *Ring) nop(ud UserData) bool {
	e := r.claim(ud)
	if e == nil {
		return false
	}
	sqeNop(e, ud)
	return true
}

// claim returns the next free slot, nil if there is none.
func (r *Ring) claim(ud UserData) *abi.SQE {
	checkUserData(ud)
	if r.free() == 0 && !r.makeRoom(1) {
		return nil
	}
	return r.take()
}

func (r *Ring) free() uint32 { return r.sqMask + 1 - (r.sqTail - r.sqHead) }

func (r *Ring) take() *abi.SQE {
	e := &r.sqes[r.sqTail&r.sqMask]
	r.sqTail++
	return e
}

// makeRoom submits once. An error stays for the next Wait to report: it means that the ring is lost, not that this request is.
func (r *Ring) makeRoom(n uint32) bool {
	r.stats.SQFull++
	_ = r.Submit()
	if r.free() >= n {
		return true
	}
	r.stats.Refused++
	return false
}

func checkUserData(ud UserData) {
	if ud == 0 {
		panic("uring: UserData 0 is the ring's own; the caller would never see the completion")
	}
}

func address(p []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(p)))) }
