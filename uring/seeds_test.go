package uring_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/uring"
	"github.com/talon-worker/talon/uring/uringtest"
)

var (
	seeds   = flag.Uint64("seeds", 200, "how many seeds TestSeeds runs")
	oneSeed = flag.Uint64("seed", 0, "the one seed that TestSeeds runs, if not 0")
)

// TestSeeds runs a random load over real sockets and files on the seeded kernel with all its faults, and holds it to what a caller may rely
// on: every request ends exactly once; every byte arrives, in order, once; no buffer or slab is lost; no buffer changes while it is on lease.
func TestSeeds(t *testing.T) {
	first, last := uint64(1), *seeds
	if *oneSeed != 0 {
		first, last = *oneSeed, *oneSeed
	}
	var total uringtest.Counts
	var stats uring.Stats
	for seed := first; seed <= last && !t.Failed(); seed++ {
		var k *uringtest.Kernel
		make := func(cfg uring.Config) (r *uring.Ring, err error) {
			r, k, err = uringtest.New(seed, cfg)
			return r, err
		}
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			onRing(t, uring.Config{Entries: 8, CQEntries: 16}, make, func(g *rig) {
				s := newLoad(g, seed, everyFault, k.Quiet)
				s.run(150)
				addCounts(&total, k.Counts())
				addStats(&stats, g.Stats())
				if n := k.Pending(); n != 0 {
					t.Errorf("%d requests are in flight after the end", n)
				}
			})
			if t.Failed() {
				t.Logf("replay: go test ./uring -run TestSeeds -seed %d", seed)
			}
		})
	}
	if *oneSeed == 0 && *seeds >= 200 {
		wantAllFired(t, total, stats)
	}
}

// TestSeedsOnTheKernel runs the same load on Linux, where nothing goes wrong but what the load itself causes.
func TestSeedsOnTheKernel(t *testing.T) {
	for seed := range uint64(20) {
		onRing(t, uring.Config{Entries: 8, CQEntries: 16}, uring.New, func(g *rig) {
			newLoad(g, seed, noFault, func() {}).run(150)
			if t.Failed() {
				t.Logf("seed %d", seed)
			}
		})
	}
}

// wantAllFired fails where a fault or a rare path was never taken: the seeds would not test it.
func wantAllFired(t *testing.T, c uringtest.Counts, s uring.Stats) {
	t.Helper()
	for _, n := range []struct {
		what  string
		fired uint64
	}{
		{"late", c.Late}, {"reordered", c.Reordered}, {"short", c.Short}, {"errno", c.Errors}, {"multishot end", c.MultishotEnds},
		{"no buffers", c.NoBuffers}, {"cancel race", c.CancelRaces}, {"busy", c.Busy}, {"interrupted", c.Interrupted}, {"partial", c.Partial},
		{"overflow", c.Overflow}, {"poisoned", c.Poisoned},
		{"queue full", s.SQFull}, {"refused", s.Refused}, {"partial submission seen", s.Partial},
		{"overflow seen", s.CQOverflow}, {"interruption seen", s.Interrupted}, {"busy seen", s.Busy},
	} {
		if n.fired == 0 {
			t.Errorf("%s never happened in %d seeds", n.what, *seeds)
		}
	}
	t.Logf("%+v", c)
	t.Logf("%+v", s)
}

func addCounts(sum *uringtest.Counts, c uringtest.Counts) {
	for _, f := range []struct {
		sum *uint64
		n   uint64
	}{
		{&sum.Late, c.Late}, {&sum.Reordered, c.Reordered}, {&sum.Short, c.Short}, {&sum.Errors, c.Errors}, {&sum.MultishotEnds, c.MultishotEnds},
		{&sum.NoBuffers, c.NoBuffers}, {&sum.CancelRaces, c.CancelRaces}, {&sum.Busy, c.Busy}, {&sum.Interrupted, c.Interrupted},
		{&sum.Partial, c.Partial}, {&sum.Enters, c.Enters}, {&sum.Overflow, c.Overflow}, {&sum.Poisoned, c.Poisoned},
	} {
		*f.sum += f.n
	}
}

func addStats(sum *uring.Stats, s uring.Stats) {
	sum.SQFull += s.SQFull
	sum.Refused += s.Refused
	sum.Partial += s.Partial
	sum.CQOverflow += s.CQOverflow
	sum.Interrupted += s.Interrupted
	sum.Busy += s.Busy
	sum.Completed += s.Completed
}

// Which errno an operation may fail with. A cancelled request may always say so.
var (
	everyFault = uringtest.DefaultErrnos()
	noFault    = uringtest.Errnos{}
)

// load is a random load and what it knows to be true of it.
type load struct {
	*rig
	rand  *rand.Rand
	fails uringtest.Errnos
	quiet func()

	group  *uring.Buffers
	slabs  *uring.Slabs
	flight map[uring.UserData]*request
	parked []*request // found the queue full
	last   uint32     // generation
	leases []lease

	conns            []*conn
	listener         int
	address          unix.Sockaddr
	accepting        bool
	dialed, accepted int
	disk             int
}

// request is one that has been made. done is called with every completion.
type request struct {
	op      uint8
	ud      uring.UserData
	prepare func(uring.UserData) bool
	done    func(uring.Completion)
}

// lease is a received buffer that is kept for a while, and what it must hold.
type lease struct {
	id   uint16
	text []byte
}

// conn is a socket pair: ours on the ring, theirs played by the test. Both directions carry the pattern of their positions.
type conn struct {
	n            int
	ours, theirs int
	receiving    bool
	sending      bool
	written      int // by the peer
	received     int
	sent         int // by the ring
	read         int // by the peer
	ended        bool
}

// pattern is the byte at a position of a stream; the streams differ.
func pattern(stream, at int) byte { return byte(at*7 + at>>8 + stream*31) }

func fillPattern(p []byte, stream, at int) {
	for i := range p {
		p[i] = pattern(stream, at+i)
	}
}

func (s *load) wantPattern(p []byte, stream, at int, what string) {
	s.Helper()
	for i := range p {
		if p[i] != pattern(stream, at+i) {
			s.Fatalf("%s %d: byte %d is %#x, want %#x", what, stream, at+i, p[i], pattern(stream, at+i))
		}
	}
}

const fileSize = 20000

func newLoad(g *rig, seed uint64, fails uringtest.Errnos, quiet func()) *load {
	s := &load{rig: g, rand: rand.New(rand.NewPCG(seed, 1)), fails: fails, quiet: quiet, flight: map[uring.UserData]*request{}}
	s.group = must(g.NewBuffers(3, 8, 64))
	s.slabs = must(uring.NewSlabs(6, 512))
	for n := range 3 {
		c := &conn{n: n}
		c.ours, c.theirs = g.pair()
		check(unix.SetsockoptInt(c.ours, unix.SOL_SOCKET, unix.SO_SNDBUF, 4096))
		s.conns = append(s.conns, c)
	}
	s.listener, s.address = g.listen()
	text := make([]byte, fileSize)
	fillPattern(text, 9, 0)
	s.disk = g.file(string(text))
	return s
}

// run makes random requests, then lets the faults end and brings everything to its end.
func (s *load) run(steps int) {
	acts := []func(){s.write, s.write, s.receive, s.receive, s.send, s.send, s.drain, s.readFile, s.prefetch, s.poll, s.cancel, s.cancelFD,
		s.dial, s.accept, s.giveBack, s.giveBack}
	for range steps {
		acts[s.rand.IntN(len(acts))]()
		if s.rand.IntN(3) == 0 {
			s.turn()
		}
	}
	s.quiet()
	s.wantAll("every byte of the peers and every client", func() bool { return s.everythingArrived() })
	for _, c := range s.conns {
		check(unix.Shutdown(c.theirs, unix.SHUT_WR))
	}
	s.wantAll("the end of every stream", func() bool {
		return !slices.ContainsFunc(s.conns, func(c *conn) bool { return !c.ended })
	})
	s.end()
}

// everythingArrived keeps the load going until nothing is owed.
func (s *load) everythingArrived() bool {
	all := s.accepted == s.dialed
	for _, c := range s.conns {
		s.drainOne(c)
		all = all && c.received == c.written && !c.sending && c.read == c.sent
	}
	return all
}

// wantAll goes round until it is so.
func (s *load) wantAll(what string, so func() bool) {
	s.Helper()
	for range 2000 {
		s.giveBackAll()
		for _, c := range s.conns {
			s.receiveOn(c)
		}
		s.accept()
		s.turn()
		if so() {
			return
		}
		if err := s.Wait(s.waits / 100); err != nil {
			s.Fatal(err)
		}
	}
	s.Fatalf("%s did not come: %d clients of %d; %+v", what, s.accepted, s.dialed, s.Stats())
}

// end cancels what is left and wants every lease back.
func (s *load) end() {
	s.wantEnd()
	s.giveBackAll()
	if s.group.Held() != 0 || s.slabs.Held() != 0 {
		s.Errorf("%d buffers and %d slabs are out after the end", s.group.Held(), s.slabs.Held())
	}
	check(s.group.Free())
	check(s.slabs.Free())
}

// wantEnd cancels request after request until none is in flight.
func (s *load) wantEnd() {
	s.Helper()
	for range 2000 {
		for _, ud := range slices.Sorted(maps.Keys(s.flight)) {
			if s.flight[ud].op != opCancel {
				s.request(opCancel, func(own uring.UserData) bool { return s.Cancel(ud, own) }, func(uring.Completion) {})
				break
			}
		}
		s.turn()
		if len(s.flight)+len(s.parked) == 0 && s.InFlight() == 0 { // a prefetch's advice is the ring's own, and may be late
			return
		}
		if err := s.Wait(s.waits / 100); err != nil {
			s.Fatal(err)
		}
	}
	s.Fatalf("%d requests never ended", len(s.flight))
}

// turn is one round of a loop: what was parked, submit, reap.
func (s *load) turn() {
	s.Helper()
	parked := s.parked
	s.parked = nil
	for _, r := range parked {
		s.start(r)
	}
	if err := s.Wait(0); err != nil {
		s.Fatal(err)
	}
	for {
		c, ok := s.Next()
		if !ok {
			return
		}
		s.complete(c)
	}
}

func (s *load) complete(c uring.Completion) {
	s.Helper()
	r := s.flight[c.UserData]
	if r == nil {
		s.Fatalf("got %v, which is not in flight", c)
	}
	if !c.More() {
		delete(s.flight, c.UserData)
	} else if r.op != opRecv && r.op != opAccept {
		s.Fatalf("got %v, which promises more of a request that completes once", c)
	}
	r.done(c)
}

func (s *load) request(op uint8, prepare func(uring.UserData) bool, done func(uring.Completion)) {
	s.last++
	s.start(&request{op: op, ud: tag(op, s.last%100, s.last), prepare: prepare, done: done})
}

// start prepares a request, or parks it.
func (s *load) start(r *request) {
	if r.prepare(r.ud) {
		s.flight[r.ud] = r
	} else {
		s.parked = append(s.parked, r)
	}
}

// failed reports a completion without effect, whose errno must be one of the list.
func (s *load) failed(c uring.Completion, list []unix.Errno) bool {
	s.Helper()
	if c.Res >= 0 {
		return false
	}
	if c.Err() != unix.ECANCELED && !slices.Contains(list, c.Err()) {
		s.Fatalf("got %v, want success, ECANCELED or one of %v", c, list)
	}
	return true
}

func (s *load) conn() *conn { return s.conns[s.rand.IntN(len(s.conns))] }

func (s *load) write() {
	c := s.conn()
	p := make([]byte, 1+s.rand.IntN(300))
	fillPattern(p, c.n, c.written)
	if n, err := unix.Write(c.theirs, p); err == nil {
		c.written += n
	}
}

func (s *load) receive() { s.receiveOn(s.conn()) }

func (s *load) receiveOn(c *conn) {
	if c.receiving || c.ended {
		return
	}
	c.receiving = true
	s.request(opRecv, func(ud uring.UserData) bool { return s.Recv(c.ours, 3, ud) }, func(done uring.Completion) {
		c.receiving = done.More()
		id, ok := done.Buffer()
		switch {
		case ok:
			p := s.group.Bytes(id, int(done.Res))
			s.wantPattern(p, c.n, c.received, "received on")
			c.received += len(p)
			s.leases = append(s.leases, lease{id, slices.Clone(p)})
		case s.failed(done, append(s.fails.Recv, unix.ENOBUFS)):
		default:
			c.ended = true
			if c.received != c.written {
				s.Fatalf("stream %d ended after %d bytes of %d", c.n, c.received, c.written)
			}
		}
	})
}

// giveBack releases the oldest lease, whose bytes must not have changed.
func (s *load) giveBack() {
	if len(s.leases) == 0 {
		return
	}
	l := s.leases[0]
	s.leases = s.leases[1:]
	if got := s.group.Bytes(l.id, len(l.text)); !slices.Equal(got, l.text) {
		s.Fatalf("buffer %d changed while it was on lease", l.id)
	}
	s.group.Release(l.id)
}

func (s *load) giveBackAll() {
	for len(s.leases) > 0 {
		s.giveBack()
	}
}

func (s *load) send() {
	c := s.conn()
	id, p, ok := s.slabs.Get()
	if !ok {
		return
	}
	if c.sending {
		s.slabs.Put(id)
		return
	}
	c.sending = true
	p = p[:1+s.rand.IntN(len(p))]
	fillPattern(p, c.n+100, c.sent)
	s.request(opSend, func(ud uring.UserData) bool { return s.Send(c.ours, p, 0, ud) }, func(done uring.Completion) {
		c.sending = false
		s.slabs.Put(id)
		if !s.failed(done, s.fails.Send) {
			c.sent += int(done.Res)
		}
	})
}

func (s *load) drain() { s.drainOne(s.conn()) }

// drainOne reads what the ring sent. The kernel may have taken bytes whose completion is not here yet.
func (s *load) drainOne(c *conn) {
	p := make([]byte, 2000)
	n, err := unix.Read(c.theirs, p)
	if err != nil {
		return
	}
	s.wantPattern(p[:n], c.n+100, c.read, "sent on")
	c.read += n
}

func (s *load) readFile() {
	id, p, ok := s.slabs.Get()
	if !ok {
		return
	}
	off := s.rand.IntN(fileSize + 100)
	s.request(opRead, func(ud uring.UserData) bool { return s.Read(s.disk, p, int64(off), ud) }, func(done uring.Completion) {
		if !s.failed(done, s.fails.Read) {
			s.wantPattern(p[:done.Res], 9, off, "read of file")
			if off < fileSize && done.Res == 0 {
				s.Fatalf("a read at %d found the end of a file of %d", off, fileSize)
			}
		}
		s.slabs.Put(id)
	})
}

func (s *load) prefetch() {
	id, p, ok := s.slabs.Get()
	if !ok {
		return
	}
	off, n := s.rand.IntN(fileSize), 1+s.rand.IntN(fileSize)
	s.request(opPrefetch, func(ud uring.UserData) bool { return s.Prefetch(s.disk, int64(off), uint32(n), p, ud) }, func(done uring.Completion) {
		if !s.failed(done, s.fails.Read) {
			if want := off+n <= fileSize; want != (done.Res == 1) {
				s.Fatalf("prefetch to %d of %d: got %v", off+n, fileSize, done)
			}
			s.wantPattern(p[:done.Res], 9, off+n-1, "prefetch of file")
		}
		s.slabs.Put(id)
	})
}

func (s *load) poll() {
	c := s.conn()
	s.request(opPoll, func(ud uring.UserData) bool { return s.PollOut(c.ours, ud) }, func(done uring.Completion) {
		if !s.failed(done, s.fails.Poll) && done.Res&unix.POLLOUT == 0 {
			s.Fatalf("got %v, want POLLOUT", done)
		}
	})
}

// cancel asks for the end of any request.
func (s *load) cancel() {
	for _, ud := range slices.Sorted(maps.Keys(s.flight)) {
		if s.rand.IntN(len(s.flight)) != 0 {
			continue
		}
		s.request(opCancel, func(own uring.UserData) bool { return s.Cancel(ud, own) }, func(done uring.Completion) {
			s.failed(done, []unix.Errno{unix.ENOENT, unix.EALREADY})
		})
		return
	}
}

func (s *load) cancelFD() {
	if s.rand.IntN(4) != 0 {
		return
	}
	c := s.conn()
	s.request(opCancel, func(ud uring.UserData) bool { return s.CancelFD(c.ours, ud) }, func(done uring.Completion) {
		if done.Res < 0 && done.Err() != unix.ECANCELED {
			s.Fatalf("got %v, want a count", done)
		}
	})
}

func (s *load) dial() {
	if s.dialed >= 10 {
		return
	}
	fd := must(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))
	check(unix.Connect(fd, s.address))
	s.Cleanup(func() { unix.Close(fd) })
	s.dialed++
}

func (s *load) accept() {
	if s.accepting {
		return
	}
	s.accepting = true
	s.request(opAccept, func(ud uring.UserData) bool { return s.Accept(s.listener, ud) }, func(done uring.Completion) {
		s.accepting = done.More()
		if !s.failed(done, s.fails.Accept) {
			check(unix.Close(int(done.Res)))
			s.accepted++
		}
	})
}
