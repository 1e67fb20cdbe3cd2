package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/talon-worker/talon/bench/bed"
	"github.com/talon-worker/talon/bench/excess"
	"github.com/talon-worker/talon/bench/load"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A plan has as many faults as it was asked for, of every kind, none outside its bounds, and in no episode two for one worker or two about the
// policy, whoever the owner is.
func TestPlan(t *testing.T) {
	for seed := range uint64(200) {
		o := &options{Workers: 2 + int(seed%7), Faults: 60, Seed: seed, Longest: 10 * time.Second, Etcd: seed%2 == 0}
		all := o.plan()
		n, seen := 0, map[kind]int{}
		for _, e := range all {
			n += len(e)
			e.aim(int(seed) % o.Workers)
			var hit []int
			others := 0
			for _, f := range e {
				seen[f.Kind]++
				if f.Hold < 0 || f.Hold > 10*time.Second || f.Kind == stopped && f.Hold < shortestPause || f.After < 0 || f.After > time.Second {
					t.Errorf("seed %d: %+v", seed, f)
				}
				if !f.Kind.onWorker() {
					others++
					continue
				}
				if slices.Contains(hit, f.Worker) {
					t.Errorf("seed %d: worker %d twice in %+v", seed, f.Worker, e)
				}
				hit = append(hit, f.Worker)
			}
			if others > 1 || len(e) > mostAtOnce || len(e) == 0 {
				t.Errorf("seed %d: %+v", seed, e)
			}
		}
		for k := killed; k < noEtcd || k == noEtcd && o.Etcd; k++ {
			if seen[k] < 60/len(seen)-1 {
				t.Errorf("seed %d: %v came up %d times", seed, k, seen[k])
			}
		}
		if n != 60 || seen[noEtcd] > 0 != o.Etcd {
			t.Errorf("seed %d: %d faults, kinds %v", seed, n, seen)
		}
	}
}

// second makes the result of a client that received so many bytes in each slice of 100 ms.
func second(from int64, bytes ...int64) *load.Result {
	return &load.Result{From: from, Seconds: float64(len(bytes)) / 10, Streams: []load.StreamResult{{Slices: bytes}}}
}

func repeat(n int, bytes int64) []int64 { return slices.Repeat([]int64{bytes}, n) }

// The judge takes the clients' word, wherever their windows begin: through two workers twice the limit is too much, through each of them it is not.
func TestJudge(t *testing.T) {
	o := &options{Workers: 2, Rate: 1000, Burst: 100, LocalBurst: 10, Slice: 100 * time.Millisecond, TTL: 100 * time.Millisecond}
	for _, tt := range []struct {
		name           string
		each           int64
		kept, delivers bool
	}{{"half each", 50, true, true}, {"nothing much", 40, true, false}, {"the whole each", 100, false, true}} {
		out := &outcome{}
		out.judge(o, &cluster{}, []*load.Result{second(0, repeat(40, tt.each)...), second(3e7, repeat(40, tt.each)...)})
		if out.kept() != tt.kept || out.delivers() != tt.delivers {
			t.Errorf("%s: kept %v, delivers %v: worst %+v, delivered %.3f", tt.name, out.kept(), out.delivers(), out.worst, out.total)
		}
		if len(out.rates) != 2 || len(out.charts(o)) != 2 || !strings.Contains(out.table(o), "their bytes are in no metric") {
			t.Errorf("%s: %v\n%s", tt.name, out.rates, out.table(o))
		}
	}
}

// After an episode it is looked for when a second with what is due begins, and an episode without one is short.
func TestRelief(t *testing.T) {
	o := &options{Workers: 2, Rate: 1000, Burst: 100, LocalBurst: 10, Slice: 100 * time.Millisecond, TTL: 100 * time.Millisecond}
	out := &outcome{planned: 2, episodes: []took{{Faults: make(episode, 1), Mended: 1e9}, {Faults: make(episode, 1), Mended: 6e9}}}
	slicesOf := append(append(append(repeat(10, 100), repeat(5, 0)...), repeat(50, 100)...), repeat(40, 50)...)
	out.judge(o, &cluster{}, []*load.Result{second(0, slicesOf...), second(0, repeat(len(slicesOf), 0)...)})
	if got := out.episodes[0]; got.Relief < 0.4 || got.Relief > 0.5 || got.Due != 1 {
		t.Errorf("relief %v after half a second of nothing, delivered %v", got.Relief, got.Due)
	}
	if got := out.episodes[1]; got.Due != 0.5 || out.short() != 1 || out.delivers() {
		t.Errorf("delivered %v of half the rate, %d short", got.Due, out.short())
	}
	if text := out.table(o); !strings.Contains(text, "2 of 2 faults in 2 episodes: 2 kill -9,") || !strings.Contains(text, "SHORT") {
		t.Error(text)
	}
}

func TestPolicyText(t *testing.T) {
	c := &cluster{o: &options{Burst: 4 << 20, LocalBurst: 1 << 20}, peers: []string{"127.0.0.1:1", "127.0.0.1:2"}, tenant: bed.NewTenant("greedy", "")}
	text := c.policy(1234)
	for _, want := range []string{`- {id: w1, addr: "127.0.0.1:1"}`, "rate: 1234B/s, burst: 4194304B, local_burst: 1048576B"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestReceived(t *testing.T) {
	got := received(second(1000, 0, 5), time.Microsecond)
	if want := (excess.Event{At: 3000, Bytes: 5}); len(got) != 1 || got[0] != want {
		t.Errorf("%+v", got)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, args := range [][]string{{"--workers", "1"}, {"--workers", "9"}, {"--rate", "5"}, {"--local-burst", "0"}, {"--faults", "-1"}, {"--longest-pause", "11s"}, {"x"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
	if o, err := parse([]string{"--faults", "2"}); err != nil || o.TTL != 200*time.Millisecond {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := parse(nil); err != nil || o.TTL != 20*time.Millisecond || o.Workers != 4 {
		t.Errorf("%+v, %v", o, err)
	}
}
