package main

import (
	"math"
	"testing"

	"go.uber.org/goleak"

	"github.com/talon-worker/talon/bench/load"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRecovery(t *testing.T) {
	const want = 1000 / slice // bytes a second: 1000 in a slice
	run := func(after ...int64) []int64 { return append(make([]int64, calmAfter*perSecond), after...) }
	tests := []struct {
		name   string
		slices []int64
		want   float64
	}{
		{"at once", run(1000, 900, 1000), 0},
		{"after two slices", run(0, 500, 1000, 1000, 1000), 2 * slice},
		{"a slice alone is luck", run(1000, 0, 1000, 1000, 950), 2 * slice},
		{"never", run(899, 899, 899, 1000, 1000), math.NaN()},
		{"before the calm does not count", append(run(0, 0, 0)[:0], 1000, 1000, 1000), math.NaN()},
	}
	for _, tt := range tests {
		if got := recovery(tt.slices, want); got != tt.want && !(math.IsNaN(got) && math.IsNaN(tt.want)) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// Everything that was answered is in the cost of an answer, and connections cut off in the warm-up are spread over all the time.
func TestAdd(t *testing.T) {
	var c cell
	c.add(&load.Result{Seconds: 1, Server: &load.ServerCPU{Busy: 0.5}, Streams: []load.StreamResult{{Rate: 10_000},
		{Rate: 2000, RefusedRate: 10_000, ByFault: map[string]int64{"eof": 5000, "recv": 1000}}}}, 2)
	if c.Vain[0] != 12_000 || c.Cost[0] != 500_000.0/24_000 {
		t.Errorf("%v in vain, %v us per answer; want 12000 and %v", c.Vain[0], c.Cost[0], 500_000.0/24_000)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, args := range [][]string{{"--times", "0.5"}, {"--times", ""}, {"--limit", "1"}, {"--ban", "0"}, {"--flood", "-1"}, {"--server-cpu", "1"}, {"x"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
}
