package server

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// backlog is the listen queue of each ring; the kernel caps it at
// net.core.somaxconn.
const backlog = 4096

// listenAll opens one listener per ring on the same address, between which the
// kernel spreads connections (SO_REUSEPORT, socket(7)).
func listenAll(cfg *Config) (fds []int, addr netip.AddrPort, err error) {
	addr, err = resolve(cfg.Listen)
	if err != nil {
		return nil, addr, err
	}
	if err := portFree(addr); err != nil {
		return nil, addr, err
	}
	for range cfg.Rings {
		fd, err := listenOne(cfg, addr)
		if err != nil {
			closeAll(fds)
			return nil, addr, listenError(addr, err)
		}
		fds = append(fds, fd)
		if addr.Port() == 0 {
			addr = netip.AddrPortFrom(addr.Addr(), boundPort(fd))
		}
	}
	return fds, addr, nil
}

func resolve(listen string) (netip.AddrPort, error) {
	tcp, err := net.ResolveTCPAddr("tcp", listen)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("listen %s: %w (give host:port, for example 127.0.0.1:8080)", listen, err)
	}
	ip := tcp.AddrPort().Addr()
	if !ip.IsValid() { // ":8080"
		ip = netip.IPv6Unspecified()
		if _, err := os.Stat("/proc/net/if_inet6"); err != nil {
			ip = netip.IPv4Unspecified()
		}
	}
	return netip.AddrPortFrom(ip.Unmap(), uint16(tcp.Port)), nil
}

// portFree binds once without SO_REUSEPORT. With it, a second worker of the same
// user would silently share the port with the first.
func portFree(addr netip.AddrPort) error {
	if addr.Port() == 0 {
		return nil
	}
	fd, err := tcpSocket(addr)
	if err != nil {
		return listenError(addr, err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, sockaddr(addr)); err != nil {
		return listenError(addr, err)
	}
	return nil
}

// listenOne opens one listener. The options are those that a connection
// inherits, so that an accept needs no further system call. The listener itself
// stays blocking: io_uring answers EAGAIN instead of waiting on one that is not.
func listenOne(cfg *Config, addr netip.AddrPort) (fd int, err error) {
	fd, err = tcpSocket(addr)
	if err != nil {
		return -1, err
	}
	opts := []struct{ level, name, value int }{
		{unix.SOL_SOCKET, unix.SO_REUSEPORT, 1},
		{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
	}
	if cfg.NotSentLowat > 0 {
		opts = append(opts, struct{ level, name, value int }{unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, cfg.NotSentLowat})
	}
	if cfg.SendBuffer > 0 {
		opts = append(opts, struct{ level, name, value int }{unix.SOL_SOCKET, unix.SO_SNDBUF, cfg.SendBuffer})
	}
	for _, o := range opts {
		if err = unix.SetsockoptInt(fd, o.level, o.name, o.value); err != nil {
			break
		}
	}
	if err == nil {
		err = unix.Bind(fd, sockaddr(addr))
	}
	if err == nil {
		err = unix.Listen(fd, backlog)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// tcpSocket opens a socket that may bind an address whose old connections are in
// TIME_WAIT. An IPv6 wildcard takes IPv4 as well.
func tcpSocket(addr netip.AddrPort) (int, error) {
	family := unix.AF_INET6
	if addr.Addr().Is4() {
		family = unix.AF_INET
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if err != nil {
		return -1, err
	}
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	if err == nil && family == unix.AF_INET6 {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

func sockaddr(addr netip.AddrPort) unix.Sockaddr {
	if addr.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}
	}
	sa := &unix.SockaddrInet6{Port: int(addr.Port()), Addr: addr.Addr().As16()}
	if ifi, err := net.InterfaceByName(addr.Addr().Zone()); err == nil {
		sa.ZoneId = uint32(ifi.Index)
	}
	return sa
}

func boundPort(fd int) uint16 {
	sa, err := unix.Getsockname(fd)
	if err != nil {
		return 0
	}
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return uint16(sa.Port)
	case *unix.SockaddrInet6:
		return uint16(sa.Port)
	}
	return 0
}

func listenError(addr netip.AddrPort, err error) error {
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return fmt.Errorf("listen %s: %w (another process has the port; stop it or choose another with --listen)", addr, err)
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("listen %s: %w (ports below 1024 need CAP_NET_BIND_SERVICE)", addr, err)
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return fmt.Errorf("listen %s: %w (no interface of this machine has that address)", addr, err)
	}
	return fmt.Errorf("listen %s: %w", addr, err)
}

func closeAll(fds []int) {
	for _, fd := range fds {
		unix.Close(fd)
	}
}
