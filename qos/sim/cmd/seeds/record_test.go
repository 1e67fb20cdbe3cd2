package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/talon-worker/talon/qos/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A record that is written in parts says the same as one that is written at once, and whatever was cut off is run again.
func TestRecordGoesOnWhereItStopped(t *testing.T) {
	dir := t.TempDir()
	h := header{Commit: "c0ffee", First: 5, Seeds: 6}
	at := func(name string) *record {
		r, err := open(filepath.Join(dir, name), h)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	add := func(r *record, n uint64) {
		if err := r.add(slice(r.next, n)); err != nil {
			t.Fatal(err)
		}
	}
	whole := at("whole")
	add(whole, 6)

	add(at("parts"), 2)
	f, err := os.OpenFile(filepath.Join(dir, "parts.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"first":7,"seeds":`); err != nil { // killed while it wrote
		t.Fatal(err)
	}
	f.Close()
	h.Seeds = 100 // more are asked for now
	parts := at("parts")
	if parts.next != 7 {
		t.Fatalf("goes on with seed %d, want 7", parts.next)
	}
	add(parts, 4)
	if again := at("parts"); again.next != 11 || again.total != whole.total || again.parts != 2 || again.cpu <= 0 {
		t.Errorf("in parts %d seeds to %d, %+v\nat once %+v", again.total.Runs, again.next-1, again.total, whole.total)
	}
	text, err := os.ReadFile(filepath.Join(dir, "parts.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"commit c0ffee", "seeds 5 to 10, 6 of 100 asked for, in 2 slices", "0 seeds failed", "message lost"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the record does not say %q:\n%s", want, text)
		}
	}
}

// A record is about one commit and one range, and has no gaps.
func TestRecordsAreNotMixed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r")
	if _, err := open(path, header{Commit: "a", First: 1}); err != nil {
		t.Fatal(err)
	}
	for _, h := range []header{{Commit: "b", First: 1}, {Commit: "a", First: 2}} {
		if _, err := open(path, h); err == nil || !strings.Contains(err.Error(), "-out") {
			t.Errorf("%+v goes on with the record of another: %v", h, err)
		}
	}
	r, err := open(path, header{Commit: "a", First: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.append(part{First: 9, Seeds: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := open(path, header{Commit: "a", First: 1}); err == nil || !strings.Contains(err.Error(), "1 is next") {
		t.Errorf("a gap of 8 seeds goes unseen: %v", err)
	}
}

// A record that was begun yesterday is gone on with; another commit's is left alone.
func TestRecordIsFoundAgain(t *testing.T) {
	dir, now := t.TempDir(), time.Date(2026, 12, 1, 0, 5, 0, 0, time.UTC)
	for _, name := range []string{"20261130-0123456789.txt", "20261130-aaaaaaaaa-seeds.jsonl", "20261129-bbbbbbbbb-seeds.jsonl"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for commit, want := range map[string]string{"aaaaaaaaa1234": "20261130-aaaaaaaaa-seeds", "ccccccccc1234": "20261201-ccccccccc-seeds"} {
		if got := recordOf(dir, commit, now); got != filepath.Join(dir, want) {
			t.Errorf("the record of %s is %s, want %s", commit, got, want)
		}
	}
}

// Failed seeds and holes are listed, and decide the exit status.
func TestVerdict(t *testing.T) {
	r := record{header: header{First: 1}, total: sim.Result{Runs: 10}}
	if err := r.verdict(); err != nil {
		t.Errorf("ten good runs: %v", err)
	}
	r.failed = []failure{{4711, "broken"}}
	if err := r.verdict(); err == nil || !strings.Contains(r.text(), "seed 4711: broken") || !strings.Contains(r.text(), "-first 4711") {
		t.Errorf("a failed seed: %v\n%s", err, r.text())
	}
	r = record{header: header{First: 1}, total: sim.Result{Runs: 10_000}}
	if err := r.verdict(); err == nil || !strings.Contains(r.text(), "short: faults: message lost") {
		t.Errorf("nothing came up: %v\n%s", err, r.text())
	}
}

func TestDeadline(t *testing.T) {
	now := time.Date(2026, 11, 30, 17, 30, 0, 0, time.UTC)
	for s, want := range map[string]time.Duration{"18:25": 55 * time.Minute, "17:00": 23*time.Hour + 30*time.Minute} {
		if got, err := deadline(s, now); err != nil || got.Sub(now) != want {
			t.Errorf("%s is in %v (%v), want %v", s, got.Sub(now), err, want)
		}
	}
	if got, err := deadline("", now); err != nil || !got.IsZero() {
		t.Errorf("no deadline is %v, %v", got, err)
	}
	if _, err := deadline("soon", now); err == nil {
		t.Error("soon is no time of day")
	}
}
