package main

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/talon-worker/talon/bench/bed"
	"github.com/talon-worker/talon/bench/load"
)

// fixed is a row that measured the same in each of three rounds.
func fixed(server string, rate, cpu, busy float64) row {
	r := row{Server: server}
	for range 3 {
		r.add(&load.Result{ClientIdle: 0.3, Server: &load.ServerCPU{Busy: busy, PerRequest: cpu},
			Streams: []load.StreamResult{{Rate: rate, GBps: 1, P50US: 1, P99US: 2, LittleConn: 16}}})
	}
	return r
}

func testCell(size string, talon row) *cell {
	c := &cell{Size: size, Conns: 16, Rows: []row{talon, fixed("nginx", 100, 10, 0.95), fixed("nginx-nopush", 90, 9, 0.95),
		fixed("nethttp", 500, 1, 0.95), fixed("limit", 200, 5, 0.95)}}
	c.Verdict = judge(c)
	return c
}

func TestJudge(t *testing.T) {
	tests := []struct {
		name, size string
		talon      row
		basis      string
		word       string
	}{
		{"goal", "4K", fixed("talon", 150, 6, 0.95), "req/s", goal},
		{"between floor and goal", "4K", fixed("talon", 140, 6, 0.95), "req/s", pass},
		{"below the floor", "4K", fixed("talon", 134, 6, 0.95), "req/s", short},
		{"client bound: CPU decides, goal", "4K", fixed("talon", 100, 6, 0.5), "CPU per request", goal},
		{"client bound: CPU decides, short", "4K", fixed("talon", 200, 7, 0.5), "CPU per request", short},
		{"large and fast enough, yet far from the limit", "1M", fixed("talon", 169, 6, 0.95), "req/s", short},
		{"large, near the limit", "1M", fixed("talon", 171, 6, 0.95), "req/s", goal},
		{"a size without a target", "2K", fixed("talon", 300, 6, 0.95), "req/s", ""},
	}
	for _, tt := range tests {
		v := testCell(tt.size, tt.talon).Verdict
		if v.Basis != tt.basis || v.Word != tt.word {
			t.Errorf("%s: decided by %s: %q; want %s: %q (%+v)", tt.name, v.Basis, v.Word, tt.basis, tt.word, v)
		}
		if v.ByRate != "nginx" || v.ByCPU != "nginx-nopush" {
			t.Errorf("%s: best are %s and %s, want nginx by rate and nginx-nopush by CPU", tt.name, v.ByRate, v.ByCPU)
		}
	}
}

// Without talon, or without nginx, there is nothing to judge, and the table still prints.
func TestJudgeWithoutAPeer(t *testing.T) {
	c := &cell{Size: "4K", Rows: []row{fixed("nginx", 1, 1, 1)}}
	if judge(c) != nil {
		t.Error("a verdict without talon")
	}
	c = &cell{Size: "4K", Rows: []row{fixed("talon", 1, 1, 1)}}
	if c.Verdict = judge(c); c.Verdict.Word != "" || !strings.Contains(c.table(), "no verdict") {
		t.Errorf("a verdict without nginx: %+v", c.Verdict)
	}
}

// A refused round is a hole: it counts for nobody, and JSON shows null.
func TestRefusedRound(t *testing.T) {
	talon := fixed("talon", 150, 6, 0.95)
	talon.Rate[1], talon.CPU[1] = math.NaN(), math.NaN()
	talon.Refuse = []string{"Little's law"}
	c := testCell("4K", talon)
	if c.Verdict.Word != goal || talon.good() != 2 {
		t.Errorf("%q with %d good rounds", c.Verdict.Word, talon.good())
	}
	if text := c.table(); !strings.Contains(text, "2 of 3 rounds good") {
		t.Errorf("the table hides it:\n%s", text)
	}
	b, err := json.Marshal(c)
	if err != nil || !strings.Contains(string(b), `"req_per_s":[150,null,150]`) {
		t.Errorf("%v: %s", err, b)
	}
	for i := range talon.Rate {
		talon.Rate[i] = math.NaN()
	}
	c = testCell("4K", talon)
	if code := (&options{}).exitCode([]*cell{c}); code != 3 || c.Verdict.Word != "" {
		t.Errorf("refused in every round: exit %d, verdict %q; want 3 and none", code, c.Verdict.Word)
	}
}

// With a policy talon must keep 0.95 of its speed: of its requests where both were the bottleneck, else of its CPU per request.
func TestWeigh(t *testing.T) {
	for _, tt := range []struct {
		name   string
		policy row
		basis  string
		word   string
	}{
		{"free", fixed(withPolicy, 150, 6, 0.95), "req/s", pass},
		{"at the floor", fixed(withPolicy, 142.5, 9, 0.95), "req/s", pass},
		{"below it", fixed(withPolicy, 142, 6, 0.95), "req/s", short},
		{"client bound, cheap enough", fixed(withPolicy, 100, 6.3, 0.8), "CPU per request", pass},
		{"client bound, too dear", fixed(withPolicy, 150, 6.4, 0.8), "CPU per request", short},
		{"never good", fixed(withPolicy, math.NaN(), 6, 0.95), "req/s", ""},
	} {
		c := testCell("4K", fixed("talon", 150, 6, 0.95))
		c.Rows = append(c.Rows, tt.policy)
		c.Policy = weigh(c)
		if v := c.Policy; v.Basis != tt.basis || v.Word != tt.word {
			t.Errorf("%s: %+v, want %s: %q", tt.name, v, tt.basis, tt.word)
		}
		if code, want := (&options{Runner: bed.Runner{Strict: true}}).exitCode([]*cell{c}), map[string]int{pass: 0, short: 4, "": 3}[tt.word]; code != want {
			t.Errorf("%s: exit %d with --strict, want %d", tt.name, code, want)
		}
		for _, text := range []string{c.table(), summary([]*cell{c})} {
			if !strings.Contains(text, withPolicy+": ") {
				t.Errorf("%s: not a word of it in\n%s", tt.name, text)
			}
		}
	}
	if weigh(testCell("4K", fixed("talon", 150, 6, 0.95))) != nil {
		t.Error("something to weigh without a policy")
	}
}

func TestExitCodeStrict(t *testing.T) {
	cells := []*cell{testCell("4K", fixed("talon", 100, 10, 0.95))}
	if code := (&options{}).exitCode(cells); code != 0 {
		t.Errorf("a miss without --strict: exit %d", code)
	}
	if code := (&options{Runner: bed.Runner{Strict: true}}).exitCode(cells); code != 4 {
		t.Errorf("a miss with --strict: exit %d, want 4", code)
	}
}

func TestParseRefusals(t *testing.T) {
	for _, args := range []string{"--sizes 4Q", "--conns 0", "--servers apache", "--rounds 0", "--window 0", "--client-cpu 0", "extra", "--policy --servers nginx"} {
		if _, err := parse(strings.Fields(args)); err == nil {
			t.Errorf("%s: accepted", args)
		}
	}
	if o, err := parse([]string{"--talon-extra", "--copy-below=0"}); err != nil || !strings.HasSuffix(o.Args, "--rings 1 --copy-below=0") {
		t.Errorf("%v, %+v", err, o)
	}
}
