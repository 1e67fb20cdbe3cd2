package server

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/origin"
	"github.com/talon-worker/talon/uring"
	"github.com/talon-worker/talon/uring/uringtest"
)

var (
	simSeeds = flag.Int("seeds", 300, "how many seeds TestSim runs")
	simFirst = flag.Uint64("first", 1, "the first of them")
)

// TestSim runs the production loop on a seeded kernel that completes late, short,
// out of order and with errors, against clients that split, pipeline, stall,
// half-close and vanish, in fake time. Whatever happens, a client reads a prefix of
// the right bytes and nothing else; once the faults end everybody who is still
// connected gets all of it; and in the end nothing is held.
//
// A seed repeats the faults and what the clients do. Sockets, signals and the disk
// are real, so two runs of it can differ in small ways.
func TestSim(t *testing.T) {
	total := runSeeds(t, "TestSim", unix.AF_UNIX, *simSeeds)
	if *simSeeds >= 100 {
		total.wantEverything(t)
	}
}

// TestSimTCP is TestSim over TCP, a tenth of the seeds. TCP has timers of its own,
// so a seed does not replay exactly.
func TestSimTCP(t *testing.T) {
	runSeeds(t, "TestSimTCP", unix.AF_INET, max(*simSeeds/10, 1))
}

func runSeeds(t *testing.T, name string, family, seeds int) *simTally {
	tree := newSimTree(t)
	total := &simTally{}
	for seed := *simFirst; seed < *simFirst+uint64(seeds); seed++ {
		total.add(runSeed(t, tree, family, seed))
		if t.Failed() {
			t.Fatalf("replay: go test ./server -run '%s$' -args -seeds=%d -first=%d", name, seeds/max(seeds, 1), seed)
		}
	}
	t.Log(total)
	return total
}

func runSeed(t *testing.T, tree *simTree, family int, seed uint64) *sim {
	s := newSim(t, tree, family, seed)
	s.run()
	s.close()
	return s
}

// simTree is the directory that all seeds serve.
type simTree struct {
	dir     *origin.Dir
	path    string
	objects map[string][]byte
	names   []string
	readBuf []byte // shared by the seeds, which run one after the other
}

func newSimTree(t *testing.T) *simTree {
	tree := &simTree{path: t.TempDir(), objects: map[string][]byte{}, readBuf: make([]byte, 1<<20)}
	for i, size := range []int{0, 1, 700, simCopy - 1, simCopy, simCopy + 1, simChunk, simChunk + 1, 5*simChunk + 3} {
		name := fmt.Sprint("o", size)
		tree.objects[name] = pattern(size, byte(i))
		tree.names = append(tree.names, name)
		path := filepath.Join(tree.path, name)
		if err := os.WriteFile(path, tree.objects[name], 0o644); err != nil {
			t.Fatal(err)
		}
		old := time.Unix(1e9, 0)
		os.Chtimes(path, old, old)
	}
	syncTree(t, tree.path)
	var err error
	if tree.dir, err = origin.OpenDir(tree.path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tree.dir.Close() })
	return tree
}

const (
	simCopy  = 2000
	simChunk = 4 << 10
	simStep  = 1e6 // ns of fake time per turn
)

// sim is one seed: a loop, its kernel, and clients, all on the test's thread.
type sim struct {
	t       *testing.T
	tree    *simTree
	seed    uint64
	rnd     *rand.Rand
	loop    *loop
	kernel  *uringtest.Kernel
	opener  *origin.Opener
	worker  *worker
	now     int64
	address unix.Sockaddr
	family  int
	clients []*simClient
	readBuf []byte
	reloads int        // of tenants and policies
	control *control   // the limiter's control loop, nil without
	mail    []*message // from the opener, not yet delivered

	unreadable int // answers of 500 that were read whole
	aside      int // turns in which a response waited for a file that cannot be read without waiting
}

func newSim(t *testing.T, tree *simTree, family int, seed uint64, change ...func(*Config)) *sim {
	runtime.LockOSThread()
	for _, name := range tree.names { // every seed begins with all pages in memory
		if _, err := os.ReadFile(filepath.Join(tree.path, name)); err != nil {
			t.Fatal(err)
		}
	}
	s := &sim{t: t, tree: tree, family: family, seed: seed, rnd: rand.New(rand.NewPCG(seed, 1)), now: 1e9, readBuf: tree.readBuf}
	entries := []uint32{8, 64, 1024}[s.rnd.IntN(3)]
	ring, kernel, err := uringtest.New(seed, uring.Config{Entries: entries})
	if err != nil {
		t.Fatal(err)
	}
	s.kernel = kernel
	cfg := Config{
		Listen: "sim", Origin: tree.dir, AnonymousTenant: "public", CopyBelow: simCopy, TransferChunk: simChunk,
		MaxConnections: 6, OpenFiles: 4 + s.rnd.IntN(8), OpenFileValid: time.Duration(1 + s.rnd.IntN(200e6)),
		MinDrainRate: -1,
	}
	if len(change) == 0 && seed%2 == 0 {
		s.invite(&cfg)
	}
	for _, f := range change {
		f(&cfg)
	}
	cfg = cfg.withDefaults()
	cfg.Rings = 1
	s.opener = origin.NewOpener(tree.dir, 1, 64)
	if s.worker, err = newWorker(&cfg, s.opener); err != nil {
		t.Fatal(err)
	}
	clock := func() instant { return instant{mono: s.now, wall: 1.7e18 + s.now, boot: bootOffset + s.now} }
	if s.loop, err = newLoop(s.worker, ring, s.listen(), clock, seed); err != nil {
		t.Fatal(err)
	}
	s.loop.singleBelow = []int64{1, 3, s.loop.singleBelow}[s.rnd.IntN(3)] // near the limit late, in between, always
	if s.control != nil {
		s.control.news = s.loop.nudge
		s.slowToRefuse()
	}
	if err := s.loop.start(); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *sim) listen() int {
	check := func(err error) {
		if err != nil {
			s.t.Fatal(err)
		}
	}
	var bind unix.Sockaddr = &unix.SockaddrUnix{} // an address of the kernel's choice, unix(7) "autobind"
	if s.family == unix.AF_INET {
		bind = &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}
	}
	fd, err := unix.Socket(s.family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	check(err)
	check(unix.Bind(fd, bind))
	check(unix.Listen(fd, 64))
	s.address, err = unix.Getsockname(fd)
	check(err)
	return fd
}

func (s *sim) close() {
	for _, c := range s.clients {
		c.hangUp()
	}
	s.loop.release()
	s.opener.Stop()
	s.loop.mail.drain(s.loop)
	s.loop.mail.close()
	runtime.UnlockOSThread()
}

// run is a life: chaos, then calm until everybody is served, then the end.
func (s *sim) run() {
	for range 60 + s.rnd.IntN(120) {
		s.act()
		s.turn()
	}
	s.kernel.Quiet()
	if s.control != nil {
		s.control.frozen = false
	}
	s.heal()
	s.drain()
}

// turn is one pass of the production loop. The opener's goroutines are the only
// thing that is not ours: whenever a lookup is out, the turn may wait for it, or
// not.
func (s *sim) turn() {
	l := s.loop
	s.collect()
	if err := l.ring.Wait(l.patience()); err != nil {
		s.t.Fatalf("seed %d: %v", s.seed, err)
	}
	s.deliver()
	s.now += simStep
	s.control.step(s.now)
	l.turn()
	s.slowFiles()
	s.check()
}

// slowFiles gives a fifth of the seeds a file system that cannot be told not to wait.
func (s *sim) slowFiles() {
	if s.seed%5 > 0 {
		return
	}
	for i := range s.loop.conns {
		if c := &s.loop.conns[i]; c.file != nil {
			c.file.Waits = true
			if c.state == stateParked || c.state == stateFilling {
				s.aside++
			}
		}
	}
}

// collect waits for the opener's goroutines, the only thing here that is not the
// test's own, while the loop is awake and nothing depends on when they post.
func (s *sim) collect() {
	l := s.loop
	for len(l.tickets)+len(s.mail) < l.opens {
		msg := l.mail.top.Swap(nil)
		if msg == nil {
			runtime.Gosched()
			continue
		}
		for ; msg != nil; msg = msg.next {
			s.mail = append(s.mail, msg)
		}
	}
}

// deliver posts what the opener found, some turns later.
func (s *sim) deliver() {
	if s.rnd.IntN(3) > 0 {
		return
	}
	for _, msg := range s.mail {
		s.loop.mail.post(msg)
	}
	s.mail = s.mail[:0]
}

// act lets a client, the disk or the clock do something.
func (s *sim) act() {
	switch s.rnd.IntN(12) {
	case 11:
		if s.control != nil {
			s.govern()
		}
	case 0:
		if len(s.clients) < 10 {
			s.connect()
		}
	case 1:
		if s.seed%4 > 0 { // the disk is slow: a quarter of the seeds is enough of it
			return
		}
		name := s.tree.names[s.rnd.IntN(len(s.tree.names))]
		evict(s.t, filepath.Join(s.tree.path, name))
	case 2:
		s.now += s.rnd.Int64N(300e6)
	default:
		if len(s.clients) == 0 {
			s.connect()
		}
		s.clients[s.rnd.IntN(len(s.clients))].act()
	}
}

// heal runs without faults until every client has what it asked for or is
// disconnected.
func (s *sim) heal() {
	for range 4000 {
		waiting := false
		for _, c := range s.clients {
			c.flush()
			c.read(1 << 20)
			waiting = waiting || !c.gone && !c.ended && (len(c.unsent) > 0 || !c.satisfied())
		}
		if !waiting {
			break
		}
		s.turn()
		if s.control != nil {
			s.now += 4e6
		}
		if s.family == unix.AF_INET {
			unix.Poll(nil, 1) // TCP's timers are real
		}
	}
	for i, c := range s.clients {
		if err := c.judge(); err != nil {
			s.t.Errorf("seed %d, client %d: %v", s.seed, i, err)
		}
	}
}

// drain stops the loop and looks for what it should have given back.
func (s *sim) drain() {
	l := s.loop
	l.startDrain(s.now + 50e6)
	for range 4000 {
		if l.stopped() {
			break
		}
		for _, c := range s.clients {
			c.read(1 << 20)
		}
		s.turn()
		s.now += 10e6
	}
	for len(l.tickets) < l.opens {
		s.collect()
		s.deliver()
		l.mail.drain(l)
	}
	s.balance()
	switch {
	case !l.stopped():
		s.t.Errorf("seed %d: not drained: %d connections open, listener %d", s.seed, l.stats.Open, l.listen)
	case l.raws.Held() != 0 || l.unsent != 0 || len(l.waits) != 0:
		s.t.Errorf("seed %d: held after the end: %d requests as bytes, %d with open files, %d tenants that wait", s.seed, l.raws.Held(), l.unsent, len(l.waits))
	case l.slabs.Held() != 0 || l.ins.slabs.Held() != 0 || l.bufs.Held() != 0:
		s.t.Errorf("seed %d: held after the end: %d send slabs, %d input slabs, %d buffers", s.seed, l.slabs.Held(), l.ins.slabs.Held(), l.bufs.Held())
	case len(l.free) != len(l.conns) || l.accepting.shedding != 0:
		s.t.Errorf("seed %d: %d of %d slots free", s.seed, len(l.free), len(l.conns))
	case s.worker.budget.Load() != int64(l.cfg.MaxConnections):
		s.t.Errorf("seed %d: budget %d of %d", s.seed, s.worker.budget.Load(), l.cfg.MaxConnections)
	case l.snapshot().BuffersHeld+l.snapshot().InputsHeld+l.snapshot().SlabsHeld+l.snapshot().OpensOut+l.snapshot().StarvedNow != 0:
		s.t.Errorf("seed %d: the gauges are not back: %+v", s.seed, l.snapshot())
	case l.stats.StaleCompleted != 0:
		s.t.Errorf("seed %d: %d completions for connections that were gone", s.seed, l.stats.StaleCompleted)
	}
}

// check holds the invariants of the fields of a connection after a turn.
func (s *sim) check() {
	l := s.loop
	slabs, open := 0, 0
	for i := range l.conns {
		c := &l.conns[i]
		if c.slab != noSlab {
			slabs++
		}
		if waits := l.waiting.since[i] > 0; waits != (c.state == stateReading) {
			s.t.Errorf("seed %d: slot %d in state %d waits for a request: %v", s.seed, i, c.state, waits)
		}
		if c.state == stateFree {
			if c.pend != 0 || c.cancels != 0 || c.file != nil || c.slab != noSlab || c.raw != noSlab || c.seat != nil || c.owner != nil || c.admitted || c.flow || c.flying || c.unsent || !c.in.empty() || c.fd != -1 {
				s.t.Errorf("seed %d: slot %d is free and holds something: %+v", s.seed, i, c)
			}
			continue
		}
		open++
		switch {
		case c.sendOff < 0 || c.sendOff > c.sendEnd || c.resp.off > c.resp.end:
			s.t.Errorf("seed %d: slot %d: send %d of %d, body %d of %d", s.seed, i, c.sendOff, c.sendEnd, c.resp.off, c.resp.end)
		case c.state == stateVerifying, c.state == stateSending && !c.pend.has(opSend), c.state == stateFilling && !c.pend.has(opRead),
			c.state == stateBlocked && !c.pend.has(opPoll), c.state == stateParked && !c.pend.has(opPrefetch),
			c.state == stateReady && !c.flow, c.state == stateQueued && c.seat.door.len == 0, c.state == stateOpening && c.opening == nil,
			c.state == stateStarved && !l.starved.in[i], c.state == stateHeld && !c.holder.tells:
			s.t.Errorf("seed %d: slot %d waits in state %d for what will not come (pending %b)", s.seed, i, c.state, c.pend)
		case c.pend.has(opSend) && c.state != stateSending && c.state != stateClosing:
			s.t.Errorf("seed %d: slot %d: a second sender could start in state %d", s.seed, i, c.state)
		}
	}
	s.checkHeld()
	if took, a := s.worker.budget.Load(), &l.accepting; took+int64(open+a.singles) != int64(l.cfg.MaxConnections) || a.aside.Load() != int64(a.singles) {
		s.t.Errorf("seed %d: %d places free, %d used, %d set aside (%d said), of %d", s.seed, took, open, a.singles, a.aside.Load(), l.cfg.MaxConnections)
	}
	if err := l.flows.Audit(); err != nil {
		s.t.Errorf("seed %d: the scheduler: %v", s.seed, err)
	}
	ended := uint64(0)
	for _, n := range l.stats.Closed {
		ended += n
	}
	if now := l.snapshot(); now.Accepted-ended != now.Open || now.SlabsHeld != uint64(slabs) {
		s.t.Errorf("seed %d: accepted %d, closed %d, open %d; %d send slabs, counted %d", s.seed, now.Accepted, ended, now.Open, slabs, now.SlabsHeld)
	}
	if slabs != l.slabs.Held() || uint64(open) != l.stats.Open || len(l.conns)-open != len(l.free) {
		s.t.Errorf("seed %d: %d slabs held by connections, %d by the pool; %d open, counted %d, %d slots free", s.seed, slabs, l.slabs.Held(), open, l.stats.Open, len(l.free))
	}
}

// simClient is one client and what it is owed.
type simClient struct {
	s      *sim
	fd     int
	unsent []byte
	owed   []simRequest // in order
	got    []byte       // what came behind the answers that were judged
	judged int          // answers that came whole and were right
	tally  *int64       // counts what it reads, where a test wants that
	gone   bool         // we hung up
	ended  bool         // the server did
	last   bool         // nothing may be asked after what was asked
}

type simRequest struct {
	method string
	status int
	body   []byte
	tenant bool // of a tenant: it may be told that it may not, or not now
}

func (s *sim) connect() {
	fd, err := unix.Socket(s.family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		err = unix.Connect(fd, s.address)
	}
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		s.t.Fatalf("seed %d: connect: %v", s.seed, err)
	}
	s.clients = append(s.clients, &simClient{s: s, fd: fd})
}

func (c *simClient) act() {
	rnd := c.s.rnd
	if c.gone {
		return
	}
	switch rnd.IntN(20) {
	case 0:
		c.hangUp()
	case 1:
		if len(c.unsent) == 0 {
			unix.Shutdown(c.fd, unix.SHUT_WR)
			c.last = true
		}
	case 2:
		if rnd.IntN(2) == 0 {
			c.askBadly()
			return
		}
		for range 80 { // more than the server keeps
			c.ask()
		}
		c.flush()
	case 3, 4, 5, 6, 7:
		for range 1 + rnd.IntN(4) {
			c.ask()
		}
		c.flush()
	case 8, 9, 10, 11:
		c.send(1 + rnd.IntN(200))
	default:
		c.read(1 + rnd.IntN(20_000))
	}
}

// ask appends a request that is right.
func (c *simClient) ask() {
	if c.last || len(c.owed) > 200 {
		return
	}
	rnd, tree := c.s.rnd, c.s.tree
	name := tree.names[rnd.IntN(len(tree.names))]
	object := tree.objects[name]
	switch rnd.IntN(8) {
	case 0:
		c.owe("HEAD", 200, nil, name)
	case 1: // a file used as a directory: the kernel will not say so without asking the disk
		c.owe("GET", 404, nil, name+"/missing")
	case 2, 3, 4:
		header := randomRange(rnd, int64(len(object)))
		status, from, to := rangeOracle(header, int64(len(object)))
		c.owe("GET", status, object[from:to], name, "Range: "+header)
	case 5:
		c.owe("GET", 200, object, name, "Connection: close")
		c.last = true
	default:
		c.owe("GET", 200, object, name, "X-Padding: "+strings.Repeat("p", rnd.IntN(3000)))
	}
}

func (c *simClient) askBadly() {
	if c.last {
		return
	}
	c.unsent = append(c.unsent, "GET /x HTTP/1.1\r\nHost : h\r\n\r\nGET /o700 HTTP/1.1\r\nHost: h\r\n\r\n"...)
	c.owed = append(c.owed, simRequest{method: "GET", status: 400})
	c.last = true
}

func (c *simClient) flush() { c.send(len(c.unsent)) }

func (c *simClient) send(n int) {
	n = min(n, len(c.unsent))
	if n == 0 || c.gone || c.ended {
		return
	}
	sent, err := unix.SendmsgN(c.fd, c.unsent[:n], nil, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
	if err != nil && err != unix.EAGAIN {
		c.unsent = nil // the server is gone; what it sent before can still be read
		return
	}
	c.unsent = c.unsent[max(sent, 0):]
}

func (c *simClient) read(n int) {
	if c.gone || c.ended {
		return
	}
	buf := c.s.readBuf[:n]
	got, err := unix.Read(c.fd, buf)
	switch {
	case err == unix.EAGAIN:
	case err != nil || got == 0:
		c.ended = true
	default:
		c.got = append(c.got, buf[:got]...)
	}
}

func (c *simClient) hangUp() {
	if !c.gone {
		c.gone = true
		unix.Close(c.fd)
	}
}

// satisfied reports whether everything owed has come.
func (c *simClient) satisfied() bool {
	n, _ := c.parse()
	return n == len(c.owed)
}

// judge says what is wrong with the bytes that came. A connection that somebody
// ended may lack an end, nothing else.
func (c *simClient) judge() error {
	n, err := c.parse()
	if err != nil {
		return err
	}
	if n < len(c.owed) && !c.gone && !c.ended {
		return fmt.Errorf("%d of %d answers came and the connection is open", n, len(c.owed))
	}
	return nil
}

// parse judges the answers that have come whole, in order, and the beginning of
// the next, which must be a prefix of what it should be.
func (c *simClient) parse() (complete int, err error) {
	if c.judged == 0 && c.turnedAway() {
		c.ended = true
		return 0, nil
	}
	for c.judged < len(c.owed) {
		n, err := c.owed[c.judged].judge(c.got)
		if err != nil && c.unreadable() {
			refused := simRequest{method: "GET", status: 500}
			n, err = refused.judge(c.got)
			c.s.unreadable += min(n, 1)
		}
		if err != nil {
			return c.judged, fmt.Errorf("answer %d: %w", c.judged, err)
		}
		if n == 0 {
			return c.judged, nil
		}
		c.judged++
		c.got = c.got[n:]
	}
	if len(c.got) > 0 {
		return c.judged, fmt.Errorf("%d bytes that nobody asked for: %.60q", len(c.got), c.got)
	}
	return c.judged, nil
}

// turnedAway reports whether the server had no place for the client, which it may
// say as often as it counts. A client that has asked for nothing can be told nothing else, and
// may have gone before it has read all of it.
func (c *simClient) turnedAway() bool {
	stats, start := &c.s.loop.stats, []byte("HTTP/1.1 503 ")
	if len(c.owed) == 0 && len(c.got) > 0 && !bytes.Contains(c.got, []byte("\r\n\r\n")) {
		return stats.RefusedFiles+stats.RefusedBudget > 0 && bytes.HasPrefix(c.got, start[:min(len(start), len(c.got))])
	}
	return stats.RefusedFiles+stats.RefusedBudget > 0 && bytes.HasPrefix(c.got, []byte("HTTP/1.1 503 ")) && bytes.Contains(c.got, []byte("Connection: close\r\n"))
}

// unreadable reports whether the next answer says that an object cannot be read, which
// the server may as long as the disk fails, and as often.
func (c *simClient) unreadable() bool {
	want := &c.owed[c.judged]
	return uint64(c.s.unreadable) < c.s.kernel.Counts().Errors && len(want.body) > 0 && want.status < 300 && bytes.HasPrefix(c.got, []byte("HTTP/1.1 500 "))
}

// judge returns the length of the answer at the start of got, 0 if it is not
// complete, or what is wrong with it.
func (want *simRequest) judge(got []byte) (n int, err error) {
	end := bytes.Index(got, []byte("\r\n\r\n"))
	if end < 0 {
		return 0, nil
	}
	head := end + len("\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(got[:head])), &http.Request{Method: want.method})
	if err != nil {
		return 0, fmt.Errorf("not HTTP: %w", err)
	}
	if want.tenant && refusedProperly(resp) {
		want = &simRequest{method: want.method, status: resp.StatusCode}
	}
	if resp.StatusCode != want.status {
		return 0, fmt.Errorf("status %d, want %d", resp.StatusCode, want.status)
	}
	length := max(int(resp.ContentLength), 0)
	if want.method == "HEAD" {
		length = 0
	}
	body := got[head:min(head+length, len(got))]
	if want.status < 300 && (length != len(want.body) || !bytes.HasPrefix(want.body, body)) {
		return 0, fmt.Errorf("other bytes than its object: length %d, want %d", length, len(want.body))
	}
	if len(body) < length {
		return 0, nil
	}
	return head + length, nil
}

// simTally is what the seeds did between them.
type simTally struct {
	stats   Stats
	counts  uringtest.Counts
	answers int
	tenants tenantCounters
	refused int // of them, with 500: the disk failed
	aside   int // turns that a response waited for a file that waits
}

func (y *simTally) add(s *sim) {
	y.addTenants(s)
	y.stats.Add(&s.loop.stats)
	n := s.kernel.Counts()
	y.counts.Late += n.Late
	y.counts.Short += n.Short
	y.counts.Errors += n.Errors
	y.counts.MultishotEnds += n.MultishotEnds
	y.counts.NoBuffers += n.NoBuffers
	y.counts.CancelRaces += n.CancelRaces
	y.counts.Partial += n.Partial
	for _, c := range s.clients {
		complete, _ := c.parse()
		y.answers += complete
	}
	y.refused += s.unreadable
	y.aside += s.aside
}

func (y simTally) String() string {
	return fmt.Sprintf("%d connections, %d answers read whole, %d of them 500; parked %d, prefetches %d, short sends %d, deferred lookups %d, "+
		"receive pauses %d, accept rearms %d, receive rearms %d, closed %v; kernel %+v", y.stats.Accepted, y.answers, y.refused, y.stats.Parked,
		y.stats.Prefetches, y.stats.ShortSends, y.stats.FilesDeferred, y.stats.RecvPauses, y.stats.AcceptRearms, y.stats.RecvRearms, y.stats.Closed, y.counts)
}

// wantEverything fails if a path that the seeds are meant to take was not taken.
func (y *simTally) wantEverything(t *testing.T) {
	for name, n := range map[string]uint64{
		"answers": uint64(y.answers), "files that wait": uint64(y.aside), "parked": y.stats.Parked, "prefetches": y.stats.Prefetches, "short sends": y.stats.ShortSends,
		"deferred lookups": y.stats.FilesDeferred, "accept rearms": y.stats.AcceptRearms, "receive rearms": y.stats.RecvRearms, "buffers out": y.stats.BuffersOut,
		"late": y.counts.Late, "errors": y.counts.Errors, "multishot ends": y.counts.MultishotEnds, "cancel races": y.counts.CancelRaces,
		"made room": y.stats.Closed[ClosedForRoom], "accept pauses": y.stats.AcceptPausesBudget, "no descriptors": y.stats.AcceptPausesFiles,
		"closed after": y.stats.Closed[ClosedAfter], "closed bad": y.stats.Closed[ClosedBadRequest], "reset": y.stats.Closed[ClosedReset],
		"refusals held": y.stats.RefusalsHeld, "refusals not told": y.stats.Closed[ClosedRefused],
	} {
		if n == 0 {
			t.Errorf("the seeds never had: %s", name)
		}
	}
	y.wantEveryDecision(t)
}
