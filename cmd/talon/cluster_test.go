package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestTwoWorkersKeepOneLimit: two processes under one policy file hold its number together. Each by itself would let through the whole of it.
func TestTwoWorkersKeepOneLimit(t *testing.T) {
	const rate, burst, local, ttl, size = 8 << 20, 1 << 20, 512 << 10, 0.2, 10 << 20
	dir, state := t.TempDir(), t.TempDir()
	object(t, dir, "x", size)
	addrs := make([]string, 2)
	for i := range addrs {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addrs[i] = l.Addr().String()
		_ = l.Close() // the worker takes it
	}
	file := filepath.Join(state, "policy.yaml")
	text := fmt.Sprintf("tenants: [{id: public, allow: [/], limits: {client_egress_bytes: {rate: 8MiB/s, burst: 1MiB, local_burst: 512KiB}}}]\n"+
		"ring_epoch: 1\npeers: [{id: w1, addr: %q}, {id: w2, addr: %q}]\n", addrs[0], addrs[1])
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	workers := make([]*process, 2)
	for i := range workers {
		workers[i] = startProcess(t, dir, "--coordinator=file:"+file, fmt.Sprintf("--worker-id=w%d", i+1), "--peer-listen="+addrs[i], "--snapshot-ttl=200ms")
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
	for _, w := range workers {
		if err := w.cmd.Process.Signal(unix.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := w.cmd.Wait(); err != nil {
			t.Errorf("ended with %v", err)
		}
	}
}
