package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/qos"
)

// TestTwoWorkersKeepOneLimit: two processes under one policy file hold its number together. Each by itself would let through the whole of it.
func TestTwoWorkersKeepOneLimit(t *testing.T) {
	const rate, burst, local, ttl, size = 8 << 20, 1 << 20, 512 << 10, 0.25, 10 << 20
	dir, state := t.TempDir(), t.TempDir()
	object(t, dir, "x", size)
	addrs := freeAddrs(t, 2)
	file := filepath.Join(state, "policy.yaml")
	text := fmt.Sprintf("tenants: [{id: public, allow: [/], limits: {client_egress_bytes: {rate: 8MiB/s, burst: 1MiB, local_burst: 512KiB}}}]\n"+
		"ring_epoch: 1\npeers: [{id: w1, addr: %q}, {id: w2, addr: %q}]\n", addrs[0], addrs[1])
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	workers := make([]*process, 2)
	for i := range workers {
		workers[i] = startProcess(t, dir, "--coordinator=file:"+file, fmt.Sprintf("--worker-id=w%d", i+1), "--peer-listen="+addrs[i], "--snapshot-ttl=250ms")
	}
	begin := time.Now()
	var both sync.WaitGroup
	for _, w := range workers {
		both.Go(func() {
			if code, _, body := get(t, w.data+"/x"); code != http.StatusOK || len(body) != size {
				t.Errorf("status %d, %d bytes", code, len(body))
			}
		})
	}
	both.Wait()
	// A slow machine makes it later, never sooner. Two workers that did not know of each other would need half of the time.
	took := time.Since(begin).Seconds()
	if most := burst + rate*took + 2*local + rate*ttl; 2*size > most {
		t.Errorf("%d bytes in %.2f s from both, at most %.0f were due", 2*size, took, most)
	}
	_, _, page := get(t, workers[0].admin+"/api/v1/peers")
	mustContain(t, string(page), `"id": "w2"`)
	mustContain(t, string(page), `"connected": true`)
	_, _, page = get(t, workers[0].admin+"/metrics")
	mustContain(t, string(page), "\ntalon_global_snapshot_ttl_seconds 0.25\n")
	for _, w := range workers {
		if err := w.cmd.Process.Signal(unix.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := w.cmd.Wait(); err != nil {
			t.Errorf("ended with %v", err)
		}
	}
}

// TestSettledRingsFollowEachOther: a worker writes down that a ring has settled, so that more of them than one may replace can follow each other within
// the minute after which a file takes it for granted.
func TestSettledRingsFollowEachOther(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	file := filepath.Join(state, "policy.yaml")
	write := func(epoch int) {
		t.Helper()
		text := fmt.Sprintf("tenants: [{id: public, allow: [/]}]\nring_epoch: %d\npeers: [{id: w1, addr: \"127.0.0.1:1\"}]\n", epoch)
		if err := os.WriteFile(file+".next", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".next", file); err != nil {
			t.Fatal(err)
		}
	}
	write(1)
	p := startProcess(t, dir, "--coordinator=file:"+file, "--worker-id=w1", "--peer-listen=127.0.0.1:0", "--ring-confirm=50ms")
	for epoch := 1; epoch <= qos.MaxReplaced+2; epoch++ {
		write(epoch)
		for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
			ledger, err := os.ReadFile(file + ".ledger.json")
			if err == nil && strings.Contains(string(ledger), fmt.Sprintf(`"settled": %d`, epoch)) {
				break
			}
			if time.Since(begin) > 20*time.Second {
				_, _, page := get(t, p.admin+"/api/v1/peers")
				t.Fatalf("epoch %d is not written down as settled: %v\n%s\n%s", epoch, err, ledger, page)
			}
		}
	}
}
