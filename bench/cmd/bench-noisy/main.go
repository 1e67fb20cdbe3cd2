// Command bench-noisy measures what an aggressor with hundreds of connections takes from its neighbours: tenants with
// weights 1, 2 and 4 beside one with 512 connections, on a worker with a ring on every core whose egress rate binds.
// Each arm is a talon of its own; they are measured in interleaved rounds:
//
//	fair             tenants, weights and --egress-rate
//	ring-local       the same with --scheduler ring-local: fair on each ring, one bucket for all of them
//	fifo             ... with --scheduler fifo: what was ready first is served first, whoever's it is
//	blind            all tokens belong to one tenant, so that the worker cannot tell the tenants apart
//	fair, no rate    the first three without --egress-rate: fair only given where the connections landed
//	ring-local, no rate
//	fifo, no rate
//
// First the capacity of this machine is measured, then the rate is set to a share of it. The figures go to
// bench/results as text, JSON and a picture (SVG).
//
//	go run ./bench/cmd/bench-noisy                        # about five minutes
//	go run ./bench/cmd/bench-noisy --rounds 1 --window 2  # a look
//
// Exit codes: 0 measured; 1 it could not run; 2 bad usage; 4 with --strict, a bound was missed.
package main

import (
	"context"
	"fmt"

	"github.com/talon-worker/talon/bench/bed"
)

// The objects: large ones to fill a share with, small ones to wait for.
const (
	bulkKey  = "1M"
	smallKey = "64K"
	smallLen = 64 << 10
)

type options struct {
	Rounds    int     `json:"rounds"`
	Warmup    float64 `json:"warmup_s"`
	Window    float64 `json:"window_s"`
	Share     float64 `json:"rate_of_capacity"`
	Aggressor int     `json:"aggressor_conns"`
	Rings     int     `json:"rings"`
	Rate      int64   `json:"egress_rate"` // bytes/s; 0: Share of the measured capacity

	bed.Runner `json:"-"`
}

func main() { bed.Main("bench-noisy", parse, (*options).run) }

func parse(args []string) (*options, error) {
	o := &options{}
	fs := o.FlagSet("bench-noisy")
	fs.IntVar(&o.Rounds, "rounds", 3, "interleaved rounds, the order alternates")
	fs.Float64Var(&o.Warmup, "warmup", 1, "seconds before each measured window")
	fs.Float64Var(&o.Window, "window", 5, "seconds of each measured window")
	fs.Float64Var(&o.Share, "share", 0.6, "egress rate as a share of the measured capacity")
	fs.Int64Var(&o.Rate, "rate", 0, "egress rate in bytes/s instead of a share of the measured capacity")
	fs.IntVar(&o.Aggressor, "aggressor", 512, "connections of the aggressor")
	fs.IntVar(&o.Rings, "rings", 2, "rings of the worker")
	o.HygieneFlag(fs, "every process")
	fs.BoolVar(&o.Strict, "strict", false, "exit 4 if a bound is missed")
	if err := o.Parse(fs, args); err != nil {
		return nil, err
	}
	switch {
	case o.Rounds < 1 || o.Rounds > 100 || o.Window < 1 || o.Window > 60 || o.Warmup < 0 || o.Warmup > 60:
		return nil, fmt.Errorf("rounds %d, window %gs, warm-up %gs: want 1-100 rounds, windows of 1 to 60 s", o.Rounds, o.Window, o.Warmup)
	case o.Share <= 0 || o.Share > 1:
		return nil, fmt.Errorf("--share %g: want more than 0, at most 1", o.Share)
	case o.Rate < 0 || o.Rate > 0 && o.Rate < 1<<20:
		return nil, fmt.Errorf("--rate %d: want at least 1 MiB/s, or 0 for a share of the capacity", o.Rate)
	case o.Aggressor < 1 || o.Aggressor > 10_000 || o.Rings < 1 || o.Rings > 256:
		return nil, fmt.Errorf("%d connections of the aggressor, %d rings: want 1 to 10000 and 1 to 256", o.Aggressor, o.Rings)
	}
	return o, nil
}

func (o *options) run(ctx context.Context) (int, error) {
	site, err := o.Prepare(bulkKey, smallKey)
	if err != nil {
		return 1, err
	}
	defer site.Remove()
	n := &noisy{o: o, files: site.Files, work: site.Work, tenants: newTenants(o.Aggressor), client: site.Client}
	defer n.down()
	return n.report(ctx)
}
