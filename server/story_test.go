package server

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/origin"
	"github.com/talon-worker/talon/uring/uringtest"
)

// story is a loop on a kernel without faults, in fake time, with clients that do
// what the test says. Only what a test lets pass passes.
type story struct {
	*sim
	release chan struct{} // closed: the opener's goroutine goes on
}

func tell(t *testing.T, family int, change ...func(*Config)) *story {
	t.Helper()
	s := &story{sim: newSim(t, newSimTree(t), family, 1, change...)}
	s.kernel.Quiet()
	s.hold()
	t.Cleanup(func() {
		close(s.release)
		s.close()
	})
	return s
}

// hold keeps the opener's only goroutine busy: lookups wait until reply.
func (s *story) hold() {
	release, held := make(chan struct{}), make(chan struct{})
	s.release = release
	s.opener.Submit(&origin.OpenRequest{Done: func(r *origin.OpenRequest) {
		unix.Close(r.FD) // -1: there is no such file
		close(held)
		<-release
	}})
	<-held
}

// turns runs n passes of the loop, step ns apart.
func (s *story) turns(n int, step int64) {
	s.t.Helper()
	for range n {
		if err := s.loop.ring.Wait(0); err != nil {
			s.t.Fatal(err)
		}
		s.now += step
		s.control.step(s.now)
		s.loop.turn()
	}
}

// settle is time enough for everything that needs no time.
func (s *story) settle() {
	s.t.Helper()
	if s.family == unix.AF_INET {
		unix.Poll(nil, 2) // TCP's part is in real time
	}
	s.turns(20, 1e5)
	s.check()
}

// pass lets time go by, and looks as often as the loop would.
func (s *story) pass(d time.Duration) {
	s.t.Helper()
	end := s.now + int64(d)
	s.settle()
	for s.now < end {
		step := min(end-s.now, 100e6)
		if s.control != nil {
			step = min(step, 1e6)
		}
		if patience := s.loop.patience(); patience > 0 {
			step = min(step, max(int64(patience), 1e6))
		}
		s.turns(1, step)
		s.check()
	}
	s.settle()
}

// client connects and is accepted.
func (s *story) client() *simClient {
	s.t.Helper()
	s.connect()
	s.settle()
	return s.clients[len(s.clients)-1]
}

func (c *simClient) say(text string) {
	c.unsent = append(c.unsent, text...)
	c.flush()
}

// hear reads all that has come.
func (c *simClient) hear() string {
	for before := -1; before != len(c.got) && !c.ended; {
		before = len(c.got)
		c.read(len(c.s.readBuf))
	}
	return string(c.got)
}

// want checks what the client has been told since the last time, by its beginning,
// and whether the connection has ended.
func (s *story) want(c *simClient, begin string, ended bool) {
	s.t.Helper()
	got := c.hear()
	if !strings.HasPrefix(got, begin) || begin == "" && got != "" || c.ended != ended {
		s.t.Errorf("after %v: the client has heard %.60q (ended: %v), want %q (%v)", time.Duration(s.now-1e9), got, c.ended, begin, ended)
	}
	c.got = nil
}

// count is how many connections are in a state.
func (s *story) count(in state) (n int) {
	for i := range s.loop.conns {
		if s.loop.conns[i].state == in {
			n++
		}
	}
	return n
}

func (s *story) wantClosed(reason CloseReason, n uint64) {
	s.t.Helper()
	if got := s.loop.stats.Closed[reason]; got != n {
		s.t.Errorf("%d connections closed for %v, want %d: %v", got, reason, n, s.loop.stats.Closed)
	}
}

func TestOneByteNowAndThenDoesNotExtendTheHeader(t *testing.T) {
	s := tell(t, unix.AF_UNIX)
	c := s.client()
	c.say("G")
	s.pass(9 * time.Second)
	c.say("E")
	s.pass(900 * time.Millisecond)
	s.want(c, "", false)
	s.pass(200 * time.Millisecond)
	s.want(c, "HTTP/1.1 408 ", true)
	c.hangUp()
	s.settle()
	s.wantClosed(ClosedHeaderTime, 1)
}

func TestSilenceAfterConnecting(t *testing.T) {
	s := tell(t, unix.AF_UNIX)
	c := s.client()
	s.pass(9900 * time.Millisecond)
	s.want(c, "", false)
	s.pass(200 * time.Millisecond)
	s.want(c, "", true)
	s.wantClosed(ClosedIdle, 1)
}

func TestSilenceBetweenRequests(t *testing.T) {
	s := tell(t, unix.AF_UNIX)
	c := s.client()
	for range 3 { // every answer begins the time again
		c.say(getRequest("/o700"))
		s.settle()
		s.want(c, "HTTP/1.1 200 ", false)
		s.pass(74 * time.Second)
		s.want(c, "", false)
	}
	c.say("GET") // the header's own deadline begins with its first byte
	s.pass(9900 * time.Millisecond)
	s.want(c, "", false)
	c.say(" /o700 HTTP/1.1\r\nHost: h\r\n\r\n")
	s.settle()
	s.want(c, "HTTP/1.1 200 ", false)
	s.pass(74900 * time.Millisecond)
	s.want(c, "", false)
	s.pass(200 * time.Millisecond)
	s.want(c, "", true)
	s.wantClosed(ClosedIdle, 1)
}

// The second of two requests in one packet has its deadline from the end of the
// first answer on.
func TestAQueuedHeaderIsNotTimed(t *testing.T) {
	s := tell(t, unix.AF_UNIX)
	c := s.client()
	c.say(getRequest("/o700/missing") + "GET /o700")
	s.pass(time.Minute) // the opener takes its time
	s.want(c, "", false)
	s.reply()
	s.want(c, "HTTP/1.1 404 ", false)
	s.pass(9800 * time.Millisecond)
	s.want(c, "", false)
	s.pass(300 * time.Millisecond)
	s.want(c, "HTTP/1.1 408 ", true)
}

// reply lets the opener's answers arrive.
func (s *story) reply() {
	s.t.Helper()
	if s.loop.opens == len(s.loop.tickets) {
		s.t.Fatal("nothing was asked of the opener")
	}
	close(s.release)
	s.collect()
	s.hold()
	for _, msg := range s.mail {
		s.loop.mail.post(msg)
	}
	s.mail = s.mail[:0]
	s.settle()
}

// Neither a deadline nor the drain rate counts the time that we take.
func TestOurOwnTimeIsNotCounted(t *testing.T) {
	slowly := func(c *Config) { c.MinDrainRate = 1 << 10; c.CopyBelow = -1 }
	t.Run("no send slab", func(t *testing.T) {
		s := tell(t, unix.AF_UNIX, slowly)
		c := s.client()
		var taken []uint32
		for {
			id, _, ok := s.loop.slabs.Get()
			if !ok {
				break
			}
			taken = append(taken, id)
		}
		c.say(getRequest("/o0"))
		s.turns(600, 100e6)
		s.want(c, "", false)
		for _, id := range taken {
			s.loop.slabs.Put(id)
		}
		s.settle()
		s.want(c, "HTTP/1.1 200 ", false)
	})
	t.Run("the disk", func(t *testing.T) {
		s := tell(t, unix.AF_UNIX, slowly)
		name := fmt.Sprint("o", 5*simChunk+3)
		evict(t, filepath.Join(s.tree.path, name))
		c := s.client()
		s.kernel.SetFaults(uringtest.Faults{Late: 1, MaxLate: 60})
		c.say(getRequest("/" + name))
		parked := func() bool { return s.count(stateParked) == 1 }
		for i := 0; i < 200 && !parked(); i++ {
			s.turns(1, 1e6)
		}
		began := s.now
		for parked() {
			s.turns(1, 1e9)
		}
		if s.now-began < 2*int64(DrainWindow) {
			t.Fatalf("the disk took %v, which proves nothing", time.Duration(s.now-began))
		}
		s.kernel.Quiet()
		s.pass(5 * time.Second)
		if got := c.hear(); c.ended || !bytes.HasSuffix([]byte(got), s.tree.objects[name]) {
			t.Errorf("got %d bytes, ended %v; parked %d", len(got), c.ended, s.loop.stats.Parked)
		}
	})
}

// Heads that never end hold every input slab: those that have taken longest are
// refused as late before their time, and a head in two pieces still gets through.
func TestTheOldestHeadsMakeRoom(t *testing.T) {
	allowFiles(t, 5*inputSlabs)
	s := tell(t, unix.AF_UNIX, func(c *Config) { c.MaxConnections = 2 * inputSlabs })
	s.loop.singleBelow = 1
	for len(s.clients) < inputSlabs {
		for range 32 {
			s.connect()
		}
		s.turns(5, 1e5)
		for _, c := range s.clients[len(s.clients)-32:] {
			c.say("GET /o7")
		}
		s.turns(5, 1e5)
	}
	if n := s.loop.ins.slabs.Held(); n != inputSlabs {
		t.Fatalf("%d input slabs are held, want %d", n, inputSlabs)
	}
	late := s.client()
	late.say("GET /o7")
	s.settle()
	for i, c := range s.clients[:inputSlabs] {
		if i < shedMost {
			s.want(c, "HTTP/1.1 408 ", true)
		} else {
			s.want(c, "", false)
		}
	}
	late.say("00 HTTP/1.1\r\nHost: h\r\n\r\n")
	s.settle()
	s.want(late, "HTTP/1.1 200 ", false)
	s.wantClosed(ClosedBuffers, 0)
}

// A client that has been judged once is not judged by a window in which it waited for
// the disk: the next one begins when the bytes are here.
func TestTheDiskIsNotTheClientsFault(t *testing.T) {
	s := tell(t, unix.AF_UNIX, func(c *Config) { c.MinDrainRate, c.TransferChunk = 1<<10, 64<<10 })
	path := filepath.Join(s.tree.path, "big")
	content := pattern(2<<20, 3)
	f, err := os.Create(path)
	for at := 0; at < len(content) && err == nil; at += 16 << 10 { // small folios: one that a socket holds is not evicted
		_, err = f.Write(content[at : at+16<<10])
	}
	if err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	syncTree(t, s.tree.path)
	c := s.client()
	c.say(getRequest("/big"))
	s.pass(8 * time.Second)
	if s.count(stateBlocked) != 1 {
		t.Fatal("the socket is not full")
	}
	conn := &s.loop.conns[0]
	for i := range s.loop.conns {
		if s.loop.conns[i].state == stateBlocked {
			conn = &s.loop.conns[i]
		}
	}
	evict(t, path)
	s.kernel.SetFaults(uringtest.Faults{Late: 1, MaxLate: 60})
	for before := -1; before != len(c.got); { // room in the socket, which we hear of late
		before = len(c.got)
		c.read(len(s.readBuf))
	}
	s.turns(1, 2200e6)
	if conn.state != stateBlocked || conn.taken == unknown {
		t.Fatalf("the client has not been judged: state %d", conn.state)
	}
	for i := 0; i < 500 && (conn.state == stateBlocked || conn.state == stateReady); i++ { // the rest of a chunk that is known to be in memory
		s.turns(1, 1e6)
	}
	if conn.state != stateParked {
		t.Fatalf("the response does not wait for the disk: state %d, %v", conn.state, conn.reason)
	}
	s.turns(1, 9e9)
	for i := 0; i < 500 && conn.state == stateParked; i++ {
		s.turns(1, 1e6)
	}
	s.kernel.Quiet()
	s.pass(9 * time.Second)
	s.wantClosed(ClosedSlow, 0)
	for i := 0; i < 100 && !bytes.HasSuffix(c.got, content); i++ {
		c.hear()
		s.turns(5, 1e6)
	}
	if !bytes.HasSuffix(c.got, content) {
		t.Errorf("got %d bytes, closed %v", len(c.got), s.loop.stats.Closed)
	}
}

// After our FIN a client may send for 2 s and no longer.
func TestLingerIsBounded(t *testing.T) {
	s := tell(t, unix.AF_UNIX)
	c := s.client()
	c.say("GET /o700 HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n")
	s.settle()
	for range 3 {
		c.say("more")
		s.pass(600 * time.Millisecond)
	}
	s.wantClosed(ClosedAfter, 0)
	c.say("more")
	s.pass(300 * time.Millisecond)
	s.wantClosed(ClosedAfter, 1)
}

func TestOldestGoesWhenTheBudgetIsSpent(t *testing.T) {
	s := tell(t, unix.AF_UNIX, func(c *Config) { c.MaxConnections = 4 })
	busy := s.client()
	busy.say(getRequest("/o700/missing")) // with the opener all the time
	var idle []*simClient
	for range 3 {
		idle = append(idle, s.client())
		s.pass(time.Second)
	}
	idle[0].say(getRequest("/o700")) // the first is now the youngest
	s.settle()
	s.want(idle[0], "HTTP/1.1 200 ", false)
	for i, victim := range []*simClient{idle[1], idle[2], idle[0]} {
		s.want(victim, "", false)
		s.pass(100 * time.Millisecond)
		newcomer := s.client()
		newcomer.say(getRequest("/o1"))
		s.pass(100 * time.Millisecond)
		s.want(newcomer, "HTTP/1.1 200 ", false)
		s.want(victim, "", true)
		s.wantClosed(ClosedForRoom, uint64(i+1))
	}
	s.reply()
	s.want(busy, "HTTP/1.1 404 ", false)
	if n := s.loop.stats.RefusedBudget; n != 0 {
		t.Errorf("%d turned away", n)
	}
}

// However many come at a time, each gets in, the budget is kept to the one, and of
// those who say nothing the first to come are the first to go. A multishot accept
// takes whole backlogs as long as the budget holds one, and again when it does.
func TestACrowdGetsInOneByOneNearTheLimit(t *testing.T) {
	const limit, backlog, crowd = 320, 64, 1500 // the backlog is sim.listen's
	for _, singleBelow := range []int64{backlog + 1, limit + 1} {
		s := tell(t, unix.AF_UNIX, func(c *Config) { c.MaxConnections = limit })
		l := s.loop
		l.singleBelow = singleBelow
		s.settle()
		if many := l.accepting.armed; many != (singleBelow < limit) {
			t.Errorf("below %d one by one: multishot %v", singleBelow, many)
		}
		for range crowd / 60 {
			for range 60 { // none may wait in connect
				s.connect()
			}
			for range 30 {
				s.turns(1, 1e6)
				if l.stats.Open > limit {
					t.Fatalf("%d connections are open, the limit is %d", l.stats.Open, limit)
				}
			}
			s.check()
		}
		if l.stats.Accepted != crowd || l.stats.RefusedBudget != 0 || l.accepting.armed {
			t.Errorf("below %d one by one: %d accepted, %d turned away, multishot %v; want %d, 0, false",
				singleBelow, l.stats.Accepted, l.stats.RefusedBudget, l.accepting.armed, crowd)
		}
		gone := int(l.stats.Closed[ClosedForRoom])
		if least := crowd - limit; gone < least || gone > least+2*l.headroom+shedMost {
			t.Errorf("%d made room, want %d and the headroom", gone, least)
		}
		for i, c := range s.clients {
			c.hear()
			if c.ended != (i < gone) {
				t.Fatalf("client %d has ended: %v; %d made room", i, c.ended, gone)
			}
			c.hangUp()
		}
		s.settle()
		if l.accepting.armed != (singleBelow < limit) || int(l.budget.Load())+l.accepting.singles != limit {
			t.Errorf("after it: multishot %v, %d places and %d aside; want %d", l.accepting.armed, l.budget.Load(), l.accepting.singles, limit)
		}
	}
}

// Where everybody is being answered, a newcomer waits in the backlog and is served
// when somebody goes.
func TestNobodyInMidResponseMakesRoom(t *testing.T) {
	s := tell(t, unix.AF_UNIX, func(c *Config) { c.MaxConnections = 2 })
	one, two := s.client(), s.client()
	one.say(getRequest("/o700/missing"))
	two.say(getRequest("/o700/missing"))
	late := s.client()
	late.say(getRequest("/o1"))
	s.pass(time.Minute)
	s.want(late, "", false)
	if s.loop.stats.Accepted != 2 || s.loop.stats.RefusedBudget != 0 {
		t.Errorf("accepted %d, turned away %d; want 2 and 0", s.loop.stats.Accepted, s.loop.stats.RefusedBudget)
	}
	s.reply()
	one.hangUp()
	s.pass(100 * time.Millisecond)
	s.want(two, "HTTP/1.1 404 ", false)
	s.want(late, "HTTP/1.1 200 ", false)
}

// noFiles makes every accept fail as if the process had no descriptor left.
func (s *story) noFiles() { s.failAccepts(unix.EMFILE) }

func (s *story) failAccepts(with unix.Errno) {
	s.kernel.SetFaults(uringtest.Faults{Error: 1, Errnos: uringtest.Errnos{Accept: []unix.Errno{with}}})
}

// The process or the machine has no descriptor, or no memory for another socket.
func TestNoDescriptorsClosesTheOldestFirst(t *testing.T) {
	for _, errno := range []unix.Errno{unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM} {
		t.Run(unix.ErrnoName(errno), func(t *testing.T) { closesTheOldestFirst(t, errno) })
	}
}

func closesTheOldestFirst(t *testing.T, errno unix.Errno) {
	s := tell(t, unix.AF_UNIX)
	idle := s.client()
	s.pass(time.Second)
	s.failAccepts(errno)
	s.connect()
	late := s.clients[1]
	late.say(getRequest("/o1"))
	for s.loop.stats.Open > 0 {
		s.turns(1, 1e5)
	}
	s.kernel.Quiet() // a descriptor has come back, so the next accept has one
	s.settle()       // far less than the listener's rest
	s.want(idle, "", true)
	s.want(late, "HTTP/1.1 200 ", false)
	if s.loop.stats.AcceptPausesFiles != 1 || s.loop.stats.RefusedFiles != 0 {
		t.Errorf("%d pauses, %d turned away; want 1 and 0", s.loop.stats.AcceptPausesFiles, s.loop.stats.RefusedFiles)
	}
}

// With nothing to give up, those in the backlog are told, and the listener rests:
// it does not spin.
func TestNoDescriptorsTurnsAwayPolitely(t *testing.T) {
	s := tell(t, unix.AF_UNIX)
	busy := s.client()
	busy.say(getRequest("/o700/missing"))
	s.settle()
	s.noFiles()
	var late []*simClient
	for range 3 {
		s.connect()
		c := s.clients[len(s.clients)-1]
		c.say(getRequest("/o1"))
		late = append(late, c)
	}
	s.settle()
	for _, c := range late {
		s.want(c, "HTTP/1.1 503 ", true)
	}
	enters := s.loop.stats.AcceptPausesFiles
	s.client()
	s.pass(time.Second)
	if n := s.loop.stats.AcceptPausesFiles - enters; n > uint64(time.Second/acceptBackoff) {
		t.Errorf("%d attempts in a second, want one every %v", n, time.Duration(acceptBackoff))
	}
	if s.loop.stats.RefusedFiles != 4 || s.loop.accepting.reserve < 0 {
		t.Errorf("turned away %d, reserve %d; want 4 and a descriptor", s.loop.stats.RefusedFiles, s.loop.accepting.reserve)
	}
	s.kernel.Quiet()
	s.pass(200 * time.Millisecond)
	c := s.client()
	c.say(getRequest("/o1"))
	s.settle()
	s.want(c, "HTTP/1.1 200 ", false)
}

// slowReader asks for more than the sockets hold, on TCP, and reads so many bytes a
// second of it for a minute.
func slowReader(t *testing.T, perSecond int) (*story, *simClient) {
	s := tell(t, unix.AF_INET, func(c *Config) { c.MinDrainRate = DefaultMinDrainRate; c.TransferChunk = 1 << 20 })
	if err := os.WriteFile(filepath.Join(s.tree.path, "big"), make([]byte, 24<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	c := s.client()
	c.say(getRequest("/big"))
	for second := 0; second < 60 && !c.ended; second++ {
		unix.Poll(nil, 1) // TCP's own timers are real
		s.turns(20, 50e6)
		for want := len(c.got) + perSecond; len(c.got) < want && !c.ended; {
			before := len(c.got)
			if c.read(min(want-before, 8<<10)); len(c.got) == before {
				break
			}
		}
	}
	return s, c
}

func TestAClientThatDoesNotReadIsReset(t *testing.T) {
	for _, perSecond := range []int{0, 100} {
		s, c := slowReader(t, perSecond)
		s.wantClosed(ClosedSlow, 1)
		unix.SetNonblock(c.fd, false)
		n, err := 1, error(nil)
		for n > 0 && err == nil { // what it had got already
			n, err = unix.Read(c.fd, s.readBuf)
		}
		if err != unix.ECONNRESET {
			t.Errorf("the client reads %v, want a reset: a FIN would leave megabytes in the kernel", err)
		}
	}
}

// A few times the minimum is far too little to make room in the socket every ten
// seconds, and enough.
func TestASlowClientIsNotReset(t *testing.T) {
	s, _ := slowReader(t, 24<<10)
	s.wantClosed(ClosedSlow, 0)
	if s.count(stateBlocked) != 1 {
		t.Errorf("the socket was never full: closed %v", s.loop.stats.Closed)
	}
}
