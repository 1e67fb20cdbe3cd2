package main

import (
	"encoding/json"
	"io"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestServe(t *testing.T) {
	dir := t.TempDir()
	small, big := object(t, dir, "small", 1000), object(t, dir, "big", 3<<20)
	p := startProcess(t, dir)

	code, _, body := get(t, p.data+"/small")
	if code != 200 {
		t.Errorf("GET /small = %d", code)
	}
	sameBytes(t, "small", body, small)
	code, header, body := get(t, p.data+"/big", "Range", "bytes=1000000-2999999")
	if code != 206 || header.Get("Content-Range") != "bytes 1000000-2999999/3145728" {
		t.Errorf("range of /big = %d, Content-Range %q", code, header.Get("Content-Range"))
	}
	sameBytes(t, "range of big", body, big[1000000:3000000])
	if code, _, _ := get(t, p.data+"/nothing"); code != 404 {
		t.Errorf("GET /nothing = %d", code)
	}

	for field, want := range map[string]any{
		"origin": dir, "rings": 1.0,
		"policy": "no policy, no coordinator: every request is tenant public, without limits",
	} {
		if p.first[field] != want {
			t.Errorf("first log line: %s is %v, want %v", field, p.first[field], want)
		}
	}
	checkMetrics(t, p)
	checkStatus(t, p)

	p.signal(unix.SIGINT)
	if code := p.exitCode(); code != 0 {
		t.Errorf("exit code %d after SIGINT, want 0", code)
	}
}

// checkMetrics follows the requests of TestServe into the admin port.
func checkMetrics(t *testing.T, p *process) {
	t.Helper()
	_, _, page := get(t, p.admin+"/metrics")
	for _, want := range []string{
		"\ntalon_up 1\n", "\ntalon_rings 1\n",
		`talon_http_requests_total{code="200"} 1` + "\n",
		`talon_http_requests_total{code="206"} 1` + "\n",
		`talon_http_requests_total{code="404"} 1` + "\n",
		"talon_http_request_duration_seconds_count 3\n",
		`talon_sent_bytes_total{path="copy"} 1000` + "\n",
		`talon_sent_bytes_total{path="sendfile"} 2000000` + "\n",
		"talon_connections_accepted_total 3\n",
	} {
		mustContain(t, string(page), want)
	}
	if code, _, body := get(t, p.admin+"/livez"); code != 200 {
		t.Errorf("livez = %d %s", code, body)
	}
	_, _, verbose := get(t, p.admin+"/readyz?verbose")
	mustContain(t, string(verbose), "[+] origin ok\n")
}

func checkStatus(t *testing.T, p *process) {
	t.Helper()
	_, _, body := get(t, p.admin+"/api/v1/status")
	var s struct {
		Addr, Origin string
		Tenants      struct{ Mode, Anonymous string }
		Rings        []struct{ Requests map[string]uint64 }
		Draining     bool
	}
	if err := json.Unmarshal(body, &s); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	if "http://"+s.Addr != p.data || s.Tenants.Mode != "anonymous" || s.Tenants.Anonymous != "public" || s.Draining ||
		len(s.Rings) != 1 || s.Rings[0].Requests["206"] != 1 {
		t.Errorf("status: %s", body)
	}
}

// TestDrainLosesNothing: SIGTERM in the middle of a download. The worker turns
// new clients away and readyz to 503, delivers the rest, and exits with 0.
func TestDrainLosesNothing(t *testing.T) {
	dir := t.TempDir()
	big := object(t, dir, "big", 24<<20) // more than both sockets hold
	p := startProcess(t, dir)
	res := open(t, p.data+"/big")
	defer func() { _ = res.Body.Close() }()
	begin := make([]byte, 1<<20)
	if _, err := io.ReadFull(res.Body, begin); err != nil {
		t.Fatal(err)
	}

	p.signal(unix.SIGTERM)
	mustContain(t, string(until(t, p.admin+"/readyz", 503)), "draining")
	if code, _, _ := get(t, p.admin+"/livez"); code != 200 {
		t.Errorf("livez = %d in a drain: an orchestrator would cut the download off", code)
	}
	untilRefused(t, strings.TrimPrefix(p.data, "http://"))

	rest, err := io.ReadAll(res.Body)
	if err != nil {
		t.Errorf("the download was cut off: %v", err)
	}
	sameBytes(t, "the download", append(begin, rest...), big)
	if code := p.exitCode(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

// untilRefused dials until nobody listens any more.
func untilRefused(t *testing.T, addr string) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		c, err := net.DialTimeout("tcp", addr, patience)
		if err != nil {
			return
		}
		_ = c.Close()
	}
	t.Error("new connections are still taken in a drain")
}

// TestDrainClosesIdle: a connection without a request does not hold the worker.
func TestDrainClosesIdle(t *testing.T) {
	p := startProcess(t, t.TempDir(), "--drain-timeout=1h")
	idle, err := net.Dial("tcp", strings.TrimPrefix(p.data, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = idle.Close() }()
	p.signal(unix.SIGTERM)
	if code := p.exitCode(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

// A client that has stopped reading holds its response for ever; the tests below
// end the wait in the two ways there are.
func stalled(t *testing.T, flags ...string) *process {
	t.Helper()
	dir := t.TempDir()
	object(t, dir, "big", 24<<20)
	p := startProcess(t, dir, append(flags, "--min-drain-rate=0")...)
	res := open(t, p.data+"/big")
	t.Cleanup(func() { _ = res.Body.Close() })
	p.signal(unix.SIGTERM)
	until(t, p.admin+"/readyz", 503)
	return p
}

func TestDrainTimeoutEnds(t *testing.T) {
	if code := stalled(t, "--drain-timeout=100ms").exitCode(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

func TestSecondSignalHastens(t *testing.T) {
	p := stalled(t, "--drain-timeout=1h")
	p.signal(unix.SIGTERM)
	if code := p.exitCode(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}

func TestNobodyAnonymous(t *testing.T) {
	dir := t.TempDir()
	object(t, dir, "small", 10)
	p := startProcess(t, dir, "--anonymous-tenant=")
	if code, _, body := get(t, p.data+"/small"); code != 401 {
		t.Errorf("GET without credentials = %d %q, want 401", code, body)
	}
	mustContain(t, p.first["policy"].(string), "401")
}

// TestPortInUse: both ports, the admin port first so that a worker that cannot
// be watched never takes a request.
func TestPortInUse(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	addr := taken.Addr().String()
	for _, c := range []struct{ args, line string }{
		{"--listen=" + addr + " --admin=", "talon: listen " + addr + ": address already in use"},
		{"--listen=127.0.0.1:0 --admin=" + addr, "talon: admin: listen " + addr + ": address already in use; --admin takes another address, or none\n"},
	} {
		var stdout, stderr strings.Builder
		code := run(append([]string{"serve", "--origin=" + t.TempDir()}, strings.Fields(c.args)...), &stdout, &stderr)
		if code != 1 || !strings.HasPrefix(stderr.String(), c.line) || strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("%s: exit %d, %q; want 1, %q", c.args, code, stderr.String(), c.line)
		}
	}
}

// TestAdminOff: without an admin port the worker serves all the same.
func TestAdminOff(t *testing.T) {
	dir := t.TempDir()
	small := object(t, dir, "small", 10)
	p := startProcess(t, dir, "--admin=")
	if p.first["admin"] != "off" {
		t.Errorf("first log line: admin is %v, want off", p.first["admin"])
	}
	_, _, body := get(t, p.data+"/small")
	sameBytes(t, "small", body, small)
}

// TestLowLimitWarns: the bounds do not fit the limit of open files.
func TestLowLimitWarns(t *testing.T) {
	p := startCommand(t, exec.Command("sh", "-c", `ulimit -n 1000 && exec "$0" "$@"`, talon(t),
		"serve", "--origin="+t.TempDir(), "--listen=127.0.0.1:0", "--admin=127.0.0.1:0", "--rings=1"))
	p.signal(unix.SIGTERM)
	log := <-p.log
	p.log <- log
	mustContain(t, log, "1000 open files are allowed but the bounds add up to")
	if code := p.exitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
