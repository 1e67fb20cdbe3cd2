package admin

import (
	"bytes"
	"errors"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files instead of comparing with them")

// started is when the worker of these tests bound its port.
var started = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// testWorker has two rings with counters that differ in every field that is
// exported, so that a swapped pair shows in the golden files.
func testWorker() Worker {
	return Worker{
		Build:         Build{Version: "v1.2.3", Commit: "abc\"def\\", Go: "go1.26.8"},
		Addr:          "127.0.0.1:8080",
		Origin:        "/srv/objects",
		Tenants:       func() Tenants { return Tenants{Mode: "policy", Anonymous: "public", Note: "a policy"} },
		Policy:        func() Policy { return testPolicy },
		Tenancy:       func() (Tenancy, error) { return testTenancy(), nil },
		TopTenants:    1,
		AlwaysTenants: []string{"vip"},
		series:        newSeries(1, []string{"vip"}),
		Started:       started,
		Rings:         func() ([]Ring, error) { return []Ring{testRing(1), testRing(1000)}, nil },
		Shared: func() Shared {
			return Shared{ConnectionLimit: 61, ConnectionsFree: 62, InlineCloses: 63, AccessDropped: 64}
		},
		Draining:       func() bool { return false },
		OriginReadable: func() error { return nil },
	}
}

func testRing(k uint64) Ring {
	return Ring{
		Accepted: 11 * k, Open: 12 * k,
		Closed:   map[string]uint64{"peer": 13 * k, "idle": 14 * k},
		Requests: map[string]uint64{"200": 15 * k, "206": 16 * k, "404": 0},
		SentCopy: 17 * k, SentSendfile: 18 * k, ShortSends: 19 * k,
		FilesHit: 20 * k, FilesMissed: 21 * k, FilesDeferred: 22 * k, FilesChanged: 23 * k,
		ResidencyHits: 24 * k, Prefetches: 25 * k, Parked: 26 * k,
		AcceptRearms: 27 * k, RecvRearms: 28 * k, RecvPauses: 29 * k, BuffersOut: 30 * k,
		StaleCompleted: 31 * k, Turns: 32 * k,
		Enters: 33 * k, Submitted: 34 * k, Completed: 35 * k, SQFull: 36 * k, CQOverflow: 37 * k,
		Waits: 38 * k, Refused: 39 * k, Partial: 40 * k, Interrupted: 41 * k, Busy: 42 * k,
		RefusedBudget: 43 * k, RefusedFiles: 44 * k, AcceptPausesBudget: 45 * k, AcceptPausesFiles: 46 * k,
		RefusalsHeld: 147 * k, Starved: 47 * k, StarvedNow: 48 * k, BuffersHeld: 49 * k, InputsHeld: 50 * k, SlabsHeld: 51 * k,
		OpensOut: 52 * k, OpensRefused: 53 * k,
		Duration: Histogram{Upper: []float64{1e-6, 2e-6, 0.5, 1}, Count: []uint64{k, 0, 2 * k, 0, 3 * k}, Sum: 1.25 * float64(k)},
	}
}

// deaf makes ring 1 of w never answer.
func deaf(w Worker) Worker {
	w.Rings = func() ([]Ring, error) { return nil, errors.New("ring 1 did not answer within 1s") }
	return w
}

func draining(w Worker) Worker {
	w.Draining = func() bool { return true }
	return w
}

func get(w Worker, path string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	routes(w).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
	return rec
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *rewrite {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (-rewrite accepts it); got:\n%s", path, got)
	}
}
