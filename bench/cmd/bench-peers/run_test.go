package main

import (
	"bytes"
	"io"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/talon-worker/talon/bench/bed/bedtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The whole way, once through every arm: a worker that goes bad comes back each time, results, nothing left behind.
func TestEndToEnd(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("needs a core for the worker and one for the client")
	}
	text, _ := bedtest.Run(t, "peers", parse, (*options).run, "--rounds", "1", "--window", "0.2", "--warmup", "0.05", "--conns", "2", "--connects", "200", "--hygiene=false")
	rows := regexp.MustCompile(` +`).ReplaceAllString(text, " ")
	for _, name := range armNames() {
		if !strings.Contains(rows, "\n"+name+" ") {
			t.Errorf("no row of %s in:\n%s", name, text)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, args := range [][]string{{"--arms", "smurf"}, {"--rounds", "0"}, {"--window", "0"}, {"--conns", "0"}, {"--connects", "0"}, {"--server-cpu", "1"}, {"x"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}

// An arm misses by its requests per second, by its p99, or by an error; what a control loses as well is not the worker's.
func TestTableJudges(t *testing.T) {
	calm := sample{Rate: 1000, P99: 100}
	for _, c := range []struct {
		hit, control sample
		errors       int64
		holds        bool
	}{
		{sample{Rate: 981, P99: 101}, calm, 0, true},
		{sample{Rate: 979, P99: 101}, calm, 0, false},
		{sample{Rate: 1000, P99: 103}, calm, 0, false},
		{sample{Rate: 1000, P99: 100}, calm, 1, false},
		{sample{Rate: 500, P99: 200}, sample{Rate: 500, P99: 200}, 0, true},
	} {
		a := &arm{name: connects, control: "connects-control", rounds: []round{{Calm: calm, Hit: c.hit, Errors: c.errors}}}
		control := &arm{name: "connects-control", rounds: []round{{Calm: calm, Hit: c.control}}}
		if text, holds := table([]*arm{a, control}); holds != c.holds {
			t.Errorf("%+v: holds %v\n%s", c, holds, text)
		}
	}
}

// What the relay adds to a connection is whole frames of what was said, or frames of the kind it is to flood with.
func TestFlooding(t *testing.T) {
	said := [][]byte{{0, 0, 0, 1, 7}, {0, 0, 0, 2, 8, 9}}
	for _, c := range []struct {
		mode   string
		frames int
	}{{pass, 0}, {drip, 0}, {beats, 4 << 10}, {replay, 2}, {elements, 1}} {
		in, n := bytes.NewReader(flooding(c.mode, said)), 0
		for {
			if _, err := wholeFrame(in); err != nil {
				if err != io.EOF {
					t.Errorf("%s: %v", c.mode, err)
				}
				break
			}
			n++
		}
		if n != c.frames {
			t.Errorf("%s: %d frames, want %d", c.mode, n, c.frames)
		}
	}
	if b := flooding(huge, nil); len(b) != 4+16<<10 || b[1] != 0x10 {
		t.Errorf("huge: %d bytes, % x", len(b), b[:4])
	}
}
