package sim

import (
	"bytes"
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/talon-worker/talon/sched"
)

var (
	firstSeed = flag.Uint64("first", 1, "first seed of TestSeeds")
	seeds     = flag.Uint64("seeds", 150, "number of seeds of TestSeeds")
	decisions = flag.Uint64("decisions", 0, "go on, a thousand seeds at a time, until the scheduler has made so many decisions")
	tell      = flag.Bool("tell", false, "print the setup of each seed")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSeeds: every seed keeps P1 to P10 at every event, whatever is done to it.
func TestSeeds(t *testing.T) {
	n := *seeds
	total, failed := runSeeds(t, *firstSeed, n, sched.Fair)
	for total.Decisions < *decisions {
		more, bad := runSeeds(t, *firstSeed+n, 1000, sched.Fair)
		total.Add(&more)
		n, failed = n+1000, failed+bad
	}
	t.Logf("seeds %d to %d\n%s", *firstSeed, *firstSeed+n-1, total.Table())
	if failed > 0 {
		t.Fatalf("%d of %d seeds failed", failed, n)
	}
}

// TestSeedsOfOtherOrders: what is measured against the scheduler breaks nothing but what it promises between tenants.
func TestSeedsOfOtherOrders(t *testing.T) {
	for o, name := range map[sched.Order]string{sched.RingLocal: "ring-local", sched.FIFO: "fifo"} {
		if _, failed := runSeeds(t, *firstSeed, min(*seeds, 500), o); failed > 0 {
			t.Errorf("%s: %d seeds failed", name, failed)
		}
	}
}

func runSeeds(t *testing.T, first, n uint64, o sched.Order) (total Result, failed int) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := make(chan uint64)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed := range next {
				r, err := runSeed(seed, o)
				mu.Lock()
				total.Add(&r)
				if err != nil {
					if failed++; failed <= 10 {
						t.Errorf("seed %d: %v\n\treplay: %s", seed, err, Replay(seed))
					}
				}
				mu.Unlock()
			}
		})
	}
	for seed := first; seed < first+n; seed++ {
		next <- seed
	}
	close(next)
	wg.Wait()
	return total, failed
}

func runSeed(seed uint64, o sched.Order) (r Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, bytes.Join(bytes.SplitN(debug.Stack(), []byte("\n"), 24)[7:20], []byte("\n")))
		}
	}()
	s := FromSeed(seed)
	if s.Order = o; o != sched.Fair {
		s.Fair = false
	}
	if *tell {
		fmt.Printf("%+v\n", s)
	}
	w, err := New(s)
	if err != nil {
		return r, err
	}
	return w.Run()
}
