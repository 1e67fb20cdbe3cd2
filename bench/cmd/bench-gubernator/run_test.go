package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/talon-worker/talon/bench/bed/bedtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The whole way with two workers, and a script that says what gubernator would: one table, one record, nothing left behind.
func TestEndToEnd(t *testing.T) {
	fake := filepath.Join(t.TempDir(), "gubernator")
	script := "#!/bin/sh\necho '{\"from_ns\":1000,\"slice_ns\":1000000000,\"admitted\":[90,50],\"offered\":1000,\"messages\":8}'\n"
	if err := os.WriteFile(fake, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	text, _ := bedtest.Run(t, "gubernator", parse, (*options).run, "--workers", "2", "--rounds", "1", "--seconds", "2", "--rate", "50", "--burst", "50", "--local-burst", "10", "--offered", "200",
		"--gubernator", fake)
	for _, want := range []string{"\ntalon ", "\ngubernator leaky 100ms         140    0.933"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}

// What two clients saw is put on one axis that begins with the first of them, and what comes after the window is left out.
func TestJudge(t *testing.T) {
	o := &options{Workers: 2, Rate: 100, Burst: 100, LocalBurst: 10, Seconds: 3}
	const slice = int64(500 * time.Millisecond)
	w := o.judge([]part{
		{from: 1e9, slice: slice, admitted: []int64{100, 50, 50, 50, 50, 50, 99}},
		{from: 1e9 + slice, slice: slice, admitted: []int64{30, 0, 0, 0, 0, 77}},
	}, 1000, 7)
	if w.Admitted != 380 || !slices.Equal(w.PerSecond, []int64{180, 100, 100}) || w.Excess != 30 || w.Steady != 1 || w.OfIdeal != 0.95 || w.Messages != 7 {
		t.Errorf("%+v", w)
	}
}

// Talon passes with what is wanted in every round, and one round that is not decides; gubernator is not judged.
func TestTableJudges(t *testing.T) {
	o := &options{Rate: 100, Burst: 100, Seconds: 2}
	good := &window{OfIdeal: 1.05, Steady: 0.95, PerSecond: []int64{200, 95}}
	for _, c := range []struct {
		bad   *window
		holds bool
	}{{good, true}, {&window{OfIdeal: 1.06, Steady: 1, PerSecond: good.PerSecond}, false}, {&window{OfIdeal: 0.9, Steady: 0.94, PerSecond: good.PerSecond}, false}} {
		all := arms()
		for _, a := range all {
			a.windows = []*window{{OfIdeal: 3, Steady: 3, PerSecond: good.PerSecond}}
		}
		all[0].windows = []*window{good, c.bad, good}
		if text, holds := o.table(all); holds != c.holds {
			t.Errorf("%+v: holds %v\n%s", c.bad, holds, text)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, args := range [][]string{{"--workers", "1"}, {"--rounds", "0"}, {"--rate", "5"}, {"--local-burst", "1001"}, {"--offered", "999"}, {"--seconds", "1"}, {"x"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
