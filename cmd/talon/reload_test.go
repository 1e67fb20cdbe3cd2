package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// configured is a worker with a file, and the file.
type configured struct {
	*process
	t    *testing.T
	path string
}

func startConfigured(t *testing.T, lines string, flags ...string) configured {
	t.Helper()
	c := configured{t: t, path: filepath.Join(t.TempDir(), "talon.yaml")}
	c.write(lines)
	args := append([]string{"serve", "--config=" + c.path}, flags...)
	cmd := exec.Command(talon(t), args...)
	cmd.Env = append(os.Environ(), "TALON_ORIGIN="+t.TempDir(), "TALON_RINGS=1", "TALON_LISTEN=127.0.0.1:0", "TALON_ADMIN=127.0.0.1:0")
	c.process = startCommand(t, cmd)
	return c
}

func (c configured) write(lines string) {
	c.t.Helper()
	if err := os.WriteFile(c.path, []byte(lines), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// reread sends SIGHUP and waits until /readyz?verbose shows what came of it. It
// has to differ from what is shown before.
func (c configured) reread(want string) {
	c.t.Helper()
	c.signal(unix.SIGHUP)
	var page []byte
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		var code int
		if code, _, page = get(c.t, c.admin+"/readyz?verbose"); code != 200 {
			c.t.Fatalf("readyz = %d %s", code, page)
		}
		if strings.Contains(string(page), want) {
			return
		}
	}
	c.t.Fatalf("readyz never showed %q:\n%s", want, page)
}

// stop ends the worker and returns its log, a map for each line.
func (c configured) stop() (log []map[string]any) {
	c.t.Helper()
	c.signal(unix.SIGTERM)
	text := <-c.log
	c.log <- text
	if code := c.exitCode(); code != 0 {
		c.t.Errorf("exit code %d", code)
	}
	for line := range strings.Lines(text) {
		entry := map[string]any{}
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			c.t.Fatalf("%v in %q", err, line)
		}
		log = append(log, entry)
	}
	return log
}

// find returns the entries with this message.
func find(log []map[string]any, message string) (found []map[string]any) {
	for _, entry := range log {
		if entry["msg"] == message {
			found = append(found, entry)
		}
	}
	return found
}

// put sets the log level on the admin port.
func put(t *testing.T, url, level string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, url+"/api/v1/loglevel", strings.NewReader(level))
	if err != nil {
		t.Fatal(err)
	}
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body) // only the code is wanted
	_ = res.Body.Close()
	return res.StatusCode
}

// TestReload: a bad file changes nothing and is shown, a good one changes what
// can change, and what cannot is named.
func TestReload(t *testing.T) {
	c := startConfigured(t, "idle-timeout: 30s\n")
	_, _, page := get(t, c.admin+"/readyz?verbose")
	mustContain(t, string(page), "[+] config ok\n")

	c.write("idle-timeout: 30s\nlog-levle: debug\nrings: 0x\n")
	c.reread("[!] config: not read again, running as before: " + c.path + `:2: unknown setting "log-levle"; did you mean log-level?`)
	c.write("log-level: error\nidle-timeout: 0s\ndrain-timeout: 1h\n")
	c.reread(c.path + ":2: idle-timeout: 0s is not positive")
	c.write("idle-timeout: 20s\ndrain-timeout: 77s\nlog-level: WARN\nopen-files: 7\nrings: 9\n")
	c.reread("[+] config ok\n")

	log := c.stop()
	for _, at := range []string{":2:", ":3:"} {
		mustContain(t, find(log, "the configuration is wrong and was not read; all stays as it was")[0]["problems"].([]any)[int(at[1]-'2')].(string), c.path+at)
	}
	changed := find(log, "changed")
	if len(changed) != 2 || changed[0]["setting"] != "drain-timeout" || changed[0]["was"] != "30s" || changed[0]["now"] != "1m17s" ||
		changed[1]["setting"] != "log-level" || changed[1]["source"] != c.path+":3" {
		t.Errorf("changed: %v", changed)
	}
	// rings is the environment's, and so does not change.
	restart := find(log, "needs a restart")
	if len(restart) != 2 || restart[0]["setting"] != "open-files" || restart[0]["running"] != "1024" || restart[0]["wanted"] != "7" ||
		restart[1]["setting"] != "idle-timeout" || restart[1]["wanted"] != "20s" {
		t.Errorf("needs a restart: %v", restart)
	}
	// From the change of the level on, warnings only; nothing of the bad files held.
	if n := len(find(log, "draining")); n != 0 {
		t.Errorf("%d lines at level info after log-level: warn", n)
	}
}

// TestReloadedDrainTimeout: a live setting holds from then on.
func TestReloadedDrainTimeout(t *testing.T) {
	c := startConfigured(t, "drain-timeout: 1h\n")
	c.write("drain-timeout: bad\n")
	c.reread("[!] config")
	c.write("drain-timeout: 3s\n")
	c.reread("[+] config ok")
	if got := find(c.stop(), "draining"); len(got) != 1 || got[0]["timeout"] != "3s" {
		t.Errorf("draining: %v, want a timeout of 3s", got)
	}
}

// TestReloadWithoutFile: SIGHUP must not end a worker that has no file.
func TestReloadWithoutFile(t *testing.T) {
	p := startProcess(t, t.TempDir())
	p.signal(unix.SIGHUP)
	p.signal(unix.SIGTERM)
	if code := p.exitCode(); code != 0 {
		t.Errorf("exit code %d after SIGHUP and SIGTERM", code)
	}
}

// TestLogLevelOnAdminPort: at once, until the next SIGHUP that is obeyed.
func TestLogLevelOnAdminPort(t *testing.T) {
	c := startConfigured(t, "")
	for _, p := range []struct {
		level string
		code  int
	}{{"loud", 400}, {"debug\n", 200}, {"error", 200}} {
		if code := put(t, c.admin, p.level); code != p.code {
			t.Errorf("PUT %q = %d, want %d", p.level, code, p.code)
		}
	}
	if code, header, _ := get(t, c.admin+"/api/v1/loglevel"); code != 405 || header.Get("Allow") != "PUT" {
		t.Errorf("GET = %d, Allow %q", code, header.Get("Allow"))
	}
	c.write("nonsense")
	c.reread("[!] config")
	c.write("")
	c.reread("[+] config")
	log := c.stop()
	// The change to error is a warning, and so not logged any more.
	if got := find(log, "log level changed on the admin port"); len(got) != 1 || got[0]["was"] != "info" || got[0]["now"] != "debug" {
		t.Errorf("changed on the admin port: %v", got)
	}
	if len(find(log, "configuration read again")) != 1 || len(find(log, "draining")) != 1 {
		t.Errorf("the level is not info again after SIGHUP: %v", log)
	}
}
