package main

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/talon-worker/talon/policy"
)

// rig is a tenancy without a worker: what it puts in force is recorded.
type rig struct {
	*tenancy
	t   *testing.T
	log bytes.Buffer
	had []*inForce
	err error // of the next put
}

func newRig(t *testing.T, text string) *rig {
	t.Helper()
	f := defaults()
	r := &rig{t: t}
	r.tenancy = &tenancy{
		path: filepath.Join(t.TempDir(), "p.yaml"), log: slog.New(slog.NewTextHandler(&r.log, nil)), open: f.leftOpen(),
		fit: func(s *policy.Set, open tenantDefaults) problems { return f.fits("p.yaml", s, open) },
		put: func(p *inForce) error {
			if r.err != nil {
				return r.err
			}
			r.had = append(r.had, p)
			return nil
		},
		warn: func(*inForce) []string { return nil },
	}
	r.write(text)
	return r
}

func (r *rig) write(text string) {
	r.t.Helper()
	if err := os.WriteFile(r.path, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
}

// wants holds the rig to the number in force, how often another file was refused, what is said to be wrong, and the lines logged since.
func (r *rig) wants(step string, number, failed uint64, stale, logged string) {
	r.t.Helper()
	text := r.log.String()
	r.log.Reset()
	err := r.stale()
	switch {
	case r.now.Load().number != number || len(r.had) != int(number):
		r.t.Errorf("%s: number %d, %d put in force; want %d", step, r.now.Load().number, len(r.had), number)
	case r.failed.Load() != failed:
		r.t.Errorf("%s: %d files refused, want %d", step, r.failed.Load(), failed)
	case (err == nil) != (stale == "") || err != nil && !strings.Contains(err.Error(), stale):
		r.t.Errorf("%s: stale: %v, want %q", step, err, stale)
	case (logged == "") != (text == "") || !strings.Contains(text, logged):
		r.t.Errorf("%s: logged %q, want %q", step, text, logged)
	}
}

func TestPolicyStaysInForce(t *testing.T) {
	const good = "tenants: [{id: a, weight: 2}]\n"
	r := newRig(t, "tenants: [{id: a, weight: 0}]\n")
	if found := r.begin(); len(found) != 1 || !strings.Contains(found.Error(), "p.yaml:1: weight: zero is refused") || r.now.Load() != nil {
		t.Fatalf("a bad first file: %v", found)
	}
	r = newRig(t, good)
	if found := r.begin(); len(found) != 0 {
		t.Fatal(found)
	}
	r.wants("begun", 1, 0, "", "")
	r.reload(nil)
	r.wants("nothing has changed", 1, 0, "", "")

	r.write("tenants: [{id: a, weight: 3}]\n")
	r.reload(nil)
	r.wants("a weight", 2, 0, "", "~ a weight: 3, was 2")
	if g := r.now.Load().generation("a"); g != 2 {
		t.Errorf("generation %d of the changed tenant, want 2", g)
	}

	r.write("tenants: [{id: a, weight: x}]\n")
	r.reload(nil)
	r.wants("a bad file", 2, 1, "p.yaml:1: weight: ", "level=ERROR msg=\"the policy is wrong and was not taken; the one before stays in force\"")
	r.reload(nil)
	r.wants("a neighbour of the bad file has changed", 2, 1, "p.yaml:1: weight: ", "")
	open := r.open
	r.reload(&open)
	r.wants("SIGHUP says it again", 2, 1, "p.yaml:1: weight: ", "level=ERROR")
	r.write("tenants: [{id: a, weight: y}]\n")
	r.reload(nil)
	r.wants("another bad file", 2, 2, `"y" is not`, "level=ERROR")
	if err := os.Remove(r.path); err != nil {
		t.Fatal(err)
	}
	r.reload(nil)
	r.wants("no file", 2, 3, "no such file or directory", "level=ERROR")
	r.write("tenants: [{id: a, weight: 3}]\n")
	r.reload(nil)
	r.wants("the good one is back", 2, 3, "", "")

	r.write("tenants: [{id: a, limits: {client_egress_bytes: {rate: 1MiB/s, burst: 64KiB, local_burst: 64KiB}}}]\n")
	r.reload(nil)
	r.wants("one that this worker cannot do", 2, 4, "burst 64KiB is under one chunk (transfer-chunk 512KiB)", "level=ERROR")
	r.write("tenants: [{id: a, weight: 5}]\n")
	r.err = errors.New("the table is full")
	r.reload(nil)
	r.wants("one that finds no room", 2, 5, "the table is full", "level=ERROR")
	r.err = nil
	r.write(good)
	r.reload(nil)
	r.wants("another one when there is room", 3, 5, "", "number=3")
	if g := r.now.Load().generation("a"); g != 4 {
		t.Errorf("generation %d, want 4: the limiter may know a part of the third, which was not taken", g)
	}
}

// TestLeftOpen: what a policy does not say comes from the settings, also when only those change.
func TestLeftOpen(t *testing.T) {
	r := newRig(t, "tenants: [{id: a, queue: {requests: 7, deadline: 3s}, max_connections: 9}]\n")
	if found := r.begin(); len(found) != 0 {
		t.Fatal(found)
	}
	open := tenantDefaults{weight: 5, queueRequests: 1, queueBytes: 2, queueDeadline: time.Second, queueTarget: time.Millisecond, maxInflight: 3, maxConnections: 4}
	r.reload(&open)
	r.wants("other defaults", 2, 0, "", "differences=0")
	if found := r.now.Load().open; found != open {
		t.Errorf("in force with %+v, want %+v", found, open)
	}
	for _, c := range []struct {
		what      string
		got, want int64
	}{
		{"written", int64(unlessOpen(7, open.queueRequests)), 7}, {"open", int64(unlessOpen(0, open.queueRequests)), 1},
		{"written", int64(unlessOpen(3*time.Second, open.queueDeadline)), 3e9}, {"open", unlessOpen(0, open.queueBytes), 2},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.what, c.got, c.want)
		}
	}
	if _, err := r.now.Load().table(); err != nil {
		t.Error(err)
	}
	open.queueDeadline = time.Hour
	open.queueTarget = 4 * time.Second
	r.reload(&open)
	r.wants("a target above the policy's deadline", 2, 1, "the queue's target, 4s, is not under its deadline, 3s", "level=ERROR")
}

// TestFits: what of a policy this worker cannot do.
func TestFits(t *testing.T) {
	tenants := func(limits string) string {
		return "tenants: [{id: a, weight: 1, limits: {client_egress_bytes: {" + limits + "}}}, {id: b, weight: 9}]\n"
	}
	const big = "rate: 1GiB/s, burst: 1GiB, local_burst: 1MiB"
	for _, c := range []struct {
		name, text string
		change     func(*serveFlags)
		want       []string
	}{
		{"all", tenants(big), func(*serveFlags) {}, nil},
		{"a burst of a chunk", tenants("rate: 1GiB/s, burst: 512KiB, local_burst: 512KiB"), func(*serveFlags) {}, nil},
		{"a burst under a chunk", tenants("rate: 1GiB/s, burst: 511KiB, local_burst: 511KiB"), func(*serveFlags) {}, []string{"tenant a: client_egress_bytes: burst 511KiB is under one chunk (transfer-chunk 512KiB)"}},
		{"one that is off", tenants("rate: 1GiB/s, burst: 511KiB, local_burst: 511KiB, mode: off"), func(*serveFlags) {}, nil},
		{"a smaller chunk", tenants("rate: 1GiB/s, burst: 511KiB, local_burst: 511KiB"), func(f *serveFlags) { f.transferChunk = 256 << 10 }, nil},
		// A tenth of 2 MiB/s sends a chunk in 2.5 s.
		{"a share that is too slow", tenants(big), func(f *serveFlags) { f.egressRate = 2 << 20 },
			[]string{"tenant a: its share of egress-rate, 209715/s, sends one chunk of 512KiB in 2.5s, longer than the queue's deadline, 2s"}},
		{"a longer deadline", tenants(big), func(f *serveFlags) { f.egressRate, f.tenantQueueDeadline = 2<<20, 3*time.Second }, nil},
		{"a target over the deadline", tenants(big), func(f *serveFlags) { f.tenantQueueTarget = 2 * time.Second },
			[]string{"tenant a: the queue's target, 2s, is not under its deadline, 2s", "tenant b: the queue's"}},
	} {
		f := defaults()
		c.change(&f)
		set, found := parsePolicy("p.yaml", []byte(c.text))
		if len(found) > 0 {
			t.Fatal(found)
		}
		found = f.fits("p.yaml", set, f.leftOpen())
		if len(found) != len(c.want) {
			t.Errorf("%s: %v, want %d", c.name, found, len(c.want))
			continue
		}
		for i := range found {
			if !strings.HasPrefix(found[i].Error(), "p.yaml: "+c.want[i]) {
				t.Errorf("%s: %v, want %s", c.name, found[i], c.want[i])
			}
		}
	}
}
