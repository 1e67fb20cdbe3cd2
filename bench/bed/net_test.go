package bed

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// echo is a process behind a proxy that says back what it hears, in capitals.
func echo(t *testing.T, n *Net, name string, caller func(io.Reader) (string, []byte, error)) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				b := make([]byte, 100)
				for {
					k, err := c.Read(b)
					if err != nil {
						return
					}
					c.Write(bytes.ToUpper(b[:k]))
				}
			}()
		}
	}()
	if addr, err = n.Put(name, ln.Addr().String(), caller); err != nil {
		t.Fatal(err)
	}
	return addr
}

func network(t *testing.T) *Net {
	n := NewNet()
	t.Cleanup(n.Close)
	return n
}

func dialNet(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func say(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
}

func hear(t *testing.T, c net.Conn, want string) {
	t.Helper()
	b := make([]byte, len(want))
	c.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.ReadFull(c, b); err != nil || string(b) != want {
		t.Fatalf("heard %q, %v; want %q", b, err, want)
	}
}

// silent wants that nothing comes, not even the end. That it would have come later cannot be seen: a broken Net fails this sometimes, a whole one never.
func silent(t *testing.T, c net.Conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := c.Read(make([]byte, 1)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("%d bytes, %v: want silence", n, err)
	}
}

// Either direction may be blocked alone; what was said meanwhile comes when it is healed, and others are not touched.
func TestNetBlocks(t *testing.T) {
	n := network(t)
	a, b := dialNet(t, echo(t, n, "x", Caller("a"))), dialNet(t, echo(t, n, "y", Caller("b")))
	for _, way := range [][2]string{{"a", "x"}, {"x", "a"}} {
		say(t, a, "one")
		hear(t, a, "ONE")
		n.Block(way[0], way[1])
		say(t, a, "two")
		silent(t, a)
		say(t, b, "other")
		hear(t, b, "OTHER")
		n.Heal(way[0], way[1])
		hear(t, a, "TWO")
	}
}

// Behind a black hole a connection opens, nothing comes through it, and the end of the other side is not seen either.
func TestNetBlocksDialsAndEnds(t *testing.T) {
	n := network(t)
	addr := echo(t, n, "x", Caller("a"))
	old := dialNet(t, addr)
	say(t, old, "1")
	hear(t, old, "1")
	n.Block("a", "x")
	n.Block("x", "a")
	late := dialNet(t, addr)
	say(t, late, "late")
	gone := dialNet(t, addr)
	say(t, gone, "gone")
	gone.Close()
	silent(t, late)
	n.Heal("x", "a")
	silent(t, late)
	n.Heal("a", "x")
	hear(t, late, "LATE")
	say(t, old, "2")
	hear(t, old, "2")
}

func TestNetDelays(t *testing.T) {
	n := network(t)
	c := dialNet(t, echo(t, n, "x", Caller("a")))
	n.Delay("a", "x", 30*time.Millisecond)
	n.Delay("x", "a", 30*time.Millisecond)
	began := time.Now()
	for range 3 {
		say(t, c, "abc")
		hear(t, c, "ABC")
	}
	if took := time.Since(began); took < 180*time.Millisecond {
		t.Errorf("three round trips took %v, want at least 180 ms", took)
	}
	n.Delay("a", "x", time.Hour)
	say(t, c, "abc")
	silent(t, c)
	n.Heal("a", "x")
	hear(t, c, "ABC")
}

// A cut is a reset, of the connections between the two and of no others; new ones are made at once.
func TestNetCuts(t *testing.T) {
	n := network(t)
	addr := echo(t, n, "x", Caller("a"))
	a, b := dialNet(t, addr), dialNet(t, echo(t, n, "x", Caller("b")))
	for _, c := range []net.Conn{a, b} {
		say(t, c, "1")
		hear(t, c, "1")
	}
	if k := n.Cut("x", "a"); k != 1 {
		t.Fatalf("%d cut, want 1", k)
	}
	a.SetReadDeadline(time.Now().Add(20 * time.Second))
	if _, err := a.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the cut: %v", err)
	}
	again := dialNet(t, addr)
	for _, c := range []net.Conn{again, b} {
		say(t, c, "2")
		hear(t, c, "2")
	}
}

// hello is a worker's first frame, as protobuf writes it.
func hello(fields ...byte) string {
	message := append([]byte{1<<3 | 2, byte(len(fields))}, fields...)
	return string(append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...))
}

func TestWorkerOf(t *testing.T) {
	good := hello(append([]byte{1 << 3, 1, 2 << 3, 1, 3<<3 | 2, 2, 'w', '7', 4<<3 | 2, 1, 'x', 5 << 3}, 0x80, 1)...)
	who, read, err := WorkerOf(strings.NewReader(good + "more"))
	if who != "w7" || string(read) != good || err != nil {
		t.Errorf("%q, %q, %v", who, read, err)
	}
	for _, bad := range []string{"", "abc", good[:len(good)-1], "\xff\xff\xff\xffxxxx", hello(1<<3, 1), hello(3<<3|2, 200), hello(3<<3|1, 1), "\x00\x00\x00\x00"} {
		if who, _, err := WorkerOf(strings.NewReader(bad)); err == nil {
			t.Errorf("%q is %q", bad, who)
		}
	}
	n := network(t)
	c := dialNet(t, echo(t, n, "x", WorkerOf))
	n.Block("x", "w7")
	say(t, c, good)
	silent(t, c)
	n.Heal("x", "w7")
	hear(t, c, strings.ToUpper(good))
}

// Ports are given out once, and never from where the kernel takes those of connections.
func TestFreePort(t *testing.T) {
	seen := map[string]bool{}
	for range 50 {
		p, err := FreePort()
		if err != nil || seen[p] {
			t.Fatalf("%s, %v: seen before: %v", p, err, seen[p])
		}
		seen[p] = true
	}
}
