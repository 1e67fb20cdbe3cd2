package uringtest

import (
	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/uring/internal/abi"
)

// perform does an operation as far as it can be done without waiting. One that would wait stays in flight.
var perform = map[uint8]func(*Kernel, *request){
	abi.OpNop:         func(k *Kernel, r *request) { k.finish(r, 0, 0) },
	abi.OpAccept:      (*Kernel).accept,
	abi.OpRecv:        (*Kernel).recv,
	abi.OpSend:        (*Kernel).send,
	abi.OpRead:        (*Kernel).read,
	abi.OpPollAdd:     (*Kernel).poll,
	abi.OpFadvise:     (*Kernel).advise,
	abi.OpAsyncCancel: (*Kernel).cancel,
}

// ready is poll(2) without waiting: the events of fd, errors and hang-ups included.
func ready(fd int, events int16) int16 {
	p := []unix.PollFd{{Fd: int32(fd), Events: events}}
	for {
		_, err := unix.Poll(p, 0)
		if err != unix.EINTR {
			return p[0].Revents
		}
	}
}

// A multishot request goes on while it can, but not for ever: Linux has the same bound (MULTISHOT_MAX_RETRY).
const multishotRounds = 32

func (k *Kernel) accept(r *request) {
	for range multishotRounds {
		if r.over || ready(r.fd, unix.POLLIN) == 0 {
			return
		}
		if errno := k.fail(k.faults.Errnos.Accept); errno != 0 {
			k.finish(r, -int32(errno), 0)
			return
		}
		fd, _, err := unix.Accept4(r.fd, int(r.sqe.OpFlags))
		switch err {
		case nil:
			k.taken(r, fd)
		case unix.EAGAIN, unix.EINTR:
			return
		default:
			k.finish(r, -int32(errnoOf(err)), 0)
		}
	}
}

// taken completes an accept with its connection: the last one, unless it is multishot.
func (k *Kernel) taken(r *request, fd int) {
	if r.sqe.IOPrio&abi.AcceptMultishot == 0 {
		k.finish(r, int32(fd), 0)
		return
	}
	k.deliver(r, int32(fd), 0)
}

// recv takes a buffer before it looks at the socket, as Linux does when a receive is armed; later only when there is something.
func (k *Kernel) recv(r *request) {
	armed := r.armed
	r.armed = true
	for range multishotRounds {
		if r.over || armed && ready(r.fd, unix.POLLIN) == 0 {
			return
		}
		g, buf, ok := k.buffer(r.sqe.BufGroup)
		if !ok {
			k.finish(r, -int32(unix.ENOBUFS), 0)
			return
		}
		if !armed && ready(r.fd, unix.POLLIN) == 0 {
			return
		}
		armed = true
		if errno := k.fail(k.faults.Errnos.Recv); errno != 0 {
			k.finish(r, -int32(errno), 0)
			return
		}
		k.receive(r, g, buf)
	}
}

// buffer is the next buffer of a group; the seed may say that there is none.
func (k *Kernel) buffer(id uint16) (g *group, b abi.Buf, ok bool) {
	if g = k.groups[id]; g == nil || k.chance(k.faults.NoBuffers, &k.counts.NoBuffers) {
		return nil, b, false
	}
	b, ok = g.first()
	return g, b, ok
}

// receive is one receive into a buffer; the buffer is spent only if something came.
func (k *Kernel) receive(r *request, g *group, buf abi.Buf) {
	n, errno := transfer(unix.SYS_RECVFROM, r.fd, buf.Addr, k.short(buf.Len), unix.MSG_DONTWAIT)
	switch {
	case errno == unix.EAGAIN || errno == unix.EINTR:
	case errno != 0:
		k.finish(r, -int32(errno), 0)
	case n == 0:
		k.finish(r, 0, 0)
	default:
		g.head++
		k.deliver(r, n, uint32(buf.ID)<<abi.CQEBufferShift|abi.CQEBuffer)
	}
}

func (k *Kernel) send(r *request) {
	if ready(r.fd, unix.POLLOUT) == 0 {
		return
	}
	if errno := k.fail(k.faults.Errnos.Send); errno != 0 {
		k.finish(r, -int32(errno), 0)
		return
	}
	n, errno := transfer(unix.SYS_SENDTO, r.fd, r.sqe.Addr, k.short(r.sqe.Len), uintptr(r.sqe.OpFlags)|unix.MSG_DONTWAIT)
	k.settle(r, n, errno)
}

func (k *Kernel) read(r *request) {
	if ready(r.fd, unix.POLLIN) == 0 {
		return
	}
	call, size, list := uintptr(unix.SYS_PREAD64), r.sqe.Len, k.faults.Errnos.Read
	if r.sqe.Off == currentPosition {
		call, list = unix.SYS_READ, k.faults.Errnos.Event
	} else {
		size = k.short(size)
	}
	if errno := k.fail(list); errno != 0 {
		k.finish(r, -int32(errno), 0)
		return
	}
	n, errno := transfer(call, r.fd, r.sqe.Addr, size, uintptr(r.sqe.Off))
	if errno == unix.ESPIPE { // what has no position ignores the offset
		n, errno = transfer(unix.SYS_READ, r.fd, r.sqe.Addr, size, 0)
	}
	k.settle(r, n, errno)
}

const currentPosition = ^uint64(0) // offset -1

// settle ends a one-shot request unless it would have waited.
func (k *Kernel) settle(r *request, n int32, errno unix.Errno) {
	switch errno {
	case 0:
		k.finish(r, n, 0)
	case unix.EAGAIN, unix.EINTR:
	default:
		k.finish(r, -int32(errno), 0)
	}
}

func (k *Kernel) poll(r *request) {
	if events := ready(r.fd, int16(r.sqe.OpFlags)); events == 0 {
		return
	} else if errno := k.fail(k.faults.Errnos.Poll); errno != 0 {
		k.finish(r, -int32(errno), 0)
	} else {
		k.finish(r, int32(events), 0)
	}
}

func (k *Kernel) advise(r *request) {
	if errno := k.fail(k.faults.Errnos.Advise); errno != 0 {
		k.finish(r, -int32(errno), 0)
		return
	}
	err := unix.Fadvise(r.fd, int64(r.sqe.Off), int64(r.sqe.Len), int(r.sqe.OpFlags))
	k.finish(r, -int32(errnoOf(err)), 0)
}

// transfer is one of the system calls that take a descriptor, an address, a length, and one thing more.
func transfer(call uintptr, fd int, addr uint64, n uint32, more uintptr) (int32, unix.Errno) {
	done, _, errno := unix.Syscall6(call, uintptr(fd), uintptr(addr), uintptr(n), more, 0, 0)
	return int32(done), errno
}
