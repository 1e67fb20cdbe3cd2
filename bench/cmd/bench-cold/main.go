// Command bench-cold measures what cold streams do to hot readers: 4 connections that read one cached
// 4 KiB object again and again, beside 16 that read random 1 MiB ranges of a file kept out of the page
// cache. Three arms are interleaved: talon, talon with its residency probe switched off, and the hot
// readers alone. The figures are appended to bench/results.
//
//	go run ./bench/cmd/bench-cold                 # 2 GiB file, about a minute
//	go run ./bench/cmd/bench-cold --size 512M --rounds 3
//
// Exit codes: 0 measured; 1 it could not run; 2 bad usage; 3 an arm was refused in every round;
// 4 with --strict, a bound was missed.
package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/talon-worker/talon/bench/bed"
)

const (
	hotKey  = "4K"
	coldKey = "cold"
)

type options struct {
	Size       string        `json:"size"`
	Rounds     int           `json:"rounds"`
	Warmup     float64       `json:"warmup_s"`
	Window     float64       `json:"window_s"`
	HotConns   int           `json:"hot_conns"`
	ColdConns  int           `json:"cold_conns"`
	ColdRange  int64         `json:"cold_range"`
	EvictEvery time.Duration `json:"evict_every_ns"`
	Args       string        `json:"talon_args"`
	NoProbe    string        `json:"noprobe_args"`
	Headers    []string      `json:"-"` // may hold credentials

	bed.Runner `json:"-"`
}

func main() { bed.Main("bench-cold", parse, (*options).run) }

func parse(args []string) (*options, error) {
	o := &options{ColdRange: 1 << 20}
	fs := o.FlagSet("bench-cold")
	fs.StringVar(&o.Size, "size", "2G", "size of the cold file")
	fs.IntVar(&o.Rounds, "rounds", 5, "interleaved rounds, the order alternates")
	fs.Float64Var(&o.Warmup, "warmup", 0.2, "seconds before each measured window")
	fs.Float64Var(&o.Window, "window", 1.2, "seconds of each measured window")
	fs.IntVar(&o.HotConns, "hot", 4, "connections of the hot readers")
	fs.IntVar(&o.ColdConns, "cold", 16, "cold streams")
	fs.DurationVar(&o.EvictEvery, "evict-every", 250*time.Millisecond, "how often the cold file is evicted during a run")
	fs.StringVar(&o.Args, "talon-args", bed.TalonArgs, "talon's arguments")
	fs.StringVar(&o.NoProbe, "noprobe-args", "--residency-probe=false", "arguments that switch probing off")
	fs.Func("H", "header \"Name: value\" for every request, such as credentials; may be repeated", func(v string) error {
		o.Headers = append(o.Headers, v)
		return nil
	})
	o.PinFlags(fs, "the server", "the client", "every process")
	fs.BoolVar(&o.Strict, "strict", false, "exit 4 if a bound is missed")
	if err := o.Parse(fs, args); err != nil {
		return nil, err
	}
	return o, o.validate()
}

func (o *options) validate() error {
	n, err := bed.ParseSize(o.Size)
	switch {
	case err != nil:
		return fmt.Errorf("--size: %w", err)
	case n < 16*o.ColdRange:
		return fmt.Errorf("--size %s: want at least 16M, or the ranges overlap all the time", o.Size)
	case o.Rounds < 1 || o.Rounds > 100 || o.Window <= 0 || o.Window > 60 || o.Warmup < 0 || o.Warmup > 60:
		return fmt.Errorf("rounds %d, window %gs, warm-up %gs: want 1-100 rounds, windows up to 60 s", o.Rounds, o.Window, o.Warmup)
	case o.HotConns < 1 || o.ColdConns < 1:
		return fmt.Errorf("%d hot and %d cold connections: want at least one of each", o.HotConns, o.ColdConns)
	case o.EvictEvery < time.Millisecond:
		return fmt.Errorf("--evict-every %v: want at least 1ms", o.EvictEvery)
	}
	return nil
}

func (o *options) run(ctx context.Context) (int, error) {
	site, err := o.Prepare(hotKey)
	if err != nil {
		return 1, err
	}
	defer site.Remove()
	if err := o.makeCold(site.Files); err != nil {
		return 1, err
	}
	probing := bed.Talon("talon", o.Talon, o.Args)
	blind := bed.Talon("talon without probe", o.Talon, strings.TrimSpace(o.Args+" "+o.NoProbe))
	for _, s := range []*bed.Server{probing, blind} {
		defer s.Down()
		if err := s.Up(ctx, site.Files, site.Work, o.ServerCPU, o.Hygiene, "/"+hotKey); err != nil {
			return 1, err
		}
	}
	b := &beside{o: o, cold: filepath.Join(site.Files, coldKey), client: site.Client,
		arms: []arm{{Name: "probing", server: probing, beside: true}, {Name: "probe off", server: blind, beside: true}, {Name: "hot alone", server: probing}}}
	return b.report(ctx)
}

func (o *options) makeCold(dir string) error {
	n, _ := bed.ParseSize(o.Size)
	if err := bed.FreeSpace(dir, n); err != nil {
		return err
	}
	return bed.MakeFile(filepath.Join(dir, coldKey), n)
}
