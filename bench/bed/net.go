package bed

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A Net is the network between the processes of a bed, where it can be broken: every process is reached through a proxy of its own, and what goes from
// one to another waits, is late, or is cut off as that direction's state says. Nothing of it needs root, and TCP itself is left alone.
//
// A direction that is blocked is a black hole: connections open and nothing comes through, neither bytes nor the end of the stream; what was said
// meanwhile arrives when it is opened again, as after a partition that TCP has outlived. Directions are independent: one may be blocked alone.
type Net struct {
	mu    sync.Mutex
	ways  map[way]*direction
	pipes map[*pipe]bool
	lns   []net.Listener
	ended bool
	wg    sync.WaitGroup
}

// way is one direction: from one process to another, whoever has dialed.
type way struct{ from, to string }

// direction is the state of one.
type direction struct {
	blocked bool
	delay   time.Duration
	news    chan struct{} // closed, and another made, when something has changed
}

// pipe is one connection through a proxy: from whoever has dialed, to the process behind it.
type pipe struct {
	from, to string
	near     *net.TCPConn // of the one that has dialed
	far      *net.TCPConn // of the process; nil until it is dialed
	over     chan struct{}
	once     sync.Once
}

const (
	netChunk  = 16 << 10        // read at a time
	netQueue  = 64              // chunks that are under way in one direction of a connection
	helloTime = 5 * time.Second // within which who dials has said who he is
)

// NewNet is a network without processes.
func NewNet() *Net { return &Net{ways: map[way]*direction{}, pipes: map[*pipe]bool{}} }

// Put makes a proxy through which others reach the process called name at addr, and returns the proxy's address. Who dials is what caller makes of the
// first bytes (see WorkerOf), which are passed on whole.
func (n *Net) Put(name, addr string, caller func(io.Reader) (who string, read []byte, err error)) (string, error) {
	listen, err := FreePort()
	if err != nil {
		return "", err
	}
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return "", err
	}
	n.mu.Lock()
	n.lns = append(n.lns, ln)
	n.mu.Unlock()
	n.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return // closed
			}
			n.wg.Go(func() { n.carry(&pipe{to: name, near: c.(*net.TCPConn), over: make(chan struct{})}, addr, caller) })
		}
	})
	return ln.Addr().String(), nil
}

// Close ends all connections and proxies.
func (n *Net) Close() {
	n.mu.Lock()
	n.ended = true
	for _, ln := range n.lns {
		ln.Close()
	}
	for p := range n.pipes {
		p.cut()
	}
	n.mu.Unlock()
	n.wg.Wait()
}

// Block makes a black hole of the way from one process to another.
func (n *Net) Block(from, to string) { n.change(from, to, func(d *direction) { d.blocked = true }) }

// Delay lets what goes from one process to another arrive that much later; 0 ends it.
func (n *Net) Delay(from, to string, by time.Duration) {
	n.change(from, to, func(d *direction) { d.delay = by })
}

// Heal makes the way whole again.
func (n *Net) Heal(from, to string) {
	n.change(from, to, func(d *direction) { d.blocked, d.delay = false, 0 })
}

func (n *Net) change(from, to string, do func(*direction)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	d := n.way(way{from, to})
	do(d)
	close(d.news)
	d.news = make(chan struct{})
}

// way is a direction's state; mu is held.
func (n *Net) way(w way) *direction {
	d := n.ways[w]
	if d == nil {
		d = &direction{news: make(chan struct{})}
		n.ways[w] = d
	}
	return d
}

// Cut resets all connections between two processes.
func (n *Net) Cut(a, b string) (cut int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for p := range n.pipes {
		if p.from == a && p.to == b || p.from == b && p.to == a {
			p.cut()
			cut++
		}
	}
	return cut
}

// cut ends a connection as a reset, at once and on both sides.
func (p *pipe) cut() {
	p.once.Do(func() {
		close(p.over)
		for _, c := range []*net.TCPConn{p.near, p.far} {
			if c != nil {
				c.SetLinger(0)
				c.Close()
			}
		}
	})
}

// carry looks after one connection until it is over.
func (n *Net) carry(p *pipe, addr string, caller func(io.Reader) (string, []byte, error)) {
	if !n.keep(p) {
		return
	}
	defer n.drop(p)
	p.near.SetReadDeadline(time.Now().Add(helloTime))
	who, first, err := caller(p.near)
	if err != nil {
		return
	}
	p.near.SetReadDeadline(time.Time{})
	n.mu.Lock()
	p.from = who
	n.mu.Unlock()
	there, back := way{who, p.to}, way{p.to, who}
	// The way to it is asked before it is dialed, as a SYN would have to go it; and whoever has given up meanwhile would not answer the other side's.
	if !n.pass(p, there, time.Now()) || hungUp(p.near) {
		return
	}
	far, err := net.DialTimeout("tcp", addr, helloTime)
	if err != nil {
		return
	}
	n.mu.Lock()
	p.far = far.(*net.TCPConn)
	select {
	case <-p.over: // it was cut while it was dialed
		far.Close()
	default:
	}
	n.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { n.pump(p, there, p.near, p.far, first) })
	both.Go(func() { n.pump(p, back, p.far, p.near, nil) })
	both.Wait()
}

func (n *Net) keep(p *pipe) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended {
		p.cut()
		return false
	}
	n.pipes[p] = true
	return true
}

func (n *Net) drop(p *pipe) {
	n.mu.Lock()
	defer n.mu.Unlock()
	p.cut()
	delete(n.pipes, p)
}

// chunk is what was read at one time; the last one has the end of the stream in err.
type chunk struct {
	b   []byte
	at  time.Time
	err error
}

// pump carries one direction of a connection.
func (n *Net) pump(p *pipe, w way, from, to *net.TCPConn, first []byte) {
	queue := make(chan chunk, netQueue)
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(queue)
		next := chunk{b: first, at: time.Now()}
		for {
			if len(next.b) > 0 || next.err != nil {
				select {
				case queue <- next:
				case <-p.over:
					return
				}
			}
			if next.err != nil {
				return
			}
			b := make([]byte, netChunk)
			k, err := from.Read(b)
			next = chunk{b[:k], time.Now(), err}
		}
	})
	for c := range queue {
		if !n.pass(p, w, c.at) {
			break
		}
		_, err := to.Write(c.b)
		if errors.Is(c.err, io.EOF) && err == nil {
			err = to.CloseWrite()
		} else if c.err != nil {
			err = c.err
		}
		if err != nil {
			n.mu.Lock()
			p.cut()
			n.mu.Unlock()
			break
		}
	}
	for range queue { // let the reader go
	}
	reader.Wait()
}

// pass waits until what was said at a time may arrive; false: the connection is over.
func (n *Net) pass(p *pipe, w way, said time.Time) bool {
	for {
		n.mu.Lock()
		d := n.way(w)
		blocked, wait, news := d.blocked, time.Until(said.Add(d.delay)), d.news
		n.mu.Unlock()
		var due <-chan time.Time
		switch {
		case blocked:
		case wait <= 0:
			return true
		default:
			due = time.After(wait)
		}
		select {
		case <-due:
		case <-news:
		case <-p.over:
			return false
		}
	}
}

// hungUp reports whether the other side of a connection has closed it.
func hungUp(c *net.TCPConn) (gone bool) {
	raw, err := c.SyscallConn()
	if err != nil {
		return true
	}
	var b [1]byte
	err = raw.Control(func(fd uintptr) {
		n, _, err := unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		gone = n == 0 && err == nil || err != nil && !errors.Is(err, unix.EAGAIN)
	})
	return gone || err != nil
}

// Caller knows who dials without looking.
func Caller(who string) func(io.Reader) (string, []byte, error) {
	return func(io.Reader) (string, []byte, error) { return who, nil, nil }
}

// WorkerOf reads the first frame of a worker that calls another on its peer port, without TLS, and returns the name that it gives itself: a length of four
// bytes, and a message whose field 1 is a message whose field 3 is the name (protobuf; peerwire/peerpb/peer.proto).
func WorkerOf(r io.Reader) (who string, read []byte, err error) {
	read = make([]byte, 4)
	if _, err = io.ReadFull(r, read); err != nil {
		return "", nil, err
	}
	size := binary.BigEndian.Uint32(read)
	if size > 4<<10 {
		return "", nil, fmt.Errorf("a first frame of %d bytes", size)
	}
	read = append(read, make([]byte, size)...)
	if _, err = io.ReadFull(r, read[4:]); err != nil {
		return "", nil, err
	}
	name := field(field(read[4:], 1), 3)
	if len(name) == 0 {
		return "", nil, errors.New("the first frame names no worker")
	}
	return string(name), read, nil
}

// field is the bytes of a length-delimited field of a protobuf message; nil without it, or in something else.
func field(b []byte, number uint64) []byte {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			return nil
		}
		b = b[n:]
		v, n := binary.Uvarint(b)
		if n <= 0 || tag&7 != 0 && tag&7 != 2 {
			return nil
		}
		b = b[n:]
		if tag&7 == 0 {
			continue
		}
		if v > uint64(len(b)) {
			return nil
		}
		if tag>>3 == number {
			return b[:v]
		}
		b = b[v:]
	}
	return nil
}
