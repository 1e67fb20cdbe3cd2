package sim

import "math/bits"

// A bucket is a leaky bucket of our own: the checks must not share arithmetic with what they check. A mutant of qos.Level that minted refunds lived
// for as long as both used it.
type bucket struct {
	rate, burst int64
	level, nano int64 // units, and billionths of one; level is at most burst
	at          int64
}

// to brings the bucket to now.
func (b *bucket) to(now int64) {
	hi, lo := bits.Mul64(uint64(b.rate), uint64(now-b.at))
	lo, carry := bits.Add64(lo, uint64(b.nano), 0)
	units, nano := lo/1e9, lo%1e9
	if hi+carry > 0 { // the slow 128-bit division is seldom needed
		units, nano = bits.Div64(hi+carry, lo, 1e9)
	}
	b.at = now
	if int64(units) >= b.burst-b.level {
		b.level, b.nano = b.burst, 0
		return
	}
	b.level, b.nano = b.level+int64(units), int64(nano)
}

// take charges n at now, or gives it back if n is negative.
func (b *bucket) take(now, n int64) {
	b.to(now)
	if b.level = min(b.level-n, b.burst); b.level == b.burst {
		b.nano = 0
	}
}

// retune changes rate and burst from now on.
func (b *bucket) retune(now, rate, burst int64) {
	b.to(now)
	b.rate, b.burst = rate, burst
	b.take(now, 0)
}
