package sim

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write what scripts and plots say now into testdata")

// TestScripts plays the stories in testdata. A line is a command, a comment (#), or what the last command said (>).
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, file, play(t, string(text)))
		})
	}
}

// golden compares with a file, or writes it.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *rewrite {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s says something else now (-rewrite to accept it):\n%s", file, diff(string(want), got))
	}
}

// diff shows the first lines that differ.
func diff(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d\n  was %s\n  now %s", i+1, a[i], b[i])
		}
	}
	return fmt.Sprintf("%d lines, were %d", len(b), len(a))
}

// A player is a story in progress.
type player struct {
	t     *testing.T
	w     *World
	setup Setup
	out   strings.Builder
	net   int64
	lost  int64
}

func play(t *testing.T, text string) string {
	p := &player{t: t, setup: calm()}
	for _, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		if strings.HasPrefix(line, ">") {
			continue
		}
		p.out.WriteString(line + "\n")
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] != "#" {
			p.do(fields)
		}
	}
	if p.w != nil && p.w.err != nil {
		t.Error(p.w.err)
	}
	return p.out.String()
}

func (p *player) say(format string, args ...any) { fmt.Fprintf(&p.out, "> "+format+"\n", args...) }

// do carries out one command.
func (p *player) do(f []string) {
	if f[0] == "cluster" {
		p.cluster(f[1:])
		return
	}
	switch f[0] {
	case "run":
		p.run(p.number(f[1]))
		return
	case "show":
		p.show()
		return
	}
	p.w.Do(p.deed(f))
}

// cluster builds the world: workers=3 rate=1000 burst=100 local=20 ttl is the default's.
func (p *player) cluster(args []string) {
	l := &p.setup.Limits[0]
	for key, v := range p.pairs(args) { // any order: each sets its own field
		switch key {
		case "workers":
			p.setup.Workers = int(v)
		case "rate":
			l.Policy.Rate = v
		case "burst":
			l.Policy.Burst = v
		case "local":
			l.Policy.LocalBurst = v
		default:
			p.t.Fatalf("cluster: %q", key)
		}
	}
	l.Demand = Demand{Rate: 1, Need: 1}
	p.setup.Rings = 1
	w, err := New(p.setup)
	if err != nil {
		p.t.Fatal(err)
	}
	p.w = w
	owner := w.ids[w.coord.owners[0][0]]
	p.say("%d workers; %s owns %v", p.setup.Workers, owner, l.Policy.Limit())
}

func (p *player) pairs(args []string) map[string]int64 {
	m := map[string]int64{}
	for _, a := range args {
		key, value, _ := strings.Cut(a, "=")
		m[key] = p.number(value)
	}
	return m
}

func (p *player) number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		p.t.Fatalf("not a number: %q", s)
	}
	return n
}

// deed reads a fault: isolate w1, ring w0 w1, want 800 80/20, policy rate=100 burst=20 local=5, lose 300.
func (p *player) deed(f []string) Deed {
	worker := func(s string) int { return int(p.number(strings.TrimPrefix(s, "w"))) }
	switch f[0] {
	case "want":
		d := Demand{Rate: p.number(f[1]), Need: 1}
		for s, name := range shapeNames {
			if len(f) > 2 && f[2] == name {
				d.Shape = Shape(s)
			}
		}
		if len(f) > 3 {
			d.Hot = worker(f[3])
		}
		return Deed{Op: Want, Demand: &d}
	case "policy":
		policy := p.w.limits[0].policy
		for key, v := range p.pairs(f[1:]) { // any order: each sets its own field
			switch key {
			case "rate":
				policy.Rate = v
			case "burst":
				policy.Burst = v
			case "local":
				policy.LocalBurst = v
			case "enabled":
				policy.Enabled = v > 0
			}
		}
		return Deed{Op: Policy, Policy: &policy}
	case "ring":
		d := Deed{Op: Ring}
		for _, s := range f[1:] {
			d.Members = append(d.Members, worker(s))
		}
		return d
	case "lose":
		return Deed{Op: Losses, N: p.number(f[1])}
	}
	for op, name := range opNames {
		if name == f[0] {
			d := Deed{Op: Op(op)}
			if len(f) > 1 {
				d.A = worker(f[1])
			}
			return d
		}
	}
	p.t.Fatalf("what is %q?", f[0])
	return Deed{}
}

// run lets ms pass and says what was admitted meanwhile.
func (p *player) run(ms int64) {
	l := p.w.limits[0]
	p.net, p.lost = l.net(), l.refused
	p.w.Until(p.w.now + ms*msec)
	p.say("%4d ms: admitted %d (%d/s), refused %d, excess %d of %d allowed; ideal level %d, the owner's %d", p.w.now/msec,
		l.net()-p.net, (l.net()-p.net)*1000/ms, l.refused-p.lost, l.meter.Now(p.w.now), l.allowed(&p.w.setup), l.meter.Level(p.w.now), l.level)
}

// show says how every worker stands.
func (p *player) show() {
	for _, k := range p.w.workers {
		u := k.use(0)
		state := "its view is fresh"
		switch local := k.clock.read(p.w.now); {
		case !k.alive:
			state = "dead"
		case k.paused:
			state = "stopped"
		case u.cell.View().Policy() == nil:
			state = "no policy"
		case !u.cell.View().Fresh(local):
			state = "no fresh view"
		}
		waiting := int64(0)
		for r := range u.lanes {
			waiting += u.lanes[r].waiting
		}
		p.say("  %s used %d, %d wait; %s", k.id, u.cell.Used(), waiting, state)
	}
}

// TestPlots draws how the main scenarios go.
func TestPlots(t *testing.T) {
	over := func(shape Shape) func(*Setup) {
		return func(s *Setup) { s.Limits[0].Demand = Demand{Rate: 40_000, Need: 1, Shape: shape, Period: 100 * msec} }
	}
	for _, sc := range []struct {
		name string
		make func(*Setup)
	}{
		{"twice the limit on all workers", over(Uniform)},
		{"twice the limit, and it moves", over(Moving)},
		{"bursts", over(Bursts)},
		{"the owner crashes", func(s *Setup) {
			over(Uniform)(s)
			at(s, 400, Deed{Op: CrashOwner, N: 30 * msec})
		}},
		{"the limit is halved", func(s *Setup) {
			over(Uniform)(s)
			p := s.Limits[0].Policy
			p.Rate, p.Burst = p.Rate/2, p.Burst/2
			at(s, 400, Deed{Op: Policy, Policy: &p})
		}},
		{"the hot worker is cut off", func(s *Setup) {
			over(OneHot)(s)
			at(s, 400, Deed{Op: Isolate, A: 0})
			at(s, 500, Deed{Op: Rejoin, A: 0})
		}},
		{"a planned move", func(s *Setup) {
			over(Uniform)(s)
			at(s, 400, Deed{Op: Flap, A: 0})
			at(s, 600, Deed{Op: Flap, A: 5})
		}},
	} {
		t.Run(sc.name, func(t *testing.T) {
			s := calm()
			sc.make(&s)
			sortTimed(&s)
			w, err := New(s)
			if err != nil {
				t.Fatal(err)
			}
			p := w.Watch(0, 10*msec, 80)
			w.Until(801 * msec)
			if w.err != nil {
				t.Error(w.err)
			}
			golden(t, "testdata/plots/"+strings.ReplaceAll(sc.name, " ", "-")+".txt", "# "+sc.name+"\n"+p.String())
		})
	}
}
