package sched

import (
	"math/bits"
	"sync/atomic"
)

// unitBits is the fraction of virtual time: vt counts 1/256 byte of a tenant of weight 1. At the highest rate it takes five hours to pass half of
// what wrapping differences can tell apart; tenants that were idle longer than staleAfter start afresh.
const unitBits = 8

const (
	period     = int64(10e6) // ns between two plans
	hurried    = int64(1e6)  // ns between two plans at least
	lingering  = 10 * period // of idling after which a tenant is not looked at any more
	partBits   = 12
	partOne    = int64(1) << partBits // all of a weight
	staleAfter = int64(3600e9)        // ns of idling after which vt says nothing any more
	mostStep   = int64(1) << 60       // most that V or the bucket's clock advances between two plans: what idles longer is full anyhow
	paceShift  = 40                   // fraction of pace
	aimPart    = 995                  // V is paced at so many thousandths of the rate
	boostOne   = int64(1) << 16       // boost is in 1/65536
	boostLeast = boostOne / 64
	boostMost  = 64 * boostOne  //
	gainPart   = 3              // tenths
	growMost   = int64(3) << 16 // most of (aim - used)/used that one plan counts
	second     = int64(1e9)     //
	pieces     = 4              // of a chunk, that are dispatched one by one while V binds
	planSlots  = 8              // plans kept, so that a reader is disturbed only by that many changes while it reads
)

// A mode says how rings order tenants; see doc.go.
type mode int64

const (
	solo mode = iota
	free
	paced
	local // Config.Order is RingLocal
	fifo  // or FIFO
)

// planned reports whether plans are renewed every period.
func (m mode) planned() bool { return m >= paced }

// A plan is the shared clock between two changes, an immutable value.
type plan struct {
	mode   mode
	at     int64 // ns of its start
	v      int64 // V at its start, 1/256 byte per weight
	pace   int64 // of V, 2^-40 units per ns
	credit int64 // bytes that --egress-rate had granted ever at its start
	rate   int64 // bytes/s; 0: none binds
	burst  int64 // bytes
	due    int64 // ns of the next periodic plan
	period int64 // number of the periodic plan
	frame  int64 // grows when virtual times get another meaning
	piece  int64 // the most bytes of one dispatch
}

// virtual is V at now.
func (p *plan) virtual(now int64) int64 {
	if now <= p.at {
		return p.v
	}
	hi, lo := bits.Mul64(uint64(now-p.at), uint64(p.pace))
	if hi >= 1<<(paceShift-4) { // 2^60 units
		return p.v + mostStep
	}
	return p.v + int64(hi<<(64-paceShift)|lo>>paceShift)
}

// when is the time at which V reaches v.
func (p *plan) when(v int64) int64 {
	d := v - p.v
	if d <= 0 {
		return p.at
	}
	if p.pace == 0 {
		return never
	}
	return addCapped(p.at, divUp(uint64(d), 1<<paceShift, uint64(p.pace)))
}

// granted is what the rate has granted until now, rounded down, and whether a fraction of a byte was cut off.
func (p *plan) granted(now int64) (bytes int64, cut int64) {
	ns := now - p.at
	if ns < 0 {
		return p.credit - divUp(uint64(-ns), uint64(p.rate), uint64(second)), 1
	}
	hi, lo := bits.Mul64(uint64(ns), uint64(p.rate))
	if hi >= uint64(second) {
		return p.credit + mostStep, 0
	}
	q, rem := bits.Div64(hi, lo, uint64(second))
	if rem > 0 {
		cut = 1
	}
	return p.credit + int64(min(q, uint64(mostStep))), cut
}

// whenGranted is the time at which bytes have been granted.
func (p *plan) whenGranted(bytes int64) int64 {
	d := bytes - p.credit
	if d <= 0 {
		return p.at
	}
	return addCapped(p.at, divUp(uint64(d), uint64(second), uint64(p.rate)))
}

// divUp is a*b/c rounded up, cut to mostStep.
func divUp(a, b, c uint64) int64 {
	hi, lo := bits.Mul64(a, b)
	lo, carry := bits.Add64(lo, c-1, 0)
	if hi += carry; hi >= c {
		return mostStep
	}
	q, _ := bits.Div64(hi, lo, c)
	return int64(min(q, uint64(mostStep)))
}

func addCapped(a, b int64) int64 {
	if s := a + b; s >= a {
		return s
	}
	return never
}

// plans publishes the plan in force to any number of readers without lock or allocation: the last planSlots plans stand in slots, and a reader
// takes what it has read only if its slot was not due to be written again meanwhile. So a reader repeats only because others made progress, and a
// writer that is descheduled in the middle disturbs nobody. (A pointer to an immutable value would allocate whenever a sparse tenant comes or
// goes; a seqlock would make readers wait for a descheduled writer.)
type plans struct {
	seq  atomic.Int64 // number of the plan in force
	slot [planSlots]struct {
		mode, at, v, pace, credit, rate, burst, due, period, frame, piece atomic.Int64
		_                                                                 [40]byte
	}
}

func (s *plans) publish(p *plan) {
	n := s.seq.Load() + 1
	to := &s.slot[n%planSlots]
	to.mode.Store(int64(p.mode))
	to.at.Store(p.at)
	to.v.Store(p.v)
	to.pace.Store(p.pace)
	to.credit.Store(p.credit)
	to.rate.Store(p.rate)
	to.burst.Store(p.burst)
	to.due.Store(p.due)
	to.period.Store(p.period)
	to.frame.Store(p.frame)
	to.piece.Store(p.piece)
	s.seq.Store(n)
}

// read returns the plan in force and its number.
func (s *plans) read() (p plan, seq int64) {
	for {
		seq = s.seq.Load()
		from := &s.slot[seq%planSlots]
		p = plan{
			mode: mode(from.mode.Load()), at: from.at.Load(), v: from.v.Load(), pace: from.pace.Load(), credit: from.credit.Load(),
			rate: from.rate.Load(), burst: from.burst.Load(), due: from.due.Load(), period: from.period.Load(), frame: from.frame.Load(),
			piece: from.piece.Load(),
		}
		if s.seq.Load()-seq < planSlots-1 {
			return p, seq
		}
	}
}
