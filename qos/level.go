package qos

import (
	"math"
	"math/bits"
)

// levelFloor is where debt stops being counted: below any sum of honest totals, and far enough from the end of an int64 that no
// subtraction wraps.
const levelFloor = -(int64(1) << 61)

// A Level is the owner's bucket: how much of a limit is left. Use takes from it even when nothing is left, so it may be negative;
// time fills it at the rate up to the burst. It is exact: what a division by a second leaves over is carried, so that a level
// asked a million times a second ends where one asked once does, and it agrees with a bucket of big integers to the last unit.
//
// Two tempting shortcuts are bugs here. Clamping at zero forgets what workers overspent while they could not know, and admitted use
// grew to 15 times the bound in simulation. A float64 loses whole requests once levels pass 2^53 and whole rates once
// intervals get short.
//
// The zero Level has no rate; use NewLevel.
type Level struct {
	level int64 // units; never above burst, may be far below zero
	rem   int64 // unit-nanoseconds refilled that are not yet a unit: 0 to perSecond-1, and 0 when level is burst
	spill int64 // unit-nanoseconds that found no room and are not yet a unit: 0 to perSecond-1
	at    int64 // ns up to which refill is counted; never goes back
	rate  int64 // units per second, 1 to MaxRate
	burst int64 // units, 1 to MaxBurst
}

// NewLevel returns a bucket that holds level units at now; level is cut to the burst. Rate and burst are those of a valid Policy.
func NewLevel(rate, burst, level, now int64) Level {
	return Level{level: max(min(level, burst), levelFloor), at: now, rate: rate, burst: burst}
}

// Now returns the units left as of the last Advance.
func (l *Level) Now() int64 { return l.level }

// Full reports whether the level is at the burst.
func (l *Level) Full() bool { return l.level == l.burst }

// Advance adds the refill up to now and returns the units that found no room; what is less than one is carried, or of a bucket that is full for a moment at a
// time all of it would be lost. A now before the last one adds nothing.
func (l *Level) Advance(now int64) (overflow int64) {
	if now <= l.at {
		return 0
	}
	elapsed := uint64(now) - uint64(l.at) // right even where the signed difference would wrap
	l.at = now
	gain, rem := refill(uint64(l.rate), elapsed, uint64(l.rem))
	if room := l.burst - l.level; gain >= room { // no wrap: level is at least levelFloor, burst at most MaxBurst
		l.level, l.rem = l.burst, 0
		l.spill += rem
		if overflow = gain - room; l.spill >= perSecond && overflow < math.MaxInt64 {
			l.spill -= perSecond
			overflow++
		}
		return overflow
	}
	l.level, l.rem = l.level+gain, rem
	return 0
}

// refill is (rate*elapsed + rem) / perSecond and what it leaves, the quotient cut to an int64.
func refill(rate, elapsed, rem uint64) (gain, left int64) {
	hi, lo := bits.Mul64(rate, elapsed)
	lo, carry := bits.Add64(lo, rem, 0)
	hi += carry
	if hi == 0 { // the usual case, without the slow 128-bit division
		return int64(lo / perSecond), int64(lo % perSecond)
	}
	if hi >= perSecond>>1 { // the quotient would not fit in 63 bits
		return math.MaxInt64, 0
	}
	q, r := bits.Div64(hi, lo, perSecond)
	return int64(q), int64(r)
}

// Take subtracts n >= 0 units, whatever is left: use that has happened cannot be refused.
func (l *Level) Take(n int64) {
	if n == 0 {
		return
	}
	l.level = max(l.level-min(n, math.MaxInt64>>1), levelFloor)
}

// Give puts n >= 0 units back and returns how many found room. The rest is lost: a refund never lifts the level above the burst.
func (l *Level) Give(n int64) (taken int64) {
	taken = min(n, l.burst-l.level)
	l.level += taken
	if l.level == l.burst {
		l.rem = 0
	}
	return taken
}

// Retune changes rate and burst from now on; the level is cut to the new burst and otherwise kept. now is as for Advance.
func (l *Level) Retune(rate, burst, now int64) {
	l.Advance(now)
	l.rate, l.burst = rate, burst
	if l.level >= burst {
		l.level, l.rem = burst, 0
	}
}

// Until returns the first time at which, if nothing is used, the level is at least target units; math.MaxInt64 when that is above
// the burst or past the end of time.
func (l *Level) Until(target int64) int64 {
	if target > l.burst {
		return math.MaxInt64
	}
	if target <= l.level {
		return l.at
	}
	hi, lo := bits.Mul64(uint64(target-l.level), perSecond)
	lo, borrow := bits.Sub64(lo, uint64(l.rem), 0)
	hi -= borrow
	lo, carry := bits.Add64(lo, uint64(l.rate-1), 0) // round up
	hi += carry
	if hi >= uint64(l.rate) {
		return math.MaxInt64
	}
	wait, _ := bits.Div64(hi, lo, uint64(l.rate))
	if wait > math.MaxInt64 || int64(wait) > math.MaxInt64-max(l.at, 0) {
		return math.MaxInt64
	}
	return l.at + int64(wait)
}

// mulDiv is a*b/c for a, b >= 0 and c > 0, rounded down and cut to an int64.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	switch {
	case hi == 0: // the usual case, without the slow 128-bit division
		return int64(min(lo/uint64(c), math.MaxInt64))
	case hi >= uint64(c):
		return math.MaxInt64
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, math.MaxInt64))
}
