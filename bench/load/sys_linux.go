package load

import (
	"fmt"
	"net"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls of the hot path. They are raw: none of them can block (sockets are non-blocking, and
// epoll_wait is asked with a timeout of 0), so telling the Go scheduler would only cost time.

func sysSend(fd int, b []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))),
		uintptr(len(b)), unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT, 0, 0)
	return int(n), errno
}

func sysRecv(fd int, b []byte) (int, unix.Errno) {
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))),
		uintptr(len(b)), unix.MSG_DONTWAIT, 0, 0)
	return int(n), errno
}

// sysDiscard drops up to n bytes of a TCP stream inside the kernel: MSG_TRUNC there means "do not
// copy" (tcp(7)). The buffer is nil, so a kernel that copied all the same would say EFAULT.
func sysDiscard(fd int, n int64) (int, unix.Errno) {
	r, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), 0, uintptr(min(n, 1<<30)), unix.MSG_DONTWAIT|unix.MSG_TRUNC, 0, 0)
	return int(r), errno
}

// sysWait asks epoll. A timeout other than 0 sleeps and tells the Go scheduler so. epoll_wait(2) would count in milliseconds, which is longer than most
// requests take. The timeout is on the heap: the call goes through a variable, so the compiler does not know that a pointer to a stack, which may
// move, would be handed to the kernel, and a timeout read from where the stack was could be for ever.
func sysWait(epfd int, events []unix.EpollEvent, timeout *unix.Timespec) (int, unix.Errno) {
	call := unix.RawSyscall6
	if timeout.Nano() != 0 {
		call = unix.Syscall6
	}
	n, _, errno := call(unix.SYS_EPOLL_PWAIT2, uintptr(epfd), uintptr(unsafe.Pointer(unsafe.SliceData(events))),
		uintptr(len(events)), uintptr(unsafe.Pointer(timeout)), 0, 0)
	return int(n), errno
}

// sockaddr resolves host:port once, before the run.
func sockaddr(hostport string) (unix.Sockaddr, int, error) {
	a, err := net.ResolveTCPAddr("tcp", hostport)
	if err != nil {
		return nil, 0, fmt.Errorf("target: %w", err)
	}
	if ip := a.IP.To4(); ip != nil {
		return &unix.SockaddrInet4{Port: a.Port, Addr: [4]byte(ip)}, unix.AF_INET, nil
	}
	return &unix.SockaddrInet6{Port: a.Port, Addr: [16]byte(a.IP.To16())}, unix.AF_INET6, nil
}

// dial starts a non-blocking connect; EPOLLOUT tells when it is decided.
func dial(sa unix.Sockaddr, family int) (fd int, err error) {
	fd, err = unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err == nil {
		err = unix.Connect(fd, sa)
	}
	if err != nil && err != unix.EINPROGRESS {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
