package sim

import (
	"bytes"
	"flag"
	"fmt"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

var (
	firstSeed = flag.Uint64("first", 1, "first seed of TestSeeds")
	tell      = flag.Bool("tell", false, "print the setup of each seed and what is done to it")
	seeds     = flag.Uint64("seeds", 200, "number of seeds of TestSeeds; from 10,000 on the coverage is checked")
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(800) // worlds are small and die young: collected rarely, a run of seeds takes a tenth less
	goleak.VerifyTestMain(m)
}

// TestSeeds is the proof: every seed keeps the contract at every event, and serves what is due once its faults are over.
func TestSeeds(t *testing.T) {
	total, failed := runSeeds(t, *firstSeed, *seeds)
	t.Logf("seeds %d to %d\n%s", *firstSeed, *firstSeed+*seeds-1, total.Table())
	if failed > 0 {
		t.Fatalf("%d of %d seeds failed", failed, *seeds)
	}
	if *seeds >= 10_000 {
		checkCoverage(t, &total)
	}
}

func runSeeds(t *testing.T, first, n uint64) (total Result, failed int) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	next := make(chan uint64)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for seed := range next {
				r, err := runSeed(seed)
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

func runSeed(seed uint64) (r Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, bytes.Join(bytes.SplitN(debug.Stack(), []byte("\n"), 20)[7:15], []byte("\n")))
		}
	}()
	s := FromSeed(seed)
	w, err := New(s)
	if err != nil {
		return r, err
	}
	if *tell {
		w.say = func(line string) { fmt.Println(line) }
		fmt.Printf("%+v\n", s)
	}
	return w.Run()
}

// checkCoverage refuses a run of many seeds in which some fault or some rule's branch hardly came up: what is not tried is not proved.
func checkCoverage(t *testing.T, r *Result) {
	for f := range numFaults {
		if r.Faults[f] < 1000 {
			t.Errorf("%v: only %d times", f, r.Faults[f])
		}
	}
	for _, of := range []any{r.Reporter, r.Owner} {
		for v, i := reflect.ValueOf(of), 0; i < v.NumField(); i++ {
			name := v.Type().Field(i).Name
			if v.Field(i).Kind() == reflect.Uint64 && v.Field(i).Uint() < 1000 && name != "Bad" { // Bad is for liars: see hostile
				t.Errorf("%v.%s: only %d times", v.Type(), name, v.Field(i).Uint())
			}
		}
	}
	for b := range numBranches {
		if r.Branches[b] < 1000 {
			t.Errorf("%v: only %d times", b, r.Branches[b])
		}
	}
}

func TestOneSeedHasOneHash(t *testing.T) {
	var hashes []uint64
	for seed := range uint64(20) {
		a, err1 := runSeed(seed)
		b, err2 := runSeed(seed)
		if a.Hash != b.Hash || a.Events != b.Events || (err1 == nil) != (err2 == nil) {
			t.Errorf("seed %d: hash %x after %d events, then %x after %d", seed, a.Hash, a.Events, b.Hash, b.Events)
		}
		if slices.Contains(hashes, a.Hash) {
			t.Errorf("seed %d: two seeds with one hash: it sees nothing", seed)
		}
		hashes = append(hashes, a.Hash)
	}
}

// What is not tried because it cannot go would not have gone: runs in which everything is tried are the same.
func TestWhatIsNotTriedWouldNotGo(t *testing.T) {
	for seed := range uint64(40) {
		w, err := New(FromSeed(seed))
		if err != nil {
			t.Fatal(err)
		}
		w.thorough = true
		a, _ := w.Run()
		if b, _ := runSeed(seed); a.Hash != b.Hash || a.Events != b.Events {
			t.Errorf("seed %d: hash %x after %d events where all is tried, else %x after %d", seed, a.Hash, a.Events, b.Hash, b.Events)
		}
	}
}
