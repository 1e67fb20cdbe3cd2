package server

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/origin"
)

func TestAnswers(t *testing.T) {
	r := startRig(t, nil)
	small, large := pattern(5000, 1), pattern(700_000, 2)
	r.put("small.txt", small)
	r.put("a dir/large.bin", large)
	r.put("empty", nil)
	if err := os.Mkdir(filepath.Join(r.dir, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(r.dir, "link")); err != nil {
		t.Fatal(err)
	}
	c := r.dial()
	for _, tt := range []struct {
		name, path string
		lines      []string
		status     int
		body       []byte
		header     map[string]string
	}{
		{"a small object", "/small.txt", nil, 200, small, map[string]string{"Content-Type": "text/plain; charset=utf-8", "Accept-Ranges": "bytes"}},
		{"a large object, escaped", "/a%20dir/large.bin", nil, 200, large, map[string]string{"Content-Length": "700000"}},
		{"an empty object", "/empty", nil, 200, nil, map[string]string{"Content-Length": "0"}},
		{"a range of a small one", "/small.txt", []string{"Range: bytes=10-19"}, 206, small[10:20], map[string]string{"Content-Range": "bytes 10-19/5000"}},
		{"a suffix of a large one", "/a%20dir/large.bin", []string{"Range: bytes=-300000"}, 206, large[400_000:], nil},
		{"beyond the end", "/small.txt", []string{"Range: bytes=5000-"}, 416, nil, map[string]string{"Content-Range": "bytes */5000"}},
		{"a query is not part of the key", "/small.txt?x=/../y", nil, 200, small, nil},
		{"missing", "/nope", nil, 404, nil, nil},
		{"a directory", "/folder", nil, 404, nil, nil},
		{"a directory with its slash", "/folder/", nil, 404, nil, nil},
		{"the root", "/", nil, 404, nil, nil},
		{"a link out of the root", "/link", nil, 404, nil, nil},
		{"dots", "/folder/../small.txt", nil, 404, nil, nil},
		{"dots, encoded", "/%2e%2e/%2e%2e/etc/passwd", nil, 404, nil, nil},
		{"a broken escape", "/%zz", nil, 400, nil, nil},
		{"credentials nobody can check", "/small.txt", []string{"Authorization: Bearer a.b"}, 401, nil, map[string]string{"Www-Authenticate": `Bearer realm="talon"`}},
	} {
		resp, body := c.get(tt.path, tt.lines...)
		if resp.StatusCode != tt.status {
			t.Errorf("%s: status %d, want %d", tt.name, resp.StatusCode, tt.status)
			continue
		}
		if tt.status < 300 {
			wantBody(t, tt.name, body, tt.body)
		}
		for name, want := range tt.header {
			if got := resp.Header.Get(name); got != want {
				t.Errorf("%s: %s: %q, want %q", tt.name, name, got, want)
			}
		}
		if len(resp.Header.Get("X-Request-Id")) != 16 || resp.Header.Get("Date") == "" || resp.Header.Get("Server") != "talon" {
			t.Errorf("%s: a line that every response has is missing: %v", tt.name, resp.Header)
		}
	}
	if st := r.stats(); st.Accepted != 1 {
		t.Errorf("%d connections for all that, want 1: every answer above leaves it open", st.Accepted)
	}
}

func TestMethods(t *testing.T) {
	r := startRig(t, nil)
	content := pattern(300_000, 3)
	r.put("x", content)
	c := r.dial()
	c.send("HEAD /x HTTP/1.1\r\nHost: h\r\nRange: bytes=0-9\r\n\r\n")
	if resp, body := c.reply("HEAD"); resp.StatusCode != 200 || len(body) != 0 || resp.ContentLength != 300_000 {
		t.Errorf("HEAD with Range: %d, %d bytes of body, Content-Length %d; want 200, none, 300000 (RFC 9110 §14.2: only GET has ranges)", resp.StatusCode, len(body), resp.ContentLength)
	}
	c.send("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n")
	if resp, _ := c.reply("OPTIONS"); resp.StatusCode != 204 || resp.Header.Get("Allow") != "GET, HEAD, OPTIONS" {
		t.Errorf("OPTIONS: %d, Allow %q", resp.StatusCode, resp.Header.Get("Allow"))
	}
	c.send("DELETE /x HTTP/1.1\r\nHost: h\r\n\r\n")
	if resp, _ := c.reply("DELETE"); resp.StatusCode != 405 || resp.Header.Get("Allow") != "GET, HEAD, OPTIONS" {
		t.Errorf("DELETE: %d, Allow %q", resp.StatusCode, resp.Header.Get("Allow"))
	}
	_, body := c.get("/x")
	wantBody(t, "the connection is still in step", body, content)
}

func TestConditions(t *testing.T) {
	r := startRig(t, nil)
	content := pattern(20_000, 4)
	r.put("x", content)
	c := r.dial()
	resp, _ := c.get("/x")
	tag, modified := resp.Header.Get("Etag"), resp.Header.Get("Last-Modified")
	for _, tt := range []struct {
		lines  []string
		status int
		bytes  int
	}{
		{[]string{"If-None-Match: " + tag}, 304, 0},
		{[]string{`If-None-Match: "other"`}, 200, 20_000},
		{[]string{"If-Modified-Since: " + modified}, 304, 0},
		{[]string{`If-Match: "other"`}, 412, -1},
		{[]string{"If-Match: " + tag, "Range: bytes=1-3"}, 206, 3},
		{[]string{"If-Range: " + tag, "Range: bytes=1-3"}, 206, 3},
		{[]string{`If-Range: "other"`, "Range: bytes=1-3"}, 200, 20_000},
		{[]string{"If-Range: " + modified, "Range: bytes=1-3"}, 206, 3},
		{[]string{"If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT"}, 412, -1},
	} {
		resp, body := c.get("/x", tt.lines...)
		if resp.StatusCode != tt.status || tt.bytes >= 0 && len(body) != tt.bytes {
			t.Errorf("%v: %d with %d bytes, want %d with %d", tt.lines, resp.StatusCode, len(body), tt.status, tt.bytes)
		}
	}
}

func TestYoungFileHasWeakTag(t *testing.T) {
	r := startRig(t, nil)
	if err := os.WriteFile(filepath.Join(r.dir, "x"), pattern(100, 1), 0o644); err != nil {
		t.Fatal(err)
	}
	future := time.Now().Add(time.Hour) // "younger than 2 s" however slow this machine is
	if err := os.Chtimes(filepath.Join(r.dir, "x"), future, future); err != nil {
		t.Fatal(err)
	}
	c := r.dial()
	resp, _ := c.get("/x")
	tag := resp.Header.Get("Etag")
	if !strings.HasPrefix(tag, `W/"`) {
		t.Fatalf("ETag %q, want a weak one", tag)
	}
	if resp, body := c.get("/x", "If-Range: "+tag, "Range: bytes=0-0"); resp.StatusCode != 200 || len(body) != 100 {
		t.Errorf("If-Range with a weak tag: %d with %d bytes, want the whole", resp.StatusCode, len(body))
	}
}

// An object that this process may not read is 403. Root may read everything, so as
// root the test runs once more in a copy of this binary as a user who owns nothing.
func TestPermission(t *testing.T) {
	if os.Getuid() == 0 {
		asNobody(t, "TestPermission")
		return
	}
	r := startRig(t, nil)
	r.put("x", []byte("secret"))
	if err := os.Chmod(filepath.Join(r.dir, "x"), 0); err != nil {
		t.Fatal(err)
	}
	if resp, _ := r.dial().get("/x"); resp.StatusCode != 403 {
		t.Errorf("status %d for an unreadable object, want 403", resp.StatusCode)
	}
}

// asNobody runs one test as uid 65534, within the memlock limit that an ordinary
// user has.
func asNobody(t *testing.T, name string) {
	t.Helper()
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "nobody")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(filepath.Join(dir, "self"), self, 0o755)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(filepath.Join(dir, "self"), "-test.run", "^"+name+"$", "-test.v")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+name) {
		t.Errorf("as uid 65534: %v\n%s", err, out)
	}
}

func TestNoAnonymousTenant(t *testing.T) {
	r := startRig(t, func(c *Config) { c.AnonymousTenant = "" })
	r.put("x", []byte("x"))
	if resp, _ := r.dial().get("/x"); resp.StatusCode != 401 {
		t.Errorf("status %d without credentials, want 401", resp.StatusCode)
	}
}

func TestPipelinedInOrder(t *testing.T) {
	r := startRig(t, nil)
	var objects [4][]byte
	for i := range objects {
		objects[i] = pattern([]int{0, 900, 40_000, 600_000}[i], byte(i))
		r.put(fmt.Sprint("o", i), objects[i])
	}
	burst := ""
	for i := range 40 {
		burst += getRequest(fmt.Sprint("/o", i%4))
	}
	check := func(c *client, why string) {
		for i := range 40 {
			resp, body := c.reply("GET")
			if resp.StatusCode != 200 {
				t.Fatalf("%s: response %d has status %d", why, i, resp.StatusCode)
			}
			wantBody(t, fmt.Sprintf("%s: response %d", why, i), body, objects[i%4])
		}
	}
	c := r.dial()
	c.send(burst)
	check(c, "one segment")
	go func() {
		for i := range len(burst) {
			if _, err := c.conn.Write([]byte{burst[i]}); err != nil {
				t.Errorf("byte %d: %v", i, err)
				return
			}
		}
	}()
	check(c, "byte by byte")
}

// A client that sends without reading is not read from any more, costs a bounded
// number of buffers, and is served to the last request once it reads.
func TestPipelineWithoutReading(t *testing.T) {
	r := startRig(t, nil)
	content := pattern(12_000, 5)
	r.put("x", content)
	const requests = 20_000
	c := r.dial()
	c.conn.SetReadBuffer(256 << 10)
	sent := make(chan error, 1)
	go func() {
		_, err := io.WriteString(c.conn, strings.Repeat(getRequest("/x"), requests))
		sent <- err
	}()
	other := r.dial()
	for deadline := time.Now().Add(waitLong); r.stats().RecvPauses == 0; {
		if _, body := other.get("/x"); len(body) != len(content) {
			t.Fatal("the other client is not served")
		}
		if time.Now().After(deadline) {
			t.Fatal("the flood was never paused")
		}
	}
	c.conn.SetDeadline(time.Now().Add(2 * waitLong))
	for i := range requests {
		if resp, body := c.reply("GET"); resp.StatusCode != 200 || len(body) != len(content) {
			t.Fatalf("response %d: %d, %d bytes", i, resp.StatusCode, len(body))
		}
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}

func TestHalfClose(t *testing.T) {
	r := startRig(t, nil)
	content := pattern(900_000, 6)
	r.put("x", content)
	c := r.dial()
	c.send(getRequest("/x") + getRequest("/x", "Range: bytes=0-9"))
	c.conn.CloseWrite()
	_, body := c.reply("GET")
	wantBody(t, "first answer after the client's FIN", body, content)
	_, body = c.reply("GET")
	wantBody(t, "second answer after the client's FIN", body, content[:10])
	c.wantEOF("both requests are answered")
}

func TestClose(t *testing.T) {
	r := startRig(t, nil)
	r.put("x", []byte("x"))
	for _, tt := range []struct {
		name, request string
		status        int
		connection    string
	}{
		{"asked for", "GET /x HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", 200, "close"},
		{"HTTP/1.0", "GET /x HTTP/1.0\r\n\r\n", 200, "close"},
		{"refused, with more behind it", "GET /x HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\n\r\nGET /x HTTP/1.1\r\nHost: h\r\n\r\n", 400, "close"},
		{"too long", "GET /" + strings.Repeat("x", 9000) + " HTTP/1.1\r\nHost: h\r\n\r\n", 414, "close"},
		{"too many lines", "GET /x HTTP/1.1\r\nHost: h\r\n" + strings.Repeat("a: b\r\n", 5000), 431, "close"},
		{"another version", "GET /x HTTP/2.0\r\nHost: h\r\n\r\n", 505, "close"},
	} {
		c := r.dial()
		c.send(tt.request)
		resp, _ := c.reply("GET")
		if resp.StatusCode != tt.status || !resp.Close {
			t.Errorf("%s: status %d, close %v; want %d, true", tt.name, resp.StatusCode, resp.Close, tt.status)
		}
		c.wantEOF(tt.name + ": exactly one response")
	}
	c := r.dial()
	c.send("GET /x HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
	if resp, _ := c.reply("GET"); resp.Header.Get("Connection") != "keep-alive" {
		t.Errorf("HTTP/1.0 with keep-alive: Connection %q", resp.Header.Get("Connection"))
	}
	c.get("/x")
}

// A file is replaced by rename: whoever is in the middle of the old version gets
// all of it, and the next request, soon after, the new one.
func TestReplacedByRename(t *testing.T) {
	r := startRig(t, func(c *Config) { c.OpenFileValid = time.Nanosecond })
	old, young := pattern(8<<20, 1), pattern(300_000, 2)
	r.put("x", old)
	c := r.dial()
	c.conn.SetReadBuffer(16 << 10)
	c.send(getRequest("/x"))
	c.r.Peek(1)
	r.put("x", young)
	_, body := r.dial().get("/x")
	wantBody(t, "a request after the rename", body, young)
	_, body = c.reply("GET")
	wantBody(t, "the response that began before", body, old)
}

// A file that is changed in place, against the rules, never gives a response that
// looks whole.
func TestChangedInPlace(t *testing.T) {
	for name, change := range map[string]func(path string) error{
		"truncated":   func(p string) error { return os.Truncate(p, 100_000) },
		"overwritten": func(p string) error { return os.WriteFile(p, pattern(16<<20, 9), 0o644) },
	} {
		t.Run(name, func(t *testing.T) {
			r := startRig(t, nil)
			r.put("x", pattern(16<<20, 1))
			c := r.dial()
			c.conn.SetReadBuffer(16 << 10)
			c.send(getRequest("/x"))
			c.r.Peek(1)
			if err := change(filepath.Join(r.dir, "x")); err != nil {
				t.Fatal(err)
			}
			resp, err := http.ReadResponse(c.r, nil)
			if err != nil {
				t.Fatal(err)
			}
			n, err := io.Copy(io.Discard, resp.Body)
			if name == "truncated" && (err == nil || n >= 16<<20) {
				t.Errorf("%d bytes, %v: want the connection cut before the end", n, err)
			}
			if rest, err := io.ReadAll(c.r); err != nil || len(rest) > 0 {
				t.Errorf("after the body: %d bytes, %v; want the end of the connection", len(rest), err)
			}
			if st := r.stats(); st.Closed[ClosedFile] != 1 || st.FilesChanged == 0 {
				t.Errorf("closed for the file: %d, changes seen: %d", st.Closed[ClosedFile], st.FilesChanged)
			}
		})
	}
}

// A small object that was changed in place is refused for once at the most, and
// served anew then: nothing of it had been sent.
func TestSmallChangedInPlace(t *testing.T) {
	r := startRig(t, func(c *Config) { c.OpenFileValid = time.Hour })
	r.put("x", pattern(5000, 1))
	c := r.dial()
	c.get("/x")
	young := pattern(4000, 2)
	if err := os.WriteFile(filepath.Join(r.dir, "x"), young, 0o644); err != nil {
		t.Fatal(err)
	}
	resp, body := c.get("/x")
	if resp.StatusCode != 200 {
		t.Fatalf("status %d: the change was there before the request was", resp.StatusCode)
	}
	wantBody(t, "after the change", body, young)
	if st := r.stats(); st.FilesChanged != 1 {
		t.Errorf("%d changes seen, want 1", st.FilesChanged)
	}
}

func TestConnectionBudget(t *testing.T) {
	r := startRig(t, func(c *Config) { c.MaxConnections = 2 })
	r.put("x", []byte("x"))
	a, b := r.dial(), r.dial()
	a.get("/x")
	b.get("/x")
	third := r.dial()
	third.send(getRequest("/x"))
	a.conn.Close()
	if resp, _ := third.reply("GET"); resp.StatusCode != 200 {
		t.Errorf("the third client waits for a free slot and is served then; got %d", resp.StatusCode)
	}
	b.get("/x")
}

// A file system that never says of a page that it is in memory (a hole of tmpfs)
// must not keep a response fetching for ever.
func TestHoleIsServed(t *testing.T) {
	dir, err := os.MkdirTemp("/dev/shm", "talon")
	if err != nil {
		t.Skipf("no tmpfs: %v", err)
	}
	defer os.RemoveAll(dir)
	const size = 3<<20 + 5
	if err := os.WriteFile(filepath.Join(dir, "hole"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, "hole"), size); err != nil {
		t.Fatal(err)
	}
	r := startRigIn(t, dir, nil)
	_, body := r.dial().get("/hole")
	wantBody(t, "a hole", body, make([]byte, size))
	if st := r.stats(); st.Prefetches == 0 || st.Prefetches > 2*size/DefaultTransferChunk+2 {
		t.Errorf("%d prefetches for %d chunks", st.Prefetches, size/DefaultTransferChunk+1)
	}
}

// Draining refuses new connections, closes idle ones, and finishes the response
// that is under way to its last byte.
func TestDrain(t *testing.T) {
	r := startRig(t, nil)
	content := pattern(32<<20, 7)
	r.put("x", content)
	idle, busy := r.dial(), r.dial()
	idle.get("/x", "Range: bytes=0-0")
	busy.conn.SetReadBuffer(16 << 10)
	busy.send(getRequest("/x"))
	busy.r.Peek(1)
	r.s.Drain(time.Hour)
	idle.wantEOF("an idle connection")
	_, body := busy.reply("GET")
	wantBody(t, "the response under way", body, content)
	busy.wantEOF("after it")
	busy.conn.Close()
	if err := <-r.ran; err != nil {
		t.Errorf("Run: %v", err)
	}
	r.ran <- nil
	if conn, err := net.Dial("tcp", r.s.Addr().String()); err == nil {
		conn.Close()
		t.Error("the port still takes connections")
	}
}

func TestNewSaysWhatIsWrong(t *testing.T) {
	dir, err := origin.OpenDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	taken := startRig(t, nil)
	for _, tt := range []struct {
		name string
		cfg  Config
		want string
	}{
		{"port in use", Config{Listen: taken.s.Addr().String()}, "address already in use (another process has the port"},
		{"no port", Config{Listen: "127.0.0.1"}, "give host:port"},
		{"foreign address", Config{Listen: "203.0.113.1:1"}, "no interface of this machine has that address"},
		{"no address", Config{}, "no address"},
		{"large copy", Config{Listen: "127.0.0.1:0", CopyBelow: 1 << 20}, "over the 16384"},
		{"fewer places than rings", Config{Listen: "127.0.0.1:0", Rings: 2, MaxConnections: 1}, "less than one for each of the 2 rings"},
		{"small chunk", Config{Listen: "127.0.0.1:0", TransferChunk: 5}, "outside 4KiB..16MiB"},
	} {
		tt.cfg.Origin = dir
		s, err := New(tt.cfg)
		if err == nil {
			s.Close()
			t.Errorf("%s: no error", tt.name)
		} else if !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %q does not say %q", tt.name, err, tt.want)
		}
	}
}

// What a connection needs is inherited from the listener, so that accepting costs
// no further call.
func TestSocketOptionsAreInherited(t *testing.T) {
	cfg := Config{Listen: "127.0.0.1:0", SendBuffer: 100 << 10, Rings: 2}.withDefaults()
	fds, addr, err := listenAll(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	closeAll(fds[1:])
	defer unix.Close(fds[0])
	conn, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fd, _, err := unix.Accept4(fds[0], unix.SOCK_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for _, o := range []struct{ level, name, want int }{
		{unix.IPPROTO_TCP, unix.TCP_NODELAY, 1},
		{unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, 128 << 10},
		{unix.SOL_SOCKET, unix.SO_SNDBUF, 200 << 10}, // the kernel doubles it, socket(7)
	} {
		if got, err := unix.GetsockoptInt(fd, o.level, o.name); err != nil || got != o.want {
			t.Errorf("option %d/%d is %d, %v; want %d", o.level, o.name, got, err, o.want)
		}
	}
}

func TestStatsOfEveryRing(t *testing.T) {
	r := startRig(t, func(c *Config) { c.Rings = 3 })
	r.put("x", pattern(100_000, 1))
	for range 30 {
		r.dial().get("/x")
	}
	all, err := r.s.Stats(waitLong)
	if err != nil || len(all) != 3 {
		t.Fatalf("%d rings, %v", len(all), err)
	}
	st := r.stats()
	if st.Accepted != 30 || st.Requests[statusIndex[200]] != 30 || st.SentSendfile != 3_000_000 {
		t.Errorf("accepted %d, 200s %d, bytes %d; want 30, 30, 3000000", st.Accepted, st.Requests[statusIndex[200]], st.SentSendfile)
	}
	if st.Ring.Enters == 0 || st.Turns == 0 {
		t.Error("the rings counted nothing")
	}
}
