package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/talon-worker/talon/qos"
)

const msec = int64(1e6)

// calm is a cluster of eight workers and one limit of 20,000 requests a second, without a fault.
func calm() Setup {
	c := qos.DefaultConfig()
	c.Confirm = 100 * time.Millisecond
	p := qos.Policy{Tenant: "acme", Metric: qos.ReadIOPS, Generation: 1, Rate: 20_000, Burst: 1000, LocalBurst: 200, Enabled: true}
	return Setup{
		Seed: 7, Workers: 8, Rings: 2, Config: c, Pass: 1 * msec, Spread: 5 * msec,
		Network: NetworkSetup{Base: 200e3, Jitter: 200e3, Late: 20 * msec, DupMost: 2},
		Limits: []LimitSetup{{
			Policy: p, Deadline: 100 * msec, Queue: 1024, Pair: -1, Sane: true,
			Demand: Demand{Rate: 40_000, Need: 1, Shape: Skew}, Heal: Demand{Rate: 16_000, Need: 1, Shape: Skew},
		}},
		Faulty: 1500 * msec, Settle: 400 * msec, Measure: 300 * msec,
	}
}

// every does deeds again and again, the same or by turns.
func every(s *Setup, from, pace int64, deeds ...Deed) {
	for i, at := 0, from; at < s.Faulty; i, at = i+1, at+pace {
		s.Faults = append(s.Faults, Timed{at, deeds[i%len(deeds)]})
	}
}

func at(s *Setup, ms int64, d Deed) { s.Faults = append(s.Faults, Timed{ms * msec, d}) }

// A schedule is a run that was thought out, because random seeds seldom find it.
type schedule struct {
	name  string
	make  func(*Setup)
	check func(*testing.T, *World, *Result) // beside what every run checks
}

func (sc schedule) run(t *testing.T) {
	s := calm()
	sc.make(&s)
	sortTimed(&s)
	w, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	r, err := w.Run()
	if err != nil {
		t.Fatal(err)
	}
	if sc.check != nil {
		sc.check(t, w, &r)
	}
	t.Logf("excess %.3f of the bound, delivered %.3f of what was due, debts paid in %s", r.Worst, r.Delivered, ms(r.Paying))
}

// happened wants a class of faults to have come up.
func happened(f Fault, least int64) func(*testing.T, *World, *Result) {
	return func(t *testing.T, _ *World, r *Result) {
		if r.Faults[f] < least {
			t.Errorf("%v: only %d times", f, r.Faults[f])
		}
	}
}

// The schedules that broke a reading of the rules when they were tried, and that random seeds missed.
func TestSchedulesThatSeedsSeldomFind(t *testing.T) {
	for _, sc := range []schedule{
		// A grant that is forgotten when its view expires is granted again, to the next worker that is cut off with it.
		{"serial cut-off of the hot worker", func(s *Setup) { serialCutOff(s, Mute) }, happened(OneWay, 15)},
		// A report from before the grant, arriving after the worker is cut off with it, must not settle it.
		{"an early report arrives late", func(s *Setup) {
			s.Network.LatePM, s.Network.Late = 500, 20*msec
			serialCutOff(s, Isolate)
		}, happened(Partition, 15)},
		{"serial owner crashes", func(s *Setup) { every(s, 60*msec, 90*msec, Deed{Op: CrashOwner, N: 10 * msec}) }, happened(OwnerCrash, 10)},
		{"serial SIGSTOP, idle refill, burst and wake", func(s *Setup) {
			idle, burst := s.Limits[0].Demand, s.Limits[0].Demand
			idle.Rate, burst.Rate = 1, 400_000
			for i := range 14 {
				a, t0 := i%s.Workers, int64(40+100*i)
				at(s, t0, Deed{Op: Pause, A: a})
				at(s, t0+1, Deed{Op: Want, Demand: &idle})
				at(s, t0+60, Deed{Op: Want, Demand: &burst})
				at(s, t0+70, Deed{Op: Resume, A: a})
			}
		}, happened(Paused, 10)},
		{"a ring stopped between reading the view and charging", func(s *Setup) { s.Rings, s.Stall, s.StallP = 3, 120*msec, 150 }, happened(Stall, 50)},
		{"a minority with the coordinator", func(s *Setup) {
			// Workers 0 to 2 see the coordinator and each other; the old owner is with the majority, which the coordinator has taken out.
			at(s, 100, Deed{Op: Split, N: 0b111})
			for a := 3; a < 8; a++ {
				at(s, 100, Deed{Op: CutCoord, A: a})
			}
			at(s, 150, Deed{Op: Ring, Members: []int{0, 1, 2}})
			at(s, 1300, Deed{Op: MendAll})
		}, happened(CoordCut, 5)},
		{"a peers file rolled out over seconds", func(s *Setup) {
			s.Spread, s.Faulty, s.Settle = 2000*msec, 3000*msec, 900*msec
			at(s, 100, Deed{Op: Ring, Members: []int{0, 1, 2, 3}})
			at(s, 600, Deed{Op: Ring, Members: []int{4, 5, 6, 7}})
			at(s, 1200, Deed{Op: Ring, Members: []int{0, 2, 4, 6}})
		}, happened(Move, 3)},
		{"late refunds", func(s *Setup) {
			s.Limits[0].Demand = Demand{Rate: 200_000, Need: 1, Shape: Bursts, Period: 60 * msec}
			s.Limits[0].RefundPM, s.Limits[0].RefundIn = 900, 90*msec
		}, happened(Refund, 1000)},
	} {
		t.Run(sc.name, sc.run)
	}
}

// serialCutOff is a deep bucket that comes back slowly, and all demand on one of sixteen workers after the other, each cut off a moment after it
// has begun to be served.
func serialCutOff(s *Setup, op Op) {
	s.Workers, s.Settle = 16, 3000*msec
	l := &s.Limits[0]
	l.Policy.Rate, l.Policy.Burst, l.Policy.LocalBurst = 1000, 2000, 100
	l.Demand, l.Heal = Demand{Rate: 400, Need: 1}, Demand{Rate: 800, Need: 1}
	for i := 1; i < s.Workers; i++ { // w0 is the owner: nothing cuts it off from itself
		hot := Demand{Rate: 500_000, Need: 1, Shape: OneHot, Hot: i}
		trickle := Demand{Rate: 400, Need: 1}
		at(s, int64(600+50*i), Deed{Op: Want, Demand: &hot})
		s.Faults = append(s.Faults, Timed{int64(600+50*i)*msec + 1_200e3, Deed{Op: op, A: i}}) // its first report is out, its second is not
		at(s, int64(625+50*i), Deed{Op: Want, Demand: &trickle})
	}
	fill(s)
}

// The fault schedules that any distributed limiter should answer for, with the number under which our notes on reliability list them.
func TestFaultSchedules(t *testing.T) {
	for _, sc := range []schedule{
		{"01 reports are lost, some for good", func(s *Setup) {
			s.Network.LossPM = 400
			at(s, 500, Deed{Op: Losses, N: 1000})
			at(s, 620, Deed{Op: Losses, N: 100})
		}, func(t *testing.T, w *World, r *Result) {
			happened(Loss, 500)(t, w, r)
			l := w.limits[0]
			if w.Until(w.now + 100*msec); l.charged-l.known > 500 {
				t.Errorf("%d of %d units never reached the owner", l.charged-l.known, l.charged)
			}
		}},
		{"02 reports are doubled up to a hundredfold", func(s *Setup) { s.Network.DupPM, s.Network.DupMost, s.Faulty = 300, 100, 400*msec }, happened(Duplicate, 200)},
		{"03 reports overtake each other", func(s *Setup) { s.Network.LatePM, s.Network.Late = 500, 15*msec }, happened(Reorder, 1000)},
		{"04 reports arrive after their worker has died", func(s *Setup) {
			s.Network.LatePM, s.Network.Late = 300, 400*msec
			for i := range 8 {
				at(s, int64(100+150*i), Deed{Op: Crash, A: i})
				at(s, int64(110+150*i), Deed{Op: Start, A: i})
			}
		}, happened(Crashed, 8)},
		{"05 acknowledgements are lost", func(s *Setup) {
			for a := range 8 {
				at(s, int64(100+100*a), Deed{Op: Deafen, A: a})
				at(s, int64(180+100*a), Deed{Op: Rejoin, A: a})
			}
		}, happened(OneWay, 8)},
		{"06 an owner crashes between applying and acknowledging", func(s *Setup) {
			for i := range 6 {
				at(s, int64(100+200*i), Deed{Op: Losses, N: 500})
				at(s, int64(104+200*i), Deed{Op: CrashOwner, N: 20 * msec})
				at(s, int64(106+200*i), Deed{Op: Losses})
			}
		}, func(t *testing.T, w *World, r *Result) {
			if happened(OwnerCrash, 6)(t, w, r); r.Branches[ColdStart] < 3 {
				t.Errorf("only %d owners started exhausted", r.Branches[ColdStart])
			}
		}},
		{"07 an owner restarts at once under its name", func(s *Setup) { every(s, 100*msec, 400*msec, Deed{Op: CrashOwner, N: 1 * msec}) }, happened(OwnerCrash, 3)},
		{"08 two rings at once", func(s *Setup) {
			s.Spread = 400 * msec
			every(s, 100*msec, 200*msec, Deed{Op: Ring, Members: []int{0, 1, 2, 3}}, Deed{Op: Ring, Members: []int{4, 5, 6, 7}})
		}, happened(Move, 6)},
		{"09 nobody owns the key", func(s *Setup) {
			at(s, 100, Deed{Op: Split, N: 0b11})
			at(s, 100, Deed{Op: CoordDown})
			at(s, 110, Deed{Op: CrashOwner, N: 1200 * msec})
		}, func(t *testing.T, w *World, r *Result) {
			if rate := float64(r.Redirects+r.Reports) / (float64(w.now) / 1e9); rate > 20_000 {
				t.Errorf("%.0f reports and refusals a second while nobody owns the key", rate)
			}
		}},
		{"10 a restarted worker's old reports come after its new ones", func(s *Setup) {
			s.Network.LatePM, s.Network.Late = 500, 100*msec
			every(s, 100*msec, 60*msec, Deed{Op: Crash, A: 0}, Deed{Op: Start, A: 0}, Deed{Op: Crash, A: 1}, Deed{Op: Start, A: 1})
		}, func(t *testing.T, w *World, r *Result) {
			if happened(Crashed, 8)(t, w, r); r.Refusals[qos.OldEpoch] == 0 {
				t.Error("no report of an old incarnation came late")
			}
		}},
		{"11 two processes with one worker id", func(s *Setup) {
			for i := range 8 {
				at(s, int64(100+120*i), Deed{Op: Pause, A: i})
				at(s, int64(140+120*i), Deed{Op: Zombie, A: i}) // the stopped one wakes up with the healing at the latest
			}
			at(s, 700, Deed{Op: Zombie, A: 3})
			at(s, 800, Deed{Op: Zombie, A: 3})
		}, happened(Zombies, 8)},
		{"12 policies are raised, lowered, switched off and on, while workers lag", func(s *Setup) {
			s.Spread = 150 * msec
			p := s.Limits[0].Policy
			low, high, off := p, p, p
			low.Rate, low.Burst, low.LocalBurst = 2_000, 200, 50
			high.Rate, high.Burst, high.LocalBurst = 60_000, 3000, 400
			off.Enabled = false
			every(s, 100*msec, 170*msec, Deed{Op: Policy, Policy: &low}, Deed{Op: Policy, Policy: &high}, Deed{Op: Policy, Policy: &off}, Deed{Op: Policy, Policy: &p})
			at(s, 1499, Deed{Op: Policy, Policy: &p})
		}, func(t *testing.T, w *World, r *Result) {
			if happened(PolicyChange, 6)(t, w, r); r.Branches[Unlimited] == 0 {
				t.Error("nothing was admitted while the limit was off")
			}
		}},
		{"13 a worker misses policy events", func(s *Setup) {
			p := s.Limits[0].Policy
			low := p
			low.Rate, low.Burst = 5_000, 400
			at(s, 100, Deed{Op: CutCoord, A: 2})
			at(s, 150, Deed{Op: Policy, Policy: &low})
			at(s, 300, Deed{Op: Policy, Policy: &p})
			at(s, 400, Deed{Op: Policy, Policy: &low})
			at(s, 900, Deed{Op: MendCoord, A: 2})
			at(s, 1000, Deed{Op: Policy, Policy: &p})
		}, happened(PolicyChange, 4)},
		{"14 a worker enacts an old ring late", func(s *Setup) {
			at(s, 100, Deed{Op: Ring, Members: []int{0, 1, 2, 3, 4}})
			at(s, 103, Deed{Op: Pause, A: 2})
			at(s, 400, Deed{Op: Ring, Members: []int{3, 4, 5, 6, 7}})
			at(s, 900, Deed{Op: Resume, A: 2})
		}, happened(Move, 2)},
		{"15 the coordinator is down when a worker boots", func(s *Setup) {
			at(s, 100, Deed{Op: CoordDown})
			at(s, 120, Deed{Op: Crash, A: 1})
			at(s, 150, Deed{Op: Start, A: 1})
			at(s, 900, Deed{Op: CoordUp})
		}, happened(Crashed, 1)},
		{"16 the coordinator flaps", func(s *Setup) { every(s, 100*msec, 40*msec, Deed{Op: CoordDown}, Deed{Op: CoordUp}) }, happened(CoordCut, 10)},
		{"17 every machine has its own time of day", func(s *Setup) { s.DriftPM = 500 }, func(t *testing.T, w *World, r *Result) {
			if a, b := w.workers[0].clock.start, w.workers[1].clock.start; a-b < int64(time.Second) && b-a < int64(time.Second) {
				t.Error("two clocks agree to a second: the run proves nothing")
			}
		}},
		{"18 SIGSTOP of workers and owners", func(s *Setup) {
			every(s, 100*msec, 130*msec, Deed{Op: PauseOwner, N: 100 * msec})
			for a := range 8 {
				at(s, int64(120+150*a), Deed{Op: Pause, A: a})
				at(s, int64(120+150*a+90), Deed{Op: Resume, A: a})
			}
		}, happened(Paused, 10)},
		{"19 a machine is suspended and wakes up", func(s *Setup) {
			at(s, 100, Deed{Op: Pause, A: 5})
			at(s, 1400, Deed{Op: Resume, A: 5})
		}, happened(Paused, 1)},
		{"20 clocks run 1 % fast or slow", func(s *Setup) { s.DriftPM = 10_000 }, happened(Drift, 8)},
		{"21 snapshots are lost, doubled, overtaken and late", func(s *Setup) {
			s.Network.LossPM, s.Network.DupPM, s.Network.LatePM, s.Network.Late = 200, 200, 300, 60*msec
		}, func(t *testing.T, w *World, r *Result) {
			if r.Verdicts[qos.Older] == 0 || r.Verdicts[qos.Taken] == 0 {
				t.Errorf("no snapshot came too late or out of turn: %v", r.Verdicts)
			}
		}},
		{"22 one-way partitions, both ways", func(s *Setup) {
			at(s, 100, Deed{Op: Deafen, A: 0})
			at(s, 400, Deed{Op: Rejoin, A: 0})
			at(s, 500, Deed{Op: Mute, A: 0})
			at(s, 900, Deed{Op: Rejoin, A: 0})
			at(s, 1000, Deed{Op: Mute, A: 1})
			at(s, 1000, Deed{Op: Deafen, A: 2})
		}, happened(OneWay, 4)},
		{"23 a slow owner", func(s *Setup) {
			at(s, 100, Deed{Op: LagWorker, A: 0, N: 2 * msec})
			for a := 1; a < 8; a++ {
				at(s, 300, Deed{Op: LagWorker, A: a, N: 1 * msec})
			}
		}, happened(Slow, 200)},
		{"24 one key on many workers", func(s *Setup) { s.Workers, s.Faulty, s.Pass = 200, 300*msec, 5*msec }, nil},
		{"25 all come back at once", func(s *Setup) {
			for a := range 8 {
				at(s, 300, Deed{Op: Crash, A: a})
				at(s, 320, Deed{Op: Start, A: a})
				at(s, 800, Deed{Op: Isolate, A: a})
				at(s, 900, Deed{Op: Rejoin, A: a})
			}
		}, happened(Crashed, 8)},
		{"26 the cluster shrinks to one and grows again", func(s *Setup) {
			for a := 1; a < 8; a++ {
				at(s, int64(100+40*a), Deed{Op: Crash, A: a})
				at(s, int64(700+40*a), Deed{Op: Start, A: a})
			}
			at(s, 450, Deed{Op: Ring, Members: []int{0}})
			at(s, 1000, Deed{Op: Ring, Members: []int{0, 1, 2, 3, 4, 5, 6, 7}})
		}, happened(Crashed, 7)},
		{"27 a member flaps at any pace", func(s *Setup) {
			every(s, 100*msec, 50*msec, Deed{Op: Flap, A: 1})
			every(s, 700*msec, 170*msec, Deed{Op: Flap, A: 6})
		}, happened(Move, 15)},
		{"28 reports without an epoch, or of another version", nil, nil},
		{"29 a buggy peer", nil, nil},
		{"30 the cost is known only afterwards", func(s *Setup) { s.Limits[0].RefundPM, s.Limits[0].RefundIn = 1000, 20*msec }, happened(Refund, 500)},
		{"31 the owner is its own reporter", func(s *Setup) {
			s.Workers = 1
			s.Limits[0].Demand.Shape, s.Limits[0].Heal.Shape = Uniform, Uniform
		}, func(t *testing.T, w *World, r *Result) {
			if r.Worst > 0.021 { // the bootstrap of 4 in 200 + 400: never an advance
				t.Errorf("excess %.3f of the bound", r.Worst)
			}
		}},
		{"32 connections are cut in the middle of messages", func(s *Setup) {
			// A frame that is cut fails its check and is a lost message; the reconnect is a one-way gap of a few ms.
			for i := range 60 {
				a, b := i%8, (i*3+1)%8
				at(s, int64(100+20*i), Deed{Op: CutLink, A: a, B: b})
				at(s, int64(105+20*i), Deed{Op: MendLink, A: a, B: b})
			}
		}, nil},
	} {
		if sc.make == nil {
			sc.make = func(*Setup) {}
			t.Run(sc.name, func(t *testing.T) { hostile(t) })
			continue
		}
		t.Run(sc.name, sc.run)
	}
}

// hostile sends an owner what no sound worker sends, in the middle of a run: each is refused with a reason and changes nothing.
func hostile(t *testing.T) {
	w, err := New(calm())
	if err != nil {
		t.Fatal(err)
	}
	w.Until(400 * msec)
	k := w.workers[w.coord.owners[0][0]]
	local := k.clock.read(w.now)
	good := qos.UsageReport{
		Key: w.limits[0].policy.Key(), From: qos.ReporterID{Worker: "w9", Epoch: 99, Cell: 1}, RingEpoch: 1, Sequence: 1,
		Total: qos.Total{Charged: 10}, Wanted: 10, Stamp: 1, IopsDelta: 10,
	}
	if _, why := k.owner.Apply(&good, local); why != qos.Accepted {
		t.Fatalf("the sound report is refused: %v", why)
	}
	spoil := map[string]func(*qos.UsageReport){
		"no worker epoch":    func(u *qos.UsageReport) { u.From.Epoch = 0 },
		"no generation":      func(u *qos.UsageReport) { u.Key.Generation = 0 },
		"no ring epoch":      func(u *qos.UsageReport) { u.RingEpoch = 0 },
		"another ring":       func(u *qos.UsageReport) { u.RingEpoch = 9 },
		"an unknown limit":   func(u *qos.UsageReport) { u.Key.Tenant = "nobody" },
		"negative use":       func(u *qos.UsageReport) { u.Total.Charged = -1 },
		"more back than out": func(u *qos.UsageReport) { u.Total.Refunded = 11 },
		"an overflowing sum": func(u *qos.UsageReport) { u.Total.Charged, u.Wanted = 1<<62, 1<<62 },
		"other content":      func(u *qos.UsageReport) { u.Total.Charged, u.Wanted, u.IopsDelta = 11, 11, 11 },
		"a view never issued": func(u *qos.UsageReport) {
			u.Sequence, u.InForce = 2, qos.Mark{Owner: qos.OwnerEpoch{Ring: 1, Worker: 1 << 40}, Version: 1}
		},
	}
	before := w.limits[0].level
	for name, change := range spoil { // any order: each is refused by itself
		u := good
		change(&u)
		if _, why := k.owner.Apply(&u, local); why == qos.Accepted {
			t.Errorf("%s: accepted", name)
		}
	}
	s, why := k.owner.Apply(&good, local)
	if why != qos.Accepted || s.Acknowledged != good.Total {
		t.Errorf("after them the sound report gets %+v, %v (level before %d)", s, why, before)
	}
}

// Runs in which everything went by the rules, and a check said that it had not.
func TestSchedulesThatOweNothing(t *testing.T) {
	for _, sc := range []schedule{
		// Each report takes most of so small a burst, and it has filled again before the next: there is no debt in that.
		{"a burst of a few reports", func(s *Setup) {
			s.Config.TTL, s.Config.Advance = 30*time.Millisecond, 30*time.Millisecond
			l := &s.Limits[0]
			l.Policy.Rate, l.Policy.Burst, l.Policy.LocalBurst, l.Policy.OnLimit = 4500, 36, 9, qos.Reject
			l.Demand, l.Heal = Demand{Rate: 11_000, Need: 1, Shape: Skew}, Demand{Rate: 3600, Need: 1, Shape: OneHot, Hot: 6}
		}, func(t *testing.T, w *World, r *Result) {
			if r.Measured == 0 {
				t.Error("nothing was measured")
			}
		}},
	} {
		t.Run(sc.name, sc.run)
	}
}

// A run under every fault at once is no schedule, but the least that the harness must survive.
func TestEveryFaultAtOnce(t *testing.T) {
	for seed := range uint64(3) {
		s := FromSeed(1000 + seed)
		d := drawer{newRand(seed)}
		for _, class := range d.classes() {
			class(&s)
		}
		sortTimed(&s)
		w, err := New(s)
		if err == nil {
			_, err = w.Run()
		}
		if err != nil {
			t.Error(fmt.Errorf("seed %d: %w", seed, err))
		}
	}
}
