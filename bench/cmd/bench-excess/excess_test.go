package main

import (
	"os"
	"path/filepath"
	"reflect"
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

// A plan has as many faults as it was asked for, of every kind, none outside its bounds, and in no episode two for one worker or two that
// would not let each other be mended, whoever the owners are.
func TestPlan(t *testing.T) {
	for seed := range uint64(200) {
		o := &options{Workers: 2 + int(seed%7), Tenants: 1 + int(seed%3), Faults: 60, Seed: seed, Longest: 10 * time.Second, Etcd: seed%2 == 0}
		all := o.plan()
		n, seen := 0, map[kind]int{}
		for _, e := range all {
			n += len(e)
			e.aim(func(tenant int) int { return (int(seed) + tenant) % o.Workers })
			var hit []int
			for i, f := range e {
				seen[f.Kind]++
				longest := map[kind]time.Duration{stopped: 10 * time.Second, compacted: 10 * time.Second, apart: longestHole, mute: longestHole, deaf: longestHole}[f.Kind]
				if f.Hold < 0 || f.Hold > max(longest, time.Second) || longest > 0 && f.Hold < shortestPause || f.After < 0 || f.After > time.Second || f.Tenant >= o.Tenants {
					t.Errorf("seed %d: %+v", seed, f)
				}
				if f.Late > 0 != (f.Kind == slow) || f.Times > 0 != (f.Kind == cut || f.Kind == flapping) {
					t.Errorf("seed %d: %+v", seed, f)
				}
				if f.Kind.onWorker() && slices.Contains(hit, f.Worker) {
					t.Errorf("seed %d: worker %d twice in %+v", seed, f.Worker, e)
				}
				if f.Kind.onWorker() {
					hit = append(hit, f.Worker)
				}
				for _, other := range e[:i] {
					if clash(f.Kind, other.Kind) {
						t.Errorf("seed %d: %v beside %v", seed, f, other)
					}
				}
			}
			if len(e) > mostAtOnce || len(e) == 0 {
				t.Errorf("seed %d: %+v", seed, e)
			}
		}
		for _, k := range o.kinds() {
			if seen[k] < 60/len(o.kinds())-1 {
				t.Errorf("seed %d: %v came up %d times", seed, k, seen[k])
			}
		}
		if n != 60 || len(seen) != len(o.kinds()) || o.Etcd != slices.Contains(o.kinds(), noEtcd) {
			t.Errorf("seed %d: %d faults, kinds %v", seed, n, seen)
		}
	}
}

func TestKinds(t *testing.T) {
	if _, err := parse([]string{"--etcd", "--only", strings.Join(kindNames[:], ",")}); err != nil {
		t.Error(err)
	}
	o := &options{Only: []string{"drain", "kill -9 of etcd"}}
	if got := o.kinds(); !slices.Equal(got, []kind{drained}) {
		t.Errorf("%v", got)
	}
	if clash(cut, cut) || clash(killed, halved) || !clash(halved, compacted) || !clash(compacted, halved) || !clash(halved, halved) || !clash(noEtcd, compacted) {
		t.Error("what must not overlap has changed")
	}
}

// second makes the result of a client that received so many bytes in each slice of 100 ms.
func second(from int64, bytes ...int64) *load.Result {
	return &load.Result{From: from, Seconds: float64(len(bytes)) / 10, Streams: []load.StreamResult{{Slices: bytes}}}
}

func repeat(n int, bytes int64) []int64 { return slices.Repeat([]int64{bytes}, n) }

func small() *options {
	return &options{Workers: 2, Tenants: 1, Rate: 1000, Burst: 100, LocalBurst: 10, Slice: 100 * time.Millisecond, TTL: 100 * time.Millisecond, Patience: healTime}
}

// The judge takes the clients' word, wherever their windows begin: through two workers twice the limit is too much, through each of them it is not.
func TestJudge(t *testing.T) {
	for _, tt := range []struct {
		name           string
		each           int64
		kept, delivers bool
	}{{"half each", 50, true, true}, {"nothing much", 40, true, false}, {"the whole each", 100, false, true}} {
		out := &outcome{}
		if err := out.judge(small(), &cluster{}, []*load.Result{second(0, repeat(40, tt.each)...), second(3e7, repeat(40, tt.each)...)}, nil); err != nil {
			t.Fatal(err)
		}
		s := out.shares[0]
		if out.kept() != tt.kept || out.delivers(0) != tt.delivers {
			t.Errorf("%s: kept %v, delivers %v: worst %+v, delivered %.3f", tt.name, out.kept(), out.delivers(0), s.clients.worst, s.total)
		}
		if len(s.rates) != 2 || len(out.charts()) != 2 || !strings.Contains(out.table(small()), "their bytes are in no metric") {
			t.Errorf("%s: %v\n%s", tt.name, s.rates, out.table(small()))
		}
	}
}

// There is no second to judge where clients were not at it together for two: no table of it, and no verdict.
func TestJudgeWantsTwoSeconds(t *testing.T) {
	for _, c := range []struct {
		late int64
		n    int
		well bool
	}{{0, 20, true}, {0, 19, false}, {1, 20, false}, {3e9, 20, false}} {
		out := &outcome{}
		err := out.judge(small(), &cluster{}, []*load.Result{second(0, repeat(20, 50)...), second(c.late, repeat(c.n, 50)...)}, nil)
		if (err == nil) != c.well || c.well && out.table(small()) == "" {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if _, err := parse([]string{"--seconds", "2"}); err == nil {
		t.Error("two seconds are taken: no two clients begin at once")
	}
}

// And the word of the logs, by their own clock: what clients have not seen together, workers may have admitted together.
func TestJudgeOfLogs(t *testing.T) {
	const boot = int64(5e15)
	clients := func() []*load.Result {
		return []*load.Result{second(0, repeat(40, 50)...), second(0, repeat(40, 50)...)}
	}
	born := happening{tenant: -1, unix: 1e9, boot: boot + 1, event: excess.Event{Born: 1}}
	for _, tt := range []struct {
		name   string
		log    []excess.Event
		events []happening
		kept   bool
	}{
		{"the burst", []excess.Event{{At: boot, Bytes: 100}}, nil, true},
		{"all of the bound", []excess.Event{{At: boot, Bytes: 100 + 120}}, nil, true},
		{"one more", []excess.Event{{At: boot, Bytes: 100 + 121}}, nil, false},
		{"one more, of which one comes back first", []excess.Event{{At: boot + 2, Bytes: 101}, {At: boot, Bytes: 120}, {At: boot + 1, Bytes: -1}}, nil, true},
		{"with another incarnation", []excess.Event{{At: boot, Bytes: 100}, {At: boot + 2, Bytes: 130}}, []happening{born}, true},
		{"one more than that", []excess.Event{{At: boot, Bytes: 100}, {At: boot + 2, Bytes: 131}}, []happening{born}, false},
		{"somebody else's rate", []excess.Event{{At: boot, Bytes: 100 + 130}}, []happening{{tenant: 1, boot: boot - 1, event: excess.Event{Rate: 1e6}}}, false},
	} {
		out := &outcome{}
		if err := out.judge(small(), &cluster{events: tt.events}, clients(), map[string][]excess.Event{"t1": tt.log, "t2": {{At: 1, Bytes: 1e9}}}); err != nil {
			t.Fatal(err)
		}
		if out.kept() != tt.kept {
			t.Errorf("%s: kept %v: %+v", tt.name, out.kept(), out.shares[0].admitted)
		}
	}
}

// After an episode it is looked for when a second with what is due begins, and until the next one.
func TestRelief(t *testing.T) {
	out := &outcome{planned: 2, episodes: []took{{Faults: make(episode, 1), Mended: 1e9}, {Faults: make(episode, 1), From: 5e9, Mended: 6e9}}}
	slicesOf := append(append(append(repeat(10, 100), repeat(5, 0)...), repeat(50, 100)...), repeat(40, 50)...)
	if err := out.judge(small(), &cluster{}, []*load.Result{second(0, slicesOf...), second(0, repeat(len(slicesOf), 0)...)}, nil); err != nil {
		t.Fatal(err)
	}
	if got := out.episodes[0].worst(); got < 0.4 || got > 0.5 {
		t.Errorf("relief %v after half a second of nothing", got)
	}
	if out.later(healTime) != 1 || out.later(100*time.Millisecond) != 2 || out.delivers(time.Hour) || !out.lives() {
		t.Errorf("reliefs %v, %v", out.episodes[0].Relief, out.episodes[1].Relief)
	}
	if text := out.table(small()); !strings.Contains(text, "2 of 2 faults in 2 episodes: 2 kill -9,") || !strings.Contains(text, "1 episodes of 2 had to wait for longer than 1.5s: SHORT") ||
		!strings.Contains(text, "late: episode 2") {
		t.Error(text)
	}
}

func TestPolicyText(t *testing.T) {
	c := &cluster{o: &options{Burst: 4 << 20, LocalBurst: 1 << 20}, peers: []string{"127.0.0.1:1", "127.0.0.1:2"}, tenants: []bed.Tenant{bed.NewTenant("t1", ""), bed.NewTenant("t2", "")}}
	text := c.text(&policy{epoch: 7, out: []bool{false, true}, rates: []int64{1234, 56}})
	for _, want := range []string{"ring_epoch: 7\n", `- {id: w1, addr: "127.0.0.1:1"}`, "id: t1,", "rate: 1234B/s, burst: 4194304B, local_burst: 1048576B", "rate: 56B/s"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "w2") {
		t.Errorf("a worker that is out is a peer in\n%s", text)
	}
}

func TestReceived(t *testing.T) {
	got := received(second(1000, 0, 5), 0, time.Microsecond)
	if want := (excess.Event{At: 3000, Bytes: 5}); len(got) != 1 || got[0] != want {
		t.Errorf("%+v", got)
	}
}

// What a log has, by tenant; the half line of a killed worker is left out, and one that was full is not taken for a whole one.
func TestReadAdmissions(t *testing.T) {
	const lines = "10 5 client_egress_bytes t1\n11 1 read_iops t1\n12 -2 client_egress_bytes t1\n13 7 client_egress_bytes t2\n"
	for _, tt := range []struct {
		name, text string
		n          int // -1: refused
	}{
		{"whole", lines + strings.Repeat("\x00", 100), 4},
		{"killed over a line", lines + "14 9 client_eg\x00\x00", 4},
		{"killed between its halves", lines + "14 \x00\x00 t1\n\x00\x00", 4},
		{"at the end of the file", lines, 4},
		{"full", lines + "full\n\x00", -1},
		{"something else", "hello, this is text\n", -1},
	} {
		name := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(name, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		a := newAdmissions()
		err := a.follow(name)
		if tt.n < 0 {
			if err == nil {
				t.Errorf("%s: taken", tt.name)
			}
			continue
		}
		want := map[string][]excess.Event{"t1": {{At: 10, Bytes: 5}, {At: 12, Bytes: -2}}, "t2": {{At: 13, Bytes: 7}}}
		if a.lines != tt.n || err != nil || !reflect.DeepEqual(a.of, want) || a.since("t1", 11) != -2 || a.since("t2", 13) != 7 {
			t.Errorf("%s: %d lines, %v, %v", tt.name, a.lines, err, a.of)
		}
		f, err := os.OpenFile(name, os.O_RDWR, 0) // it goes on where it had come to
		if err != nil {
			t.Fatal(err)
		}
		f.WriteAt([]byte("20 3 client_egress_bytes t2\n\x00"), int64(len(lines)))
		f.Close()
		if err := a.follow(name); err != nil || a.lines != tt.n+1 || a.since("t2", 12) != 10 {
			t.Errorf("%s: after another line: %d lines, %v, %v", tt.name, a.lines, err, a.of)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, args := range [][]string{{"--workers", "1"}, {"--workers", "9"}, {"--tenants", "0"}, {"--tenants", "5"}, {"--rate", "5"}, {"--local-burst", "0"}, {"--faults", "-1"},
		{"--longest-pause", "11s"}, {"--patience", "1s"}, {"--only", "nonsense"}, {"--only", "kill -9 of etcd"}, {"x"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
	if o, err := parse([]string{"--faults", "2", "--only", "drain,SIGSTOP"}); err != nil || o.TTL != 200*time.Millisecond || len(o.kinds()) != 2 {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err := parse(nil); err != nil || o.TTL != 20*time.Millisecond || o.Workers != 4 {
		t.Errorf("%+v, %v", o, err)
	}
}

// With --skew all but the first worker are asked for a fifth of each rate together, at a fixed pace; without, every worker for all it gives.
func TestSkew(t *testing.T) {
	c := &cluster{o: &options{Workers: 3, Tenants: 2, Rate: 40 << 20, Conns: 4}, servers: make([]*bed.Server, 3), tenants: make([]bed.Tenant, 2)}
	for _, c.o.Skew = range []bool{false, true} {
		for tenant := range c.tenants {
			asked := 0.0
			for worker := range c.servers {
				rate := c.streams(worker)[tenant].Rate
				if open := rate > 0; open != (c.o.Skew && worker > 0) {
					t.Errorf("skew %v, worker %d: %g requests a second", c.o.Skew, worker, rate)
				}
				asked += rate * objectLen
			}
			if want := float64(c.o.rate(tenant)) / 5; c.o.Skew && (asked < want*0.999 || asked > want*1.001) {
				t.Errorf("tenant %d: %g bytes a second of the others, want %g", tenant, asked, want)
			}
		}
	}
}
