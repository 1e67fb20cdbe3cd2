package server

import (
	"bytes"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Attacks by number: clients that each do little harm, many at once. While one
// lasts a well-behaved client is served as if nothing was; afterwards everything is
// given back. With TALON_ATTACKS=full they have the numbers that the limits are
// made for; they then take two minutes and need the right to raise RLIMIT_NOFILE.
var fullAttack = os.Getenv("TALON_ATTACKS") == "full"

func attackers(full, short int) int {
	if fullAttack {
		return full
	}
	return short
}

// attack is a server and the sockets of those who attack it.
type attack struct {
	*rig
	fds    []int
	before footprint
}

// footprint is what must be the same after an attack.
type footprint struct {
	fds      int
	resident int64 // bytes; bounded, not the same
}

func startAttack(t *testing.T, n int, change func(*Config)) *attack {
	t.Helper()
	allowFiles(t, uint64(2*n+500))
	a := &attack{rig: startRig(t, change)}
	a.put("o", pattern(4000, 1))
	a.put("big", pattern(16<<20, 2))
	first := a.dial()
	first.get("/big") // both files are open from here on
	first.conn.Close()
	a.dialGood()
	a.wait("a start without connections", func(s *Stats) bool { return s.Open == 0 })
	a.before = footprint{openFDs(), resident(t)}
	t.Cleanup(a.hangUp)
	return a
}

// allowFiles raises the limit of open files for the time of the test.
func allowFiles(t *testing.T, n uint64) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if old.Cur >= n {
		return
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: max(n, old.Max)}); err != nil {
		t.Skipf("%d open files are needed, %d allowed: %v", n, old.Cur, err)
	}
	t.Cleanup(func() { unix.Setrlimit(unix.RLIMIT_NOFILE, &old) })
}

func resident(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var size, pages int64
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * int64(os.Getpagesize())
}

// connect opens one more connection.
func (a *attack) connect(recvBuffer int) int {
	a.t.Helper()
	fd, err := connectFrom(len(a.fds), a.s.Addr(), recvBuffer)
	if err != nil {
		a.t.Fatalf("connection %d: %v", len(a.fds), err)
	}
	a.fds = append(a.fds, fd)
	return fd
}

// connectFrom connects from one of eight addresses: one has too few ports for the
// full number.
func connectFrom(i int, to netip.AddrPort, recvBuffer int) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	if recvBuffer > 0 {
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, recvBuffer)
	}
	if err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, byte(2 + i%8)}}); err == nil {
		err = unix.Connect(fd, sockaddr(to))
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// say sends what the socket takes at once and returns how much that was.
func say(fd int, text []byte) int {
	n, _ := unix.SendmsgN(fd, text, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	return max(n, 0)
}

// dialGood is a client that must be served: on a connection of its own, twice.
func (a *attack) dialGood() {
	a.t.Helper()
	c := a.dial()
	for range 2 {
		resp, body := c.get("/o")
		if resp.StatusCode != 200 || !bytes.Equal(body, pattern(4000, 1)) {
			a.t.Fatalf("a good client got %d, %d bytes", resp.StatusCode, len(body))
		}
	}
	c.conn.Close()
}

// wait waits for a state of the counters.
func (a *attack) wait(what string, is func(*Stats) bool) {
	a.t.Helper()
	for end := time.Now().Add(2 * waitLong); ; time.Sleep(5 * time.Millisecond) {
		s := a.stats()
		if is(&s) {
			return
		}
		if time.Now().After(end) {
			a.t.Fatalf("never came: %s: %+v", what, s)
		}
	}
}

func (a *attack) hangUp() {
	closeAll(a.fds)
	a.fds = nil
}

// over ends the attack: memory stayed within its bound, and all else comes back.
func (a *attack) over() {
	a.t.Helper()
	a.dialGood()
	const arenas = recvBuffers*recvSize + sendSlabs*slabSize + inputSlabs*inputSize
	const slack = 24 << 20 // slots as they are touched, the runtime's own
	if grown := resident(a.t) - a.before.resident; grown > int64(arenas+slack) && !raceEnabled {
		a.t.Errorf("resident memory has grown by %d MiB, the bounds say %d", grown>>20, (arenas+slack)>>20)
	}
	a.hangUp()
	a.wait("everything given back", func(s *Stats) bool {
		return s.Open == 0 && s.BuffersHeld+s.InputsHeld+s.SlabsHeld+s.StarvedNow+s.OpensOut == 0 &&
			openFDs() == a.before.fds && a.s.Shared().ConnectionsFree == a.s.Shared().ConnectionLimit
	})
	a.dialGood()
}

// Slowloris: a header that never ends. Each is answered 408 in the end, or makes
// room for another's header.
func TestAttackSlowloris(t *testing.T) {
	n := attackers(5000, 300)
	a := startAttack(t, n, func(c *Config) {
		c.MaxConnections = 8192
		c.HeaderTimeout = time.Duration(attackers(10, 1)) * time.Second
	})
	for range n {
		say(a.connect(0), []byte("GET /o HTTP/1.1\r\nX"))
	}
	for range 5 {
		for _, fd := range a.fds {
			say(fd, []byte("x"))
		}
		a.dialGood()
	}
	a.wait("the end of all headers", func(s *Stats) bool {
		return s.Closed[ClosedHeaderTime]+s.Closed[ClosedBuffers]+s.Closed[ClosedReset] >= uint64(n)
	})
	if s := a.stats(); s.Closed[ClosedBuffers] > 0 {
		t.Errorf("%d were closed without an answer", s.Closed[ClosedBuffers])
	}
	answered := 0
	buf := make([]byte, 1<<10)
	for _, fd := range a.fds {
		if got, _ := unix.Read(fd, buf); strings.HasPrefix(string(buf[:max(got, 0)]), "HTTP/1.1 408 ") {
			answered++
		}
	}
	// The others sent more after our FIN, and the reset destroyed the answer.
	if least := min(n, inputSlabs) * 9 / 10; answered < least {
		t.Errorf("%d of %d were answered 408, want %d at least", answered, n, least)
	}
	a.over()
}

// Slow readers: they ask for much and do not read.
func TestAttackSlowReaders(t *testing.T) {
	n := attackers(1000, 100)
	a := startAttack(t, n, func(c *Config) { c.MaxConnections = 4096 })
	for range n {
		say(a.connect(1<<10), []byte(getRequest("/big")))
	}
	for range 50 {
		a.dialGood()
	}
	a.wait("all of them asking", func(s *Stats) bool { return s.Open == uint64(n) })
	if fullAttack {
		a.wait("all of them reset", func(s *Stats) bool { return s.Closed[ClosedSlow] == uint64(n) })
	}
	a.over()
}

// Connect and say nothing, more of them than the worker takes: who comes gets in,
// and the oldest go first. Nobody is turned away.
func TestAttackSilence(t *testing.T) {
	n := attackers(20000, 1500)
	limit := attackers(DefaultMaxConnections, 1024)
	a := startAttack(t, limit/2, func(c *Config) { c.MaxConnections = limit })
	crowds := []*gathering{a.gather(n / 2), a.gather(n / 2)}
	for s := a.stats(); s.Accepted < uint64(n) && s.RefusedBudget == 0; s = a.stats() {
		a.dialGood()
		if s.Open > uint64(limit) {
			t.Fatalf("%d connections are open, the limit is %d", s.Open, limit)
		}
	}
	a.wait("room for all", func(s *Stats) bool {
		return s.Closed[ClosedForRoom]+s.Closed[ClosedIdle]+s.RefusedBudget >= uint64(n-limit)
	})
	if s := a.stats(); s.RefusedBudget+s.RefusedFiles > 0 {
		t.Errorf("%d made room, %d timed out, %d were turned away", s.Closed[ClosedForRoom], s.Closed[ClosedIdle], s.RefusedBudget+s.RefusedFiles)
	}
	a.dialGood()
	for i, c := range crowds {
		gone, early := c.disperse()
		t.Logf("crowd %d: %d have gone, %d of them before an older one", i, gone, early)
		if early > gone/100 {
			t.Errorf("crowd %d: the oldest did not go first", i)
		}
	}
	a.over()
}

// crowdEnv makes this test binary a crowd: its value is an address and a number.
const crowdEnv = "TALON_TEST_CROWD"

// gathering is a process that opens connections and keeps them: one process may not
// have enough descriptors for both ends of all.
type gathering struct {
	a     *attack
	cmd   *exec.Cmd
	stdin io.Closer
	out   bytes.Buffer
}

func (a *attack) gather(n int) *gathering {
	a.t.Helper()
	g := &gathering{a: a, cmd: exec.Command(os.Args[0])}
	g.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%v %d", crowdEnv, a.s.Addr(), n))
	g.cmd.Stdout, g.cmd.Stderr = &g.out, os.Stderr
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	var err error
	if g.stdin, err = g.cmd.StdinPipe(); err == nil {
		err = g.cmd.Start()
	}
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { g.cmd.Process.Kill(); g.cmd.Wait() })
	return g
}

// disperse ends a crowd and returns how many of it the server had closed, and how
// many of these were not among as many that came first. Those whose last segment of
// the handshake found the backlog full came later than they think.
func (g *gathering) disperse() (gone, early int) {
	g.a.t.Helper()
	g.stdin.Close()
	if err := g.cmd.Wait(); err != nil {
		g.a.t.Fatal(err)
	}
	if _, err := fmt.Sscan(g.out.String(), &gone, &early); err != nil {
		g.a.t.Fatalf("the crowd says %q: %v", g.out.String(), err)
	}
	return gone, early
}

// crowd connects, keeps what it has until its stdin ends, and says what gathering
// wants to know.
func crowd(to string) {
	var addr string
	var n int
	if _, err := fmt.Sscan(to, &addr, &n); err != nil {
		panic(err)
	}
	fds := make([]int, n)
	for i := range fds {
		var err error
		if fds[i], err = connectFrom(i, netip.MustParseAddrPort(addr), 0); err != nil {
			fmt.Fprintf(os.Stderr, "connection %d of %d: %v\n", i, n, err)
			os.Exit(1)
		}
	}
	io.Copy(io.Discard, os.Stdin)
	var gone []int
	for i, fd := range fds {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		if n, _ := unix.Poll(p, 0); n > 0 {
			gone = append(gone, i)
		}
	}
	early := 0
	for _, i := range gone {
		if i >= len(gone) {
			early++
		}
	}
	fmt.Println(len(gone), early)
}

// 10,000 requests in a row from a client that reads no answer.
func TestAttackPipelineWithoutReading(t *testing.T) {
	a := startAttack(t, 8, nil)
	all := bytes.Repeat([]byte(getRequest("/o")), 10_000)
	for range 4 {
		a.connect(4 << 10)
	}
	unsent := [4][]byte{all, all, all, all}
	for quiet := 0; quiet < 20; quiet++ {
		for i, fd := range a.fds {
			n := say(fd, unsent[i])
			unsent[i] = unsent[i][n:]
			if n > 0 {
				quiet = 0
			}
		}
		a.dialGood()
	}
	s := a.stats()
	if got := s.Requests[statusIndex[200]]; got > 4*10_000/2 || s.RecvPauses == 0 {
		t.Errorf("%d of 40000 answers sent into sockets that nobody reads, %d pauses: the clients were not held back", got, s.RecvPauses)
	}
	a.over()
}
