// Command seeds runs many seeds of the limiter's simulator, in slices, and keeps a record of them that is true at any time: it is brought up to date
// after each slice, and a later call goes on where the last one stopped.
//
//	go run ./qos/sim/cmd/seeds -seeds 1000000 [-first 1] [-slice 50000] [-out bench/results/...-seeds] [-procs 1]
//
// The record is two files: OUT.jsonl has a line for each slice, which is what was run and all that was counted; OUT.txt is their sum, for people. A record
// belongs to one commit; what it names is the tree that the command was built in, and a tree with changes is said to have them.
//
// Exit status 1: a seed failed, or something came up less often than is due.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/talon-worker/talon/qos/sim"
)

var (
	first = flag.Uint64("first", 1, "first seed")
	seeds = flag.Uint64("seeds", 1_000_000, "number of seeds")
	size  = flag.Uint64("slice", 50_000, "seeds between two updates of the record")
	out   = flag.String("out", "", "the record, without ending (default bench/results/<date>-<commit>-seeds)")
	procs = flag.Int("procs", runtime.GOMAXPROCS(0), "seeds run at a time")
	until = flag.String("until", "", "begin no slice that the last one's pace would end after this time of day (15:04, UTC)")
)

func main() {
	flag.Parse()
	debug.SetGCPercent(3200) // worlds are small and die young: the heap grows to some 130 MB
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "seeds:", err)
		os.Exit(1)
	}
}

func run() error {
	end, err := deadline(*until, time.Now())
	switch {
	case err != nil:
		return err
	case *seeds == 0 || *size == 0 || *procs < 1:
		return fmt.Errorf("%d seeds in slices of %d, %d at a time: want at least 1 of each", *seeds, *size, *procs)
	case *first+*seeds < *first:
		return fmt.Errorf("%d seeds from %d on: seeds end at 2^64", *seeds, *first)
	}
	commit, tree, err := commit()
	if err != nil {
		return err
	}
	if *out == "" {
		*out = recordOf("bench/results", commit, time.Now())
	}
	r, err := open(*out, header{Commit: commit, Tree: tree, First: *first, Seeds: *seeds})
	if err != nil {
		return err
	}
	took := time.Duration(0)
	for r.next < *first+*seeds {
		begin := time.Now()
		if !end.IsZero() && begin.Add(took).After(end) {
			break
		}
		n := min(*size, *first+*seeds-r.next)
		if err := r.add(slice(r.next, n)); err != nil {
			return err
		}
		took = time.Since(begin)
		fmt.Printf("%s: %d of %d seeds, %d failed\n", time.Now().UTC().Format(time.TimeOnly), r.next-*first, *seeds, len(r.failed))
	}
	fmt.Print(r.text())
	return r.verdict()
}

// slice runs a slice and measures it.
func slice(from, n uint64) part {
	begin, cpu := time.Now(), cpuSeconds()
	total, failed := sim.RunSeeds(from, n, *procs)
	p := part{First: from, Seeds: n, Begun: begin.UTC().Format(time.RFC3339), Wall: time.Since(begin).Seconds(), CPU: cpuSeconds() - cpu, Counted: total}
	for _, f := range failed {
		p.Failed = append(p.Failed, failure{f.Seed, f.Err.Error()})
	}
	return p
}

// deadline is the time of day that -until names: today's, or tomorrow's if that has passed.
func deadline(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	t, err := time.Parse("15:04", s)
	if err != nil {
		return t, fmt.Errorf("-until %q: want a time of day like 18:25", s)
	}
	now = now.UTC()
	t = time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), 0, 0, time.UTC)
	if t.Before(now) {
		t = t.AddDate(0, 0, 1)
	}
	return t, nil
}
