package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"

	"github.com/talon-worker/talon/bench/bed"
	"github.com/talon-worker/talon/bench/load"
)

// wantBeside is how much longer the victim may wait beside a flood of refusals than alone, by p99.
const wantBeside = 1.5

// scene is who attacks a victim, and where.
type scene struct {
	Name      string `json:"name"`
	Conns     int    `json:"conns"`     // of the aggressor, 0: there is none
	Elsewhere bool   `json:"elsewhere"` // it attacks another server, which shares a core with the clients and not with the victim's server
}

// reader is a victim by how much it asks for.
type reader struct {
	name  string
	share float64 // of what it got in a closed loop before the rounds; 0: it stays in a closed loop
}

var readers = []reader{{"tenth", 0.1}, {"quarter", 0.25}, {"closed", 0}}

var scenes = []scene{{"alone", 0, false}, {"elsewhere", aggressorConns, true}, {"64 conns", aggressorConns, false}, {"2048 conns", 2048, false}}

// floodCell is one victim in one scene. Its slices have an element for each round.
type floodCell struct {
	Victim string `json:"victim"`
	Scene  scene  `json:"scene"`
	reader reader

	Rate    []float64 `json:"victim_req_per_s"`
	P50     []float64 `json:"victim_p50_us"`
	P99     []float64 `json:"victim_p99_us"`
	P999    []float64 `json:"victim_p999_us"`
	Errors  []int64   `json:"victim_errors"`
	Busy    []float64 `json:"server_cores"`
	Refused []float64 `json:"refused_per_s"`
	Lost    []float64 `json:"lost_conns_per_s"` // connections of the aggressor that were cut off
}

// flood measures what a victim waits while floodRate requests a second of another tenant are refused.
//
// The clients sleep when they have nothing to do. The victim's is a process of its own, raised above the aggressor's: two clients in one thread would measure that thread. They still share a core and
// its caches; the scene "elsewhere" shows what that alone costs. It is more than in the other scenes, for there the attacked server runs on their core, too.
type flood struct {
	o                 *options
	client            bed.Client
	aggressor, victim bed.Tenant
	srv, elsewhere    *bed.Server
	cells             []*floodCell
	capacity          float64 // requests per second of the victim in a closed loop
}

func newFlood(o *options, client bed.Client) *flood {
	f := &flood{o: o, client: client, aggressor: bed.NewTenant("aggressor", "limits: {read_iops: {rate: 200/s, burst: 200, local_burst: 100, on_limit: reject}}"),
		victim: bed.NewTenant("victim", "")}
	server := func(name string) *bed.Server {
		s := bed.Talon(name, o.Talon, "serve --listen {listen} --admin {admin} --origin {dir} --rings 1 --policy {work}/"+name+".yaml")
		s.Files = map[string]string{"{work}/" + name + ".yaml": bed.Policy([]bed.Tenant{f.aggressor, f.victim})}
		return s
	}
	f.srv, f.elsewhere = server("flood"), server("elsewhere")
	for _, r := range readers {
		for _, s := range scenes {
			f.cells = append(f.cells, &floodCell{Victim: r.name, Scene: s, reader: r})
		}
	}
	return f
}

func (f *flood) up(ctx context.Context, site *bed.Site) error {
	if err := f.srv.Up(ctx, site.Files, site.Work, f.o.ServerCPU, f.o.Hygiene, "/"+key); err != nil {
		return err
	}
	return f.elsewhere.Up(ctx, site.Files, site.Work, f.o.ClientCPU, false, "/"+key)
}

func (f *flood) down() {
	f.srv.Down()
	f.elsewhere.Down()
}

// reading is the victim's run: at a rate, or in a closed loop with 0.
func (f *flood) reading(rate float64) load.Config {
	conns := victimConns
	if rate > 0 {
		conns = 4 * victimConns
	}
	return load.Config{Target: f.srv.Target, WarmupS: f.o.Warmup, DurationS: f.o.Window, ServerPIDs: f.srv.PIDs, TimeoutS: 5, Seed: 1, Block: true,
		Streams: []load.Stream{{Name: "victim", Conns: conns, Keys: []string{"/" + key}, Headers: []string{f.victim.Header()}, Rate: rate}}}
}

// attack lasts from before the victim's window until after it.
func (f *flood) attack(s scene) load.Config {
	target := f.srv.Target
	if s.Elsewhere {
		target = f.elsewhere.Target
	}
	return load.Config{Target: target, WarmupS: f.o.Warmup / 2, DurationS: f.o.Warmup/2 + f.o.Window + 0.2, TimeoutS: 5, Seed: 1, Block: true,
		Streams: []load.Stream{{Name: "aggressor", Conns: s.Conns, Keys: []string{"/" + key}, Headers: []string{f.aggressor.Header()}, Rate: f.o.Flood, Refusals: []int{429}}}}
}

func (f *flood) measure(ctx context.Context, c *floodCell) error {
	var attacked sync.WaitGroup
	var attack *load.Result
	var attackErr error
	if c.Scene.Conns > 0 {
		attacker := bed.Client{Path: f.client.Path, CPU: f.client.CPU}
		attacked.Go(func() { attack, attackErr = attacker.Measure(ctx, f.attack(c.Scene)) })
	}
	res, err := f.client.Measure(ctx, f.reading(math.Round(f.capacity*c.reader.share)))
	attacked.Wait()
	if err = errors.Join(err, attackErr); err != nil {
		return err
	}
	v := &res.Streams[0]
	c.Rate, c.P50, c.P99, c.P999 = append(c.Rate, v.Rate), append(c.P50, v.P50US), append(c.P99, v.P99US), append(c.P999, v.P999US)
	c.Errors, c.Busy = append(c.Errors, v.Errors), append(c.Busy, res.Server.Busy)
	if attack != nil {
		a := &attack.Streams[0]
		c.Refused = append(c.Refused, a.RefusedRate)
		c.Lost = append(c.Lost, float64(a.ByFault["eof"]+a.ByFault["recv"]+a.ByFault["connect"]+a.ByFault["send"])/(f.o.Warmup+f.o.Window))
	}
	return nil
}

func (f *flood) report(ctx context.Context) error {
	sheet := bed.Describe(f.o.Hygiene)
	res, err := f.client.Measure(ctx, f.reading(0))
	if err != nil {
		return err
	}
	f.capacity = res.Streams[0].Rate
	text := fmt.Sprintf("%sserver on core %d, clients on core %d, the victim's raised over the aggressor's; %d rounds of %gs after %gs; aggressor asks for %.0f req/s, nearly all of which are over its limit; "+
		"victim: a tenth and a quarter of %.0f req/s on %d connections, or in a closed loop on %d; 4 KiB objects\n",
		sheet, f.o.ServerCPU, f.o.ClientCPU, f.o.Rounds, f.o.Window, f.o.Warmup, f.o.Flood, f.capacity, 4*victimConns, victimConns)
	fmt.Print(text)
	for round := range f.o.Rounds {
		for _, i := range bed.Order(len(f.cells), round) {
			if err := f.measure(ctx, f.cells[i]); err != nil {
				return fmt.Errorf("%s, %s: %w", f.cells[i].Victim, f.cells[i].Scene.Name, err)
			}
		}
	}
	part := f.table()
	fmt.Print(part)
	return f.o.Record("flood", sheet, text+part, map[string]any{"machine": sheet, "settings": f.o, "capacity_req_per_s": f.capacity, "cells": f.cells})
}

// alone is the cell of the same victim without an aggressor.
func (f *flood) alone(c *floodCell) *floodCell {
	for _, a := range f.cells {
		if a.Victim == c.Victim && a.Scene.Conns == 0 {
			return a
		}
	}
	panic("bench-shed: a victim that is never alone")
}

func (f *flood) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-7s %-11s %9s %9s %8s %8s %8s %9s %11s %8s %7s %14s\n", "victim", "aggressor", "victim/s", "of alone", "p50 us", "p99 us", "p99.9 us",
		"p99 ratio", "refused/s", "lost/s", "cores", "us per refusal")
	worst := 0.0
	for _, c := range f.cells {
		a := f.alone(c)
		ratio := bed.Median(bed.Ratios(c.P99, a.P99))
		fmt.Fprintf(&b, "%-7s %-11s %9.0f %9.3f %8.0f %8.0f %8.0f %9.2f %11s %8s %7.2f %14s\n", c.Victim, c.Scene.Name, bed.Median(c.Rate), bed.Median(bed.Ratios(c.Rate, a.Rate)),
			bed.Median(c.P50), bed.Median(c.P99), bed.Median(c.P999), ratio, dash("%.0f", bed.Median(c.Refused)), dash("%.0f", bed.Median(c.Lost)), bed.Median(c.Busy),
			dash("%.1f", bed.Median(c.cost(a))))
		if c.Scene.Conns > 0 && !c.Scene.Elsewhere {
			worst = max(worst, ratio)
		}
	}
	word := "PASS"
	if !(worst <= wantBeside) {
		word = "SHORT"
	}
	fmt.Fprintf(&b, "victim's p99 beside the flood at most %.2fx of alone (at most %.1f): %s\n", worst, wantBeside, word)
	return b.String()
}

// cost is the server's CPU time for a refusal in microseconds, by round: what it used more than for the victim alone. It can be told only while the victim gets as
// much as alone and leaves the server idle time.
func (c *floodCell) cost(alone *floodCell) []float64 {
	out := make([]float64, len(c.Refused))
	for i := range out {
		out[i] = math.NaN()
		if c.reader.share > 0 && !c.Scene.Elsewhere && c.Refused[i] > 0 {
			out[i] = (c.Busy[i] - alone.Busy[i]) * 1e6 / c.Refused[i]
		}
	}
	return out
}
