package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// patience bounds a wait that only a failure makes long.
const patience = time.Minute

// process is a worker in a process of its own, as an operator runs it.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	first map[string]any // its first log line
	data  string         // http://host:port of the data port
	admin string         // and of the admin port
	log   chan string    // all of its log, once it has ended
}

// startProcess runs talon serve on dir, with one ring and ports that the kernel
// chooses, and waits for its first log line. The worker is killed if the test
// leaves it running.
func startProcess(t *testing.T, dir string, flags ...string) *process {
	t.Helper()
	args := append([]string{"serve", "--origin=" + dir, "--listen=127.0.0.1:0", "--admin=127.0.0.1:0", "--rings=1"}, flags...)
	return startCommand(t, exec.Command(talon(t), args...))
}

// talon is this test binary under the name that makes it the command.
func talon(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "talon")
	if err := os.Symlink(self, link); err != nil {
		t.Fatal(err)
	}
	return link
}

func startCommand(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, log: make(chan string, 1), cmd: cmd}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	lines := bufio.NewReader(stderr)
	first, err := lines.ReadString('\n')
	if err != nil {
		t.Fatalf("talon ended before its first log line: %q", first)
	}
	go func() {
		rest, _ := io.ReadAll(lines)
		p.log <- first + string(rest)
	}()
	if err := json.Unmarshal([]byte(first), &p.first); err != nil {
		t.Fatalf("the first log line is not JSON: %q", first)
	}
	p.data, p.admin = "http://"+p.first["data"].(string), "http://"+p.first["admin"].(string)
	return p
}

func (p *process) kill() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Kill()
		p.exitCode()
	}
}

func (p *process) signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// exitCode waits for the process to end.
func (p *process) exitCode() int {
	p.t.Helper()
	stuck := time.AfterFunc(patience, func() { _ = p.cmd.Process.Signal(unix.SIGQUIT) })
	defer stuck.Stop()
	log := <-p.log
	err := p.cmd.Wait()
	if code := p.cmd.ProcessState.ExitCode(); code == 2 || err != nil {
		p.t.Logf("talon ended: %v\n%s", err, log)
	}
	return p.cmd.ProcessState.ExitCode()
}

// get asks once, on a connection of its own.
func get(t *testing.T, url string, header ...string) (int, http.Header, []byte) {
	t.Helper()
	res := open(t, url, header...)
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("GET %s: %v after %d bytes", url, err, len(body))
	}
	return res.StatusCode, res.Header, body
}

// open is get with the body unread.
func open(t *testing.T, url string, header ...string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatalf("GET %s: %v", url, err)
	}
	return res
}

// until asks url again until it answers with code.
func until(t *testing.T, url string, code int) []byte {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if got, _, body := get(t, url); got == code {
			return body
		}
	}
	t.Fatalf("GET %s never answered %d", url, code)
	return nil
}

// object writes size pseudo-random bytes to dir/name and returns them.
func object(t *testing.T, dir, name string, size int) []byte {
	t.Helper()
	body := make([]byte, size)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(body) // never fails
	if err := os.WriteFile(filepath.Join(dir, name), body, 0o644); err != nil {
		t.Fatal(err)
	}
	return body
}

// sameBytes compares without printing megabytes.
func sameBytes(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got %d bytes, want %d, or they differ", what, len(got), len(want))
	}
}

func mustContain(t *testing.T, page, want string) {
	t.Helper()
	if !strings.Contains(page, want) {
		t.Errorf("%q is not in:\n%s", want, page)
	}
}
