// Command bench-gubernator measures how well workers of talon keep one limit together, with gubernator in GLOBAL mode beside them under the same
// offered load: requests of one tenant, ten times what it may have, evenly to all, in an open loop. What was admitted is counted by the clients
// and compared with an ideal bucket that is full at the beginning.
//
//	go run ./bench/cmd/bench-gubernator                # six workers, some minutes
//	go run ./bench/cmd/bench-gubernator --rounds 1
//
// gubernator is a module of its own, bench/gubernator, and is built there: its modules are downloaded once, and compiling them takes minutes.
//
// Exit codes: 0 measured; 1 it could not run; 2 bad usage; 4 with --strict, talon admitted more than 1.05 of an ideal bucket, or less than 0.95 of its rate.
package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/talon-worker/talon/bench/bed"
)

type options struct {
	Workers    int           `json:"workers"`
	Rate       int64         `json:"rate"`  // requests/s
	Burst      int64         `json:"burst"` // what gubernator may admit in Burst/Rate seconds
	LocalBurst int64         `json:"local_burst"`
	Offered    float64       `json:"offered"` // requests/s, of all workers together
	Seconds    float64       `json:"seconds"` // of a window
	Slice      time.Duration `json:"slice"`
	Rounds     int           `json:"rounds"`
	Conns      int           `json:"conns_per_worker"`

	bed.Runner `json:"-"`
	peer       string
}

func main() { bed.Main("bench-gubernator", parse, (*options).run) }

func parse(args []string) (*options, error) {
	o := &options{}
	fs := o.FlagSet("bench-gubernator")
	fs.IntVar(&o.Workers, "workers", 6, "workers, and peers of gubernator, 2 to 16")
	fs.Int64Var(&o.Rate, "rate", 1000, "the limit's rate R in requests/s, of all workers together")
	fs.Int64Var(&o.Burst, "burst", 1000, "its burst B; gubernator's limit, for a duration of B/R")
	fs.Int64Var(&o.LocalBurst, "local-burst", 50, "talon's local burst b")
	fs.Float64Var(&o.Offered, "offered", 10000, "requests/s that are asked for, of all workers together")
	fs.Float64Var(&o.Seconds, "seconds", 5, "length of a window")
	fs.DurationVar(&o.Slice, "slice", 5*time.Millisecond, "how finely clients count time")
	fs.IntVar(&o.Rounds, "rounds", 5, "windows of each, in turns")
	fs.IntVar(&o.Conns, "conns", 16, "connections to each worker of talon")
	fs.StringVar(&o.peer, "gubernator", "", "binary of bench/gubernator; empty builds it")
	fs.BoolVar(&o.Strict, "strict", false, "exit 4 when talon misses what is wanted")
	if err := o.Parse(fs, args); err != nil {
		return nil, err
	}
	switch {
	case o.Workers < 2 || o.Workers > 16 || o.Rounds < 1 || o.Rounds > 100 || o.Conns < 1 || o.Conns > 1000:
		return nil, fmt.Errorf("%d workers, %d rounds, %d connections: want 2 to 16, 1 to 100, 1 to 1000", o.Workers, o.Rounds, o.Conns)
	case o.Rate < 10 || o.Rate > 1e6 || o.Burst < 1 || o.Burst > 1e6 || o.LocalBurst < 1 || o.LocalBurst > o.Burst || o.Burst*1000/o.Rate < 1:
		return nil, fmt.Errorf("rate %d/s, burst %d, local burst %d: want a rate of 10 to 1,000,000, a burst of at least a millisecond of it, and a local burst up to the burst", o.Rate, o.Burst, o.LocalBurst)
	case !(o.Offered >= float64(o.Rate)) || o.Offered > 1e6:
		return nil, fmt.Errorf("%g requests/s offered: want the rate at least, and at most a million", o.Offered)
	case !(o.Seconds >= 2) || o.Seconds > 60 || o.Slice < time.Millisecond || o.Slice > time.Second:
		return nil, fmt.Errorf("windows of %gs, slices of %v: want 2 to 60 s, and 1ms to 1s", o.Seconds, o.Slice)
	}
	return o, nil
}

func (o *options) run(ctx context.Context) (int, error) {
	site, err := o.Prepare(objectKey)
	if err != nil {
		return 1, err
	}
	defer site.Remove()
	if o.peer == "" {
		o.peer = filepath.Join(site.Work, "gubernator")
		if out, err := exec.CommandContext(ctx, "go", "build", "-C", "bench/gubernator", "-o", o.peer, ".").CombinedOutput(); err != nil {
			return 1, fmt.Errorf("go build bench/gubernator: %w (or give a binary by --gubernator)\n%s", err, out)
		}
	} else if o.peer, err = exec.LookPath(o.peer); err != nil {
		return 1, err
	}
	w, err := newWorkers(o, site)
	if err != nil {
		return 1, err
	}
	defer w.down()
	if err := w.up(ctx); err != nil {
		return 1, err
	}
	return o.report(ctx, w)
}
