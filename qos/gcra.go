package qos

import (
	"math"
	"math/bits"
	"sync/atomic"
)

// A GCRA is a bucket in one atomic word, for a limit that one worker decides alone: the generic cell rate algorithm (ITU-T I.371), which
// keeps the time at which the bucket will be full again, so that refilling needs no write and charging is one compare-and-swap. Any
// number of rings may use it at once.
//
// Tolerance: a charge is rounded up to a tick of 1/16 ns, the burst down to one. So a GCRA never admits what an exact bucket would
// refuse, and it lags an exact bucket by less than one tick of refill per charge since it was last full: 0.03 % at 1e12/s in
// charges of 256 KiB, 0.0003 % at 10 GB/s. A burst of more than 4.5 years of refill is cut to that.
//
// A charge larger than the burst is admitted when the bucket is full and paid for by the time it takes afterwards; to refuse it would be
// to refuse it for ever. A now that comes late finds the bucket no fuller than it was: taking it at its word is how a limiter
// in wide use admitted 5,000 times its rate under contention.
type GCRA struct {
	full atomic.Int64 // tick at which the bucket is full again; gcraClosed when nothing is admitted any more

	rate  uint64 // units per share seconds
	per   uint64 // ticks in share seconds
	burst int64
	room  int64 // ticks of refill in burst
	base  int64 // ns of tick 0
}

const (
	gcraTick   = 16 // ticks in a nanosecond
	gcraMost   = int64(1) << 61
	gcraClosed = math.MaxInt64
)

// NewGCRA returns a bucket that holds level units at now (at most burst; debt if negative) and refills at rate/share units a second.
// share is at least 1 and at most 100,000: among how many the rate is divided.
func NewGCRA(rate, share, burst, level, now int64) *GCRA {
	g := &GCRA{rate: uint64(rate), per: uint64(share) * perSecond * gcraTick, burst: burst, base: now}
	g.room = g.ticks(burst, 0)
	if missing := burst - level; missing > 0 {
		g.full.Store(g.ticks(missing, g.rate-1))
	}
	return g
}

// ticks is n units of refill in ticks, (n*per + round) / rate, cut to gcraMost.
func (g *GCRA) ticks(n int64, round uint64) int64 {
	hi, lo := bits.Mul64(uint64(n), g.per)
	lo, carry := bits.Add64(lo, round, 0)
	hi += carry
	if hi == 0 {
		return min(int64(min(lo/g.rate, uint64(gcraMost))), gcraMost)
	}
	if hi >= g.rate {
		return gcraMost
	}
	q, _ := bits.Div64(hi, lo, g.rate)
	return int64(min(q, uint64(gcraMost)))
}

// tick is now in ticks since base, cut to gcraMost.
func (g *GCRA) tick(now int64) int64 {
	return max(min(now-g.base, gcraMost/gcraTick), -gcraMost/gcraTick) * gcraTick
}

// Charge takes n >= 0 units at now, all or none.
func (g *GCRA) Charge(n, now int64) bool {
	cost, at := g.ticks(n, g.rate-1), g.tick(now)
	for {
		full := g.full.Load()
		if full == gcraClosed {
			return false
		}
		start := max(full, at)
		if after := start + cost; after-at > g.room && full > at || after >= 2*gcraMost {
			return false
		} else if g.full.CompareAndSwap(full, after) {
			return true
		}
	}
}

// Refund puts n >= 0 units back at now. It never lifts the bucket above its burst: what finds no room is lost. now is the newest time that has been
// charged at: the word does not keep that, so an older one may bring back what has overflowed since, for those who are as late. (A Cell puts back at once what it
// has just charged, at the same time.)
func (g *GCRA) Refund(n, now int64) {
	back, at := g.ticks(n, 0), g.tick(now)
	for {
		full := g.full.Load()
		if full == gcraClosed || full <= at {
			return
		}
		if g.full.CompareAndSwap(full, max(full-back, at)) {
			return
		}
	}
}

// Until returns the first time, not before now, at which a charge of n would be admitted if nothing else is charged until then.
func (g *GCRA) Until(n, now int64) int64 {
	full, at := g.full.Load(), g.tick(now)
	if full == gcraClosed {
		return math.MaxInt64
	}
	wait := min(full-at, max(full+g.ticks(n, g.rate-1)-g.room-at, 0))
	if wait <= 0 {
		return now
	}
	return now + (wait+gcraTick-1)/gcraTick
}

// Level returns the units left at now, rounded down; negative when a large charge is still being paid for.
func (g *GCRA) Level(now int64) int64 { return g.level(g.full.Load(), now) }

func (g *GCRA) level(full, now int64) int64 {
	behind := full - g.tick(now)
	if behind <= 0 {
		return g.burst
	}
	hi, lo := bits.Mul64(uint64(behind), g.rate)
	lo, carry := bits.Add64(lo, g.per-1, 0)
	missing, _ := bits.Div64(hi+carry, lo, g.per) // hi < per: behind < 2^63 and rate < 2^40
	return g.burst - int64(min(missing, math.MaxInt64>>1))
}

// Close ends the bucket: no charge is admitted after it. It returns the level at now, for whoever carries on. Closing twice returns the
// floor of all levels, so that a bucket cannot be handed on twice.
func (g *GCRA) Close(now int64) int64 {
	full := g.full.Swap(gcraClosed)
	if full == gcraClosed {
		return levelFloor
	}
	return g.level(full, now)
}
