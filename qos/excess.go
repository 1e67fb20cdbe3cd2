package qos

import (
	"math"
	"math/bits"
)

// perSecond is the number of nanoseconds in a second: rates are units per second, times are nanoseconds.
const perSecond = 1_000_000_000

// maxTerms bounds an Excess: the changes of policy that one worst window can reach over.
const maxTerms = 16

// An Excess measures by how much admissions passed their limit: the largest value, over all windows (s, t], of
//
//	admitted(s, t) - refunded(s, t) - B - R*(t-s)
//
// It is exact and takes one pass without keeping a window: an ideal bucket of rate R and burst B is driven by the admissions that
// really happened, wherever in the cluster, and its level may fall below zero. The level is at any time the smallest
// B + R*(t-s) - admitted(s, t) of all windows that end now, so how far it is below zero is the excess of the worst of them.
//
// The same value serves the simulator (every admission as it happens), recorded logs (Merge) and, driven by the use that
// reports bring, a live estimate at an owner.
//
// When the policy changes, windows that reach over the change count R integrated and the largest B that was in force in them.
// Windows that began under a larger burst therefore keep a level of their own until it no longer is the lowest: that is what the
// terms are for. The obvious single bucket whose cap is lowered instead accuses windows that were within their burst.
//
// The zero value is not ready: use NewExcess.
type Excess struct {
	rate  int64  // R now, units/s
	at    int64  // time of the last step, ns; never goes back
	terms []term // burst strictly falling; the last one is the policy in force; at most maxTerms
	worst int64  // largest excess so far, units, rounded up
	full  uint64 // how many times the bucket was found full; a window that matters begins at the last of them
}

// A term is the ideal bucket of the windows in which burst is the largest that was in force.
type term struct {
	burst int64
	level int64 // whole units, rounded down; <= burst
	nano  int64 // the remainder, in billionths of a unit; [0, 1e9)
}

// NewExcess returns a meter whose ideal bucket is full at now (ns). rate is in units/s and burst in units; both at least zero.
func NewExcess(now, rate, burst int64) *Excess {
	e := &Excess{rate: max(rate, 0), at: now, terms: make([]term, 1, 4), full: 1}
	e.terms[0] = term{burst: max(burst, 0), level: max(burst, 0)}
	return e
}

// Admit counts n units that were admitted at now (ns), or given back if n is negative, and returns the excess after it.
// A now before the last one counts as the last one: callers that merge logs sort them (see Merge).
func (e *Excess) Admit(now, n int64) int64 {
	e.advance(now)
	for i := range e.terms {
		e.terms[i].add(-n)
	}
	e.prune()
	e.worst = max(e.worst, e.below())
	return e.below()
}

// Change puts another policy in force from now on. A change that spreads is two calls: to the larger of both rates when the
// first worker can know it, to the new one when every worker does.
func (e *Excess) Change(now, rate, burst int64) {
	e.advance(now)
	e.rate = max(rate, 0)
	burst = max(burst, 0)
	last := &e.terms[len(e.terms)-1]
	if burst < last.burst {
		e.terms = append(e.terms, term{burst: burst, level: burst})
		e.prune()
		return
	}
	for i := range e.terms {
		if t := &e.terms[i]; t.burst < burst {
			t.level += burst - t.burst
			t.burst = burst
		}
	}
	e.mergeEqual()
	e.prune()
}

// Level returns the ideal bucket's level at now in units, rounded down; negative while in excess.
func (e *Excess) Level(now int64) int64 {
	e.advance(now)
	return e.lowest().level
}

// Now returns the excess of the windows that end now, in units.
func (e *Excess) Now(now int64) int64 {
	e.advance(now)
	return e.below()
}

// Worst returns the largest excess of any window so far, in units rounded up.
func (e *Excess) Worst() int64 { return e.worst }

// Era counts the times the bucket was full. The worst window begins at such a time, so the incarnations that its bound may
// count (the N of N*b) are those that admitted in the present era.
func (e *Excess) Era() uint64 { return e.full }

// below is the present excess.
func (e *Excess) below() int64 { return max(-e.lowest().level, 0) }

func (e *Excess) lowest() term {
	low := e.terms[0]
	for _, t := range e.terms[1:] {
		if t.under(low) {
			low = t
		}
	}
	return low
}

func (e *Excess) advance(now int64) {
	if now <= e.at {
		return
	}
	for i := range e.terms {
		e.terms[i].refill(e.rate, now-e.at)
	}
	e.at = now
	e.prune()
	if t := e.terms[0]; t.level == t.burst {
		e.full++
	}
}

// prune drops the terms that can never again be the lowest, and when there are too many joins the two oldest, which may overstate.
func (e *Excess) prune() {
	if len(e.terms) == 1 {
		return
	}
	kept := e.terms[:0]
	for i, t := range e.terms {
		if !t.hidden(e.terms[i+1:]) {
			kept = append(kept, t)
		}
	}
	if e.terms = kept; len(kept) <= maxTerms {
		return
	}
	if kept[1].under(kept[0]) {
		kept[0].level, kept[0].nano = kept[1].level, kept[1].nano
	}
	e.terms = append(kept[:1], kept[2:]...)
}

// hidden reports whether one of the later terms stays at or below t whatever comes. It must be lower now, and must lack at least
// as much to its own burst: raising the burst lifts every term by what its burst is short of the new one, so a later term that is
// lower only because its burst is small would overtake.
func (t term) hidden(later []term) bool {
	for _, o := range later {
		if !t.under(o) && (t.burst-t.level < o.burst-o.level || t.burst-t.level == o.burst-o.level && t.nano >= o.nano) {
			return true
		}
	}
	return false
}

// mergeEqual joins the terms whose bursts have become equal, keeping the lower level.
func (e *Excess) mergeEqual() {
	kept := e.terms[:1]
	for _, t := range e.terms[1:] {
		last := &kept[len(kept)-1]
		if last.burst != t.burst {
			kept = append(kept, t)
		} else if t.under(*last) {
			*last = t
		}
	}
	e.terms = kept
}

func (t term) under(o term) bool {
	return t.level < o.level || t.level == o.level && t.nano < o.nano
}

// add moves the level by n units and caps it at the burst.
func (t *term) add(n int64) {
	if n > 0 && t.level > t.burst-n {
		t.level, t.nano = t.burst, 0
		return
	}
	if n < 0 && t.level < math.MinInt64-n {
		t.level = math.MinInt64 // nothing real is this far in debt
		return
	}
	t.level += n
	if t.level == t.burst {
		t.nano = 0
	}
}

// refill adds rate x ns exactly: what is not a whole unit stays in nano.
func (t *term) refill(rate, ns int64) {
	hi, lo := bits.Mul64(uint64(rate), uint64(ns))
	lo, carry := bits.Add64(lo, uint64(t.nano), 0)
	hi += carry
	if hi >= perSecond { // more than 2^64 units: no bucket is this deep
		t.level, t.nano = t.burst, 0
		return
	}
	units, nano := lo/perSecond, lo%perSecond
	if hi > 0 { // the slow 128-bit division is seldom needed
		units, nano = bits.Div64(hi, lo, perSecond)
	}
	if units > uint64(t.burst)-uint64(t.level) { // exact as unsigned: level <= burst
		t.level, t.nano = t.burst, 0
		return
	}
	t.nano = int64(nano)
	t.level += int64(units)
	if t.level == t.burst {
		t.nano = 0
	}
}

// An Admission is one line of an admission log.
type Admission struct {
	At   int64 // ns, on a clock that all merged logs share
	Cost int64 // units; negative for a refund
}

// Merge calls each with the admissions of several logs in the order of time. Each log must be sorted by At. Of admissions at one
// instant the charges come first: it may overstate the excess by what was given back in that very instant, never hide any.
func Merge(logs [][]Admission, each func(log int, a Admission)) {
	next := make([]int, len(logs))
	for {
		best := -1
		for i, log := range logs {
			if next[i] < len(log) && (best < 0 || before(log[next[i]], logs[best][next[best]])) {
				best = i
			}
		}
		if best < 0 {
			return
		}
		each(best, logs[best][next[best]])
		next[best]++
	}
}

func before(a, b Admission) bool {
	return a.At < b.At || a.At == b.At && a.Cost > 0 && b.Cost < 0
}
