package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/talon-worker/talon/bench/bed"
)

// What is wanted of talon: no more than this of an ideal bucket over a window, and no less than this of the rate once the burst is gone.
const (
	wantOfIdeal = 1.05
	wantSteady  = 0.95
)

func (o *options) report(ctx context.Context, w *workers) (int, error) {
	sheet := bed.Describe(false)
	text := fmt.Sprintf("%s\n%d workers share %d requests/s with a burst of %d (talon: read_iops, local burst %d, on_limit reject; gubernator: %d per %d ms, GLOBAL); %.0f requests/s offered to all evenly\n"+
		"%d windows of %gs each, in turns; gubernator's requests are calls in its process, talon's come over HTTP from %d client processes\n",
		strings.TrimSpace(sheet.String()), o.Workers, o.Rate, o.Burst, o.LocalBurst, o.Burst, o.Burst*1000/o.Rate, o.Offered, o.Rounds, o.Seconds, o.Workers)
	fmt.Print(text)
	all := arms()
	for round := range o.Rounds {
		for _, i := range bed.Order(len(all), round) {
			if err := all[i].measure(ctx, o, w); err != nil {
				return 1, err
			}
		}
	}
	part, holds := o.table(all)
	fmt.Print(part)
	var rows []map[string]any
	for _, a := range all {
		rows = append(rows, map[string]any{"name": a.name, "windows": a.windows})
	}
	return o.ExitCode(holds), o.Record("gubernator", sheet, text+part, map[string]any{"machine": sheet, "settings": o, "arms": rows, "holds": holds})
}

// table prints medians over the rounds, and of what must not be passed the worst round as well.
func (o *options) table(all []*arm) (text string, holds bool) {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-24s %9s %8s %8s %8s %8s %10s %9s %9s  %s\n", "limiter", "admitted", "of ideal", "worst", "excess", "steady", "of R, s", "offered/s", "msgs/s", "admitted in each second, first round")
	holds = true
	for _, a := range all {
		admitted, ofIdeal, steady, offered, messages := a.column(func(w *window) float64 { return float64(w.Admitted) }), a.column(func(w *window) float64 { return w.OfIdeal }),
			a.column(func(w *window) float64 { return w.Steady }), a.column(func(w *window) float64 { return w.Offered }), a.column(func(w *window) float64 { return w.Messages })
		var each []float64 // seconds after the first
		for _, w := range a.windows {
			for _, n := range w.PerSecond[1:] {
				each = append(each, float64(n)/float64(o.Rate))
			}
		}
		word := ""
		if a.talon() {
			word = "PASS"
			if !(slices.Max(ofIdeal) <= wantOfIdeal) || !(slices.Min(steady) >= wantSteady) {
				word, holds = "SHORT", false
			}
		}
		fmt.Fprintf(&b, "%-24s %9.0f %8.3f %8.3f %8.0f %8.3f %4.2f..%4.2f %9.0f %9.0f  %v %s\n", a.name, bed.Median(admitted), bed.Median(ofIdeal), slices.Max(ofIdeal),
			slices.Max(a.column(func(w *window) float64 { return float64(w.Excess) })), bed.Median(steady), slices.Min(each), slices.Max(each), bed.Median(offered), bed.Median(messages), a.windows[0].PerSecond, word)
	}
	fmt.Fprintf(&b, "an ideal bucket admits %.0f in a window; excess: the most that any part of a window had over it, of all rounds; steady: admitted per second over R without the first second;\n"+
		"of R, s: the least and the most of those seconds; msgs: frames of talon, calls between peers of gubernator. Wanted of talon in every round: at most %.2f of ideal, at least %.2f steady\n",
		float64(o.Burst)+float64(o.Rate)*o.Seconds, wantOfIdeal, wantSteady)
	return b.String(), holds
}

func (a *arm) column(f func(*window) float64) (out []float64) {
	for _, w := range a.windows {
		out = append(out, f(w))
	}
	return out
}
