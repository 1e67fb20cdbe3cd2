package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/admin"
)

// governed is a worker with a policy, in a process of its own.
type governed struct {
	configured
	policy string
	dir    string // that it serves
}

// startGoverned writes the policy and starts a worker with it; lines are its configuration file.
func startGoverned(t *testing.T, text, lines string) governed {
	t.Helper()
	g := governed{policy: filepath.Join(t.TempDir(), "policy.yaml"), dir: t.TempDir()}
	rename(t, g.policy, text)
	g.configured = configured{t: t, path: filepath.Join(t.TempDir(), "talon.yaml")}
	g.write(lines)
	cmd := exec.Command(talon(t), "serve", "--config="+g.path, "--policy="+g.policy)
	cmd.Env = append(os.Environ(), "TALON_ORIGIN="+g.dir, "TALON_RINGS=2", "TALON_LISTEN=127.0.0.1:0", "TALON_ADMIN=127.0.0.1:0")
	g.process = startCommand(t, cmd)
	return g
}

// rename puts a file in place as a careful writer does.
func rename(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

// state waits until the worker's policy is as wanted.
func (g governed) state(what string, wanted func(*admin.Policy) bool) {
	g.t.Helper()
	var last admin.Policy
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		var s struct{ Policy *admin.Policy }
		_, _, body := get(g.t, g.admin+"/api/v1/status")
		if err := json.Unmarshal(body, &s); err != nil || s.Policy == nil {
			g.t.Fatalf("%v in %s", err, body)
		}
		if last = *s.Policy; wanted(&last) {
			return
		}
	}
	g.t.Fatalf("%s: the policy is %+v", what, last)
}

// number waits until a policy is in force and the file is nothing else.
func (g governed) number(n uint64) {
	g.t.Helper()
	g.state(fmt.Sprint("number ", n), func(p *admin.Policy) bool { return p.Number == n && p.Stale == "" })
}

// TestPolicy is a policy's life: who may read what, a change of the file, a bad file, SIGHUP.
func TestPolicy(t *testing.T) {
	secret, entry := newSecret("s1")
	tenants := func(allow, more string) string {
		return "tenants:\n- id: serving\n  allow: [" + allow + "]\n  tokens:\n  " + entry + "\n" + more
	}
	g := startGoverned(t, tenants("/a/", ""), "")
	for _, dir := range []string{"a", "b"} {
		if err := os.Mkdir(filepath.Join(g.dir, dir), 0o700); err != nil {
			t.Fatal(err)
		}
		object(t, g.dir, dir+"/x", 1000)
	}
	if note := g.first["policy"].(string); note != "policy "+g.policy+", number 1: 1 tenants, 0 limits; requests without credentials are answered 401" {
		t.Errorf("the first line says %q", note)
	}
	bearer := "Bearer s1." + secret
	answers := func(step string, want map[string]int) {
		t.Helper()
		for path, code := range want {
			header := []string{"Authorization", bearer}
			name, anonymous := strings.CutPrefix(path, "anonymous ")
			if anonymous {
				header = nil
			}
			if got, _, body := get(t, g.data+name, header...); got != code {
				t.Errorf("%s: %s = %d %s, want %d", step, path, got, body, code)
			}
		}
	}
	answers("at first", map[string]int{"/a/x": 200, "/b/x": 403, "anonymous /a/x": 401})

	rename(t, g.policy, tenants("/b/", "- id: public\n  allow: [/a/]\n"))
	g.number(2)
	answers("another prefix and another tenant", map[string]int{"/a/x": 403, "/b/x": 200, "anonymous /a/x": 200, "anonymous /b/x": 403})

	rename(t, g.policy, "tenants:\n- id: public\n  alow: [/]\n")
	g.state("a bad file", func(p *admin.Policy) bool {
		return p.Rejected == 1 && p.Number == 2 && strings.Contains(p.Stale, ":3: unknown field")
	})
	answers("a bad file changes nothing", map[string]int{"/b/x": 200, "anonymous /a/x": 200})
	code, _, page := get(t, g.admin+"/readyz?verbose")
	mustContain(t, string(page), "[!] policy: number 2 stays in force: "+g.policy+`:3: unknown field "alow"`)
	if code != 200 {
		t.Errorf("readyz = %d", code)
	}
	_, _, page = get(t, g.admin+"/metrics")
	mustContain(t, string(page), "\ntalon_policy_stale 1\n")
	mustContain(t, string(page), "\ntalon_policy_rejected_total 1\n")
	g.write("nonsense") // of the configuration; the policy is good or bad by itself
	rename(t, g.policy, "tenants:\n- id: public\n  allow: [/]\n")
	g.signal(unix.SIGHUP)
	g.number(3)
	answers("who is not in the policy any more", map[string]int{"/b/x": 401, "anonymous /b/x": 200})

	log := g.stop()
	if got := find(log, "policy in force"); len(got) != 2 || got[0]["number"] != 2.0 || got[1]["number"] != 3.0 {
		t.Errorf("in force: %v", got)
	}
	if got := find(log, "the policy is wrong and was not taken; the one before stays in force"); len(got) != 1 || got[0]["in_force"] != 2.0 {
		t.Errorf("refused: %v", got)
	}
}

// TestPolicyChangesUnderLoad: connections with requests on their way go on through many changes, and none is refused.
func TestPolicyChangesUnderLoad(t *testing.T) {
	text := func(rate int) string {
		return fmt.Sprintf("tenants:\n- id: public\n  allow: [/]\n  limits: {client_egress_bytes: {rate: %dMiB/s, burst: 64MiB, local_burst: 8MiB}}\n", rate)
	}
	g := startGoverned(t, text(1000), "")
	want := object(t, g.dir, "x", 1<<20)
	stop, ended := make(chan struct{}), make(chan int)
	go func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				ended <- n
				return
			default:
			}
			if code, _, body := get(t, g.data+"/x"); code != 200 || len(body) != len(want) {
				t.Errorf("request %d: %d with %d bytes", n, code, len(body))
			}
		}
	}()
	for i := range 5 {
		rename(t, g.policy, text(1001+i))
		g.number(uint64(i) + 2)
	}
	close(stop)
	if n := <-ended; n == 0 {
		t.Error("no request was made")
	}
	g.stop()
}

// TestLimitIsKept: a limit on bytes holds from end to end: over the whole transfer no more than burst + rate x t, and near to it.
func TestLimitIsKept(t *testing.T) {
	const rate, burst = 8 << 20, 1 << 20
	g := startGoverned(t, "tenants:\n- id: public\n  allow: [/]\n  limits: {client_egress_bytes: {rate: 8MiB/s, burst: 1MiB, local_burst: 1MiB, soft_rate: 1MiB/s}}\n", "")
	want := object(t, g.dir, "x", 6<<20)
	begin := time.Now()
	_, _, body := get(t, g.data+"/x")
	took := time.Since(begin)
	sameBytes(t, "x", body, want)
	// A slow machine makes it later, never sooner.
	if most := burst + rate*took.Seconds(); float64(len(body)) > most {
		t.Errorf("%d bytes in %v, at most %.0f were due", len(body), took, most)
	}
	_, _, page := get(t, g.admin+"/api/v1/tenants")
	var tenancy admin.Tenancy
	if err := json.Unmarshal(page, &tenancy); err != nil {
		t.Fatal(err)
	}
	one := tenancy.Tenants[0]
	if one.ID != "public" || len(one.Limits) != 2 || one.Limits[1].Metric != "client_egress_bytes" || !one.Limits[1].Limited || one.Limits[1].Rate != rate ||
		one.Limits[1].Used < int64(len(want)) || one.Limits[0].Limited || one.Limits[0].Used != 1 {
		t.Errorf("tenants: %s", page)
	}
	if one.Requests != 1 || one.SentBytes != uint64(len(want)) || one.Throttled <= 0 || len(one.Denied) != 0 {
		t.Errorf("counted: %s", page)
	}
	if tenancy.Limiter == nil || !tenancy.Limiter.Alone || tenancy.Limiter.Worker != alone || tenancy.Limiter.SnapshotTTL != 0.2 {
		t.Errorf("limiter: %s", page)
	}
	_, _, page = get(t, g.admin+"/metrics")
	mustContain(t, string(page), "\n"+`talon_tenant_limit_bytes_per_second{tenant="public"} 8388608`+"\n")
	out, err := exec.Command(talon(t), "tenants", "--admin="+strings.TrimPrefix(g.admin, "http://")).CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "TENANT ") || !strings.Contains(string(out), "of 8MiB") {
		t.Errorf("talon tenants: %v\n%s", err, out)
	}
	g.stop()
}
