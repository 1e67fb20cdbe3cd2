package uring

import (
	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/uring/internal/abi"
)

// The functions here write one submission entry each. Every one zeroes the slot first: a slot comes round again after a turn of the
// queue, and a field left over from its last use is not ignored (a READ that inherits MSG_NOSIGNAL as its rw_flags fails with
// EOPNOTSUPP). The bytes are pinned by TestSQEBytes.

func sqeAccept(e *abi.SQE, fd int, ud UserData) {
	*e = abi.SQE{}
	e.Opcode = abi.OpAccept
	e.IOPrio = abi.AcceptMultishot
	e.FD = int32(fd)
	e.OpFlags = unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC
	e.UserData = uint64(ud)
}

func sqeAcceptOne(e *abi.SQE, fd int, ud UserData) {
	sqeAccept(e, fd, ud)
	e.IOPrio = 0
}

func sqeRecv(e *abi.SQE, fd int, group uint16, ud UserData) {
	*e = abi.SQE{}
	e.Opcode = abi.OpRecv
	e.Flags = abi.SQEBufferSelect
	e.IOPrio = abi.RecvMultishot
	e.FD = int32(fd)
	e.UserData = uint64(ud)
	e.BufGroup = group
}

func sqeSend(e *abi.SQE, fd int, addr uint64, n, msgFlags uint32, ud UserData) {
	*e = abi.SQE{}
	e.Opcode = abi.OpSend
	e.FD = int32(fd)
	e.Addr = addr
	e.Len = n
	e.OpFlags = msgFlags | unix.MSG_NOSIGNAL
	e.UserData = uint64(ud)
}

func sqeRead(e *abi.SQE, fd int, addr uint64, n uint32, off int64, ud UserData) {
	*e = abi.SQE{}
	e.Opcode = abi.OpRead
	e.FD = int32(fd)
	e.Off = uint64(off)
	e.Addr = addr
	e.Len = n
	e.UserData = uint64(ud)
}

func sqeReadAside(e *abi.SQE, fd int, addr uint64, n uint32, off int64, ud UserData) {
	sqeRead(e, fd, addr, n, off, ud)
	e.Flags = abi.SQEAsync
}

// sqeWillneed is the first half of a prefetch. Its own completion is not wanted, but IOSQE_CQE_SKIP_SUCCESS would be wrong here: when
// either half fails while it is prepared, the kernel extends the skip of the first to the whole chain, and the read would never
// complete. So it completes under the ring's own user data, which Next drops.
func sqeWillneed(e *abi.SQE, fd int, off int64, n uint32) {
	*e = abi.SQE{}
	e.Opcode = abi.OpFadvise
	e.Flags = abi.SQEHardlink
	e.FD = int32(fd)
	e.Off = uint64(off)
	e.Len = n
	e.OpFlags = unix.FADV_WILLNEED
}

func sqePollOut(e *abi.SQE, fd int, ud UserData) {
	*e = abi.SQE{}
	e.Opcode = abi.OpPollAdd
	e.FD = int32(fd)
	e.OpFlags = unix.POLLOUT
	e.UserData = uint64(ud)
}

func sqeCancel(e *abi.SQE, target, ud UserData) {
	*e = abi.SQE{}
	e.Opcode = abi.OpAsyncCancel
	e.FD = -1
	e.Addr = uint64(target)
	e.UserData = uint64(ud)
}

func sqeCancelFD(e *abi.SQE, fd int, ud UserData) {
	*e = abi.SQE{}
	e.Opcode = abi.OpAsyncCancel
	e.FD = int32(fd)
	e.OpFlags = abi.CancelFD | abi.CancelAll
	e.UserData = uint64(ud)
}

func sqeNop(e *abi.SQE, ud UserData) {
	*e = abi.SQE{}
	e.Opcode = abi.OpNop
	e.FD = -1
	e.UserData = uint64(ud)
}
