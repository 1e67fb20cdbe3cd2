package server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func (s *story) drain(timeout time.Duration) {
	s.loop.startDrain(s.now + int64(timeout))
	s.settle()
}

func (s *story) wantStopped(want bool) {
	s.t.Helper()
	if s.loop.stopped() != want {
		s.t.Errorf("stopped: %v, want %v (%d open, listener %d)", !want, want, s.loop.stats.Open, s.loop.listen)
	}
}

// Who has been silent for long goes at once; who was just answered, or has just
// connected, or is in the backlog, may ask once more.
func TestDrainLetsThoseAskWhoMayBeAsking(t *testing.T) {
	s := tell(t, unix.AF_UNIX)
	idle := s.client()
	s.pass(1500 * time.Millisecond)
	answered, connected := s.client(), s.client()
	answered.say(getRequest("/o700"))
	s.settle()
	s.want(answered, "HTTP/1.1 200 ", false)
	s.connect()
	waiting := s.clients[len(s.clients)-1]
	s.drain(time.Minute)
	s.want(idle, "", true)
	idle.hangUp()
	s.pass(700 * time.Millisecond)
	for _, c := range []*simClient{answered, connected, waiting} {
		s.want(c, "", false)
		c.say(getRequest("/o700"))
		s.settle()
		if got := c.hear(); !strings.HasPrefix(got, "HTTP/1.1 200 ") || !strings.Contains(got, "\r\nConnection: close\r\n") || !c.ended {
			t.Errorf("in a drain: %.200q, ended %v", got, c.ended)
		}
		c.hangUp()
	}
	s.wantStopped(false)
	s.connect() // into the backlog, at the very end
	last := s.clients[len(s.clients)-1]
	last.say(getRequest("/o1"))
	s.pass(400 * time.Millisecond)
	s.want(last, "HTTP/1.1 200 ", true)
	last.hangUp()
	s.settle()
	s.wantStopped(true)
}

// The silent are gone a second later, whatever the timeout.
func TestDrainDoesNotWaitForTheSilent(t *testing.T) {
	s := tell(t, unix.AF_UNIX)
	var all []*simClient
	for range 3 {
		all = append(all, s.client())
	}
	s.drain(time.Hour)
	s.pass(1200 * time.Millisecond)
	for _, c := range all {
		s.want(c, "", true)
	}
	s.pass(2200 * time.Millisecond) // they do not even close: the linger bound
	s.wantStopped(true)
	s.wantClosed(ClosedDrain, 3)
}

func TestDrainTimeoutCutsOff(t *testing.T) {
	s := tell(t, unix.AF_UNIX)
	c := s.client()
	c.say(getRequest("/o700/missing"))
	s.drain(time.Minute)
	s.pass(59 * time.Second)
	s.want(c, "", false)
	s.wantStopped(false)
	s.loop.startDrain(s.now + 2e9) // after the first timeout: hastens nothing
	s.pass(1100 * time.Millisecond)
	s.want(c, "", true)
	s.wantStopped(true)
}

func TestSecondDrainHastens(t *testing.T) {
	s := tell(t, unix.AF_UNIX)
	c := s.client()
	c.say(getRequest("/o700/missing"))
	s.drain(time.Hour)
	s.drain(0)
	s.want(c, "", true)
	s.wantStopped(true)
}

// Without the right to filter a listener drops what begins a handshake all the same,
// and takes who is on the way; the connection hears its client once that is lifted.
func TestAHopLimitStopsHandshakes(t *testing.T) {
	for _, listen := range []string{"127.0.0.1:0", "[::]:0", "[::1]:0"} {
		cfg := Config{Listen: listen, Rings: 1}.withDefaults()
		fds, addr, err := listenAll(&cfg)
		if err != nil {
			t.Logf("%s: %v", listen, err) // a machine without IPv6
			continue
		}
		host := map[string]string{"127.0.0.1:0": "127.0.0.1", "[::]:0": "127.0.0.1", "[::1]:0": "::1"}[listen]
		knock := func() (net.Conn, error) {
			return net.DialTimeout("tcp", net.JoinHostPort(host, fmt.Sprint(addr.Port())), 100*time.Millisecond)
		}
		early, err := knock() // in the backlog
		if err != nil {
			t.Fatal(err)
		}
		defer early.Close()
		if err := limitHops(fds[0], 255); err != nil {
			t.Fatal(err)
		}
		var timeout net.Error
		if c, err := knock(); !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("%s: knocking got %v, %v, want silence", listen, c, err)
		}
		fd, _, err := unix.Accept(fds[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := limitHops(fd, 0); err != nil {
			t.Error(err)
		}
		early.Write([]byte("heard"))
		got := make([]byte, 5)
		if n, err := unix.Read(fd, got); n != 5 || err != nil {
			t.Errorf("%s: who was there before: %q, %v", listen, got[:max(n, 0)], err)
		}
		unix.Close(fd)
		unix.Close(fds[0])
	}
}

// A draining listener begins no handshake: whoever knocks is refused once it is
// closed, and not reset.
func TestDrainingListenerBeginsNoHandshake(t *testing.T) {
	s := tell(t, unix.AF_INET)
	before := s.client()
	s.drain(time.Hour)
	address := s.address.(*unix.SockaddrInet4)
	knock := func() error {
		c, err := net.DialTimeout("tcp", fmt.Sprintf("127.0.0.1:%d", address.Port), 100*time.Millisecond)
		if err == nil {
			c.Close()
		}
		return err
	}
	var timeout net.Error
	if err := knock(); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("knocking at a draining listener: %v, want silence", err)
	}
	before.say(getRequest("/o1")) // the filter came after its handshake, and stays out of its way
	s.settle()
	s.want(before, "HTTP/1.1 200 ", true)
	before.hangUp()
	s.pass(1100 * time.Millisecond)
	s.wantStopped(true)
	if err := knock(); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after it: %v, want a refusal", err)
	}
}

// A stream of new connections and of requests on old ones goes on over the drain:
// each is answered whole, or refused or closed before its first byte of an answer
// where the client may try again without a second thought.
func TestDrainUnderLoadLosesNothing(t *testing.T) {
	for range 3 {
		r := startRig(t, func(c *Config) { c.Rings = 2 })
		r.put("o", pattern(3000, 1))
		var clients sync.WaitGroup
		lost := make(chan error, 100)
		served := make(chan struct{}, 1<<16)
		for range 8 {
			clients.Go(func() { r.connectAndAsk(served, lost) })
			clients.Go(func() { r.askAgainAndAgain(served, lost) })
		}
		for range 2000 {
			<-served
		}
		r.s.Drain(waitLong)
		clients.Wait()
		close(lost)
		for err := range lost {
			t.Errorf("lost: %v", err)
		}
	}
}

// connectAndAsk asks once per connection until connecting fails.
func (r *rig) connectAndAsk(served chan<- struct{}, lost chan<- error) {
	for {
		conn, err := net.Dial("tcp", r.s.Addr().String())
		if err != nil {
			if !errors.Is(err, syscall.ECONNREFUSED) {
				lost <- fmt.Errorf("connecting: %w", err)
			}
			return
		}
		err = askOnce(conn, bufio.NewReader(conn), served)
		conn.Close()
		if err != nil && err != errLast {
			lost <- fmt.Errorf("on a new connection: %w", err)
			return
		}
	}
}

// askAgainAndAgain asks on one connection until an answer says that it is the
// last.
func (r *rig) askAgainAndAgain(served chan<- struct{}, lost chan<- error) {
	conn, err := net.Dial("tcp", r.s.Addr().String())
	if err != nil {
		lost <- err
		return
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	for err == nil {
		err = askOnce(conn, in, served)
	}
	if err != errLast {
		lost <- fmt.Errorf("on an old connection: %w", err)
	}
}

var errLast = errors.New("the answer was announced as the last")

func askOnce(conn net.Conn, in *bufio.Reader, served chan<- struct{}) error {
	conn.SetDeadline(time.Now().Add(waitLong))
	if _, err := io.WriteString(conn, getRequest("/o")); err != nil {
		return err
	}
	resp, err := http.ReadResponse(in, &http.Request{Method: "GET"})
	if err != nil {
		return err
	}
	n, err := io.Copy(io.Discard, resp.Body)
	if err != nil || n != 3000 || resp.StatusCode != 200 {
		return fmt.Errorf("%d bytes with status %d: %w", n, resp.StatusCode, err)
	}
	select {
	case served <- struct{}{}:
	default:
	}
	if resp.Close {
		return errLast
	}
	return nil
}

// The kernel would reset what a closing listener has in its backlog: it is taken
// before, also while the listener rests.
func TestDrainTakesTheBacklog(t *testing.T) {
	s := tell(t, unix.AF_UNIX)
	s.noFiles()
	s.client() // turned away, and the listener rests
	s.kernel.Quiet()
	s.connect()
	late := s.clients[len(s.clients)-1]
	late.say(getRequest("/o1"))
	s.loop.startDrain(s.now + 60e9)
	s.loop.listenUntil = s.now
	s.pass(10 * time.Millisecond)
	s.want(late, "HTTP/1.1 200 ", true)
	if s.loop.listen >= 0 {
		t.Error("the listener is still open")
	}
}
