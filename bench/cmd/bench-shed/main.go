// Command bench-shed measures three ways to turn away a tenant that asks for more than its limit: with 429, with 503, and
// by closing its connections; each against a client that only tries again, and against one whose failure detector takes
// the server for down when too few requests succeed. Beside the aggressor a victim reads as fast as it can.
//
// For each it prints what the victim gets and waits, how often the aggressor tries in vain, what a refusal costs the
// server, and how long the aggressor stays shut out after it has come back under its limit.
//
// With --flood it measures instead what the victim waits beside so many refused requests per second, and what they cost the server.
//
//	go run ./bench/cmd/bench-shed                               # about nine minutes
//	go run ./bench/cmd/bench-shed --flood 100000                # about two minutes
//	go run ./bench/cmd/bench-shed --times 4 --rounds 1 --window 1   # a look
//
// Exit codes: 0 measured; 1 it could not run; 2 bad usage.
package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/talon-worker/talon/bench/bed"
)

const (
	key  = "4K"
	size = 4 << 10
)

type options struct {
	Rounds int       `json:"rounds"`
	Warmup float64   `json:"warmup_s"`
	Window float64   `json:"window_s"`
	Limit  int       `json:"read_iops"`
	Times  []float64 `json:"times"` // multiples of the limit that the aggressor asks for
	Ban    float64   `json:"ban_s"`
	Flood  float64   `json:"flood,omitempty"` // requests per second; 0: the answers are compared instead

	Recovery bool `json:"recovery"` // measure how the aggressor comes back under its limit, too

	bed.Runner `json:"-"`
}

func main() { bed.Main("bench-shed", parse, (*options).run) }

func parse(args []string) (*options, error) {
	o := &options{}
	var times string
	fs := o.FlagSet("bench-shed")
	fs.IntVar(&o.Rounds, "rounds", 3, "interleaved rounds, the order alternates")
	fs.Float64Var(&o.Warmup, "warmup", 1.2, "seconds before each measured window: a ban needs a second to come about")
	fs.Float64Var(&o.Window, "window", 2, "seconds of each measured window")
	fs.IntVar(&o.Limit, "limit", 2000, "the aggressor's read_iops")
	fs.StringVar(&times, "times", "1.4,2,4,10", "multiples of the limit that the aggressor asks for")
	fs.Float64Var(&o.Ban, "ban", 1, "seconds of a ban")
	fs.Float64Var(&o.Flood, "flood", 0, "compare no answers, but measure a victim beside so many refused requests per second")
	fs.BoolVar(&o.Recovery, "recovery", true, "measure how the aggressor comes back under its limit, which takes longer than the rest")
	o.PinFlags(fs, "the server", "the client", "every process")
	if err := o.Parse(fs, args); err != nil {
		return nil, err
	}
	for f := range strings.SplitSeq(times, ",") {
		v, err := strconv.ParseFloat(f, 64)
		if err != nil || v <= 1 || v > 1000 {
			return nil, fmt.Errorf("--times %q: want multiples of the limit over 1, such as 1.4,2,10", times)
		}
		o.Times = append(o.Times, v)
	}
	switch {
	case o.Rounds < 1 || o.Rounds > 100 || o.Window < 0.5 || o.Window > 60 || o.Warmup < 0 || o.Warmup > 60:
		return nil, fmt.Errorf("rounds %d, window %gs, warm-up %gs: want 1-100 rounds, windows of 0.5 to 60 s", o.Rounds, o.Window, o.Warmup)
	case o.Limit < 10 || o.Limit > 1_000_000:
		return nil, fmt.Errorf("--limit %d: want 10 to 1000000 requests per second", o.Limit)
	case o.Flood < 0 || o.Flood > 10e6:
		return nil, fmt.Errorf("--flood %g: want requests per second, 10 million at most, or 0 to compare the answers", o.Flood)
	case o.Ban < 0.1 || o.Ban > 60:
		return nil, fmt.Errorf("--ban %g: want 0.1 to 60 seconds", o.Ban)
	}
	return o, nil
}

func (o *options) run(ctx context.Context) (int, error) {
	site, err := o.Prepare(key)
	if err != nil {
		return 1, err
	}
	defer site.Remove()
	if o.Flood > 0 {
		f := newFlood(o, site.Client)
		defer f.down()
		if err := f.up(ctx, site); err != nil {
			return 1, err
		}
		return 0, f.report(ctx)
	}
	s := newShed(o, site.Client)
	for i := range s.arms {
		srv := s.arms[i].srv
		defer srv.Down()
		if err := srv.Up(ctx, site.Files, site.Work, o.ServerCPU, o.Hygiene, "/"+key); err != nil {
			return 1, err
		}
	}
	return 0, s.report(ctx)
}
