package sim

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/talon-worker/talon/qos"
)

// FromSeed draws a whole run from one integer: a cluster, its limits and demand, and a choice of fault classes. Each class is in only
// some of the seeds, and with its own strength, so that what only shows when little else is wrong gets its chance (swarm testing: Groce
// et al., 2012).
func FromSeed(seed uint64) Setup {
	d := drawer{newRand(seed)}
	s := Setup{Seed: seed, Workers: 8, Rings: 1 + d.IntN(3), Config: d.config(), Pass: d.between(500e3, 4e6), Spread: d.between(1e6, 200e6)}
	s.Network = NetworkSetup{Base: d.between(20e3, 400e3), Jitter: d.between(0, 400e3), Late: d.between(1e6, 200e6), DupMost: 1 + d.IntN(8)}
	for range 1 + d.IntN(2) {
		s.Limits = append(s.Limits, d.limit(len(s.Limits), &s))
	}
	s.Faulty = 1_400e6
	s.Settle = 3*int64(s.Config.Confirm) + 10*int64(s.Config.TTL)
	s.Measure = 400e6
	for i := range s.Limits { // long enough for 400 requests: what is in hand at either end must not matter
		l := &s.Limits[i]
		s.Measure = max(s.Measure, min(mul(400*l.Heal.Need, 1e9, min(l.Heal.Rate, l.Policy.Rate)), 2e9))
	}
	d.faults(&s)
	drawer{rand.New(rand.NewPCG(seed, 0x1d1e))}.quiet(&s)
	fill(&s)
	sortTimed(&s)
	return s
}

// fill lets the first owners' buckets, which start exhausted, fill up before anything is wanted.
func fill(s *Setup) {
	wait := int64(0)
	for i := range s.Limits {
		p := &s.Limits[i].Policy
		wait = max(wait, mul(p.Burst, 1e9, p.Rate))
	}
	wait += 3 * int64(s.Config.Confirm)
	for i := range s.Faults {
		s.Faults[i].At += wait
	}
	s.Faulty += wait
	for i := range s.Limits {
		d := s.Limits[i].Demand
		s.Limits[i].Demand = Demand{Need: d.Need}
		s.Faults = append(s.Faults, Timed{wait, Deed{Op: Want, A: i, Demand: &d}})
	}
}

func sortTimed(s *Setup) {
	slices.SortStableFunc(s.Faults, func(a, b Timed) int { return cmp.Compare(a.At, b.At) })
}

// Replay is the command that runs a seed again.
func Replay(seed uint64) string {
	return fmt.Sprintf("go test ./qos/sim -run 'TestSeeds' -first %d -seeds 1 -tell -v", seed)
}

type drawer struct{ *rand.Rand }

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x5eed)) }

func (d drawer) between(low, high int64) int64 { return low + d.Int64N(high-low+1) }

// one is true in one of n draws.
func (d drawer) one(n int) bool { return d.IntN(n) == 0 }

// log draws with an evenly spread logarithm, to two digits.
func (d drawer) log(low, high int64) int64 {
	decades := 0
	for l := low; l < high; l *= 10 {
		decades++
	}
	v := low
	for range d.IntN(decades + 1) {
		v *= 10
	}
	return min(v+v*d.Int64N(90)/10, high)
}

func (d drawer) config() qos.Config {
	c := qos.DefaultConfig()
	c.SyncMax = 5 * time.Millisecond
	c.SyncMin = []time.Duration{2, 3, 5}[d.IntN(3)] * time.Millisecond
	c.TTL = []time.Duration{12, 20, 20, 30}[d.IntN(4)] * time.Millisecond
	c.Advance = min(c.Advance, c.TTL)
	if d.one(6) {
		c.Advance = []time.Duration{0, c.TTL}[d.IntN(2)]
	}
	c.Confirm = time.Duration(d.between(40, 120)) * time.Millisecond
	if d.one(8) {
		c.BootstrapIops, c.BootstrapBytes = 0, 0
	}
	if d.one(10) {
		c.Budget = 1 + d.IntN(4)
	}
	return c
}

// limit draws a policy and its demand. R is drawn in requests, so that a run of any rate has about the same number of events.
func (d drawer) limit(i int, s *Setup) LimitSetup {
	perSecond := d.log(50, 20_000)
	p := qos.Policy{Tenant: fmt.Sprintf("tenant%d", i), Metric: qos.ReadIOPS, Generation: 1, Enabled: true}
	need := int64(1)
	if d.one(2) {
		p.Metric = qos.ClientEgressBytes
		need = []int64{4 << 10, 64 << 10, 256 << 10, 1 << 20}[d.IntN(4)]
	} else if d.one(4) {
		need = 1 + d.Int64N(20)
	}
	p.Rate = perSecond * need
	p.Burst = max(mul(p.Rate, d.between(8, 120), 1000), need*d.between(2, 8))
	if d.one(4) { // deep, and slow to come back: what is forgotten of it shows
		p.Burst = mul(p.Rate, d.between(500, 3000), 1000)
	}
	p.LocalBurst = max(p.Burst/[]int64{1, 2, 4, 8}[d.IntN(4)], need)
	p.OnLimit = []qos.OnLimit{qos.Pace, qos.Pace, qos.Reject}[d.IntN(3)]
	l := LimitSetup{Policy: p, Deadline: d.between(20e6, 400e6), Queue: 1024, Pair: -1}
	l.Demand = d.demand(p.Rate*d.between(3, 40)/10, need)
	l.Heal = d.demand(p.Rate*[]int64{5, 8, 12, 20}[d.IntN(4)]/10, need)
	if l.Heal.Shape == Bursts { // what is due of bursts, only the ideal bucket could say
		l.Heal.Shape = Uniform
	}
	if l.Heal.Rate < p.Rate {
		l.Deadline = max(l.Deadline, 200e6)
	}
	l.Sane = sane(p, qos.Use{Need: need, Workers: s.Workers, Deadline: time.Duration(l.Deadline)}, &s.Config)
	return l
}

// sane is what liveness is owed to: every policy of which talon policy check has nothing to say, at every advance. Where the message budget is under a push for
// each worker, as much is needed as if nothing could wait: turns come no faster than the pushes that tell of them.
func sane(p qos.Policy, u qos.Use, c *qos.Config) bool {
	if len(c.Advice(&p, u)) > 0 {
		return false
	}
	if c.Budget < u.Workers {
		p.OnLimit = qos.Reject
	}
	return len(c.Advice(&p, u)) == 0
}

func (d drawer) demand(rate, need int64) Demand {
	return Demand{
		Rate: max(rate, 1), Need: need, Shape: []Shape{Uniform, Uniform, Skew, OneHot, Moving, Bursts}[d.IntN(6)],
		Hot: d.IntN(8), Period: d.between(20e6, 300e6),
	}
}

// faults draws the classes and their strengths.
func (d drawer) faults(s *Setup) {
	s.Network.LossPM = d.maybe(2, 1, 300)
	s.Network.DupPM = d.maybe(2, 1, 300)
	s.Network.LatePM = d.maybe(2, 1, 200)
	s.DriftPM = int64(d.maybe(4, 50, 10_000))
	if d.one(4) {
		s.StallP, s.Stall = 1+d.IntN(30), d.between(100e3, 100e6)
	}
	for i := range s.Limits {
		if l := &s.Limits[i]; d.one(4) {
			l.RefundPM, l.RefundIn = 1+d.IntN(400), d.between(1e6, 100e6)
		}
	}
	classes := d.classes()
	for range d.IntN(6) {
		classes[d.IntN(len(classes))](s)
	}
	for range d.IntN(3) { // the same class may be drawn often: then it is the seed's theme
		classes[d.IntN(len(classes))](s)
	}
}

func (d drawer) classes() []func(*Setup) {
	return []func(*Setup){
		d.partitions, d.oneWays, d.pauses, d.crashes, d.ownerFaults, d.moves, d.coordinator, d.policies, d.lags, d.demands, d.flaps, d.shutdowns, d.zombies, d.cutOffs,
	}
}

// maybe is 0 but for one of n seeds, where it is between low and high.
func (d drawer) maybe(n int, low, high int64) int {
	if !d.one(n) {
		return 0
	}
	return int(d.between(low, high))
}

// span does one deed and, after a while, another, n times within the time of faults.
func (d drawer) span(s *Setup, n int, longest int64, begin, end Deed) {
	for range n {
		at := d.between(50e6, s.Faulty-50e6)
		s.Faults = append(s.Faults, Timed{at, begin}, Timed{min(at+d.between(1e6, longest), s.Faulty), end})
	}
}

func (d drawer) worker(s *Setup) int { return d.IntN(s.Workers) }

func (d drawer) partitions(s *Setup) {
	for range 1 + d.IntN(4) {
		d.span(s, 1, 500e6, Deed{Op: Split, N: d.Int64N(1 << s.Workers)}, Deed{Op: MendAll})
	}
}

func (d drawer) oneWays(s *Setup) {
	for range 1 + d.IntN(5) {
		a := d.worker(s)
		d.span(s, 1, 400e6, Deed{Op: []Op{Isolate, Deafen, Mute}[d.IntN(3)], A: a}, Deed{Op: Rejoin, A: a})
		b, c := d.worker(s), d.worker(s)
		d.span(s, 1, 400e6, Deed{Op: CutLink, A: b, B: c}, Deed{Op: MendLink, A: b, B: c})
	}
}

func (d drawer) pauses(s *Setup) {
	for range 1 + d.IntN(8) {
		a := d.worker(s)
		d.span(s, 1, 300e6, Deed{Op: Pause, A: a}, Deed{Op: Resume, A: a})
	}
}

func (d drawer) crashes(s *Setup) {
	for range 1 + d.IntN(8) {
		a := d.worker(s)
		d.span(s, 1, 200e6, Deed{Op: Crash, A: a}, Deed{Op: Start, A: a})
	}
}

func (d drawer) ownerFaults(s *Setup) {
	op := []Op{CrashOwner, PauseOwner, IsolateOwner}[d.IntN(3)]
	for range 1 + d.IntN(6) {
		s.Faults = append(s.Faults, Timed{d.between(50e6, s.Faulty), Deed{Op: op, A: d.IntN(len(s.Limits)), N: d.between(1e6, 200e6)}})
	}
}

func (d drawer) moves(s *Setup) {
	for range 1 + d.IntN(5) {
		members := d.Perm(s.Workers)[:1+d.IntN(s.Workers)]
		s.Faults = append(s.Faults, Timed{d.between(50e6, s.Faulty), Deed{Op: Ring, Members: members}})
	}
}

func (d drawer) flaps(s *Setup) {
	a := d.worker(s)
	pace := d.between(30e6, 400e6)
	for at := d.between(50e6, 300e6); at < s.Faulty; at += pace {
		s.Faults = append(s.Faults, Timed{at, Deed{Op: Flap, A: a}})
	}
}

func (d drawer) coordinator(s *Setup) {
	for range 1 + d.IntN(4) {
		a := d.worker(s)
		d.span(s, 1, 600e6, Deed{Op: CutCoord, A: a}, Deed{Op: MendCoord, A: a})
	}
	if d.one(2) {
		d.span(s, 1, 600e6, Deed{Op: CoordDown}, Deed{Op: CoordUp})
	}
	d.moves(s)
}

func (d drawer) policies(s *Setup) {
	for range 1 + d.IntN(4) {
		i := d.IntN(len(s.Limits))
		p, need := s.Limits[i].Policy, s.Limits[i].Demand.Need
		p.Rate = max(p.Rate*d.between(2, 40)/20, 1)
		p.Burst = max(p.Burst*d.between(5, 40)/20, 2*need)
		p.LocalBurst = min(max(p.LocalBurst*d.between(5, 40)/20, need), p.Burst)
		p.Enabled = !d.one(5)
		s.Faults = append(s.Faults, Timed{d.between(50e6, s.Faulty), Deed{Op: Policy, A: i, Policy: &p}})
	}
	if d.one(3) {
		s.Faults = append(s.Faults, Timed{d.between(50e6, s.Faulty), Deed{Op: Remove, A: d.IntN(len(s.Limits))}})
	}
	for i := range s.Limits { // at the end the policy whose liveness is owed
		p := s.Limits[i].Policy
		s.Faults = append(s.Faults, Timed{s.Faulty - 1, Deed{Op: Policy, A: i, Policy: &p}})
	}
}

func (d drawer) lags(s *Setup) {
	for range 1 + d.IntN(3) {
		a := d.worker(s)
		d.span(s, 1, 400e6, Deed{Op: LagWorker, A: a, N: d.log(100e3, 20e6)}, Deed{Op: LagWorker, A: a})
	}
}

func (d drawer) demands(s *Setup) {
	for range 1 + d.IntN(6) {
		i := d.IntN(len(s.Limits))
		p := s.Limits[i].Policy
		next := d.demand(p.Rate*d.between(0, 60)/10, s.Limits[i].Demand.Need)
		s.Faults = append(s.Faults, Timed{d.between(50e6, s.Faulty), Deed{Op: Want, A: i, Demand: &next}})
	}
}

// cutOffs lets all demand come on one worker after the other, and cuts each off when it has just been given what it asked for.
func (d drawer) cutOffs(s *Setup) {
	i := d.IntN(len(s.Limits))
	p, need := s.Limits[i].Policy, s.Limits[i].Demand.Need
	op := []Op{Mute, Isolate}[d.IntN(2)]
	for a, at := d.worker(s), d.between(300e6, 500e6); at < s.Faulty; a, at = a+1, at+d.between(20e6, 120e6) {
		hot := Demand{Rate: p.Rate * 20, Need: need, Shape: OneHot, Hot: a % s.Workers}
		s.Faults = append(s.Faults, Timed{at, Deed{Op: Want, A: i, Demand: &hot}}, Timed{min(at+d.between(800e3, 4e6), s.Faulty-1), Deed{Op: op, A: a % s.Workers}})
		if d.one(2) {
			s.Faults = append(s.Faults, Timed{min(at+d.between(30e6, 600e6), s.Faulty), Deed{Op: Rejoin, A: a % s.Workers}})
		}
	}
}

// quiet lets demand for a limit cease in a third of the seeds, for longer than leases and most buckets last: owners forget it and begin again. It
// draws from a source of its own, so that seeds without it stay what they were.
func (d drawer) quiet(s *Setup) {
	if !d.one(3) {
		return
	}
	i := d.IntN(len(s.Limits))
	again := s.Limits[i].Demand
	none := Demand{Need: again.Need}
	at := d.between(50e6, s.Faulty-1000e6)
	s.Faults = append(s.Faults, Timed{at, Deed{Op: Want, A: i, Demand: &none}}, Timed{at + d.between(700e6, 900e6), Deed{Op: Want, A: i, Demand: &again}})
}

func (d drawer) shutdowns(s *Setup) {
	a := d.worker(s)
	at := d.between(50e6, s.Faulty-400e6)
	s.Faults = append(s.Faults, Timed{at, Deed{Op: Shutdown, A: a}}, Timed{at + d.between(100e6, 400e6), Deed{Op: Start, A: a}})
}

func (d drawer) zombies(s *Setup) {
	for range 1 + d.IntN(3) {
		s.Faults = append(s.Faults, Timed{d.between(50e6, s.Faulty), Deed{Op: Zombie, A: d.worker(s)}})
	}
}
