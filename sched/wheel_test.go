package sched

import (
	"math/big"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestWheelAgainstAList: a wheel does what a list of times does, at any distance.
func TestWheelAgainstAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const seats = 12
		var w wheel
		w.init()
		w.node = make([]node, seats)
		for i := range w.node {
			w.node[i].list = none
		}
		now := rapid.Int64Range(0, 1<<50).Draw(t, "start")
		for w.expired(now) != none {
		}
		w.tick = now >> tickBits
		times := map[int32]int64{} // seat -> when it is due
		due := func() (all []int32) {
			for s, at := range times {
				if at <= now {
					all = append(all, s)
				}
			}
			slices.Sort(all)
			return all
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			seat := rapid.Int32Range(0, seats-1).Draw(t, "seat")
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0, 1:
				if w.has(seat) {
					w.remove(seat)
				}
				at := now + rapid.OneOf(rapid.Int64Range(-1e6, 1e6), rapid.Int64Range(0, 1e9), rapid.Int64Range(0, 1e11), rapid.Just(never-now)).Draw(t, "at")
				w.add(seat, at)
				times[seat] = never
				if at < never-1<<tickBits {
					times[seat] = max((at+1<<tickBits-1)>>tickBits, w.tick) << tickBits
				}
			case 2:
				if _, want := times[seat]; w.has(seat) != want {
					t.Fatalf("has %d: %v", seat, w.has(seat))
				}
				if w.has(seat) {
					w.remove(seat)
					delete(times, seat)
				}
			case 3:
				now += rapid.OneOf(rapid.Int64Range(0, 1e6), rapid.Int64Range(0, 1e9), rapid.Int64Range(0, 1e11)).Draw(t, "passes")
				var got []int32
				for w.count > 0 {
					s := w.expired(now)
					if s == none {
						break
					}
					got = append(got, s)
				}
				slices.Sort(got)
				if want := due(); !slices.Equal(got, want) {
					t.Fatalf("at %d: %v came, want %v of %v", now, got, want, times)
				}
				for _, s := range got {
					delete(times, s)
				}
			}
			first := int64(never)
			for _, at := range times {
				first = min(first, at)
			}
			if got := w.wake(); got != first {
				t.Fatalf("wakes at %d, want %d", got, first)
			}
		}
	})
}

// TestHeapAgainstSorting: keys that wrap, too.
func TestHeapAgainstSorting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const seats = 30
		h := heap{pos: slices.Repeat([]int32{none}, seats)}
		base := rapid.Int64().Draw(t, "base")
		keys := map[int32]int64{}
		for range rapid.IntRange(1, 100).Draw(t, "steps") {
			seat := rapid.Int32Range(0, seats-1).Draw(t, "seat")
			key := base + rapid.Int64Range(-1<<40, 1<<40).Draw(t, "key")
			switch {
			case !h.has(seat):
				h.push(seat, key)
				keys[seat] = key
			case rapid.Bool().Draw(t, "fix"):
				h.fix(seat, key)
				keys[seat] = key
			default:
				h.remove(seat)
				delete(keys, seat)
			}
			if h.len() != len(keys) {
				t.Fatalf("%d in the heap, want %d", h.len(), len(keys))
			}
			for s, k := range keys {
				if e := h.e[h.pos[s]]; e.seat != s || e.key != k {
					t.Fatalf("seat %d has %+v, want key %d", s, e, k)
				}
				if k-h.e[0].key < 0 {
					t.Fatalf("%d is before the first, %d", k, h.e[0].key)
				}
			}
		}
	})
}

// TestPlanAgainstBigIntegers: V, what is granted, and the times at which either comes somewhere.
func TestPlanAgainstBigIntegers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := plan{
			at: rapid.Int64Range(0, 1<<60).Draw(t, "at"), v: rapid.Int64Range(0, 1<<60).Draw(t, "v"), credit: rapid.Int64Range(0, 1<<60).Draw(t, "credit"),
			rate: rapid.Int64Range(1, MaxRate).Draw(t, "rate"), pace: rapid.Int64Range(1, 1<<58).Draw(t, "pace"),
		}
		ns := rapid.OneOf(rapid.Int64Range(0, 1e7), rapid.Int64Range(0, 3600e9), rapid.Int64Range(0, 1<<60)).Draw(t, "ns")
		whole := func(a, b, c int64) (*big.Int, *big.Int) {
			return new(big.Int).QuoRem(new(big.Int).Mul(big.NewInt(a), big.NewInt(b)), big.NewInt(c), new(big.Int))
		}
		v, _ := whole(ns, p.pace, 1<<paceShift)
		if want := min(v.Uint64(), uint64(mostStep)); v.IsUint64() && p.virtual(p.at+ns)-p.v != int64(want) && v.Cmp(big.NewInt(mostStep)) < 0 {
			t.Fatalf("V moves by %d in %d ns, want %d", p.virtual(p.at+ns)-p.v, ns, want)
		}
		bytes, rem := whole(ns, p.rate, second)
		got, cut := p.granted(p.at + ns)
		if bytes.Cmp(big.NewInt(mostStep)) < 0 {
			if got-p.credit != bytes.Int64() || (cut != 0) != (rem.Sign() != 0) {
				t.Fatalf("%d bytes granted in %d ns, cut %d, want %d and %d", got-p.credit, ns, cut, bytes, rem)
			}
			if d := rapid.Int64Range(0, 1<<40).Draw(t, "bytes"); true {
				at := p.whenGranted(p.credit + d)
				if n, _ := p.granted(at); at-p.at < 1<<60 && n < p.credit+d {
					t.Fatalf("%d bytes are granted at %d, not %d", n-p.credit, at, d)
				}
				if n, _ := p.granted(at - 1); d > 0 && at-p.at < 1<<60 && at > p.at && n >= p.credit+d {
					t.Fatalf("%d bytes are granted 1 ns before", n-p.credit)
				}
			}
		}
		d := rapid.Int64Range(0, 1<<50).Draw(t, "d")
		if at := p.when(p.v + d); at-p.at < 1<<55 && p.virtual(at) < p.v+d {
			t.Fatalf("V is %d at %d, not %d", p.virtual(at)-p.v, at, d)
		}
	})
}

// TestBucketAgainstEveryInterval: whatever is taken and given back when, no interval has more than burst + rate * its length, counted when it was taken.
func TestBucketAgainstEveryInterval(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Int64Range(1, 2000).Draw(t, "rate")
		burst := rapid.Int64Range(10, 3000).Draw(t, "burst")
		p := plan{rate: rate, at: 0, burst: burst, credit: burst}
		var b bucket
		type taken struct{ at, n, open int64 }
		var all []taken
		now := int64(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += rapid.OneOf(rapid.Int64Range(0, 1e6), rapid.Int64Range(0, 3e9)).Draw(t, "passes")
			granted, cut := p.granted(now)
			if rapid.Bool().Draw(t, "give back") && len(all) > 0 {
				if x := &all[rapid.IntRange(0, len(all)-1).Draw(t, "whose")]; x.open > 0 {
					back := rapid.Int64Range(0, x.open).Draw(t, "back")
					b.settle(x.open, back)
					x.n, x.open = x.n-back, 0
				}
				continue
			}
			n := rapid.Int64Range(1, burst).Draw(t, "n")
			ok, need := b.take(n, 0, granted, cut, burst)
			if ok {
				all = append(all, taken{now, n, n})
			} else if need <= granted {
				t.Fatalf("refused at %d granted, and told to come at %d", granted, need)
			}
		}
		for i := range all {
			sum := int64(0)
			for j := i; j < len(all); j++ {
				sum += all[j].n
				// sum <= burst + rate*dt, in 1e-9 bytes
				if length := all[j].at - all[i].at; (sum-burst)*second > rate*length {
					t.Fatalf("%d bytes in %d ns, rate %d, burst %d", sum, length, rate, burst)
				}
			}
		}
	})
}
