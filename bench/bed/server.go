package bed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// readyTimeout is how long a server may take until it answers.
const readyTimeout = 10 * time.Second

// Server is a server under measurement.
type Server struct {
	Name string
	// Argv is its command line; {listen}, {admin}, {dir} and {work} are put in by Up.
	Argv []string
	// Files are written before it starts, by name, with the same replacements.
	Files map[string]string
	// Paused says that it may be paused, and so must not outlive this process.
	Paused bool
	Log    io.Writer // takes what it writes; nil: the end alone is kept

	Target string // http://host:port, once up
	Admin  string // host:port that stands for {admin}, once up; a server that comes up again keeps both
	PIDs   []int
	proc   *Proc
}

// Up starts the server on cpu and waits until it serves probe (a path with a body of some length).
func (s *Server) Up(ctx context.Context, dir, work string, cpu int, raise bool, probe string) error {
	err := s.choosePorts()
	if err != nil {
		return err
	}
	listen, admin := strings.TrimPrefix(s.Target, "http://"), s.Admin
	put := strings.NewReplacer("{listen}", listen, "{admin}", admin, "{dir}", dir, "{work}", work)
	for name, text := range s.Files {
		if err := os.WriteFile(put.Replace(name), []byte(put.Replace(text)), 0o644); err != nil {
			return err
		}
	}
	argv := make([]string, len(s.Argv))
	for i, a := range s.Argv {
		argv[i] = put.Replace(a)
	}
	if s.proc, err = Start(Spec{Argv: argv, CPU: cpu, Raise: raise, Kill: s.Paused, Log: s.Log}); err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	if err := s.ready(ctx, s.Target+probe); err != nil {
		s.Down()
		return fmt.Errorf("%s: %w\n%s", s.Name, err, s.proc.Log())
	}
	s.PIDs = s.proc.Family()
	return nil
}

func (s *Server) choosePorts() error {
	if s.Target != "" {
		return nil
	}
	listen, err := FreePort()
	if err != nil {
		return err
	}
	admin, err := FreePort()
	if err != nil {
		return err
	}
	s.Target, s.Admin = "http://"+listen, admin
	return nil
}

// Started reports whether the server has ever come up.
func (s *Server) Started() bool { return s.proc != nil }

// Kill ends the server as a machine does that loses its power: SIGKILL, and it has ended when Kill returns.
func (s *Server) Kill() {
	syscall.Kill(-s.proc.Pid, syscall.SIGKILL)
	<-s.proc.Done()
}

// Pause stops the server where it is until Resume: it runs no instruction, and its sockets stay open.
func (s *Server) Pause() { syscall.Kill(s.proc.Pid, syscall.SIGSTOP) }

// Resume lets a paused server go on.
func (s *Server) Resume() { syscall.Kill(s.proc.Pid, syscall.SIGCONT) }

// Down stops the server.
func (s *Server) Down() {
	if s.proc != nil {
		s.proc.Stop()
	}
}

func (s *Server) ready(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		err := probe(ctx, url)
		if err == nil {
			return nil
		}
		select {
		case <-s.proc.Done():
			return fmt.Errorf("ended before it served anything: %v", s.proc.Wait())
		case <-ctx.Done():
			return fmt.Errorf("not ready within %v: %w", readyTimeout, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func probe(ctx context.Context, url string) error {
	resp, err := request(ctx, http.MethodHead, url)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode == http.StatusOK || resp.StatusCode == http.StatusUnauthorized {
		return nil // without credentials the generator will tell the rest
	}
	return fmt.Errorf("HEAD %s: status %d", url, resp.StatusCode)
}

// FreePort finds a port on loopback that nobody listens on, below those that the kernel gives to connections (ip_local_port_range): a server that is
// killed comes back to its port, and meanwhile no client may have been given it, nor connect to itself there. Another process could still take it
// before the server does; the server then says so and the run ends.
func FreePort() (string, error) {
	low := 32768
	if b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		fmt.Sscan(string(b), &low)
	}
	const lowest = 10000
	for range 1000 {
		port := 0 // the kernel's choice, where nothing is left below
		if low > lowest+1000 {
			port = lowest + rand.IntN(low-lowest)
		}
		ln, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(port))
		if err != nil {
			continue
		}
		ln.Close()
		if addr := ln.Addr().String(); given.add(addr) {
			return addr, nil
		}
	}
	return "", errors.New("no free port on 127.0.0.1")
}

// given are the ports that FreePort has handed out: who has one may not listen yet.
var given ports

type ports struct {
	mu  sync.Mutex
	out map[string]bool
}

func (p *ports) add(addr string) (fresh bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.out[addr] {
		return false
	}
	if p.out == nil {
		p.out = map[string]bool{}
	}
	p.out[addr] = true
	return true
}
