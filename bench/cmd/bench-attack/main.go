// Command bench-attack measures what attacks by number do to well-behaved readers, who ask for 2,000
// objects of 4 KiB a second over 16 connections whatever happens. Calm and attack alternate; each attack is
// held against the calm just before it:
//
//	slowloris     5,000 connections send a header, one byte in ten seconds
//	slow readers  1,000 ask for 64 MiB and read one byte a second
//	silence       20,000 connect and say nothing
//	pipeline      10,000 requests each on 16 connections, no answer is ever read
//
// Who is closed comes again, 1,000 of them a second at most. The figures are appended to bench/results:
// latencies, the most memory that talon had resident and its bound, and whom talon closed and why.
//
//	go run ./bench/cmd/bench-attack                    # about three minutes
//	go run ./bench/cmd/bench-attack --attacks silence --rounds 1
//
// Exit codes: 0 measured; 1 it could not run; 2 bad usage; 4 with --strict, a bound was missed.
package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/talon-worker/talon/bench/bed"
)

const (
	goodKey = "4K"
	slowKey = "64M"
)

type options struct {
	Attacks []string `json:"attacks"`
	Rounds  int      `json:"rounds"`
	Warmup  float64  `json:"warmup_s"`
	Window  float64  `json:"window_s"`
	Conns   int      `json:"good_conns"`
	Rate    float64  `json:"good_rate"`
	Scale   float64  `json:"scale"` // of the numbers of attackers
	Args    string   `json:"talon_args"`

	bed.Runner `json:"-"`
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == attackerArg {
		fmt.Fprintln(os.Stderr, "attacker:", attackerMain(os.Args[2:]))
		os.Exit(1)
	}
	bed.Main("bench-attack", parse, (*options).run)
}

func parse(args []string) (*options, error) {
	o := &options{}
	var names string
	fs := o.FlagSet("bench-attack")
	fs.StringVar(&names, "attacks", strings.Join(kindNames(), ","), "which, separated by commas")
	fs.IntVar(&o.Rounds, "rounds", 3, "interleaved rounds, the order alternates")
	fs.Float64Var(&o.Warmup, "warmup", 0.5, "seconds before each measured window")
	fs.Float64Var(&o.Window, "window", 4, "seconds of each measured window")
	fs.IntVar(&o.Conns, "conns", 16, "connections of the well-behaved readers")
	fs.Float64Var(&o.Rate, "rate", 2000, "requests per second of the well-behaved readers, all together")
	fs.Float64Var(&o.Scale, "scale", 1, "of the numbers of attackers, 0.001 to 2")
	fs.StringVar(&o.Args, "talon-args", bed.TalonArgs, "talon's arguments")
	o.PinFlags(fs, "the server", "the readers and the attackers", "server and readers, not for attackers")
	fs.BoolVar(&o.Strict, "strict", false, "exit 4 if a bound is missed")
	if err := o.Parse(fs, args); err != nil {
		return nil, err
	}
	o.Attacks = strings.Split(names, ",")
	return o, o.validate()
}

func (o *options) validate() error {
	for _, name := range o.Attacks {
		if !slices.Contains(kindNames(), name) {
			return fmt.Errorf("--attacks: %q is none of %s", name, strings.Join(kindNames(), ", "))
		}
	}
	switch {
	case o.Rounds < 1 || o.Rounds > 100 || o.Window <= 0 || o.Window > 60 || o.Warmup < 0 || o.Warmup > 60:
		return fmt.Errorf("rounds %d, window %gs, warm-up %gs: want 1-100 rounds, windows up to 60 s", o.Rounds, o.Window, o.Warmup)
	case o.Scale < 0.001 || o.Scale > 2:
		return fmt.Errorf("--scale %g: want 0.001 to 2", o.Scale)
	case o.Conns < 1 || o.Rate <= 0:
		return fmt.Errorf("%d connections and %g requests/s of readers: want at least one of each", o.Conns, o.Rate)
	}
	return nil
}

func (o *options) run(ctx context.Context) (int, error) {
	site, err := o.Prepare(goodKey, slowKey)
	if err != nil {
		return 1, err
	}
	defer site.Remove()
	self, err := bed.BuildGo(site.Work, "./bench/cmd/bench-attack")
	if err != nil {
		return 1, err
	}
	server := bed.Talon("talon", o.Talon, o.Args)
	defer server.Down()
	if err := server.Up(ctx, site.Files, site.Work, o.ServerCPU, o.Hygiene, "/"+goodKey); err != nil {
		return 1, err
	}
	s := &siege{o: o, self: self, server: server, client: site.Client}
	for _, name := range o.Attacks {
		s.arms = append(s.arms, &arm{kind: kindOf(name), n: max(int(float64(kindOf(name).n)*o.Scale), 1)})
	}
	return s.report(ctx)
}

// settleTime is how long the server may take to be rid of an attack.
const settleTime = 60 * time.Second
