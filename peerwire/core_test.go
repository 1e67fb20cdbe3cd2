package peerwire

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/talon-worker/talon/qos"
	"pgregory.net/rapid"
)

const ms = int64(time.Millisecond)

// A bench is one worker in fake time: its core, a loop that turns when the real one would, and a ring that charges.
type bench struct {
	t     testing.TB
	core  *core
	now   int64
	next  int64 // when the loop turns by itself
	last  int64 // when it last turned
	steps int
	in    inputs
}

func newBench(t testing.TB, policies ...qos.Policy) *bench {
	return newBenchWith(t, qos.DefaultConfig(), policies...)
}

func newBenchWith(t testing.TB, limits qos.Config, policies ...qos.Policy) *bench {
	cfg := Config{Worker: "w1", Epoch: 1, Limits: limits, Ledger: must(qos.NewLedger(limits, 2))}
	check(t, cfg.mend())
	b := &bench{t: t, now: 1000 * ms}
	b.core = must(newCore(&cfg, b.now))
	check(t, b.set(policies...))
	return b
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// step is one turn of the loop.
func (b *bench) step() outputs {
	b.t.Helper()
	out := b.core.step(b.now, &b.in)
	b.in = inputs{}
	if out.next <= b.now {
		b.t.Fatalf("the next step is due at %d, and it is %d: the loop would spin", out.next, b.now)
	}
	b.next, b.last = out.next, b.now
	b.steps++
	return out
}

// loop turns if the loop of a Node would: at its time, at once for a ring that has something urgent, but no sooner than a rest after the last turn.
func (b *bench) loop() {
	if b.now >= b.next || b.core.reporter.Urgent() && b.now-b.last >= int64(rest) {
		b.step()
	}
}

// run lets the loop turn for d ns without any use.
func (b *bench) run(d int64) {
	for end := b.now + d; b.now < end; b.now += ms / 4 {
		b.loop()
	}
}

// set puts a set of policies in force.
func (b *bench) set(policies ...qos.Policy) error {
	done := make(chan error, 1)
	b.in.policies = append(b.in.policies, policyChange{policies, done})
	b.step()
	return <-done
}

func (b *bench) cell(p qos.Policy) *qos.Cell { return b.core.ledger.Cell(p.Limit()) }

func egress(rate, burst int64) qos.Policy {
	return qos.Policy{Tenant: "t", Metric: qos.ClientEgressBytes, Generation: 1, Rate: rate, Burst: burst, LocalBurst: max(burst/4, 1), Enabled: true}
}

func iops(rate, burst int64) qos.Policy {
	p := egress(rate, burst)
	p.Metric = qos.ReadIOPS
	return p
}

// TestAloneNeverPassesTheBucket: of a worker that is alone no interval of any length has more than burst + rate*t, to the unit, whatever the
// pattern of use and turns of the loop; and no more than a local burst above it where use is given back after it was reported.
func TestAloneNeverPassesTheBucket(tt *testing.T) {
	rapid.Check(tt, func(t *rapid.T) {
		p := egress(rapid.Int64Range(1000, 1e9).Draw(t, "rate"), rapid.Int64Range(1, 1e7).Draw(t, "burst"))
		b := newBench(tt, p)
		excess := qos.NewExcess(b.now, p.Rate, p.Burst)
		charged, above := int64(0), int64(0)
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			b.now += rapid.Int64Range(0, 30*ms).Draw(t, "dt")
			n := rapid.Int64Range(1, p.Burst).Draw(t, "n")
			switch rapid.IntRange(0, 4).Draw(t, "op") {
			case 0:
				b.step()
			case 1:
				if back := min(n, charged); back > 0 {
					before := b.cell(p).Used()
					b.cell(p).Refund(back)
					excess.Admit(b.now, b.cell(p).Used()-before)
					charged -= back
					above = p.LocalBurst
				}
			default:
				if b.cell(p).Admit(n, b.now).Charged() {
					charged += n
					if e := excess.Admit(b.now, n); e > above {
						t.Fatalf("excess %d after a charge of %d, want at most %d", e, n, above)
					}
				} else {
					b.cell(p).Await(0, n, n)
				}
			}
		}
	})
}

// TestAloneDelivers: with demand for the rate, or for more, at least 0.97 of what is due goes, though the loop turns only as often as the real one,
// up to a quarter of a millisecond late. And it turns no more than about a thousand times a second.
func TestAloneDelivers(t *testing.T) {
	for _, tt := range []struct {
		name       string
		p          qos.Policy
		size, load int64 // of one charge; percent of the rate that is asked for
	}{
		{"1 GiB/s in chunks", egress(1<<30, 64<<20), 256 << 10, 100},
		{"100 MiB/s in chunks", egress(100<<20, 4<<20), 256 << 10, 95},
		{"100 MiB/s in chunks, overload", egress(100<<20, 4<<20), 256 << 10, 300},
		{"burst of 10 ms", egress(100<<20, 1<<20), 64 << 10, 300},
		{"20,000 requests a second", iops(20_000, 2000), 1, 95},
		{"20,000 requests a second, four times that", iops(20_000, 2000), 1, 400},
		{"a request now and then", iops(100, 10), 1, 95},
		{"a request now and then, overload", iops(100, 10), 1, 300},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, tt.p)
			rng := rand.New(rand.NewPCG(7, 8))
			cell, excess := b.cell(tt.p), qos.NewExcess(b.now, tt.p.Rate, tt.p.Burst)
			const pass, warm, end = ms / 10, 500, 3500
			var owed, went, asked, queued int64
			var steps int
			from := b.now
			for ; b.now < from+end*ms; b.now += pass {
				for owed += tt.p.Rate / 100 * tt.load * pass / 1e6; owed >= tt.size*1000; owed -= tt.size * 1000 {
					if asked += tt.size; queued < 1024 {
						queued++
					}
				}
				b.core.ledger.Enter(0)
				for ; queued > 0 && cell.Admit(tt.size, b.now).Charged(); queued-- {
					went += tt.size
					if e := excess.Admit(b.now, tt.size); e > 0 {
						t.Fatalf("excess %d", e)
					}
				}
				b.core.ledger.Leave(0)
				cell.Await(0, min(queued, 1)*tt.size, queued*tt.size)
				if steps := b.steps; true {
					if b.loop(); b.steps > steps && b.next < math.MaxInt64 {
						b.next = max(b.next, b.now+int64(rest)) + rng.Int64N(ms/4) // timers are coarse and late
					}
				}
				if b.now == from+warm*ms {
					went, asked, steps = 0, 0, b.steps
				}
			}
			due := min(asked, tt.p.Rate*(end-warm)/1000)
			t.Logf("%.4f of what is due, %d steps a second", float64(went)/float64(due), int64(b.steps-steps)*1000/(end-warm))
			if float64(went) < 0.97*float64(due) {
				t.Errorf("delivered %d of %d due: %.4f, want 0.97", went, due, float64(went)/float64(due))
			}
			if n := int64(b.steps - steps); n > (end-warm)*11/10 {
				t.Errorf("%d steps in %d ms", n, end-warm)
			}
		})
	}
}

// TestPoliciesAreInForceAtTheNextStep tells the life of a limit.
func TestPoliciesAreInForceAtTheNextStep(t *testing.T) {
	p := iops(1000, 100)
	b := newBench(t, p)
	cell := b.cell(p)
	serve := func(wait int64, what string) {
		t.Helper()
		b.run(wait)
		cell.Await(0, 1, 1)
		b.step()
		if d := cell.Admit(1, b.now); d.Outcome != qos.Go {
			t.Fatalf("%s: %+v, want go", what, d)
		}
		cell.Await(0, 0, 0)
	}
	refuse := func(reason qos.Reason, what string) {
		t.Helper()
		if d := cell.Admit(1, b.now); d.Outcome == qos.Go || d.Reason != reason {
			t.Fatalf("%s: %+v, want %v", what, d, reason)
		}
	}
	serve(100*ms, "a limit with a policy")

	p.Generation, p.Rate = 2, 500
	check(t, b.set(p))
	if got := cell.View().Policy(); got.Generation != 2 || got.Rate != 500 {
		t.Fatalf("in force %+v, want generation 2", got)
	}
	serve(100*ms, "under generation 2")

	check(t, b.set())
	refuse(qos.NoPolicy, "dropped")

	if err := b.set(p); !errors.Is(err, qos.ErrOldPolicy) {
		t.Fatalf("back under the generation it was dropped with: %v, want ErrOldPolicy", err)
	}
	refuse(qos.NoPolicy, "still dropped")
	p.Generation = 3
	check(t, b.set(p))
	serve(100*ms, "back under a higher generation")

	other := egress(1e6, 1e6)
	for _, tt := range []struct {
		name string
		mend func(*qos.Policy)
		old  bool
	}{
		{"an older generation", func(p *qos.Policy) { p.Generation = 2 }, true},
		{"the same generation with other numbers", func(p *qos.Policy) { p.Rate++ }, false},
	} {
		bad := p
		tt.mend(&bad)
		if err := b.set(other, bad); err == nil || errors.Is(err, qos.ErrOldPolicy) != tt.old {
			t.Errorf("%s: %v", tt.name, err)
		}
		if b.cell(other).View().Policy() != nil {
			t.Errorf("%s: the rest of the set is in force", tt.name)
		}
		serve(100*ms, tt.name+" changed what was in force")
	}
	check(t, b.set(p, other)) // p again as it is: no change
	if b.core.changed = false; b.step().changed {
		t.Error("a set that changes nothing is told to the rings")
	}
}

// TestPoliciesBeyondTheTable: what finds no room is closed and said, the rest works, and room that comes free is used by the same set.
func TestPoliciesBeyondTheTable(t *testing.T) {
	limits := qos.DefaultConfig()
	limits.MaxLimits = 2
	cfg := Config{Worker: "w1", Epoch: 1, Limits: limits, Ledger: must(qos.NewLedger(limits, 1))}
	check(t, cfg.mend())
	b := &bench{t: t, now: 1000 * ms, core: must(newCore(&cfg, 0))}
	var all []qos.Policy
	for i := range 3 {
		p := iops(1000, 100)
		p.Tenant = fmt.Sprint(i)
		all = append(all, p)
	}
	if err := checkPolicies(all, limits.MaxLimits); !errors.Is(err, qos.ErrLimitsFull) {
		t.Errorf("a set that can never fit: %v, want ErrLimitsFull", err)
	}
	check(t, b.set(all[:2]...))
	b.cell(all[1]).Admit(4, b.now) // what is not told yet cannot be forgotten
	err := b.core.setPolicies([]qos.Policy{all[0], all[2]}, b.now)
	if !errors.Is(err, qos.ErrLimitsFull) || b.core.stats.PolicyErrors != 1 {
		t.Fatalf("no room: %v, %d errors counted, want ErrLimitsFull", err, b.core.stats.PolicyErrors)
	}
	if d := b.cell(all[2]).Admit(1, b.now); d.Reason != qos.LimitsFull {
		t.Errorf("without a cell: %+v, want limits_full", d)
	}
	b.run(2000 * ms)
	check(t, b.set(all[0], all[2]))
	if b.cell(all[2]).View().Policy() == nil {
		t.Error("the same set again does not use the room that has come free")
	}
}

// TestIdleCoreSleeps: after use the loop turns a few times more, to tell the rest and give back what it holds, and then not until somebody comes.
func TestIdleCoreSleeps(t *testing.T) {
	p := iops(1000, 100)
	b := newBench(t, p)
	if b.next != math.MaxInt64 {
		t.Fatalf("next step at %d before any use, want never", b.next)
	}
	b.now += 100 * ms
	for range 50 {
		b.cell(p).Admit(1, b.now)
		b.loop()
		b.now += ms
	}
	busy := b.steps
	b.run(10_000 * ms)
	if b.next != math.MaxInt64 {
		t.Errorf("next step at %d after 10 s of silence, want never", b.next)
	}
	if n := b.steps - busy; n > 20 {
		t.Errorf("%d steps after the last use, want a few", n)
	}
	used := b.cell(p).Used()
	if s := b.core.status(b.now); s.Cells[0].Acked.Used() != used {
		t.Errorf("%d of %d acknowledged", s.Cells[0].Acked.Used(), used)
	}
}

// TestFlushTellsEverything: at the end every use has been applied by the owner, and nothing is admitted any more.
func TestFlushTellsEverything(t *testing.T) {
	p := iops(1000, 100)
	b := newBench(t, p)
	for range 20 {
		b.now += 10 * ms
		b.cell(p).Await(0, 1, 1)
		b.step()
		b.cell(p).Admit(1, b.now)
	}
	b.cell(p).Await(0, 0, 0)
	b.in.flush = true
	b.step()
	for i := 0; !b.core.done(); i++ {
		if i == 20 {
			t.Fatal("not done after 20 more steps")
		}
		b.now = max(b.next, b.now+ms)
		b.step()
	}
	s := b.core.status(b.now)
	if used := b.cell(p).Used(); used == 0 || s.Cells[0].Acked.Used() != used || s.Owned[0].Used != used {
		t.Errorf("used %d, acknowledged %d, applied %d", used, s.Cells[0].Acked.Used(), s.Owned[0].Used)
	}
	if d := b.cell(p).Admit(1, b.now); d.Outcome == qos.Go {
		t.Errorf("admitted after the flush: %+v", d)
	}
}

// TestStepAllocatesNothing: a turn of a busy worker that is alone makes no garbage.
func TestStepAllocatesNothing(t *testing.T) {
	p := egress(100<<20, 4<<20)
	b := newBench(t, p)
	cell := b.cell(p)
	turn := func() {
		b.now += ms
		cell.Admit(64<<10, b.now)
		b.step()
	}
	for range 1000 {
		turn()
	}
	// A view is one allocation (immutable, swapped in): that is the limiter's, and about one in two turns.
	if n := testing.AllocsPerRun(1000, turn); n > 1 {
		t.Errorf("%v allocations a turn, want at most the one of a new view", n)
	}
}
