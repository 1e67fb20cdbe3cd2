package main

import (
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// attackerArg makes this program an attacker: attacker KIND N HOST:PORT.
const attackerArg = "attacker"

// kind is a way to attack: what a connection says when it comes, and what is done with it how often.
type kind struct {
	name    string
	n       int           // connections
	every   time.Duration // between two looks at a connection
	recvBuf int           // SO_RCVBUF; 0 leaves it
	hello   string
	drip    string // sent with each look
	read    int    // bytes read with each look
	repeat  int    // how often hello is said, as far as the socket takes it
}

var kinds = []kind{
	{name: "slowloris", n: 5000, every: 10 * time.Second, hello: "GET /" + goodKey + " HTTP/1.1\r\nX", drip: "x"},
	{name: "slow readers", n: 1000, every: time.Second, recvBuf: 1 << 10, hello: "GET /" + slowKey + " HTTP/1.1\r\nHost: h\r\n\r\n", read: 1},
	{name: "silence", n: 20000, every: 2 * time.Second},
	{name: "pipeline", n: 16, every: 10 * time.Millisecond, recvBuf: 4 << 10, hello: "GET /" + goodKey + " HTTP/1.1\r\nHost: h\r\n\r\n", repeat: 10_000},
}

func kindNames() (names []string) {
	for _, k := range kinds {
		names = append(names, k.name)
	}
	return names
}

func kindOf(name string) *kind {
	for i := range kinds {
		if kinds[i].name == name {
			return &kinds[i]
		}
	}
	return nil
}

const (
	perProcess = 9000 // connections of one attacker's process: descriptors are scarce
	comeAgain  = 1000 // connections a second of all processes of an attack, after the first of each
)

// attacker is one process of an attack.
type attacker struct {
	kind  *kind
	to    netip.AddrPort
	conns []attackConn
	again float64 // connections that may come again now
	rate  float64 // of them a second
}

type attackConn struct {
	fd     int // -1: closed
	unsent []byte
}

// attackerMain attacks until it is killed, or returns why it could not. It says "ready" when all have come.
func attackerMain(args []string) error {
	if len(args) != 4 {
		return fmt.Errorf("want KIND CONNECTIONS RATE HOST:PORT, got %q", args)
	}
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	a := &attacker{kind: kindOf(args[0]), conns: make([]attackConn, n)}
	if a.kind == nil {
		return fmt.Errorf("no attack %q", args[0])
	}
	if a.rate, err = strconv.ParseFloat(args[2], 64); err != nil {
		return err
	}
	if a.to, err = netip.ParseAddrPort(args[3]); err != nil {
		return err
	}
	for i := range a.conns {
		if err := a.come(i); err != nil {
			return fmt.Errorf("connection %d of %d: %w", i, n, err)
		}
	}
	fmt.Println("ready")
	const tick = 10 * time.Millisecond
	per := float64(n) * float64(tick) / float64(a.kind.every)
	due, at := 0.0, 0
	for {
		time.Sleep(tick)
		a.again = min(a.again+a.rate*tick.Seconds(), a.rate/10)
		for due += per; due >= 1; due-- {
			a.look(at % n)
			at++
		}
	}
}

// come connects, from one of eight addresses: one has too few ports for all.
func (a *attacker) come(i int) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	_ = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	if a.kind.recvBuf > 0 {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, a.kind.recvBuf)
	}
	if err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, byte(2 + (i+os.Getpid())%8)}}); err == nil {
		err = unix.Connect(fd, &unix.SockaddrInet4{Port: int(a.to.Port()), Addr: a.to.Addr().As4()})
	}
	if err != nil {
		unix.Close(fd)
		return err
	}
	a.conns[i] = attackConn{fd: fd, unsent: []byte(strings.Repeat(a.kind.hello, max(a.kind.repeat, 1)))}
	a.say(i)
	return nil
}

// say sends what the socket takes.
func (a *attacker) say(i int) (ok bool) {
	c := &a.conns[i]
	n, err := unix.SendmsgN(c.fd, c.unsent, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	c.unsent = c.unsent[max(n, 0):]
	return err == nil || err == unix.EAGAIN
}

// look does what is due on a connection; one that was closed comes again if it may.
func (a *attacker) look(i int) {
	c := &a.conns[i]
	if c.fd >= 0 {
		c.unsent = append(c.unsent, a.kind.drip...)
		flags := unix.MSG_DONTWAIT
		buf := make([]byte, max(a.kind.read, 1))
		if a.kind.read == 0 {
			flags |= unix.MSG_PEEK
		}
		n, _, err := unix.Recvfrom(c.fd, buf, flags)
		answered := a.kind.read == 0 && a.kind.repeat == 0 && n > 0 // 408 or 503: it is over
		if open := err == unix.EAGAIN || err == nil && n > 0; open && !answered && (len(c.unsent) == 0 || a.say(i)) {
			return
		}
		unix.Close(c.fd)
		*c = attackConn{fd: -1}
	}
	if a.again >= 1 {
		a.again--
		_ = a.come(i) // what fails now is tried again
	}
}
