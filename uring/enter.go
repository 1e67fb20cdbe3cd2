package uring

import (
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/uring/internal/abi"
)

// waitArg is the argument of a timed wait and the time it points at.
type waitArg struct {
	arg abi.GetEventsArg
	ts  abi.Timespec
}

// set makes the limit d; d < 0 is none.
func (w *waitArg) set(d time.Duration) {
	if d < 0 {
		w.arg.Timespec = 0
		return
	}
	w.ts = abi.Timespec{Sec: int64(d / time.Second), Nsec: int64(d % time.Second)}
	w.arg.Timespec = uint64(uintptr(unsafe.Pointer(&w.ts)))
}

// Submit hands what is prepared to the kernel and does not wait. It is for the middle of a turn; Wait submits as well. What the kernel
// does not take now (it may be busy) stays prepared and goes with the next Submit or Wait.
func (r *Ring) Submit() error {
	r.publish()
	if r.sqTail == r.sqHead {
		return nil
	}
	return r.flush(0)
}

// Wait submits everything prepared and makes completions available to Next. If there are none it sleeps until there is one or until the
// timeout has passed; a timeout of 0 never sleeps and a negative one has no limit. It may return early with nothing (signals are
// routine): the caller computes the next timeout from its own clock and calls again. Errors are not: they mean that the ring cannot be used.
func (r *Ring) Wait(timeout time.Duration) error {
	r.publish()
	if r.sqTail != r.sqHead || r.taskWork() {
		if err := r.flush(abi.EnterGetEvents); err != nil {
			return err
		}
	}
	if timeout == 0 || r.ready() {
		return nil
	}
	r.wait.set(timeout)
	r.stats.Waits++
	if err := r.check(r.enter(1, abi.EnterGetEvents|abi.EnterExtArg)); err != nil {
		return err
	}
	if r.refusals >= refusalsBorne {
		_ = unix.Nanosleep(&unix.Timespec{Nsec: refusalNap}, nil) // shorter for a signal
	}
	return nil
}

// A kernel that refuses enters does not let the thread sleep in them either, and turns a loop that waits into one that spins. One refusal is
// over when the caller has reaped; after refusalsBorne in a row a Wait that may sleep takes a nap of refusalNap nanoseconds instead.
const (
	refusalsBorne = 16
	refusalNap    = 1e6
)

// Next reaps the next completion, in the order in which the kernel posted them; false means that there is none until the next Wait or Submit.
func (r *Ring) Next() (Completion, bool) {
	for r.cqHead != r.cqTail || r.ready() {
		e := &r.cqes[r.cqHead&r.cqMask]
		r.cqHead++
		if e.Flags&abi.CQEMore == 0 {
			r.ended++
		}
		if e.UserData == 0 {
			continue
		}
		r.stats.Completed++
		c := Completion{UserData: UserData(e.UserData), Res: e.Res, Flags: e.Flags}
		if c.Flags&abi.CQEBuffer != 0 {
			r.lend(c)
		}
		return c, true
	}
	return Completion{}, false
}

// ready looks at the kernel's word and reports whether there is anything to reap.
func (r *Ring) ready() bool {
	r.cqTail = atomic.LoadUint32(r.kcqTail)
	return r.cqHead != r.cqTail
}

// taskWork reports whether the kernel has completions that only an enter will post.
func (r *Ring) taskWork() bool {
	return atomic.LoadUint32(r.ksqFlags)&(abi.SQTaskrun|abi.SQCQOverflow) != 0
}

// publish makes everything prepared, reaped and released visible to the kernel: the one store-release of each word.
func (r *Ring) publish() {
	if r.cqPublished != r.cqHead {
		r.cqPublished = r.cqHead
		atomic.StoreUint32(r.kcqHead, r.cqHead)
	}
	for _, b := range r.groups {
		b.publish()
	}
	if r.sqPublished != r.sqTail {
		r.sqPublished = r.sqTail
		atomic.StoreUint32(r.ksqTail, r.sqTail)
	}
}

// flush enters without sleeping until the kernel has taken everything or takes no more. It goes by the head, not by the result: the kernel
// may take a part and report an error, or report a part and have taken it.
func (r *Ring) flush(flags uint32) error {
	for {
		before := r.sqHead
		if err := r.check(r.enter(0, flags)); err != nil {
			return err
		}
		if r.sqHead == r.sqTail {
			return nil
		}
		r.stats.Partial++
		if r.sqHead == before {
			return nil
		}
	}
}

// enter is the one place where the ring calls the kernel after set-up. The caller has published.
func (r *Ring) enter(wait, flags uint32) unix.Errno {
	var arg unsafe.Pointer
	var size uintptr
	if flags&abi.EnterExtArg != 0 {
		arg, size = unsafe.Pointer(r.wait), unsafe.Sizeof(r.wait.arg)
	}
	errno := r.kernel.Enter(r.sqTail-r.sqHead, wait, flags, arg, size)
	head := atomic.LoadUint32(r.ksqHead)
	r.stats.Enters++
	r.stats.Submitted += uint64(head - r.sqHead)
	r.sqHead = head
	if atomic.LoadUint32(r.ksqFlags)&abi.SQCQOverflow != 0 {
		r.stats.CQOverflow++
	}
	return errno
}

// check sorts what enter may answer: routine, counted; or the end of the ring.
func (r *Ring) check(errno unix.Errno) error {
	switch errno {
	case 0, unix.ETIME:
		r.refusals = 0
		return nil
	case unix.EINTR:
		r.stats.Interrupted++
		return nil
	case unix.EAGAIN, unix.EBUSY, unix.ENOMEM:
		r.stats.Busy++
		r.refusals++
		return nil
	case unix.EEXIST, unix.EBADF, unix.EINVAL: // the registered descriptor is the thread's own, so another thread has none, or another's
		return fmt.Errorf("uring: enter: %w: this thread does not own the ring, or it is closed", errno)
	case unix.EBADFD:
		return fmt.Errorf("uring: enter: %w: the ring is not enabled", errno)
	}
	return fmt.Errorf("uring: enter: %w", errno)
}
