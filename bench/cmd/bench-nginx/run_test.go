package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The whole way with a server that needs nothing but Go: build, start, measure, judge, append, stop.
func TestEndToEnd(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("needs a core for the server and one for the client")
	}
	t.Chdir("../../..")
	dir, results := t.TempDir(), t.TempDir()
	o, err := parse([]string{"--servers", "nethttp", "--sizes", "4K", "--conns", "2", "--rounds", "2", "--window", "0.05", "--warmup", "0.01",
		"--hygiene=false", "--dir", dir, "--results", results})
	if err != nil {
		t.Fatal(err)
	}
	if code, err := o.run(context.Background()); err != nil || code != 0 && code != 3 { // 3: a stolen core may refuse every round
		t.Fatalf("exit %d, %v", code, err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%s was left behind", left[0].Name())
	}
	names, _ := filepath.Glob(results + "/*-nginx.jsonl")
	if len(names) != 1 {
		t.Fatalf("results: %v", names)
	}
	b, _ := os.ReadFile(names[0])
	var rec struct {
		Cells []struct {
			Rows []struct {
				Server string
				Rate   []float64 `json:"req_per_s"`
			}
		}
	}
	if err := json.Unmarshal(b, &rec); err != nil || len(rec.Cells) != 1 || len(rec.Cells[0].Rows) != 1 || len(rec.Cells[0].Rows[0].Rate) != 2 {
		t.Errorf("%v: %s", err, b)
	}
	text, _ := os.ReadFile(strings.TrimSuffix(names[0], "jsonl") + "txt")
	if !strings.Contains(string(text), "WITHOUT nice and autogroup") || !strings.Contains(string(text), "\nnethttp ") {
		t.Errorf("the text says neither that hygiene was off nor who was measured:\n%s", text)
	}
}

func TestCancelledRunLeavesNothing(t *testing.T) {
	t.Chdir("../../..")
	dir, results := t.TempDir(), t.TempDir()
	o, err := parse([]string{"--servers", "nethttp", "--sizes", "4K", "--conns", "2", "--hygiene=false", "--dir", dir, "--results", results})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if code, err := o.run(ctx); code != 1 || err == nil {
		t.Errorf("exit %d, %v; want 1 and the cause", code, err)
	}
	for _, d := range []string{dir, results} {
		if left, _ := os.ReadDir(d); len(left) > 0 {
			t.Errorf("%s was left behind", left[0].Name())
		}
	}
}
