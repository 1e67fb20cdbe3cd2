package main

import (
	"context"
	"encoding/json"
	"os"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/talon-worker/talon/bench/bed/bedtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The whole way with a server that needs nothing but Go: build, start, measure, judge, append, stop.
func TestEndToEnd(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("needs a core for the server and one for the client")
	}
	text, record := bedtest.Run(t, "nginx", parse, (*options).run, "--servers", "nethttp", "--sizes", "4K", "--conns", "2", "--rounds", "2", "--window", "0.05", "--warmup", "0.01", "--hygiene=false")
	var rec struct {
		Cells []struct {
			Rows []struct {
				Server string
				Rate   []float64 `json:"req_per_s"`
			}
		}
	}
	if err := json.Unmarshal(record, &rec); err != nil || len(rec.Cells) != 1 || len(rec.Cells[0].Rows) != 1 || len(rec.Cells[0].Rows[0].Rate) != 2 {
		t.Errorf("%v: %s", err, record)
	}
	if !strings.Contains(text, "WITHOUT nice and autogroup") || !strings.Contains(text, "\nnethttp ") {
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
