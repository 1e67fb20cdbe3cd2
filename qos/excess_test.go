package qos

import (
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// A step of a history: an admission, a refund (negative cost) or a change of policy.
type excessStep struct {
	at, cost    int64
	change      bool
	rate, burst int64
}

// windows is the dumb twin: every pair of steps is a window, everything in big integers, in billionths of a unit.
func windows(rate, burst int64, steps []excessStep) (worst, last *big.Int) {
	worst, last = new(big.Int), new(big.Int)
	for from := 0; from <= len(steps); from++ {
		r, b, start := inForce(rate, burst, steps, from)
		allowed := new(big.Int)
		used, top := new(big.Int), b
		at := start
		for i := from; i < len(steps); i++ {
			s := steps[i]
			allowed.Add(allowed, new(big.Int).Mul(big.NewInt(r), big.NewInt(s.at-at)))
			at = s.at
			if s.change {
				r, top = s.rate, max(top, s.burst)
				continue
			}
			used.Add(used, new(big.Int).Mul(big.NewInt(s.cost), big.NewInt(perSecond)))
			over := new(big.Int).Sub(used, allowed)
			over.Sub(over, new(big.Int).Mul(big.NewInt(top), big.NewInt(perSecond)))
			if over.Cmp(worst) > 0 {
				worst.Set(over)
			}
			if i == len(steps)-1 && over.Cmp(last) > 0 {
				last.Set(over)
			}
		}
	}
	return worst, last
}

// inForce returns the policy and the time at which the window before steps[from] begins: as late as possible.
func inForce(rate, burst int64, steps []excessStep, from int) (r, b, start int64) {
	r, b = rate, burst
	for _, s := range steps[:from] {
		if s.change {
			r, b = s.rate, s.burst
		}
	}
	if from < len(steps) {
		start = steps[from].at
	}
	return r, b, start
}

// units rounds billionths of a unit up to whole units.
func units(n *big.Int) int64 {
	q, m := new(big.Int).DivMod(n, big.NewInt(perSecond), new(big.Int))
	if m.Sign() > 0 {
		q.Add(q, big.NewInt(1))
	}
	return q.Int64()
}

func TestExcessIsTheWorstOfAllWindows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scale := rapid.SampledFrom([]int64{1, 1_000, 1_000_000_000_000}).Draw(t, "scale")
		rate := rapid.Int64Range(0, 50*scale).Draw(t, "rate")
		burst := rapid.Int64Range(0, 100*scale).Draw(t, "burst")
		gap := rapid.SampledFrom([]int64{1, 1_000_000, 3 * perSecond}).Draw(t, "gap")
		var steps []excessStep
		now := int64(0)
		meter := NewExcess(0, rate, burst)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now += rapid.Int64Range(0, gap).Draw(t, "wait")
			s := excessStep{at: now}
			if rapid.IntRange(0, 9).Draw(t, "kind") == 0 {
				s.change = true
				s.rate = rapid.Int64Range(0, 50*scale).Draw(t, "new rate")
				s.burst = rapid.Int64Range(0, 100*scale).Draw(t, "new burst")
				meter.Change(now, s.rate, s.burst)
				steps = append(steps, s)
				continue
			}
			s.cost = rapid.Int64Range(-20*scale, 60*scale).Draw(t, "cost")
			steps = append(steps, s)
			got := meter.Admit(now, s.cost)
			worst, last := windows(rate, burst, steps)
			if got != units(last) {
				t.Fatalf("excess now %d, want %d", got, units(last))
			}
			if meter.Worst() != units(worst) {
				t.Fatalf("worst %d, want %d", meter.Worst(), units(worst))
			}
		}
	})
}

func TestExcess(t *testing.T) {
	const ms = 1_000_000
	for _, tc := range []struct {
		name  string
		steps []excessStep
		want  int64
	}{
		{"a burst is no excess", []excessStep{{at: 0, cost: 10}}, 0},
		{"one over the burst", []excessStep{{at: 0, cost: 11}}, 1},
		{"refill pays", []excessStep{{at: 0, cost: 10}, {at: 500 * ms, cost: 50}}, 40}, // the bucket is full again after 100 ms
		{"a quiet hour is no credit", []excessStep{{at: 3600 * perSecond, cost: 12}}, 2},
		{"a refund counts back", []excessStep{{at: 0, cost: 10}, {at: 0, cost: -4}, {at: 0, cost: 4}}, 0},
		{"a refund on a full bucket is no credit", []excessStep{{at: 0, cost: -4}, {at: 0, cost: 12}}, 2},
		{"half a unit is rounded up", []excessStep{{at: 0, cost: 10}, {at: 5 * ms, cost: 1}}, 1},
		{"windows over a cut keep the old burst", []excessStep{{at: 0, cost: 9}, {at: 0, change: true, rate: 100, burst: 2}, {at: 0, cost: 1}}, 0},
		{"windows after a cut have the new one", []excessStep{{at: 0, change: true, rate: 100, burst: 2}, {at: 0, cost: 3}}, 1},
		{"a raised burst counts from the raise", []excessStep{{at: 0, cost: 10}, {at: 0, change: true, rate: 100, burst: 15}, {at: 0, cost: 6}}, 1},
		{"the rate is integrated", []excessStep{{at: 0, cost: 10}, {at: 10 * ms, change: true, rate: 200, burst: 10}, {at: 20 * ms, cost: 4}}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			meter := NewExcess(0, 100, 10)
			for _, s := range tc.steps {
				if s.change {
					meter.Change(s.at, s.rate, s.burst)
				} else {
					meter.Admit(s.at, s.cost)
				}
			}
			if meter.Worst() != tc.want {
				t.Errorf("worst excess %d, want %d", meter.Worst(), tc.want)
			}
		})
	}
}

func TestExcessTakesALateClockAsTheLastOne(t *testing.T) {
	e := NewExcess(0, perSecond, 10)
	e.Admit(100, 10)
	e.Admit(40, 5)
	if got := e.Level(100); got != -5 {
		t.Errorf("level %d after a charge with an earlier clock, want -5", got)
	}
}

func TestExcessEraBeginsWhenTheBucketIsFull(t *testing.T) {
	e := NewExcess(0, perSecond, 10)
	e.Admit(0, 10)
	first := e.Era()
	e.Admit(9, 1)
	if e.Era() != first {
		t.Error("a new era though the bucket was never full")
	}
	e.Admit(100, 1)
	if e.Era() == first {
		t.Error("the bucket was full, yet the era is the old one")
	}
}

func TestMergedLogsGiveTheExcessOfTheirUnion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		logs := make([][]Admission, rapid.IntRange(1, 5).Draw(t, "workers"))
		var all []excessStep
		for i := range logs {
			now := int64(0)
			for range rapid.IntRange(0, 12).Draw(t, "admissions") {
				now += rapid.Int64Range(1, 5).Draw(t, "wait") * int64(len(logs))
				a := Admission{At: now + int64(i), Cost: rapid.Int64Range(-5, 10).Draw(t, "cost")} // no two at one instant
				logs[i] = append(logs[i], a)
				all = append(all, excessStep{at: a.At, cost: a.Cost})
			}
		}
		slices.SortFunc(all, func(a, b excessStep) int { return int(a.at - b.at) })
		meter := NewExcess(0, perSecond/2, 8)
		Merge(logs, func(_ int, a Admission) { meter.Admit(a.At, a.Cost) })
		if worst, _ := windows(perSecond/2, 8, all); meter.Worst() != units(worst) {
			t.Fatalf("worst %d, want %d", meter.Worst(), units(worst))
		}
	})
}

func TestMergePutsChargesBeforeRefunds(t *testing.T) {
	var order []int64
	Merge([][]Admission{{{At: 5, Cost: -3}}, {{At: 5, Cost: 3}}}, func(_ int, a Admission) { order = append(order, a.Cost) })
	if !slices.Equal(order, []int64{3, -3}) {
		t.Errorf("order %v, want the charge first", order)
	}
}

func TestExcessAllocatesNothing(t *testing.T) {
	e := NewExcess(0, 1_000_000, 1_000)
	now := int64(0)
	if n := testing.AllocsPerRun(1000, func() { now += 1500; e.Admit(now, 2) }); n != 0 {
		t.Errorf("%v allocations per admission", n)
	}
}

func BenchmarkExcessAdmit(b *testing.B) {
	e := NewExcess(0, 1_000_000, 1_000)
	for i := 0; b.Loop(); i++ {
		e.Admit(int64(i)*1500, 2)
	}
}

func TestExcessForgetsNoWindowWhenTermsRunOut(t *testing.T) {
	e := NewExcess(0, 0, 1000)
	e.Admit(0, 1)
	var steps []excessStep
	steps = append(steps, excessStep{at: 0, cost: 1})
	for b := int64(999); b > 900; b-- {
		e.Change(0, 0, b)
		e.Admit(0, 1)
		steps = append(steps, excessStep{change: true, burst: b}, excessStep{cost: 1})
	}
	e.Admit(0, 950)
	steps = append(steps, excessStep{cost: 950})
	if len(e.terms) > maxTerms {
		t.Errorf("%d terms", len(e.terms))
	}
	if worst, _ := windows(0, 1000, steps); e.Worst() < units(worst) {
		t.Errorf("worst %d, want at least %d", e.Worst(), units(worst))
	}
}
