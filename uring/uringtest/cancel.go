package uringtest

import (
	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/uring/internal/abi"
)

// cancel ends one request by its user data, or all on a descriptor, and completes with the kernel's answer: 0, ENOENT or EALREADY for one,
// how many there were for all.
func (k *Kernel) cancel(c *request) {
	if c.sqe.OpFlags&abi.CancelFD != 0 {
		k.cancelFD(c)
		return
	}
	for _, r := range k.pending {
		if r != c && !r.over && r.sqe.UserData == c.sqe.Addr {
			k.answer(c, r)
			return
		}
	}
	k.finish(c, -int32(unix.ENOENT), 0)
}

// answer cancels r and completes c, in either order.
func (k *Kernel) answer(c, r *request) {
	if !k.end(r) {
		k.finish(c, -int32(unix.EALREADY), 0)
		return
	}
	k.finish(c, 0, 0)
}

func (k *Kernel) cancelFD(c *request) {
	dev, ino := identity(int(c.sqe.FD))
	if dev == 0 && ino == 0 {
		k.finish(c, -int32(unix.EBADF), 0)
		return
	}
	n := int32(0)
	for _, r := range k.pending {
		if !r.over && r.fd >= 0 && r.sqe.FD == c.sqe.FD && r.dev == dev && r.ino == ino {
			k.end(r)
			n++
		}
	}
	k.finish(c, n, 0)
}

// end cancels a request, or finds it under way: then it may still complete, for a few enters.
func (k *Kernel) end(r *request) bool {
	if k.chance(k.faults.CancelRace, &k.counts.CancelRaces) {
		r.doomed = k.counts.Enters + 1 + k.rand.Uint64N(4)
		r.wakeAt = k.counts.Enters
		return false
	}
	k.finish(r, -int32(unix.ECANCELED), 0)
	return true
}

// cancelEverything is IORING_REGISTER_SYNC_CANCEL for any request. What is linked to a cancelled request begins and is cancelled as well.
func (k *Kernel) cancelEverything() {
	for i := 0; i < len(k.pending); i++ {
		if r := k.pending[i]; !r.over {
			k.finish(r, -int32(unix.ECANCELED), 0)
		}
	}
	k.showWork()
}
