package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/admin"
	"github.com/talon-worker/talon/coordinator"
)

// TestPolicyChangeSpreads: a change of the policy reaches every worker, and a rate that is cut in half holds from when the last of them has it. How long that took is
// logged and judges nothing: -v shows it, docs/failures.md has it as it was measured.
func TestPolicyChangeSpreads(t *testing.T) {
	t.Run("file", func(t *testing.T) {
		file, addrs := filepath.Join(t.TempDir(), "policy.yaml"), freeAddrs(t, 2)
		peers := fmt.Sprintf("ring_epoch: 1\npeers: [{id: w1, addr: %q}, {id: w2, addr: %q}]\ntenants: [{id: public}]\n", addrs[0], addrs[1])
		if err := os.WriteFile(file, []byte(peers), 0o600); err != nil {
			t.Fatal(err)
		}
		spread(t, coordinator.OpenFile(file), "--coordinator=file:"+file, addrs)
	})
	t.Run("etcd", func(t *testing.T) {
		etcd := startEtcd(t)
		store, err := coordinator.OpenEtcd(coordinator.EtcdConfig{Endpoints: []string{etcd.client}, Prefix: "talon"})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = store.Close() }()
		spread(t, store, etcd.at("talon"), freeAddrs(t, 2))
	})
}

func spread(t *testing.T, store coordinator.Store, flag string, addrs []string) {
	const burst, local, ttl, changes = 1 << 20, 512 << 10, 0.2, 10
	set := func(rate int) {
		t.Helper()
		text := fmt.Sprintf("tenants: [{id: public, allow: [/], limits: {client_egress_bytes: {rate: %dB/s, burst: 1MiB, local_burst: 512KiB}}}]\n", rate)
		records, _, err := coordinator.Split("policy", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		book, err := store.Load(t.Context())
		if err != nil && !errors.Is(err, coordinator.ErrNoPolicy) {
			t.Fatal(err)
		}
		if _, err := store.Save(t.Context(), book, book.ChangeTo(records, true), "test"); err != nil {
			t.Fatal(err)
		}
	}
	rate := 32 << 20
	set(rate)
	dir, state := t.TempDir(), t.TempDir()
	big, err := os.Create(filepath.Join(dir, "big"))
	if err == nil {
		err = errors.Join(big.Truncate(8<<30), big.Close()) // sparse
	}
	if err != nil {
		t.Fatal(err)
	}
	workers := make([]*process, 2)
	for i := range workers {
		kept := filepath.Join(state, fmt.Sprint(i))
		if err := os.Mkdir(kept, 0o700); err != nil {
			t.Fatal(err)
		}
		workers[i] = startProcess(t, dir, flag, fmt.Sprintf("--worker-id=w%d", i+1), "--peer-listen="+addrs[i], "--state-dir="+kept, "--snapshot-ttl=200ms",
			"--drain-timeout=1ms")
	}
	for _, w := range workers {
		w.untilPlace("a ring of two that acts", func(at admin.Peers) bool { return len(at.Members) == 2 && at.Acts && at.Settled })
	}

	// arrived waits until all workers have the rate.
	arrived := func(rate int) {
		t.Helper()
		want := "\ntalon_tenant_limit_bytes_per_second{tenant=\"public\"} " + strconv.Itoa(rate) + "\n"
		for _, w := range workers {
			w.untilMetrics(want)
		}
	}
	arrived(rate)
	var took []time.Duration
	for i := range changes {
		begin := time.Now()
		set(rate + 1 + i)
		arrived(rate + 1 + i)
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	t.Logf("%d changes: all workers had them after %v to %v, median %v", changes, took[0], took[changes-1], took[changes/2])

	ctx, cancel := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	for _, w := range workers {
		for range 2 {
			clients.Go(func() { download(ctx, w.data+"/big") })
		}
	}
	sent := func() (sum int) {
		for _, w := range workers {
			sum += w.sent()
		}
		return sum
	}
	for from := sent(); sent() < from+8<<20; { // they are at it
		time.Sleep(time.Millisecond)
	}
	half := rate / 2
	changed, before := time.Now(), sent()
	set(half)
	arrived(half)
	// From here on each worker spends what is left of the old view until it knows the new limit's, at most a TTL later, and that is in the bound.
	begin, first := time.Now(), sent()
	var last int
	var longest float64 // how far they were ahead of the new rate since it was set, in seconds of it
	for last < first+24<<20 {
		last = sent()
		longest = max(longest, float64(last-before)/float64(half)-time.Since(changed).Seconds())
		time.Sleep(time.Millisecond)
	}
	seconds := time.Since(begin).Seconds()
	cancel()
	clients.Wait()
	// A slow machine makes it later, never sooner.
	if most := burst + float64(half)*seconds + 2*local + float64(half)*ttl; float64(last-first) > most {
		t.Errorf("%d bytes in %.2f s at half of the rate, at most %.0f were due", last-first, seconds, most)
	}
	t.Logf("after the rate was cut in half: %d bytes in %.2f s, %.2f of the new rate; since it was set ahead of it by %.3f s of it at most", last-first, seconds, float64(last-first)/seconds/float64(half), longest)
	for _, w := range workers {
		w.signal(unix.SIGTERM)
		if code := w.exitCode(); code != 0 {
			t.Errorf("exit code %d", code)
		}
	}
}

// download reads url, again and again, until ctx ends.
func download(ctx context.Context, url string) {
	client := &http.Transport{DisableKeepAlives: true}
	for ctx.Err() == nil {
		res, err := client.RoundTrip(must(http.NewRequestWithContext(ctx, http.MethodGet, url, nil)))
		if err != nil {
			continue // refused, or the end
		}
		_, _ = io.Copy(io.Discard, res.Body) // until the end
		_ = res.Body.Close()
	}
}

// untilMetrics asks a worker until its metrics have that.
func (p *process) untilMetrics(want string) {
	p.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		_, _, page := get(p.t, p.admin+"/metrics")
		switch {
		case regexp.MustCompile(regexp.QuoteMeta(want)).Match(page):
			return
		case time.Now().After(end):
			p.t.Fatalf("%q has not come", want)
		}
	}
}

var sentBytes = regexp.MustCompile(`talon_sent_bytes_total\{[^}]*\} ([0-9.e+]+)`)

// sent is what the sockets of the worker's clients have taken.
func (p *process) sent() (sum int) {
	p.t.Helper()
	_, _, page := get(p.t, p.admin+"/metrics")
	for _, m := range sentBytes.FindAllSubmatch(page, -1) {
		sum += int(must(strconv.ParseFloat(string(m[1]), 64)))
	}
	return sum
}
