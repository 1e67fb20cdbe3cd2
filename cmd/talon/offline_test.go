package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/admin"
)

// etcdServer is a real etcd of one member, which a test stops and starts.
type etcdServer struct {
	t            *testing.T
	client, peer string // host:port
	dir          string
	cmd          *exec.Cmd
	log          bytes.Buffer
}

// startEtcd starts the machine's etcd; where there is none the test is skipped. CI installs it.
func startEtcd(t *testing.T) *etcdServer {
	t.Helper()
	if _, err := exec.LookPath("etcd"); err != nil {
		t.Skip("no etcd in PATH: apt-get install etcd-server")
	}
	free := freeAddrs(t, 2)
	e := &etcdServer{t: t, client: free[0], peer: free[1], dir: t.TempDir()}
	e.up()
	t.Cleanup(e.kill)
	return e
}

func (e *etcdServer) up() {
	e.t.Helper()
	e.cmd = exec.Command("etcd", "--name", "one", "--data-dir", e.dir, "--log-level", "error",
		"--listen-client-urls", "http://"+e.client, "--advertise-client-urls", "http://"+e.client,
		"--listen-peer-urls", "http://"+e.peer, "--initial-advertise-peer-urls", "http://"+e.peer, "--initial-cluster", "one=http://"+e.peer)
	e.cmd.Stdout, e.cmd.Stderr = &e.log, &e.log
	e.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := e.cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
	for late := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(must(http.NewRequest(http.MethodGet, "http://"+e.client+"/health", nil)))
		if err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return
			}
		}
		if time.Now().After(late) {
			e.t.Fatalf("etcd is not healthy: %v\n%s", err, e.log.String())
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (e *etcdServer) kill() {
	if e.cmd != nil {
		_ = e.cmd.Process.Kill()
		_ = e.cmd.Wait()
		e.cmd = nil
	}
}

// at is --coordinator with this etcd.
func (e *etcdServer) at(prefix string) string {
	return "--coordinator=etcd://" + e.client + "/" + prefix
}

// freeAddrs are ports of loopback that were free a moment ago, for those who must know them before they listen. They are below those that the kernel gives
// out (ip_local_port_range): a server beside it that asks for any port is given none of them.
func freeAddrs(t *testing.T, n int) (addrs []string) {
	t.Helper()
	for range 1000 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(22_000)))
		if err != nil {
			continue
		}
		defer func() { _ = l.Close() }()
		if addrs = append(addrs, l.Addr().String()); len(addrs) == n {
			return addrs
		}
	}
	t.Fatal("no free ports on 127.0.0.1")
	return nil
}

// runTalon runs a command of talon to its end.
func runTalon(t *testing.T, args ...string) (out string, code int) {
	t.Helper()
	cmd := exec.Command(talon(t), args...)
	text, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// place is what a worker says of its place in the cluster.
func (p *process) place() (at admin.Peers) {
	p.t.Helper()
	_, _, page := get(p.t, p.admin+"/api/v1/peers")
	if err := json.Unmarshal(page, &at); err != nil {
		p.t.Fatal(err)
	}
	return at
}

// untilPlace asks a worker until its place is that.
func (p *process) untilPlace(what string, is func(admin.Peers) bool) admin.Peers {
	p.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		at := p.place()
		if is(at) {
			return at
		}
		if time.Now().After(end) {
			p.t.Fatalf("%s: not so: %+v", what, at)
		}
	}
}

// TestStartWithoutEtcd: etcd is killed, then the workers, who come back while it is away: they serve by the policy and the ring that they have kept, under new
// epochs, say so, hold the limit together, and enlist when etcd answers. A worker that has kept nothing says what to do.
func TestStartWithoutEtcd(t *testing.T) {
	const rate, burst, local, ttl, size = 4 << 20, 1 << 20, 512 << 10, 0.2, 3 << 20
	etcd := startEtcd(t)
	dir, state := t.TempDir(), t.TempDir()
	object(t, dir, "x", size)
	object(t, dir, "little", 1)
	file := filepath.Join(state, "policy.yaml")
	setPolicy := func(rate string) {
		t.Helper()
		text := fmt.Sprintf("tenants: [{id: public, allow: [/], limits: {client_egress_bytes: {rate: %s, burst: 1MiB, local_burst: 512KiB}}}]\n", rate)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, code := runTalon(t, "policy", "set", file, etcd.at("talon")); code != 0 {
			t.Fatalf("talon policy set: exit code %d: %s", code, out)
		}
	}
	setPolicy("4MiB/s")
	addrs, workers, epochs := freeAddrs(t, 2), make([]*process, 2), make([]uint64, 2)
	start := func(i int) {
		t.Helper()
		kept := filepath.Join(state, fmt.Sprint("w", i+1))
		if err := os.MkdirAll(kept, 0o700); err != nil {
			t.Fatal(err)
		}
		workers[i] = startProcess(t, dir, etcd.at("talon"), fmt.Sprintf("--worker-id=w%d", i+1), "--peer-listen="+addrs[i], "--state-dir="+kept,
			"--snapshot-ttl=200ms", "--member-lease=1s")
		at := workers[i].place()
		if at.Epoch <= epochs[i] {
			t.Errorf("w%d has epoch %d after %d", i+1, at.Epoch, epochs[i])
		}
		epochs[i] = at.Epoch
	}
	ready := func(at admin.Peers) bool { return len(at.Members) == 2 && at.Acts && at.Settled }
	for i := range workers {
		start(i)
	}
	for i := range workers {
		workers[i].untilPlace("a ring of two that acts", ready)
	}

	etcd.kill()
	begin, sent, lives := time.Now(), 0, 2
	for range 2 { // the second time they come back to what a worker has kept that began without etcd itself
		for i := range workers {
			workers[i].kill()
		}
		for i := range workers {
			start(i)
			lives++
		}
		for i, w := range workers {
			at := w.untilPlace("a ring of two that acts", ready)
			if at.Enlisted || !at.Away {
				t.Errorf("w%d: %+v, and etcd is away", i+1, at)
			}
			_, _, page := get(t, w.admin+"/readyz?verbose")
			mustContain(t, string(page), "[!] policy: number 1 stays in force: etcd at ")
			_, _, page = get(t, w.admin+"/metrics")
			mustContain(t, string(page), "\ntalon_coordinator_enlisted 0\n")
			mustContain(t, string(page), "\ntalon_coordinator_up 0\n")
		}
		var all sync.WaitGroup
		for _, w := range workers {
			all.Go(func() {
				if code, _, body := get(t, w.data+"/x"); code != http.StatusOK || len(body) != size {
					t.Errorf("status %d, %d bytes", code, len(body))
				}
			})
		}
		all.Wait()
		sent += 2 * size
	}
	// A slow machine makes it later, never sooner. Two workers that did not know of each other would need half of the time.
	took := time.Since(begin).Seconds()
	if most := burst + rate*took + float64(lives)*local + rate*ttl; float64(sent) > most {
		t.Errorf("%d bytes in %.2f s from %d lives, at most %.0f were due", sent, took, lives, most)
	}

	out, code := runTalon(t, "serve", "--origin="+dir, "--listen=127.0.0.1:0", "--admin=", etcd.at("talon"), "--worker-id=w3", "--peer-listen=127.0.0.1:0",
		"--state-dir="+t.TempDir(), "--log-format=text")
	if code != 1 || !strings.Contains(out, "no worker has enlisted from this directory yet") || !strings.Contains(out, "start the worker when etcd answers") {
		t.Errorf("a worker that has kept nothing: exit code %d: %s", code, out)
	}

	etcd.up()
	for i, w := range workers {
		at := w.untilPlace("enlisted", func(at admin.Peers) bool { return at.Enlisted && at.Trouble == "" })
		if at.Epoch != epochs[i] {
			t.Errorf("w%d is enlisted as %d, was %d", i+1, at.Epoch, epochs[i])
		}
	}
	setPolicy("2MiB/s")
	for _, w := range workers {
		for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
			if _, _, page := get(t, w.admin+"/metrics"); strings.Contains(string(page), "\ntalon_policy_number 2\n") {
				break
			} else if time.Now().After(end) {
				t.Fatal("a change after the outage has not come")
			}
		}
		w.untilPlace("the ring of two", ready)
		if code, _, _ := get(t, w.data+"/little"); code != http.StatusOK {
			t.Errorf("status %d", code)
		}
	}
	for _, w := range workers {
		w.signal(unix.SIGTERM)
		if code := w.exitCode(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}
}
