package main

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/talon-worker/talon/bench/bed"
	"github.com/talon-worker/talon/bench/load"
)

func measured(name string, rates []float64, p99 float64) *arm {
	a := &arm{Name: name, beside: true}
	for _, r := range rates {
		if math.IsNaN(r) {
			a.add(nil, r)
			continue
		}
		a.add(&load.Result{Server: &load.ServerCPU{Busy: 1}, Streams: []load.StreamResult{{Rate: r, P99US: p99}, {GBps: 2, P50US: 8000}}}, 0.9)
	}
	return a
}

func TestJudge(t *testing.T) {
	nan := math.NaN()
	tests := []struct {
		name         string
		probe, blind []float64
		p99          float64
		holds        bool
		code         int // with --strict
	}{
		{"both hold", []float64{20000, 21000}, []float64{1000, 1000}, 900, true, 0},
		{"too slow", []float64{19000, 19000}, []float64{1000, 1000}, 900, false, 4},
		{"p99 too long", []float64{30000, 30000}, []float64{1000, 1000}, 5001, false, 4},
		{"a refused round is left out", []float64{nan, 21000}, []float64{1000, 1000}, 900, true, 0},
		{"refused in every round", []float64{nan, nan}, []float64{1000, 1000}, 900, false, 3},
	}
	for _, tt := range tests {
		v := judge(measured("probing", tt.probe, tt.p99), measured("probe off", tt.blind, 24000), measured("hot alone", []float64{40000, 40000}, 100))
		b := &beside{o: &options{Runner: bed.Runner{Strict: true}}}
		if v.holds() != tt.holds || b.exitCode(v) != tt.code {
			t.Errorf("%s: %+v holds %v, exit %d; want %v and %d", tt.name, v, v.holds(), b.exitCode(v), tt.holds, tt.code)
		}
		if _, err := json.Marshal(v); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestTableAndJSONShowMissingFigures(t *testing.T) {
	a := measured("probing", []float64{100, math.NaN()}, 5)
	a.refused = []string{"cold: Little's law"}
	if text := table([]arm{*a}); !strings.Contains(text, "refused 1 times, last: cold: Little's law") {
		t.Errorf("the table hides a refusal:\n%s", text)
	}
	b, err := json.Marshal(a)
	if err != nil || !strings.Contains(string(b), `"hot_req_per_s":[100,null]`) {
		t.Errorf("%v: %s", err, b)
	}
}

func TestParseRefusals(t *testing.T) {
	for _, args := range []string{"--size 1M", "--size x", "--rounds 0", "--hot 0", "--evict-every 0s", "--client-cpu 0", "extra"} {
		if _, err := parse(strings.Fields(args)); err == nil {
			t.Errorf("%s: accepted", args)
		}
	}
}
