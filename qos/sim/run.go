package sim

import (
	"bytes"
	"cmp"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
)

// A Failure is a seed that broke a check.
type Failure struct {
	Seed uint64
	Err  error
}

func (f Failure) String() string {
	return fmt.Sprintf("seed %d: %v\n\treplay: %s", f.Seed, f.Err, Replay(f.Seed))
}

// RunSeed draws a run from a seed and lets it happen. A panic in it is its error.
func RunSeed(seed uint64) (Result, error) {
	return runDrawn(func() Setup { return FromSeed(seed) }, nil)
}

// runDrawn runs what is drawn; say is told what is done to it, if it is not nil.
func runDrawn(draw func() Setup, say func(string)) (r Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			lines := bytes.SplitN(debug.Stack(), []byte("\n"), 20)
			err = fmt.Errorf("panic: %v\n%s", p, bytes.Join(lines[min(7, len(lines)):min(15, len(lines))], []byte("\n")))
		}
	}()
	w, err := New(draw())
	if err != nil {
		return r, err
	}
	w.say = say
	return w.Run()
}

// RunSeeds runs n seeds from first on, so many at a time, and adds them up. What failed is in the order of seeds.
func RunSeeds(first, n uint64, procs int) (total Result, failed []Failure) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	var taken atomic.Uint64
	for range procs {
		wg.Go(func() {
			var sum Result
			var bad []Failure
			for i := taken.Add(1) - 1; i < n; i = taken.Add(1) - 1 {
				r, err := RunSeed(first + i)
				sum.Add(&r)
				if err != nil {
					bad = append(bad, Failure{first + i, err})
				}
			}
			mu.Lock()
			defer mu.Unlock()
			if sum.Runs > 0 {
				total.Add(&sum)
			}
			failed = append(failed, bad...)
		})
	}
	wg.Wait()
	slices.SortFunc(failed, func(a, b Failure) int { return cmp.Compare(a.Seed, b.Seed) })
	return total, failed
}
