package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// What strangers do to a peer port.
const (
	connects = "connects" // come and go
	garbage  = "garbage"  // come, say 4 KiB of noise and go
	empties  = "empties"  // come, say a first frame of 4 KiB of messages without anything in them, and go
	trickle  = "trickle"  // come to stay, from sixteen addresses, and say a hello of 4 KiB a byte at a time
	pour     = "pour"     // one connection that says as much as is taken; for the control alone
)

const (
	addresses    = 16 // of loopback: a stranger with more machines than one
	tickleEach   = 16 // connections from each that trickle
	floodTick    = time.Millisecond
	trickleEvery = 5 * time.Millisecond
)

// sinkMain takes all connections, reads what they say, and answers nothing.
func sinkMain() error {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(ln.Addr())
	for {
		conn, err := ln.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(time.Minute))
			io.Copy(io.Discard, conn)
		}()
	}
}

// floodMain attacks until it is killed. It says "ready" when it has begun.
func floodMain(kind, rate, addr string) error {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return err
	}
	perSecond, err := strconv.Atoi(rate)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	switch kind {
	case connects:
		return visit(to, perSecond, nil)
	case garbage:
		noise := make([]byte, 4<<10)
		rand.NewChaCha8([32]byte{1}).Read(noise)
		return visit(to, perSecond, noise)
	case empties:
		return visit(to, perSecond, firstFrame())
	case trickle:
		return trickles(to)
	case pour:
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return err
		}
		defer conn.Close()
		for b := make([]byte, 16<<10); ; {
			if _, err := conn.Write(b); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("no flood %q", kind)
}

func firstFrame() []byte {
	const size = 4 << 10
	b := binary.BigEndian.AppendUint32(nil, size)
	for range size / 2 {
		b = append(b, 0x12, 0)
	}
	return b
}

// come opens a connection from one of the addresses, without waiting: a full backlog is no reason to stop.
func come(to netip.AddrPort, from int) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	_ = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}) // no port waits for its end
	if err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 7, byte(1 + from%addresses)}}); err == nil {
		err = unix.Connect(fd, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()})
	}
	if err != nil && err != unix.EINPROGRESS {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// visit comes so often a second, says something and goes with a reset a tick later, when it has been read.
func visit(to netip.AddrPort, perSecond int, say []byte) error {
	begin, n := time.Now(), 0
	var guests []int
	for {
		for _, fd := range guests {
			unix.Close(fd)
		}
		guests = guests[:0]
		due := min(int(time.Since(begin).Seconds()*float64(perSecond))-n, perSecond/10) // what was missed for want of the core is not made up for long
		for range due {
			n++
			fd, err := come(to, n)
			if err != nil {
				continue // no port or no place in the backlog: it comes again soon enough
			}
			if say != nil {
				_, _ = unix.SendmsgN(fd, say, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
			}
			guests = append(guests, fd)
		}
		if late := int(time.Since(begin).Seconds()*float64(perSecond)) - n; late > perSecond/10 {
			n += late
		}
		time.Sleep(floodTick)
	}
}

// trickles keeps as many connections open as a worker greets at a time, and comes again for each that is closed.
func trickles(to netip.AddrPort) error {
	fds := make([]int, addresses*tickleEach)
	for i := range fds {
		fds[i] = -1
	}
	frame := firstFrame()
	at := make([]int, len(fds))
	for {
		for i := range fds {
			if fds[i] < 0 {
				fds[i], _ = come(to, i)
				at[i] = 0
				continue
			}
			_, err := unix.SendmsgN(fds[i], frame[at[i]:at[i]+1], nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
			if at[i]++; err != nil && err != unix.EAGAIN || at[i] == len(frame) {
				unix.Close(fds[i])
				fds[i] = -1
			}
		}
		time.Sleep(trickleEvery)
	}
}
