package qos

import (
	"fmt"
	"math/big"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"pgregory.net/rapid"
)

// bigBucket is the exact twin of a GCRA: units times ticks per share, so that any rate and share divide evenly.
type bigBucket struct {
	v, burst    *big.Int // units * per
	rate, per   *big.Int
	at          int64
	lossPerCall *big.Int // one tick of refill per charge: the tolerance
}

func newBigBucket(rate, share, burst, now int64) *bigBucket {
	per := new(big.Int).Mul(big.NewInt(share), big.NewInt(perSecond*gcraTick))
	full := new(big.Int).Mul(big.NewInt(burst), per)
	return &bigBucket{v: new(big.Int).Set(full), burst: full, rate: big.NewInt(rate), per: per, at: now, lossPerCall: new(big.Int)}
}

func (b *bigBucket) advance(now int64) {
	if now > b.at {
		gain := new(big.Int).Mul(big.NewInt(now-b.at), big.NewInt(gcraTick))
		b.v.Add(b.v, gain.Mul(gain, b.rate))
		b.at = now
	}
	if b.v.Cmp(b.burst) > 0 {
		b.v.Set(b.burst)
	}
}

// asOf is a copy of b as of now.
func (b *bigBucket) asOf(now int64) *bigBucket {
	c := *b
	c.v = new(big.Int).Set(b.v)
	c.advance(now)
	return &c
}

func (b *bigBucket) fits(n int64) bool {
	return b.v.Cmp(new(big.Int).Mul(big.NewInt(n), b.per)) >= 0 || b.v.Cmp(b.burst) == 0
}

func (b *bigBucket) add(n int64) {
	b.v.Add(b.v, new(big.Int).Mul(big.NewInt(n), b.per))
	if n < 0 {
		b.v.Sub(b.v, b.lossPerCall)
	}
	if b.v.Cmp(b.burst) > 0 {
		b.v.Set(b.burst)
	}
}

// TestGCRAAgainstExactBucket holds the stated tolerance from both sides: what the word admits an exact bucket admits, and what a bucket
// that loses one tick of refill per charge admits the word admits. Late times are mixed in: a twin's time is that of the newest
// charge, and does not go back.
func TestGCRAAgainstExactBucket(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate, share := genRate().Draw(t, "rate"), rapid.OneOf(rapid.Just(int64(1)), rapid.Int64Range(1, 100_000)).Draw(t, "share")
		burst := min(rapid.OneOf(rapid.Int64Range(1, 100), rapid.Int64Range(1, 1<<40)).Draw(t, "burst"), 1+min(rate/share, 1<<20)*(1<<26))
		now := rapid.Int64Range(-1e17, 1e17).Draw(t, "start")
		g, exact, lossy := NewGCRA(rate, share, burst, burst, now), newBigBucket(rate, share, burst, now), newBigBucket(rate, share, burst, now)
		lossy.lossPerCall.Set(lossy.rate)
		lossy.burst.Sub(lossy.burst, lossy.rate)
		lossy.v.Set(lossy.burst)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "moves") {
				now += rapid.OneOf(rapid.Int64Range(0, 100), rapid.Int64Range(0, 1e7), rapid.Int64Range(0, 1e12)).Draw(t, "dt")
			}
			late := int64(0)
			refund := rapid.IntRange(0, 4).Draw(t, "op") == 0
			if !refund && rapid.IntRange(0, 3).Draw(t, "isLate") == 0 {
				late = rapid.Int64Range(0, 1e10).Draw(t, "late")
			}
			then := exact.asOf(now - late) // the exact bucket at the time that this step claims; nothing is known to have passed before it counts
			lossy.advance(now - late)
			n := rapid.OneOf(rapid.Int64Range(0, burst), rapid.Int64Range(0, min(burst, 4)), rapid.Int64Range(0, 2*burst)).Draw(t, "n")
			if refund {
				g.Refund(n, now)
				if then.v.Cmp(then.burst) != 0 {
					then.add(n)
					exact = then
				}
				lossy.add(n)
				lossy.v.Sub(lossy.v, lossy.rate)
				continue
			}
			must := late == 0 && lossy.fits(n) && lossy.v.Cmp(lossy.burst) != 0
			can, went := then.fits(n), g.Charge(n, now-late)
			if went && !can {
				t.Fatalf("late by %d: admitted %d at level %v/%v", late, n, then.v, then.per)
			}
			if must && !went {
				t.Fatalf("refused %d though %v/%v are left after all tolerance", n, lossy.v, lossy.per)
			}
			if went {
				then.add(-n)
				exact = then
				lossy.add(-n)
			}
		}
	})
}

func TestGCRACases(t *testing.T) {
	for _, tt := range []struct {
		name               string
		rate, share, burst int64
		script             string // "c n@t" charge, "r n@t" refund, "+" or "-" what a charge must meet
	}{
		{"burst then rate", 1000, 1, 3, "c2@0+ c1@0+ c1@0- c1@999999- c1@1000000+"},
		{"larger than the burst from full, then paced", 1000, 1, 3, "c9@0+ c1@6999999- c1@7000000+ c9@9000000-"},
		{"a share of the rate", 1000, 10, 1, "c1@0+ c1@9999999- c1@10000000+"},
		{"late now mints nothing", 1000, 1, 1, "c1@5000000+ c1@0- c1@5000000- c1@5999999- c1@6000000+"},
		{"refund gives back", 1000, 1, 3, "c3@0+ r2@0 c2@0+ c1@0-"},
		{"refund never lifts above the burst", 1000, 1, 3, "c1@0+ r9@0 c3@0+ c1@0-"},
		{"refund to a full bucket is lost", 1000, 1, 3, "r9@0 c3@0+ c1@0-"},
		{"1e12 a second does not round to nothing", MaxRate, 1, 1000, "c1000@0+ c1000@0- c1000@1+ c1000@1-"},
		{"one a second", 1, 1, 1, "c1@0+ c1@999999999- c1@1000000000+"},
		{"zero units cost nothing", 1, 1, 1, "c1@0+ c0@0+ c0@0+ c1@1000000000+"},
	} {
		g := NewGCRA(tt.rate, tt.share, tt.burst, tt.burst, 0)
		rest := tt.script
		for rest != "" {
			var op, want byte
			var n, now int64
			var step string
			step, rest, _ = cutStep(rest)
			fmt.Sscanf(step, "%c%d@%d%c", &op, &n, &now, &want)
			if op == 'r' {
				g.Refund(n, now)
				continue
			}
			if until := g.Until(n, now); (until == now) != (want == '+') {
				t.Errorf("%s: %s: Until says %d", tt.name, step, until)
			}
			if got := g.Charge(n, now); got != (want == '+') {
				t.Errorf("%s: %s: got %v", tt.name, step, got)
			}
		}
	}
}

func cutStep(s string) (step, rest string, found bool) {
	for i := range s {
		if s[i] == ' ' {
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

func TestGCRAUntilIsTheFirstTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate, burst := genRate().Draw(t, "rate"), rapid.Int64Range(1, 1e6).Draw(t, "burst")
		level := rapid.Int64Range(-burst, burst).Draw(t, "level")
		n, now := rapid.Int64Range(1, 2*burst).Draw(t, "n"), rapid.Int64Range(0, 1e15).Draw(t, "now")
		at := NewGCRA(rate, 1, burst, level, now).Until(n, now)
		if !NewGCRA(rate, 1, burst, level, now).Charge(n, at) {
			t.Fatalf("refused at now+%d", at-now)
		}
		if at > now && NewGCRA(rate, 1, burst, level, now).Charge(n, at-1) {
			t.Fatalf("admitted a nanosecond before now+%d", at-now)
		}
	})
}

func TestGCRACloseHandsOnTheLevelOnce(t *testing.T) {
	g := NewGCRA(1000, 1, 100, 100, 0)
	g.Charge(60, 0)
	if got := g.Close(5e6); got != 45 {
		t.Errorf("level %d, want 45", got)
	}
	if g.Charge(0, 1e9) || g.Until(1, 0) != 1<<63-1 {
		t.Error("admitted after Close")
	}
	g.Refund(5, 0)
	if got := g.Close(0); got != levelFloor {
		t.Errorf("second Close: %d", got)
	}
}

type gcraOp struct {
	refund bool
	n, now int64
}

// gcraModel is a GCRA in plain sequential words.
var gcraModel = porcupine.Model{
	Init: func() any { return int64(0) },
	Step: func(state, in, out any) (bool, any) {
		full, op := state.(int64), in.(gcraOp)
		const room, unit = 3 * 16e6, 16e6
		at, cost := op.now*gcraTick, op.n*unit
		if op.refund {
			return true, max(min(full, max(full-cost, at)), 0)
		}
		after := max(full, at) + cost
		if fits := after-at <= room || full <= at; fits != out.(bool) {
			return false, state
		} else if fits {
			return true, after
		}
		return true, state
	},
}

// TestGCRAIsLinearizable runs small concurrent histories, with times out of order, and asks porcupine for an order of the operations in which a
// sequential bucket gives the same answers.
func TestGCRAIsLinearizable(t *testing.T) {
	for round := range 300 {
		g := NewGCRA(1000, 1, 3, 3, 0)
		var clock atomic.Int64
		var wg sync.WaitGroup
		histories := make([][]porcupine.Operation, 4)
		for w := range histories {
			wg.Go(func() {
				for i := range 6 {
					op := gcraOp{refund: (i+w+round)%5 == 0, n: int64((i*w+round)%3 + 1), now: int64((i * 700_000) % 2_000_000)}
					ev := porcupine.Operation{ClientId: w, Input: op, Call: clock.Add(1)}
					if op.refund {
						g.Refund(op.n, op.now)
						ev.Output = true
					} else {
						ev.Output = g.Charge(op.n, op.now)
					}
					ev.Return = clock.Add(1)
					histories[w] = append(histories[w], ev)
				}
			})
		}
		wg.Wait()
		var all []porcupine.Operation
		for _, h := range histories {
			all = append(all, h...)
		}
		if porcupine.CheckOperationsTimeout(gcraModel, all, 10*time.Second) == porcupine.Illegal {
			t.Fatalf("round %d: no sequential bucket answers like this: %+v", round, all)
		}
	}
}

func TestGCRAAllocatesNothing(t *testing.T) {
	g, now := NewGCRA(1e6, 1, 1000, 1000, 0), int64(0)
	if n := testing.AllocsPerRun(1000, func() { now += 1000; g.Charge(2, now); g.Refund(1, now); g.Until(1, now) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkGCRACharge(b *testing.B) {
	g := NewGCRA(1e9, 1, 1e6, 1e6, 0)
	for i := range b.N {
		g.Charge(1, int64(i))
	}
}

func BenchmarkGCRAChargeContended(b *testing.B) {
	g := NewGCRA(1e9, 1, 1e6, 1e6, 0)
	b.RunParallel(func(pb *testing.PB) {
		for i := int64(0); pb.Next(); i++ {
			g.Charge(1, i)
		}
	})
}
