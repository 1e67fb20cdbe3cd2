package qos

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// bigLevel is the dumb twin of a Level: one big number of unit-nanoseconds.
type bigLevel struct {
	v, burst *big.Int
	rate     int64
	at       int64
}

func scaled(n int64) *big.Int { return new(big.Int).Mul(big.NewInt(n), big.NewInt(perSecond)) }

func newBigLevel(rate, burst, level, now int64) *bigLevel {
	return &bigLevel{v: scaled(min(level, burst)), burst: scaled(burst), rate: rate, at: now}
}

func (b *bigLevel) advance(now int64) {
	if now <= b.at {
		return
	}
	dt := new(big.Int).Sub(big.NewInt(now), big.NewInt(b.at))
	b.v.Add(b.v, dt.Mul(dt, big.NewInt(b.rate)))
	b.at = now
	b.clip()
}

func (b *bigLevel) clip() {
	if b.v.Cmp(b.burst) > 0 {
		b.v.Set(b.burst)
	}
}

func (b *bigLevel) add(n int64) { b.v.Add(b.v, scaled(n)); b.clip() }

func wantSameLevel(t *rapid.T, l *Level, b *bigLevel) {
	got := scaled(l.level)
	got.Add(got, big.NewInt(l.rem))
	if got.Cmp(b.v) != 0 {
		t.Fatalf("level %d + %d/1e9, big integers say %v/1e9", l.level, l.rem, b.v)
	}
	if l.level > l.burst || l.rem < 0 || l.rem >= perSecond || l.Full() && l.rem != 0 {
		t.Fatalf("invariant: %+v", *l)
	}
}

// genRate draws rates from 1/s to 1e12/s, small ones and ends as likely as large ones.
func genRate() *rapid.Generator[int64] {
	return rapid.OneOf(rapid.Int64Range(1, MaxRate), rapid.Int64Range(1, 2000), rapid.SampledFrom([]int64{1, 999_999_999, 1e9, 1e9 + 1, MaxRate}))
}

func genTime() *rapid.Generator[int64] {
	return rapid.OneOf(rapid.Int64Range(0, 100), rapid.Int64Range(0, 1e7), rapid.Int64Range(0, 1e10), rapid.Int64Range(0, 1e17))
}

func TestLevelAgainstBigIntegers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate, now := genRate().Draw(t, "rate"), rapid.Int64Range(-1e17, 1e17).Draw(t, "start")
		burst := rapid.OneOf(rapid.Int64Range(1, 100), rapid.Int64Range(1, MaxBurst)).Draw(t, "burst")
		level := rapid.Int64Range(-burst, burst).Draw(t, "level")
		l, b := NewLevel(rate, burst, level, now), newBigLevel(rate, burst, level, now)
		t.Repeat(map[string]func(*rapid.T){
			"advance": func(t *rapid.T) {
				now += genTime().Draw(t, "dt")
				l.Advance(now)
				b.advance(now)
			},
			"late": func(t *rapid.T) { l.Advance(now - genTime().Draw(t, "dt")) },
			"take": func(t *rapid.T) {
				n := rapid.Int64Range(0, 3*min(burst, 1<<50)).Draw(t, "n") // charges larger than the burst too
				l.Take(n)
				b.add(-n)
			},
			"give": func(t *rapid.T) {
				n, had := rapid.Int64Range(0, burst).Draw(t, "n"), l.Now()
				if taken := l.Give(n); l.Now()-had != taken || taken > n {
					t.Fatalf("gave %d of %d, level went from %d to %d", taken, n, had, l.Now())
				}
				b.add(n)
			},
			"retune": func(t *rapid.T) {
				rate, burst = genRate().Draw(t, "rate"), rapid.Int64Range(1, MaxBurst).Draw(t, "burst")
				l.Retune(rate, burst, now)
				b.advance(now)
				b.rate, b.burst = rate, scaled(burst)
				b.clip()
			},
			"until": func(t *rapid.T) {
				target := rapid.Int64Range(-burst, burst).Draw(t, "target")
				at := l.Until(target)
				if at == math.MaxInt64 { // then it is really far: the twin is not there 100 years on
					b2 := *b
					b2.v = new(big.Int).Set(b.v)
					b2.advance(now + 3e18)
					if b2.v.Cmp(scaled(target)) >= 0 {
						t.Fatalf("level is %d within 100 years, Until said never", target)
					}
					return
				}
				then, before := l, l
				then.Advance(at)
				before.Advance(at - 1)
				if then.Now() < target || at > l.at && before.Now() >= target {
					t.Fatalf("Until(%d) = now+%d: level %d then, %d a nanosecond before", target, at-l.at, then.Now(), before.Now())
				}
			},
			"": func(t *rapid.T) { wantSameLevel(t, &l, b) },
		})
	})
}

func TestLevelOverflowIsWhatFoundNoRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate, burst := genRate().Draw(t, "rate"), rapid.Int64Range(1, 1<<40).Draw(t, "burst")
		l := NewLevel(rate, burst, rapid.Int64Range(-burst, burst).Draw(t, "level"), 0)
		free := l
		free.burst = MaxBurst << 1 // the same refill with room for all of it
		dt := rapid.Int64Range(0, 1e15).Draw(t, "dt")
		over := l.Advance(dt)
		if free.Advance(dt); l.Now()+over != free.Now() {
			t.Fatalf("level %d and overflow %d, without a cap %d", l.Now(), over, free.Now())
		}
	})
}

func TestLevelAtTheEnds(t *testing.T) {
	l := NewLevel(MaxRate, MaxBurst, math.MinInt64+1, math.MinInt64)
	l.Take(math.MaxInt64)
	l.Take(math.MaxInt64)
	if l.Now() != levelFloor {
		t.Errorf("debt %d, want it held at %d", l.Now(), levelFloor)
	}
	if l.Advance(math.MaxInt64); !l.Full() {
		t.Errorf("584 years at 1e12/s: level %d, want full", l.Now())
	}
	slow := NewLevel(1, 10, levelFloor, math.MaxInt64-1)
	if got := slow.Until(10); got != math.MaxInt64 {
		t.Errorf("Until = %d, want never", got)
	}
	if got := slow.Until(11); got != math.MaxInt64 {
		t.Errorf("above the burst: Until = %d, want never", got)
	}
}

func TestLevelSplitsTimeExactly(t *testing.T) {
	once, often := NewLevel(7, 1000, 0, 0), NewLevel(7, 1000, 0, 0)
	for now := int64(0); now <= 3*perSecond; now += 999 {
		often.Advance(now)
	}
	once.Advance(3 * perSecond)
	if often.Advance(3 * perSecond); often != once || once.Now() != 21 {
		t.Errorf("asked once %+v, asked 3 million times %+v", once, often)
	}
}

func BenchmarkLevelAdvanceTake(b *testing.B) {
	l := NewLevel(200_000, 20_000, 20_000, 0)
	for i := range b.N {
		l.Advance(int64(i) * 5000)
		l.Take(1)
	}
}

// What finds no room is carried, too: a bucket that is looked at a thousand times while it is full loses as much as one that is looked at once.
func TestLevelCarriesWhatFindsNoRoom(t *testing.T) {
	l := NewLevel(80, 6, 6, 0)
	over := int64(0)
	for i := range int64(1000) {
		over += l.Advance((i + 1) * ms)
	}
	if over != 80 || !l.Full() {
		t.Errorf("%d units found no room in a second, want 80; %+v", over, l)
	}
}
