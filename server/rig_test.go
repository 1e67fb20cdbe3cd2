package server

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/talon-worker/talon/origin"
)

// waitLong is how long a test waits for what must happen; reaching it is a
// failure, so it is far longer than a loaded machine needs.
const waitLong = 20 * time.Second

// rig is a server on a real ring that serves a directory of the test's.
type rig struct {
	t   *testing.T
	s   *Server
	dir string
	ran chan error
}

func startRig(t *testing.T, change func(*Config), before ...func(*Server)) *rig {
	t.Helper()
	return startRigIn(t, t.TempDir(), change, before...)
}

// startRigIn starts it on a directory; before is done to the server when it is made and
// does not run yet.
func startRigIn(t *testing.T, path string, change func(*Config), before ...func(*Server)) *rig {
	t.Helper()
	r := &rig{t: t, dir: path, ran: make(chan error, 1)}
	dir, err := origin.OpenDir(r.dir)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Listen: "127.0.0.1:0", Origin: dir, Rings: 1, AnonymousTenant: "public", MaxConnections: 256}
	if change != nil {
		change(&cfg)
	}
	if r.s, err = New(cfg); err != nil {
		t.Fatal(err)
	}
	for _, f := range before {
		f(r.s)
	}
	go func() { r.ran <- r.s.Run() }()
	t.Cleanup(func() {
		r.s.Drain(0)
		if err := <-r.ran; err != nil {
			t.Errorf("Run: %v", err)
		}
		r.s.Close()
		dir.Close()
	})
	return r
}

// put makes an object, old enough for a strong ETag.
func (r *rig) put(name string, content []byte) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", content, 0o644); err != nil {
		r.t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour).Truncate(time.Second)
	if err := os.Chtimes(path+".new", old, old); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) stats() Stats {
	r.t.Helper()
	all, err := r.s.Stats(waitLong)
	if err != nil {
		r.t.Fatal(err)
	}
	var sum Stats
	for i := range all {
		sum.Add(&all[i])
	}
	return sum
}

// client is one connection, spoken to in bytes.
type client struct {
	t    *testing.T
	conn *net.TCPConn
	r    *bufio.Reader
}

func (r *rig) dial() *client {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.s.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(waitLong))
	return &client{t: r.t, conn: conn.(*net.TCPConn), r: bufio.NewReader(conn)}
}

func (c *client) send(s string) {
	c.t.Helper()
	if _, err := io.WriteString(c.conn, s); err != nil {
		c.t.Fatalf("send: %v", err)
	}
}

// reply reads one response whole.
func (c *client) reply(method string) (*http.Response, []byte) {
	c.t.Helper()
	resp, err := http.ReadResponse(c.r, &http.Request{Method: method})
	if err != nil {
		c.t.Fatalf("reading a response head: %v", err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatalf("reading a response body: %v after %d bytes", err, len(body))
	}
	return resp, body
}

// get asks for path with more header lines and reads the response.
func (c *client) get(path string, lines ...string) (*http.Response, []byte) {
	c.t.Helper()
	c.send(getRequest(path, lines...))
	return c.reply("GET")
}

func getRequest(path string, lines ...string) string {
	s := "GET " + path + " HTTP/1.1\r\nHost: h\r\n"
	for _, l := range lines {
		s += l + "\r\n"
	}
	return s + "\r\n"
}

// wantEOF checks that the server closes without another byte.
func (c *client) wantEOF(why string) {
	c.t.Helper()
	rest, err := io.ReadAll(c.r)
	if err != nil || len(rest) != 0 {
		c.t.Errorf("%s: want a clean end of the connection, got %d bytes (%.80q), %v", why, len(rest), rest, err)
	}
}
