package faults

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// patience bounds a wait that only a failure makes long.
	patience = 30 * time.Second
	// wellAgain is what the worker is judged by. The aim is 100 ms; what it really took
	// is printed, because a busy machine may need longer for reasons of its own.
	wellAgain = 5 * time.Second
)

// worker is a talon serve in a process of its own.
type worker struct {
	t     *testing.T
	cmd   *exec.Cmd
	data  string // host:port of the data port
	admin string // http://host:port of the admin port
	log   chan string
	done  bool
}

// start runs talon serve on dir with one ring and waits for its first log line.
func start(t *testing.T, dir string, flags ...string) *worker {
	t.Helper()
	return startCommand(t, exec.Command(talon, serveArgs(dir, flags...)...))
}

func serveArgs(dir string, flags ...string) []string {
	return append([]string{"serve", "--origin=" + dir, "--listen=127.0.0.1:0", "--admin=127.0.0.1:0", "--rings=1"}, flags...)
}

func startCommand(t *testing.T, cmd *exec.Cmd) *worker {
	t.Helper()
	w := &worker{t: t, cmd: cmd, log: make(chan string, 1)}
	stderr, err := cmd.StderrPipe()
	check(t, err)
	attr := syscall.SysProcAttr{}
	if cmd.SysProcAttr != nil {
		attr = *cmd.SysProcAttr
	}
	attr.Pdeathsig = unix.SIGKILL
	cmd.SysProcAttr = &attr
	check(t, cmd.Start())
	t.Cleanup(w.end)
	lines := bufio.NewReader(stderr)
	first, err := lines.ReadString('\n')
	go func() {
		rest, _ := io.ReadAll(lines)
		w.log <- first + string(rest)
	}()
	var line struct{ Data, Admin string }
	if err == nil {
		err = json.Unmarshal([]byte(first), &line)
	}
	if err != nil {
		t.Fatalf("talon did not start: %v, %q", err, first)
	}
	w.data, w.admin = line.Data, "http://"+line.Admin
	return w
}

func (w *worker) pid() int { return w.cmd.Process.Pid }

// end stops the worker, which must drain and say that all was well.
func (w *worker) end() {
	w.t.Helper()
	if w.done {
		return
	}
	w.done = true
	_ = w.cmd.Process.Signal(unix.SIGTERM) // it may have ended
	hasten := time.AfterFunc(patience/3, func() { _ = w.cmd.Process.Signal(unix.SIGTERM) })
	stuck := time.AfterFunc(patience, func() { _ = w.cmd.Process.Signal(unix.SIGQUIT) })
	defer hasten.Stop()
	defer stuck.Stop()
	log := <-w.log
	if err := w.cmd.Wait(); err != nil {
		w.t.Errorf("talon ended: %v\n%s", err, log)
	} else if w.t.Failed() {
		w.t.Logf("talon said:\n%s", log)
	}
}

// client is one connection, spoken to in bytes.
type client struct {
	conn *net.TCPConn
	r    *bufio.Reader
}

func (w *worker) connect() (*client, error) {
	conn, err := net.DialTimeout("tcp", w.data, patience)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &client{conn.(*net.TCPConn), bufio.NewReader(conn)}, nil
}

// dial is connect for a test that cannot go on without.
func (w *worker) dial() *client {
	w.t.Helper()
	c, err := w.connect()
	check(w.t, err)
	w.t.Cleanup(c.close)
	return c
}

func (c *client) close() { _ = c.conn.Close() } // a second time is no error to us

func request(path string, lines ...string) string {
	s := "GET /" + path + " HTTP/1.1\r\nHost: h\r\n"
	for _, l := range lines {
		s += l + "\r\n"
	}
	return s + "\r\n"
}

func (c *client) ask(path string, lines ...string) error {
	_, err := io.WriteString(c.conn, request(path, lines...))
	return err
}

// head reads the head of a response, body what follows it.
func (c *client) head() (*http.Response, error) {
	_ = c.conn.SetDeadline(time.Now().Add(patience)) // the read says if it is closed
	return http.ReadResponse(c.r, &http.Request{Method: "GET"})
}

// get asks for path and reads the whole answer.
func (c *client) get(path string, lines ...string) (status int, body []byte, err error) {
	if err = c.ask(path, lines...); err != nil {
		return 0, nil, err
	}
	resp, err := c.head()
	if err != nil {
		return 0, nil, err
	}
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

// once asks on a connection of its own.
func (w *worker) once(path string, lines ...string) (int, []byte, error) {
	c, err := w.connect()
	if err != nil {
		return 0, nil, err
	}
	defer c.close()
	return c.get(path, lines...)
}

// want asks once, and wants the object.
func (w *worker) want(path string, body []byte) {
	w.t.Helper()
	if status, got, err := w.once(path); err != nil || status != 200 || !bytes.Equal(got, body) {
		w.t.Errorf("GET /%s: %d, %d bytes of %d, %v", path, status, len(got), len(body), err)
	}
}

// bystander is a client with whom the fault has nothing to do: it asks for what is in
// memory, on one connection, again and again, and must never notice.
type bystander struct {
	w      *worker
	path   string
	lines  []string // of the request's head
	status int      // it wants
	body   []byte
	stop   chan struct{}
	over   sync.WaitGroup

	served  atomic.Int64
	slowest time.Duration // this and the next are for who has waited for over
	failure error
}

func (w *worker) bystander(path string, body []byte) *bystander {
	w.t.Helper()
	return w.watch(&bystander{path: path, status: 200, body: body})
}

// asker is a bystander who only asks whether an object has changed.
func (w *worker) asker(path string) *bystander {
	w.t.Helper()
	return w.watch(&bystander{path: path, lines: []string{"If-None-Match: *"}, status: 304})
}

func (w *worker) watch(b *bystander) *bystander {
	w.t.Helper()
	b.w, b.stop = w, make(chan struct{})
	c := w.dial()
	b.over.Go(func() { b.run(c) })
	w.t.Cleanup(func() { b.end() })
	return b
}

func (b *bystander) run(c *client) {
	defer c.close()
	for {
		select {
		case <-b.stop:
			return
		case <-time.After(time.Millisecond):
		}
		begin := time.Now()
		status, body, err := c.get(b.path, b.lines...)
		if err != nil || status != b.status || !bytes.Equal(body, b.body) {
			b.failure = fmt.Errorf("after %d good answers: status %d, %d bytes of %d, %v", b.served.Load(), status, len(body), len(b.body), err)
			return
		}
		b.served.Add(1)
		b.slowest = max(b.slowest, time.Since(begin))
	}
}

// goesOn waits until it has been served n more times. It is how a test says that the
// others are not held up by what hangs: no clock judges.
func (b *bystander) goesOn(n int64) {
	b.w.t.Helper()
	want := b.served.Load() + n
	for end := time.Now().Add(patience); b.served.Load() < want; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			b.w.t.Errorf("a bystander is held up: %d of %d more were served", n-(want-b.served.Load()), n)
			return
		}
	}
}

// end stops it and judges what it has seen.
func (b *bystander) end() string {
	b.w.t.Helper()
	select {
	case <-b.stop:
		return ""
	default:
	}
	close(b.stop)
	b.over.Wait()
	if b.failure != nil || b.served.Load() == 0 {
		b.w.t.Errorf("a bystander was harmed: %v (%d served)", b.failure, b.served.Load())
	}
	return fmt.Sprintf("%d served, slowest %v", b.served.Load(), b.slowest.Round(10*time.Microsecond))
}

// wellAfter measures from the end of the fault until good has succeeded, and judges it.
func (w *worker) wellAfter(fault string, relieve func(), good func() error, others string) {
	w.t.Helper()
	begin := time.Now()
	relieve()
	var err error
	for time.Since(begin) < patience {
		if err = good(); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	w.report(fault, time.Since(begin), others)
	if err != nil {
		w.t.Errorf("%s: not well after the relief: %v", fault, err)
	}
}

// report prints how long it took, and judges it.
func (w *worker) report(fault string, took time.Duration, others string) {
	w.t.Helper()
	reliefs.Lock()
	reliefs.all = append(reliefs.all, relief{fault, took, others})
	reliefs.Unlock()
	w.t.Logf("%s: well again after %v; the others meanwhile: %s", fault, took, others)
	if took > wellAgain {
		w.t.Errorf("%s: well again after %v, want at most %v", fault, took, wellAgain)
	}
}

// serves is what wellAfter usually waits for.
func (w *worker) serves(path string, body []byte) func() error {
	return func() error {
		status, got, err := w.once(path)
		if err == nil && (status != 200 || !bytes.Equal(got, body)) {
			err = fmt.Errorf("status %d, %d bytes of %d", status, len(got), len(body))
		}
		return err
	}
}

// metrics reads the admin port.
func (w *worker) metrics() map[string]float64 {
	w.t.Helper()
	page, err := w.adminPage("/metrics")
	check(w.t, err)
	all := map[string]float64{}
	for line := range strings.Lines(page) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if v, err := strconv.ParseFloat(value, 64); ok && err == nil {
			all[name] = v
			family, _, labelled := strings.Cut(name, "{")
			if labelled {
				all[family] += v // the sum over rings and labels
			}
		}
	}
	return all
}

func (w *worker) adminPage(path string) (string, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	resp, err := client.Get(w.admin + path)
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	page, err := io.ReadAll(resp.Body)
	return string(page), err
}

// until waits for a state of the counters.
func (w *worker) until(what string, is func(map[string]float64) bool) map[string]float64 {
	w.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		m := w.metrics()
		if is(m) {
			return m
		}
		if time.Now().After(end) {
			w.t.Fatalf("never came: %s", what)
		}
	}
}

// holdings is what a worker must not have more of after a fault than before.
type holdings struct {
	sockets, anonymous, deleted int // descriptors
	ioThreads                   int // of the kernel, for operations that block
	threads                     int // of the process; Go never ends one
	goroutines                  int
	gauges                      float64 // connections, buffers, slabs, lookups
}

// heldGauges are all 0 in a worker that nobody asks anything.
var heldGauges = []string{"talon_connections", "talon_ring_recv_buffers_held", "talon_ring_input_slabs_held", "talon_ring_send_slabs_held",
	"talon_opener_pending", "talon_starved"}

// holdings looks at the descriptors before it asks for anything: the admin port closes a
// connection some time after it has answered.
func (w *worker) holdings() (h holdings) {
	w.t.Helper()
	proc := fmt.Sprint("/proc/", w.pid())
	fds, err := os.ReadDir(proc + "/fd")
	check(w.t, err)
	for _, fd := range fds {
		target, _ := os.Readlink(proc + "/fd/" + fd.Name()) // it may be closed by now
		switch {
		case strings.HasPrefix(target, "socket:"):
			h.sockets++
		case strings.HasPrefix(target, "anon_inode:"):
			h.anonymous++
		case strings.HasSuffix(target, " (deleted)"):
			h.deleted++
		}
	}
	threads, err := os.ReadDir(proc + "/task")
	check(w.t, err)
	for _, thread := range threads {
		name, _ := os.ReadFile(proc + "/task/" + thread.Name() + "/comm") // it may be gone by now
		if strings.HasPrefix(string(name), "iou-wrk") {
			h.ioThreads++
		} else {
			h.threads++
		}
	}
	page, err := w.adminPage("/debug/pprof/goroutine?debug=1")
	check(w.t, err)
	if _, err := fmt.Sscanf(page, "goroutine profile: total %d", &h.goroutines); err != nil {
		w.t.Fatal(err)
	}
	m := w.metrics()
	if m["talon_up"] != 1 { // a ring that does not answer holds what it held
		h.gauges++
		return h
	}
	for _, g := range heldGauges {
		v, ok := m[g]
		if !ok {
			w.t.Fatalf("no metric %s", g)
		}
		h.gauges += v
	}
	return h
}

// moreThreads is how many threads a worker may have more after a fault: Go keeps a
// thread once it has needed it, and needs one for each of the openers that waits
// (eight, and one that closes) and a few of its own.
const moreThreads = 16

// lastIOThreads stay until the ring ends: the kernel keeps one worker of either kind.
const lastIOThreads = 2

// givenBack waits until the worker holds no more than before.
func (w *worker) givenBack(before holdings) {
	w.t.Helper()
	var now holdings
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		now = w.holdings()
		if now.sockets <= before.sockets && now.anonymous <= before.anonymous && now.deleted <= before.deleted && now.gauges <= before.gauges &&
			now.goroutines <= before.goroutines && now.ioThreads <= max(before.ioThreads, lastIOThreads) && now.threads <= before.threads+moreThreads {
			return
		}
	}
	w.t.Errorf("not given back: before %+v, after %+v", before, now)
}

// object writes pseudo-random bytes to dir/name, old enough for a strong ETag, and
// returns them. The bytes differ from name to name.
func object(t *testing.T, dir, name string, size int) []byte {
	t.Helper()
	body := noise(name, size)
	put(t, dir, name, body)
	return body
}

func noise(name string, size int) []byte {
	var seed [32]byte
	copy(seed[:], name)
	body := make([]byte, size)
	_, _ = rand.NewChaCha8(seed).Read(body) // never fails
	return body
}

func put(t *testing.T, dir, name string, body []byte) {
	t.Helper()
	path := filepath.Join(dir, name)
	check(t, os.WriteFile(path+".new", body, 0o644))
	old := time.Now().Add(-time.Hour).Truncate(time.Second)
	check(t, os.Chtimes(path+".new", old, old))
	check(t, os.Rename(path+".new", path))
}

// tree is a directory for objects that everybody may read.
func tree(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "talon-faults-tree")
	check(t, err)
	t.Cleanup(func() { check(t, os.RemoveAll(dir)) })
	check(t, os.Chmod(dir, 0o755))
	return dir
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func asRoot(t *testing.T, why string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: " + why)
	}
}

// tool returns the path of a program, or skips.
func tool(t *testing.T, name, pkg string) string {
	t.Helper()
	for _, dir := range []string{"", "/usr/sbin/", "/sbin/"} {
		if path, err := exec.LookPath(dir + name); err == nil {
			return path
		}
	}
	t.Skipf("needs the command %s (Debian: apt-get install %s)", name, pkg)
	return ""
}
