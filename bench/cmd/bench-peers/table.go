package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/talon-worker/talon/bench/bed"
)

// wantMoved is how far an arm may move the requests per second and the p99: 2 %.
const wantMoved = 0.02

// Series of the peer port.
const framesIn = `talon_peer_frames_total{direction="in"}`

var came = []string{`talon_peer_links_total{outcome="accepted"}`, `talon_peer_links_total{outcome="refused_busy"}`, `talon_peer_links_total{outcome="refused"}`,
	`talon_peer_links_total{outcome="duplicate"}`}

func (r *ring) report(ctx context.Context) (int, error) {
	o := r.o
	sheet := bed.Describe(o.Hygiene)
	text := fmt.Sprintf("%sworker on core %d; load generator, two more workers of its ring and attackers on core %d; %d rounds of %gs calm and %gs bad, after %gs; 2 tenants with %d connections read %s\n",
		sheet, o.ServerCPU, o.ClientCPU, o.Rounds, o.Window, o.Window, o.Warmup, o.Conns, objectKey)
	fmt.Print(text)
	var all []*arm
	for _, a := range arms() {
		if slices.Contains(o.Arms, a.name) {
			all = append(all, a)
		}
	}
	if _, err := r.measure(ctx); err != nil { // everything is touched once
		return 1, err
	}
	for round := range o.Rounds {
		for _, i := range bed.Order(len(all), round) {
			if err := all[i].measure(ctx, r); err != nil {
				return 1, fmt.Errorf("%s: %w", all[i].name, err)
			}
		}
	}
	part, holds := table(all)
	fmt.Print(part)
	var rows []map[string]any
	for _, a := range all {
		rows = append(rows, map[string]any{"arm": a.name, "rounds": a.rounds})
	}
	return o.ExitCode(holds), o.Record("peers", sheet, text+part, map[string]any{"machine": sheet, "settings": o, "arms": rows, "holds": holds})
}

// rate and p99 are the ratios of an arm's rounds, bad to calm.
func (a *arm) rate() []float64 {
	return bed.Ratios(a.column(func(r round) float64 { return r.Hit.Rate }), a.column(func(r round) float64 { return r.Calm.Rate }))
}

func (a *arm) p99() []float64 {
	return bed.Ratios(a.column(func(r round) float64 { return r.Hit.P99 }), a.column(func(r round) float64 { return r.Calm.P99 }))
}

// cpu is the worker's CPU time per request, bad to calm: it moves with what the worker does for its peers, and not with who else wants the cores.
func (a *arm) cpu() []float64 {
	return bed.Ratios(a.column(func(r round) float64 { return r.Hit.CPU }), a.column(func(r round) float64 { return r.Calm.CPU }))
}

func (a *arm) column(f func(round) float64) (out []float64) {
	for _, r := range a.rounds {
		out = append(out, f(r))
	}
	return out
}

// table prints medians over the rounds of ratios within a round; where an arm has a control, that ratio is divided by the control's as well.
func table(all []*arm) (text string, holds bool) {
	var b strings.Builder
	holds = true
	fmt.Fprintf(&b, "\n%-17s %8s %8s %11s %8s %8s %11s %7s %7s %6s %6s %9s %9s  %s\n", "arm", "req/s", "x calm", "of rounds", "p99 us", "x calm", "of rounds", "x ctrl", "x ctrl", "x cpu", "errors", "conns/s", "frames/s", "")
	for _, a := range all {
		rate, p99 := bed.Median(a.rate()), bed.Median(a.p99())
		word := ""
		rateOfControl, p99OfControl := "", ""
		if c := slices.IndexFunc(all, func(c *arm) bool { return c.name == a.control }); c >= 0 {
			rate, p99 = rate/bed.Median(all[c].rate()), p99/bed.Median(all[c].p99())
			rateOfControl, p99OfControl = fmt.Sprintf("%.3f", rate), fmt.Sprintf("%.3f", p99)
		}
		errors := int64(0)
		for _, r := range a.rounds {
			errors += r.Errors
		}
		if !strings.HasSuffix(a.name, "-control") {
			word = "PASS"
			if !(rate >= 1-wantMoved) || !(p99 <= 1+wantMoved) || errors > 0 {
				word, holds = "SHORT", false
			}
		}
		fmt.Fprintf(&b, "%-17s %8.0f %8.3f %5.2f..%4.2f %8.0f %8.3f %5.2f..%4.2f %7s %7s %6.3f %6d %9.0f %9.0f  %s\n", a.name,
			bed.Median(a.column(func(r round) float64 { return r.Hit.Rate })), bed.Median(a.rate()), slices.Min(a.rate()), slices.Max(a.rate()),
			bed.Median(a.column(func(r round) float64 { return r.Hit.P99 })), bed.Median(a.p99()), slices.Min(a.p99()), slices.Max(a.p99()),
			rateOfControl, p99OfControl, bed.Median(a.cpu()), errors, bed.Median(a.column(func(r round) float64 { return r.Accepted })), bed.Median(a.column(func(r round) float64 { return r.FramesIn })), word)
	}
	for _, a := range all {
		fmt.Fprintf(&b, "%s: %s\n", a.name, a.says)
	}
	fmt.Fprintf(&b, "x calm: to the window right before, median over the rounds, with the least and the most; x ctrl: that, of req/s and of p99, over the control's, which has the attacker and not the worker;\n"+
		"x cpu: the worker's CPU time per request; conns/s and frames/s: what came to the measured worker's peer port. Wanted, of the control's where there is one: req/s and p99 within %.0f %%, no error\n", 100*wantMoved)
	return b.String(), holds
}
