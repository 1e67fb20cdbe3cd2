package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// fakeServer answers every GET by its script; HEAD always tells the truth.
type fakeServer struct {
	ln    net.Listener
	wg    sync.WaitGroup
	mu    sync.Mutex
	conns map[net.Conn]bool
	size  int
	// answer writes one response and says whether to keep the connection. nth counts GETs.
	answer func(c net.Conn, req *http.Request, nth int64) (keep bool)
	gets   atomic.Int64
}

func startFake(t *testing.T, size int, answer func(net.Conn, *http.Request, int64) bool) *fakeServer {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeServer{ln: ln, size: size, answer: answer, conns: map[net.Conn]bool{}}
	f.wg.Go(f.accept)
	t.Cleanup(f.stop)
	return f
}

func (f *fakeServer) accept() {
	for {
		c, err := f.ln.Accept()
		if err != nil {
			return
		}
		f.mu.Lock()
		f.conns[c] = true
		f.mu.Unlock()
		f.wg.Go(func() { f.serve(c) })
	}
}

func (f *fakeServer) serve(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		if req.Method == http.MethodHead {
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", f.size)
			continue
		}
		if !f.answer(c, req, f.gets.Add(1)) {
			return
		}
	}
}

func (f *fakeServer) stop() {
	f.ln.Close()
	f.mu.Lock()
	for c := range f.conns {
		c.Close()
	}
	f.mu.Unlock()
	f.wg.Wait()
}

func (f *fakeServer) config(conns int) Config {
	return Config{Target: "http://" + f.ln.Addr().String(), DurationS: 0.1, Block: true,
		Streams: []Stream{{Name: "s", Conns: conns, Keys: []string{"/k"}}}}
}

func ok(c io.Writer, size int) bool {
	_, err := fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", size, strings.Repeat("x", size))
	return err == nil
}

func run(t *testing.T, c Config) (*Result, StreamResult) {
	t.Helper()
	r, err := Run(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	return r, r.Streams[0]
}

func TestRunClosedLoop(t *testing.T) {
	for _, size := range []int{0, 1, 3000, 300_000} {
		for _, copyBody := range []bool{false, true} {
			f := startFake(t, size, func(c net.Conn, _ *http.Request, _ int64) bool { return ok(c, size) })
			c := f.config(4)
			c.Copy, c.Threads, c.WarmupS = copyBody, 2, 0.02
			r, s := run(t, c)
			if s.Errors != 0 || s.Requests == 0 || s.Rate <= 0 || s.P50US <= 0 || s.P50US > s.P99US || s.P99US > s.MaxUS*1.01 {
				t.Errorf("size %d, copy %v: %+v", size, copyBody, s)
			}
			if got := s.GBps * 1e9 * r.Seconds; size > 0 && (got < 0.5*float64(s.Requests*int64(size)) || len(s.PerConn) != 4) {
				t.Errorf("size %d: %.0f body bytes for %d responses on %d connections", size, got, s.Requests, len(s.PerConn))
			}
		}
	}
}

// Responses that arrive byte by byte, or with the head cut anywhere, count like whole ones.
func TestRunSplitResponses(t *testing.T) {
	f := startFake(t, 5, func(c net.Conn, _ *http.Request, nth int64) bool {
		wire := "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
		cut := int(nth) % len(wire)
		io.WriteString(c, wire[:cut])
		runtime.Gosched()
		_, err := io.WriteString(c, wire[cut:])
		return err == nil
	})
	if _, s := run(t, f.config(2)); s.Errors != 0 || s.Requests == 0 {
		t.Errorf("%d requests, %d errors: %v", s.Requests, s.Errors, s.ByFault)
	}
}

func TestRunRanges(t *testing.T) {
	f := startFake(t, 1000, func(c net.Conn, req *http.Request, _ int64) bool {
		var first, last int
		if _, err := fmt.Sscanf(req.Header.Get("Range"), "bytes=%d-%d", &first, &last); err != nil {
			return ok(c, 1000)
		}
		n := last - first + 1
		_, err := fmt.Fprintf(c, "HTTP/1.1 206 Partial Content\r\nContent-Length: %d\r\n\r\n%s", n, strings.Repeat("r", n))
		return err == nil
	})
	c := f.config(2)
	c.Streams[0].Range = Range{Kind: "random", Length: 100}
	if _, s := run(t, c); s.Errors != 0 || s.Requests == 0 {
		t.Errorf("%d requests, %d errors: %v", s.Requests, s.Errors, s.ByFault)
	}
}

// Each way of being wrong is counted under its own name, and never among the good responses.
func TestRunCountsFaults(t *testing.T) {
	tests := []struct {
		fault  Fault
		answer func(net.Conn, *http.Request, int64) bool
	}{
		{FaultStatus, func(c net.Conn, _ *http.Request, _ int64) bool {
			_, err := io.WriteString(c, "HTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\nno")
			return err == nil
		}},
		{FaultLength, func(c net.Conn, _ *http.Request, _ int64) bool { return ok(c, 9) }},
		{FaultHead, func(c net.Conn, _ *http.Request, _ int64) bool { io.WriteString(c, "nonsense\r\n\r\n"); return true }},
		{FaultHead, func(c net.Conn, _ *http.Request, _ int64) bool {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxx")
			return true
		}},
		{FaultEOF, func(c net.Conn, _ *http.Request, _ int64) bool { return false }},
		{FaultEOF, func(c net.Conn, _ *http.Request, _ int64) bool {
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
			return false
		}},
		{FaultEOF, func(c net.Conn, _ *http.Request, _ int64) bool { // a reset instead of an end
			c.(*net.TCPConn).SetLinger(0)
			return false
		}},
	}
	for i, tt := range tests {
		f := startFake(t, 10, tt.answer)
		r, s := run(t, f.config(2))
		if s.ByFault[tt.fault.String()] == 0 || s.Requests != 0 || s.Errors != s.ByFault[tt.fault.String()] {
			t.Errorf("case %d: want only %s errors and no good response, got %d good, %v", i, tt.fault, s.Requests, s.ByFault)
		}
		if len(r.Refused) != 1 || !strings.Contains(r.Refused[0], tt.fault.String()) {
			t.Errorf("case %d: a run without a good response is refused and names the cause; got %q", i, r.Refused)
		}
		if tt.fault == FaultStatus && (s.ByStatus[503] != s.Errors || !strings.Contains(r.Refused[0], "times status 503")) {
			t.Errorf("case %d: %v and %q do not tell the status", i, s.ByStatus, r.Refused)
		}
	}
}

func TestRunTimeout(t *testing.T) {
	release := make(chan struct{})
	f := startFake(t, 10, func(c net.Conn, _ *http.Request, _ int64) bool { <-release; return false })
	c := f.config(2)
	c.TimeoutS, c.DurationS = 0.02, 0.3
	_, s := run(t, c)
	close(release)
	if s.ByFault["timeout"] == 0 {
		t.Errorf("a silent server gave %v, want timeouts", s.ByFault)
	}
}

// One connection of four never answers: the row loses a quarter of its requests in flight.
func TestRunRefusesARowWithADeadConnection(t *testing.T) {
	release := make(chan struct{})
	f := startFake(t, 10, func(c net.Conn, _ *http.Request, nth int64) bool {
		if nth == 1 {
			<-release
			return false
		}
		return ok(c, 10)
	})
	r, s := run(t, f.config(4))
	close(release)
	if len(r.Refused) != 1 || !strings.Contains(r.Refused[0], "Little's law") || s.Stalled != 1 {
		t.Errorf("refused %q with %d stalled; want Little's law and 1", r.Refused, s.Stalled)
	}
}

// A server that announces the close is in its right: the connection is dialled again, no error.
func TestRunRedialsAfterConnectionClose(t *testing.T) {
	f := startFake(t, 2, func(c net.Conn, _ *http.Request, _ int64) bool {
		io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
		return false
	})
	if _, s := run(t, f.config(2)); s.Redials < 2 || s.Errors != 0 || s.Requests < 2 {
		t.Errorf("%d responses, %d redials, errors %v", s.Requests, s.Redials, s.ByFault)
	}
}

func TestRunOpenLoopKeepsTheRate(t *testing.T) {
	f := startFake(t, 10, func(c net.Conn, _ *http.Request, _ int64) bool { return ok(c, 10) })
	c := f.config(8)
	c.Streams[0].Rate, c.DurationS = 500, 0.4
	r, s := run(t, c)
	// An unpaced loop would send thousands; the slack is for a machine that opens the window late.
	if sent := f.gets.Load(); float64(sent) > 500*r.Seconds+100 || s.Requests > sent {
		t.Errorf("%d sent and %d answered in %.2f s at 500/s", sent, s.Requests, r.Seconds)
	}
	if len(r.Refused) > 0 || s.Requests == 0 {
		t.Errorf("refused %q, %d requests", r.Refused, s.Requests)
	}
}

// With one connection and a server that answers only the first request, the others fall due and are
// reported as behind: latency of a stall is not lost (coordinated omission).
func TestRunOpenLoopReportsWhatItCouldNotSend(t *testing.T) {
	release := make(chan struct{})
	f := startFake(t, 10, func(c net.Conn, _ *http.Request, nth int64) bool {
		if nth > 1 {
			<-release
		}
		return ok(c, 10)
	})
	c := f.config(1)
	c.Streams[0].Rate, c.DurationS = 1000, 0.2
	_, s := run(t, c)
	close(release)
	if s.Behind < 150 {
		t.Errorf("behind by %d of 200 requests", s.Behind)
	}
}

// A server that stalls once for 100 ms delays everything that falls due meanwhile: a tenth of a second's
// worth of requests is slow, not one (coordinated omission again).
func TestRunOpenLoopCountsFromTheDueTime(t *testing.T) {
	f := startFake(t, 10, func(c net.Conn, _ *http.Request, nth int64) bool {
		if nth == 50 {
			time.Sleep(100 * time.Millisecond)
		}
		return ok(c, 10)
	})
	c := f.config(1)
	c.Streams[0].Rate, c.DurationS = 1000, 0.4
	if _, s := run(t, c); s.P90US < 40_000 {
		t.Errorf("p90 %.0f us: the stall was charged to one request only", s.P90US)
	}
}

// Refusals are answers: counted and timed apart, inside Little's law, and no errors.
func TestRunRefusals(t *testing.T) {
	f := startFake(t, 10, func(c net.Conn, _ *http.Request, nth int64) bool {
		if nth%2 == 0 {
			return ok(c, 10)
		}
		_, err := io.WriteString(c, "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 2\r\n\r\nno")
		return err == nil
	})
	c := f.config(2)
	c.SliceS, c.Streams[0].Refusals = 0.05, []int{429}
	r, s := run(t, c)
	if s.Errors != 0 || len(r.Refused) != 0 || s.Requests == 0 || s.RefusedRate < s.Rate/2 || s.RefusedRate > s.Rate*2 || s.RefusedMean <= 0 {
		t.Errorf("%.0f good/s, %.0f refused/s, errors %v, %v", s.Rate, s.RefusedRate, s.ByFault, r.Refused)
	}
	if len(s.Slices) != 2 || s.Slices[0]+s.Slices[1] > s.AllBytes || s.Slices[0] == 0 || s.AllBytes%10 != 0 {
		t.Errorf("slices %v of %d bytes in all; the bodies of refusals are none of them", s.Slices, s.AllBytes)
	}
}

// A request that was refused, or lost with its connection, is sent again as often as it may be.
func TestRunRetries(t *testing.T) {
	for _, lose := range []bool{false, true} {
		f := startFake(t, 10, func(c net.Conn, _ *http.Request, _ int64) bool {
			if lose {
				return false
			}
			_, err := io.WriteString(c, "HTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\nno")
			return err == nil
		})
		c := f.config(8)
		c.DurationS, c.Streams[0].Rate, c.Streams[0].Retries, c.Streams[0].Refusals = 0.5, 100, 2, []int{503}
		_, s := run(t, c)
		if tries := (s.GivenUpRate + s.RetriedRate) / s.GivenUpRate; s.GivenUpRate == 0 || tries < 2 || tries > 4 {
			t.Errorf("lost %v: %.0f given up/s, %.0f sent again/s: want twice as many of the latter", lose, s.GivenUpRate, s.RetriedRate)
		}
		if gets := float64(f.gets.Load()); gets < 50 || gets > 250 {
			t.Errorf("lost %v: %.0f requests reached the server, want about 150", lose, gets)
		}
	}
}

// From the calm on there are as many requests as its rate says.
func TestRunCalm(t *testing.T) {
	f := startFake(t, 1, func(c net.Conn, _ *http.Request, _ int64) bool { return ok(c, 1) })
	c := f.config(4)
	c.DurationS, c.SliceS = 0.6, 0.1
	c.Streams[0].Rate, c.Streams[0].CalmS, c.Streams[0].CalmRate = 2000, 0.3, 10
	_, s := run(t, c)
	before, after := s.Slices[0]+s.Slices[1]+s.Slices[2], s.Slices[4]+s.Slices[5]
	if before < 20 || after > before/5 {
		t.Errorf("%d responses before the calm and %d in it: slices %v", before, after, s.Slices)
	}
}

// A client whose detector has taken the server for down leaves it alone but for probes.
func TestRunDetector(t *testing.T) {
	f := startFake(t, 10, func(net.Conn, *http.Request, int64) bool { return false })
	c := f.config(4)
	c.DurationS, c.Streams[0].Rate, c.Streams[0].Refusals = 0.4, 1000, []int{429}
	c.Streams[0].Detector = &Detector{Threshold: 0.9, Least: 10, IntervalS: 10, RecoverS: 10}
	_, s := run(t, c)
	if gets := f.gets.Load(); gets > 100 || s.WithheldRate < 100 {
		t.Errorf("%d requests reached the dead server, %.0f/s were kept back", gets, s.WithheldRate)
	}
}

func TestRunTwoStreams(t *testing.T) {
	f := startFake(t, 10, func(c net.Conn, _ *http.Request, _ int64) bool { return ok(c, 10) })
	c := f.config(2)
	c.Streams = append(c.Streams, Stream{Name: "b", Conns: 3, Keys: []string{"/x", "/y"}, Order: "random"})
	r, _ := run(t, c)
	if len(r.Streams) != 2 || r.Streams[0].Requests == 0 || r.Streams[1].Requests == 0 || len(r.Streams[1].PerConn) != 3 {
		t.Errorf("%+v", r.Streams)
	}
}

func TestRunServerCPU(t *testing.T) {
	f := startFake(t, 10, func(c net.Conn, _ *http.Request, _ int64) bool { return ok(c, 10) })
	c := f.config(2)
	c.ServerPIDs = []int{syscall.Getpid()}
	if r, _ := run(t, c); r.Server == nil || r.Server.Busy <= 0 || r.Server.PerRequest <= 0 {
		t.Errorf("server CPU %+v, refused %q", r.Server, r.Refused)
	}
	c.ServerPIDs = []int{1 << 30}
	if r, _ := run(t, c); r.Server != nil || len(r.Refused) == 0 {
		t.Error("CPU time of a process that does not exist was accepted")
	}
}

func TestRunStops(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	f := startFake(t, 10, func(c net.Conn, _ *http.Request, nth int64) bool {
		if nth == 10 {
			cancel()
		}
		return ok(c, 10)
	})
	c := f.config(2)
	c.DurationS = 60
	if _, err := Run(ctx, c); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

// A run that may be ended sooner has a result of what it has measured; one that is ended before it measures anything has none.
func TestRunUntilStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	f := startFake(t, 10, func(c net.Conn, _ *http.Request, nth int64) bool {
		if nth == 10 {
			cancel()
		}
		return ok(c, 10)
	})
	c := f.config(1)
	c.DurationS, c.SliceS, c.UntilStopped = 60, 0.01, true
	r, err := Run(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	sum := int64(0)
	for _, n := range r.Streams[0].Slices {
		sum += n
	}
	if s := r.Streams[0]; s.Requests < 9 || sum != s.AllBytes || r.Seconds > 50 {
		t.Errorf("%d requests in %.3f s, slices with %d of %d bytes", s.Requests, r.Seconds, sum, s.AllBytes)
	}
	c.WarmupS = 50
	if _, err := Run(ctx, c); !errors.Is(err, context.Canceled) {
		t.Errorf("ended in the warm-up: %v", err)
	}
}

func TestRunWithoutServer(t *testing.T) {
	f := startFake(t, 10, nil)
	f.ln.Close()
	if _, err := Run(context.Background(), f.config(1)); err == nil {
		t.Error("no error without a server")
	}
}

// Nothing is allocated per request. The bound is for the whole run: the answers must be many more.
func TestRunAllocs(t *testing.T) {
	wire := []byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer ln.Close()
	wg.Go(func() { // the first connection is the HEAD's, the second carries the load without allocating
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer c.Close()
				buf := make([]byte, 4096)
				for {
					n, err := c.Read(buf)
					if err != nil {
						return
					}
					w := wire
					if string(buf[:min(n, 4)]) == "HEAD" {
						w = wire[:len(wire)-5]
					}
					if _, err := c.Write(w); err != nil {
						return
					}
				}
			})
		}
	})
	c := Config{Target: "http://" + ln.Addr().String(), DurationS: 0.5, Block: true, Streams: []Stream{{Conns: 4, Keys: []string{"/k"}}}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, s := run(t, c)
	runtime.ReadMemStats(&after)
	if n := after.Mallocs - before.Mallocs; s.Requests < 5000 {
		t.Skipf("only %d requests: the machine is too busy to tell", s.Requests)
	} else if n > 2000 {
		t.Errorf("%d allocations for %d requests", n, s.Requests)
	}
}

func TestConfigRefusals(t *testing.T) {
	good := func() Config {
		return Config{Target: "http://h:1", DurationS: 1, Streams: []Stream{{Conns: 1, Keys: []string{"/k"}}}}
	}
	g := good()
	if err := g.Validate(); err != nil {
		t.Fatal(err)
	}
	tests := map[string]func(*Config){
		"https":            func(c *Config) { c.Target = "https://h:1" },
		"path":             func(c *Config) { c.Target = "http://h:1/x" },
		"no stream":        func(c *Config) { c.Streams = nil },
		"no duration":      func(c *Config) { c.DurationS = 0 },
		"endless":          func(c *Config) { c.DurationS = 1e9 },
		"timeout":          func(c *Config) { c.TimeoutS = -1 },
		"threads":          func(c *Config) { c.Threads = 2 },
		"negative threads": func(c *Config) { c.Threads = -1 },
		"header":           func(c *Config) { c.Headers = []string{"nope"} },
		"header injection": func(c *Config) { c.Headers = []string{"A: b\r\nC: d"} },
		"no key":           func(c *Config) { c.Streams[0].Keys = nil },
		"relative key":     func(c *Config) { c.Streams[0].Keys = []string{"k"} },
		"key with space":   func(c *Config) { c.Streams[0].Keys = []string{"/a b"} },
		"order":            func(c *Config) { c.Streams[0].Order = "zipf" },
		"rate":             func(c *Config) { c.Streams[0].Rate = -1 },
		"range kind":       func(c *Config) { c.Streams[0].Range = Range{Kind: "odd", Length: 1} },
		"range length":     func(c *Config) { c.Streams[0].Range = Range{Kind: "random"} },
		"connections":      func(c *Config) { c.Streams[0].Conns = MaxConns + 1 },
	}
	for name, breakIt := range tests {
		c := good()
		breakIt(&c)
		if err := c.Validate(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
