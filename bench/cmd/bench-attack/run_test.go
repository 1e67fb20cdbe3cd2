package main

import (
	"math"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/talon-worker/talon/bench/bed/bedtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The whole way with a hundredth of the attackers: every attack, the counters of talon, results, nothing
// left behind.
func TestEndToEnd(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("needs a core for the server and one for the client")
	}
	text, _ := bedtest.Run(t, "attack", parse, (*options).run, "--rounds", "1", "--window", "0.5", "--warmup", "0.1", "--scale", "0.01", "--rate", "200", "--conns", "2", "--hygiene=false")
	rows := regexp.MustCompile(` +`).ReplaceAllString(text, " ")
	for _, want := range []string{"\nslowloris 50 ", "\nslow readers 10 ", "\nsilence 200 ", "\npipeline 1 ", "\nsilence: closed for peer "} {
		if !strings.Contains(rows, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, args := range [][]string{{"--attacks", "smurf"}, {"--rounds", "0"}, {"--scale", "3"}, {"--rate", "0"}, {"--server-cpu", "1"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

// Every bound is one that a row can miss.
func TestTableJudges(t *testing.T) {
	for _, c := range []struct {
		p99, rss float64
		errors   int64
		holds    bool
	}{{199, 90, 0, true}, {201, 90, 0, false}, {100, 124, 0, false}, {100, 90, 1, false}, {math.NaN(), 90, 0, false}} {
		a := &arm{kind: &kinds[0], calmP50: []float64{50}, calmP99: []float64{100}, p50: []float64{60}, p99: []float64{c.p99}, busy: []float64{1}, rss: []float64{c.rss}, errors: c.errors}
		s := &siege{arms: []*arm{a}, base: 40, rings: 1} // 40 + 59 + 24 = 123 MiB
		if text, holds := s.table(); holds != c.holds {
			t.Errorf("%+v: holds %v\n%s", c, holds, text)
		}
	}
}
