package sim

import (
	"math/bits"
	"math/rand/v2"
)

// dice draw what rand.Rand draws from the same source, without the call through an interface: there are two draws in three events.
type dice struct{ rand.PCG }

func newDice(seed1, seed2 uint64) dice { return dice{*rand.NewPCG(seed1, seed2)} }

// IntN is rand.Rand's.
func (d *dice) IntN(n int) int { return int(d.Int64N(int64(n))) }

// Int64N is rand.Rand's: Lemire's method.
func (d *dice) Int64N(n int64) int64 {
	if n <= 0 {
		panic("sim: a draw of none")
	}
	m := uint64(n)
	if m&(m-1) == 0 {
		return int64(d.Uint64() & (m - 1))
	}
	hi, lo := bits.Mul64(d.Uint64(), m)
	if lo < m {
		for least := -m % m; lo < least; {
			hi, lo = bits.Mul64(d.Uint64(), m)
		}
	}
	return int64(hi)
}
