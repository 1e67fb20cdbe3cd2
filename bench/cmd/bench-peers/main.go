// Command bench-peers measures whether the data plane of a worker moves when its peers are dead, stopped, slow or flooding, or when strangers flood its
// peer port. One worker of a ring of three is measured on a core of its own; the second, through a relay, is the one that goes bad; the third stays
// well, so that the ring keeps its majority. Half of the load is a tenant whose limits the measured worker meters itself, half one whose use it reports
// to the bad peer. No limit binds.
//
//	go run ./bench/cmd/bench-peers                             # every arm, some minutes
//	go run ./bench/cmd/bench-peers --arms dead,connects --rounds 10
//
// Every arm is measured right after a calm window of its own, and the ratio is the median over the rounds. Attackers and load generator share a
// core, so a flood has a control: the same flood against a process that has nothing to do with the worker.
//
// Exit codes: 0 measured; 1 it could not run; 2 bad usage; 4 with --strict, an arm moved more than it may.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/talon-worker/talon/bench/bed"
	"github.com/talon-worker/talon/bench/load"
)

// objectKey is what is read. With objects much smaller the load generator would be the bottleneck, and feel every process on its core.
const objectKey = "64K"

type options struct {
	Arms   []string `json:"arms"`
	Rounds int      `json:"rounds"`
	Window float64  `json:"window_s"`
	Warmup float64  `json:"warmup_s"`
	Conns  int      `json:"conns"` // of each of the two tenants
	Flood  int      `json:"connects_per_s"`

	bed.Runner `json:"-"`
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == childArg {
		if err := childMain(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "bench-peers:", err)
			os.Exit(1)
		}
		return
	}
	bed.Main("bench-peers", parse, (*options).run)
}

func parse(args []string) (*options, error) {
	o := &options{}
	fs := o.FlagSet("bench-peers")
	names := fs.String("arms", strings.Join(armNames(), ","), "what to measure")
	fs.IntVar(&o.Rounds, "rounds", 6, "how often, in turns")
	fs.Float64Var(&o.Window, "window", 0.5, "seconds of a measurement")
	fs.Float64Var(&o.Warmup, "warmup", 0.1, "seconds before it")
	fs.IntVar(&o.Conns, "conns", 16, "connections of each of the two tenants")
	fs.IntVar(&o.Flood, "connects", 10_000, "connections a second of a stranger that floods")
	o.PinFlags(fs, "the measured worker", "the load generator, the other workers and the attackers", "workers and load generator")
	fs.BoolVar(&o.Strict, "strict", false, "exit 4 when an arm moved more than it may")
	if err := o.Parse(fs, args); err != nil {
		return nil, err
	}
	o.Arms = strings.Split(*names, ",")
	for _, name := range o.Arms {
		if !slices.Contains(armNames(), name) {
			return nil, fmt.Errorf("--arms: %q is none of %s", name, strings.Join(armNames(), ", "))
		}
	}
	switch {
	case o.Rounds < 1 || o.Rounds > 100 || !(o.Window > 0) || o.Window > 60 || !(o.Warmup >= 0) || o.Warmup > 60:
		return nil, fmt.Errorf("rounds %d, window %gs, warm-up %gs: want 1-100 rounds, windows up to 60 s", o.Rounds, o.Window, o.Warmup)
	case o.Conns < 1 || o.Conns > 1000 || o.Flood < 1 || o.Flood > 100_000:
		return nil, fmt.Errorf("%d connections a tenant, %d attacking ones a second: want 1 to 1,000, and 1 to 100,000", o.Conns, o.Flood)
	}
	return o, nil
}

func (o *options) run(ctx context.Context) (int, error) {
	if err := load.Pin(o.ClientCPU); err != nil { // what this process does itself, it does there
		return 1, err
	}
	site, err := o.Prepare(objectKey)
	if err != nil {
		return 1, err
	}
	defer site.Remove()
	self, err := bed.BuildGo(site.Work, "./bench/cmd/bench-peers")
	if err != nil {
		return 1, err
	}
	r := &ring{Site: site, o: o, self: self}
	defer r.down()
	if err := r.up(ctx); err != nil {
		return 1, err
	}
	return r.report(ctx)
}
