package server

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/uring/uringtest"
)

var tortureCycles = flag.Int("cycles", 20_000, "connections that TestTortureLateCompletions opens and closes; TestTortureMemory takes a tenth")

// A million connections come and go on a kernel that completes late, and many go while
// the kernel still holds their operations: slots, descriptors and buffers are reused
// all the time. Each client knows every byte that it may be sent. make torture has the
// million, make test some of it.
func TestTortureLateCompletions(t *testing.T) {
	s := newSim(t, newSimTree(t), unix.AF_UNIX, *simFirst, func(c *Config) {
		c.MaxConnections, c.OpenFiles = 48, 64
		c.HeaderTimeout, c.IdleTimeout = time.Hour, time.Hour
	})
	s.loop.singleBelow, s.loop.singlesMost = 20, 8 // both ways to accept, in turn
	f := uringtest.DefaultFaults()
	f.Late, f.MaxLate, f.CancelRace = 0.4, 6, 0.5
	f.Busy, f.Interrupted, f.Partial = 0.01, 0.01, 0.02
	s.kernel.SetFaults(f)
	y := torture{sim: s}
	for y.opened < *tortureCycles {
		y.round()
		if t.Failed() {
			t.Fatalf("replay: go test ./server -run TestTortureLateCompletions -args -cycles=%d -first=%d", *tortureCycles, s.seed)
		}
	}
	s.kernel.Quiet()
	s.heal()
	s.drain()
	n := s.kernel.Counts()
	t.Logf("%d connections, %d answers read whole, %d operations late, %d slots closed while the kernel held %d of their operations, %d cancellations too late; closed %v",
		y.opened, y.answers, n.Late, y.late, y.lateOps, n.CancelRaces, s.loop.stats.Closed)
	if y.late < uint64(y.opened)/10 || y.answers < y.opened/10 {
		t.Errorf("%d of %d connections were closed with operations out, %d answers: too few to show anything", y.late, y.opened, y.answers)
	}
	s.close()
}

// torture is a sim whose clients are replaced as soon as they are through.
type torture struct {
	*sim
	opened, answers int
	late, lateOps   uint64
	gens            []uint32 // by slot, for which it was closing with operations out
}

func (y *torture) round() {
	s := y.sim
	took := &s.loop.stats
	waiting := func() uint64 { return uint64(y.opened) - took.Accepted - took.RefusedBudget - took.RefusedFiles }
	for len(s.clients) < 40 && waiting() < 40 { // connect must not wait for room in the backlog
		s.connect()
		y.opened++
	}
	for _, c := range s.clients {
		c.tortured()
	}
	s.turn()
	y.countLate()
	left := s.clients[:0]
	for _, c := range s.clients {
		if !c.through() {
			left = append(left, c)
			continue
		}
		n, err := c.parse()
		if err != nil {
			s.t.Errorf("seed %d: %v", s.seed, err)
		}
		y.answers += n
		c.hangUp()
	}
	clear(s.clients[len(left):])
	s.clients = left
}

// countLate counts the connections that wait for completions only.
func (y *torture) countLate() {
	if y.gens == nil {
		y.gens = make([]uint32, len(y.loop.conns))
	}
	for i := range y.loop.conns {
		if c := &y.loop.conns[i]; c.state == stateClosing && y.gens[i] != c.gen {
			y.gens[i] = c.gen
			y.late++
			for p := c.pend; p != 0; p &= p - 1 {
				y.lateOps++
			}
		}
	}
}

// tortured does one thing that a client may do.
func (c *simClient) tortured() {
	if c.gone || c.ended {
		return
	}
	rnd := c.s.rnd
	switch n := rnd.IntN(24); {
	case n == 0:
		c.hangUp()
	case n == 1 && len(c.owed) > 0 && len(c.unsent) == 0:
		unix.Shutdown(c.fd, unix.SHUT_WR)
		c.last = true
	case n < 10 && len(c.owed) < 2 && !c.last:
		c.ask()
		c.send(1 + rnd.IntN(2*len(c.unsent)+1))
	case n < 12:
		c.flush()
	case n < 18:
		c.read(30_000)
	}
}

// through reports whether nothing more is to be expected of a client.
func (c *simClient) through() bool {
	return c.gone || c.ended || len(c.owed) > 0 && len(c.unsent) == 0 && c.satisfied()
}

// Real rings and sockets while the collector never rests (GOGC=1), stacks grow and
// shrink, those of the loops too, and the heap is full of blocks whose every byte is
// known. The kernel writes where it was told and nowhere else, and no byte of a body
// is another's. With -tags invariants all that the kernel may write is guarded.
func TestTortureMemory(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(1))
	r := startRig(t, func(c *Config) {
		c.Rings, c.MaxConnections, c.CopyBelow = 2, 64, 8<<10
	})
	var objects []tortureObject
	for i, size := range []int{1, 900, 8 << 10, 8<<10 + 1, 100 << 10, 700 << 10} {
		name := fmt.Sprint("o", size)
		objects = append(objects, tortureObject{"/" + name, pattern(size, byte(i))})
		r.put(name, objects[i].content)
	}
	var over atomic.Bool
	var around sync.WaitGroup
	for i := range 2 {
		around.Go(func() { churnHeap(t, byte(i), &over) })
	}
	around.Go(func() {
		for depth := 1; !over.Load(); depth = depth%400 + 37 {
			for _, l := range r.s.loops { // the loop's own stack, with operations in flight
				done := make(chan struct{})
				l.mail.post(&message{run: func(*loop) { deep(depth, 7); close(done) }})
				<-done
			}
			deep(2*depth, 5)
			r.s.Stats(waitLong)
		}
	})
	var clients sync.WaitGroup
	var whole, cut atomic.Int64
	const workers = 12
	for i := range workers {
		clients.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), 1))
			for range *tortureCycles / 10 / workers {
				finished, err := tortureOnce(r.s.Addr().String(), objects, rnd)
				if err != nil {
					t.Error(err)
					return
				}
				if finished {
					whole.Add(1)
				} else {
					cut.Add(1)
				}
			}
		})
	}
	clients.Wait()
	over.Store(true)
	around.Wait()
	st := r.stats()
	t.Logf("%d connections, %d to their end and %d cut off; %d bytes copied, %d by sendfile", st.Accepted, whole.Load(), cut.Load(), st.SentCopy, st.SentSendfile)
	if whole.Load() == 0 || cut.Load() == 0 || st.StaleCompleted != 0 || st.RefusedBudget != 0 {
		t.Errorf("%d whole, %d cut off, %d completions for connections that were gone, %d turned away", whole.Load(), cut.Load(), st.StaleCompleted, st.RefusedBudget)
	}
	for end := time.Now().Add(waitLong); ; time.Sleep(time.Millisecond) {
		st = r.stats()
		if st.Open+st.BuffersHeld+st.InputsHeld+st.SlabsHeld+st.StarvedNow+st.OpensOut == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("not given back: %+v", st)
		}
	}
}

type tortureObject struct {
	path    string
	content []byte
}

// tortureOnce is one connection: some requests, each answer compared byte by byte; or
// it ends in the middle, by a FIN or by a reset.
func tortureOnce(addr string, objects []tortureObject, rnd *rand.Rand) (finished bool, err error) {
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		return false, err
	}
	defer nc.Close()
	conn := nc.(*net.TCPConn)
	conn.SetDeadline(time.Now().Add(waitLong))
	var asked [][]byte
	var text []byte
	for range 1 + rnd.IntN(4) {
		o := objects[rnd.IntN(len(objects))]
		from := rnd.IntN(len(o.content))
		to := from + rnd.IntN(len(o.content)-from)
		text = append(text, getRequest(o.path, fmt.Sprintf("Range: bytes=%d-%d", from, to))...)
		asked = append(asked, o.content[from:to+1])
	}
	reset := rnd.IntN(3) == 0
	leaveAt := -1 // after so many bytes
	if rnd.IntN(3) == 0 {
		leaveAt = rnd.IntN(50_000)
	}
	if reset {
		conn.SetLinger(0)
	}
	if _, err := conn.Write(text); err != nil {
		return false, err
	}
	in := &io.LimitedReader{R: conn, N: 1 << 40}
	if leaveAt >= 0 {
		in.N = int64(leaveAt)
	}
	br := bufio.NewReader(in)
	for i, want := range asked {
		resp, err := http.ReadResponse(br, &http.Request{Method: "GET"})
		if err != nil {
			if in.N == 0 {
				return false, nil
			}
			return false, fmt.Errorf("answer %d: %w", i, err)
		}
		got, err := io.ReadAll(resp.Body)
		if resp.StatusCode != 206 || !bytes.HasPrefix(want, got) || err == nil && len(got) != len(want) {
			return false, fmt.Errorf("answer %d: status %d, %d bytes of %d, other bytes than asked for: %v", i, resp.StatusCode, len(got), len(want), err)
		}
		if err != nil {
			if in.N == 0 {
				return false, nil
			}
			return false, fmt.Errorf("answer %d: %w", i, err)
		}
	}
	return true, nil
}

// churnHeap fills and empties the heap, and looks at every block before it drops it.
func churnHeap(t *testing.T, seed byte, over *atomic.Bool) {
	var live [64][]byte
	for i := 0; !over.Load(); i++ {
		at := i % len(live)
		for j, b := range live[at] {
			if want := seed ^ byte(j) ^ byte(at); b != want {
				t.Errorf("byte %d of a heap block is %#02x, want %#02x", j, b, want)
				return
			}
		}
		p := make([]byte, 256<<(i%6))
		for j := range p {
			p[j] = seed ^ byte(j) ^ byte(at)
		}
		live[at] = p
		if i%8 == 0 {
			time.Sleep(100 * time.Microsecond) // two cores: the server must run
		}
	}
}

// deep makes the stack grow by about a quarter of a KiB a level, and looks at it on
// the way back.
func deep(levels int, fill byte) byte {
	var frame [200]byte
	for i := range frame {
		frame[i] = fill + byte(levels)
	}
	if levels > 0 {
		deep(levels-1, fill)
	}
	for _, b := range frame {
		if b != fill+byte(levels) {
			panic("a stack frame was overwritten")
		}
	}
	return frame[levels%len(frame)]
}
