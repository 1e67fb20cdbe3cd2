package uringtest

import (
	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/uring/internal/abi"
)

// request is an operation in flight.
type request struct {
	id     uint64 // counts up with the submissions
	sqe    abi.SQE
	err    unix.Errno // what it fails with when its turn comes, whatever happens
	fd     int        // a duplicate of sqe.FD, the request's own; -1 if it needs none
	dev    uint64     // the file behind it
	ino    uint64
	wakeAt uint64   // the enter in which it is tried next
	doomed uint64   // if not 0, the enter in which it ends with ECANCELED at the latest
	next   *request // linked: begins when this one is over
	armed  bool     // a receive that has been tried
	over   bool
}

// reply is a completion on its way.
type reply struct {
	request uint64
	due     uint64 // the enter in which it can be posted
	cqe     abi.CQE
}

// admit makes a request of a submission entry, as the kernel's preparation does: what is malformed fails at once.
func (k *Kernel) admit(sqe abi.SQE) *request {
	k.lastID++
	r := &request{id: k.lastID, sqe: sqe, fd: -1}
	want, known := forms[sqe.Opcode]
	switch {
	case k.restricted && (!k.allowedOps[sqe.Opcode] || sqe.Flags&^k.allowedFlags != 0):
		r.err = unix.EACCES
	case !known || want(sqe) != sqe:
		r.err = unix.EINVAL
	}
	return r
}

// forms rebuild an entry from the fields that its operation uses; every other field must be zero.
var forms = map[uint8]func(abi.SQE) abi.SQE{
	abi.OpNop: func(e abi.SQE) abi.SQE { return abi.SQE{FD: e.FD, UserData: e.UserData} },
	abi.OpAccept: func(e abi.SQE) abi.SQE {
		return abi.SQE{Opcode: e.Opcode, IOPrio: e.IOPrio & abi.AcceptMultishot, FD: e.FD, OpFlags: e.OpFlags, UserData: e.UserData}
	},
	abi.OpRecv: func(e abi.SQE) abi.SQE {
		return abi.SQE{Opcode: e.Opcode, Flags: abi.SQEBufferSelect, IOPrio: abi.RecvMultishot, FD: e.FD, UserData: e.UserData, BufGroup: e.BufGroup}
	},
	abi.OpSend: func(e abi.SQE) abi.SQE {
		return abi.SQE{Opcode: e.Opcode, FD: e.FD, Addr: e.Addr, Len: e.Len, OpFlags: e.OpFlags, UserData: e.UserData}
	},
	abi.OpRead: func(e abi.SQE) abi.SQE {
		return abi.SQE{Opcode: e.Opcode, Flags: e.Flags & abi.SQEAsync, FD: e.FD, Off: e.Off, Addr: e.Addr, Len: e.Len, UserData: e.UserData}
	},
	abi.OpFadvise: func(e abi.SQE) abi.SQE {
		return abi.SQE{Opcode: e.Opcode, Flags: e.Flags & abi.SQEHardlink, FD: e.FD, Off: e.Off, Len: e.Len, OpFlags: e.OpFlags, UserData: e.UserData}
	},
	abi.OpPollAdd: func(e abi.SQE) abi.SQE {
		return abi.SQE{Opcode: e.Opcode, FD: e.FD, OpFlags: e.OpFlags, UserData: e.UserData}
	},
	abi.OpAsyncCancel: func(e abi.SQE) abi.SQE {
		return abi.SQE{Opcode: e.Opcode, FD: e.FD, Addr: e.Addr, OpFlags: e.OpFlags, UserData: e.UserData}
	},
}

// begin puts a request in flight, with a hold on its file.
func (k *Kernel) begin(r *request) {
	r.wakeAt = k.counts.Enters + k.late()
	k.pending = append(k.pending, r)
	if r.err != 0 || r.sqe.Opcode == abi.OpNop || r.sqe.Opcode == abi.OpAsyncCancel {
		return
	}
	fd, err := unix.FcntlInt(uintptr(r.sqe.FD), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		r.err = errnoOf(err)
		return
	}
	r.fd = fd
	r.dev, r.ino = identity(fd)
}

// identity tells files apart as far as fstat does: sockets have an inode each, eventfds share one.
func identity(fd int) (dev, ino uint64) {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return 0, 0
	}
	return st.Dev, st.Ino
}

func (k *Kernel) release(r *request) {
	if r.fd >= 0 {
		unix.Close(r.fd)
		r.fd = -1
	}
}

// progress tries everything whose time has come, once around in the order of submission. What begins on the way (a linked
// request) is tried as well.
func (k *Kernel) progress() {
	for i := 0; i < len(k.pending); i++ {
		if r := k.pending[i]; !r.over && r.wakeAt <= k.counts.Enters {
			k.try(r)
		}
	}
	left := k.pending[:0]
	for _, r := range k.pending {
		if !r.over {
			left = append(left, r)
		}
	}
	clear(k.pending[len(left):])
	k.pending = left
}

func (k *Kernel) try(r *request) {
	if r.err != 0 {
		k.finish(r, -int32(r.err), 0)
		return
	}
	perform[r.sqe.Opcode](k, r)
	if !r.over && r.doomed != 0 && r.doomed <= k.counts.Enters {
		k.finish(r, -int32(unix.ECANCELED), 0)
	}
}

// deliver completes a multishot request once more. The seed may end it there.
func (k *Kernel) deliver(r *request, res int32, flags uint32) {
	if k.chance(k.faults.EndMultishot, &k.counts.MultishotEnds) {
		k.finish(r, res, flags)
		return
	}
	k.reply(r, res, flags|abi.CQEMore)
}

// finish completes a request for the last time and starts what is linked to it, whatever the result: the links are hard.
func (k *Kernel) finish(r *request, res int32, flags uint32) {
	r.over = true
	k.release(r)
	k.reply(r, res, flags)
	if r.next != nil {
		k.begin(r.next)
	}
}

func (k *Kernel) reply(r *request, res int32, flags uint32) {
	k.posted = append(k.posted, reply{request: r.id, due: k.counts.Enters + k.late(),
		cqe: abi.CQE{UserData: r.sqe.UserData, Res: res, Flags: flags}})
}

func errnoOf(err error) unix.Errno {
	if err == nil {
		return 0
	}
	return err.(unix.Errno)
}
