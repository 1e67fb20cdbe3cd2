package peerwire

import (
	"math/rand/v2"
	"testing"
)

// TestPace: whoever keeps to it never does more in any window than the burst and the rate allow, and is not held up below the rate.
func TestPace(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		rate, burst := 1+r.Int64N(5000), 1+r.Int64N(300)
		p := newPace(rate, burst)
		every := second / rate
		now := r.Int64N(second)
		var at []int64
		for range 2000 {
			if r.IntN(100) == 0 {
				now += r.Int64N(3 * burst * every) // a pause
			}
			now += r.Int64N(every) // twice the rate, on average
			if wait := p.next(now); wait > 0 {
				now += wait
			}
			at = append(at, now)
		}
		for i := range at { // n things from i on take at least n-1-burst intervals
			for _, j := range []int{i + 1, i + int(burst), i + int(burst) + 1, i + 2*int(burst) + 5, len(at) - 1} {
				if j > i && j < len(at) && at[j]-at[i] < (int64(j-i)-burst)*every {
					t.Fatalf("seed %d: %d within %d ns at %d a second and a burst of %d", seed, j-i+1, at[j]-at[i], rate, burst)
				}
			}
		}
		calm := newPace(rate, burst)
		for range 1000 {
			now += every
			if wait := calm.next(now); wait > 0 {
				t.Fatalf("seed %d: held up by %d ns at the rate itself", seed, wait)
			}
		}
	}
}
