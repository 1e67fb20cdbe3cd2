package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/talon-worker/talon/bench/bed"
	"github.com/talon-worker/talon/bench/plot"
)

// The bounds of the arm "fair".
const (
	wantRatio = 0.95 // weighted min/max share in every second
	wantWait  = 1.5  // victim's p99 beside the aggressor over alone
)

func (n *noisy) report(ctx context.Context) (int, error) {
	sheet := bed.Describe(n.o.Hygiene)
	if err := n.prepare(ctx); err != nil {
		return 1, err
	}
	text := fmt.Sprintf("%s%d rings and the client on the same cores; %d rounds of %gs after %gs; capacity %.0f MB/s, egress rate %.0f MB/s (%.0f %%); %s\n",
		sheet, n.o.Rings, n.o.Rounds, n.o.Window, n.o.Warmup, n.capacity/1e6, float64(n.rate)/1e6, 100*float64(n.rate)/n.capacity, describe(n.tenants))
	fmt.Print(text)
	for round := range n.o.Rounds {
		for _, i := range bed.Order(len(n.arms), round) {
			if err := n.arms[i].round(ctx, n); err != nil {
				return 1, fmt.Errorf("%s: %w", n.arms[i].Name, err)
			}
		}
	}
	part := n.table() + n.verdict()
	fmt.Print(part)
	record := map[string]any{"machine": sheet, "settings": n.o, "capacity": n.capacity, "rate": n.rate, "arms": n.arms, "holds": n.holds()}
	return n.o.ExitCode(n.holds()), n.o.Record("noisy", sheet, text+part, record, n.charts()...)
}

func describe(tenants []tenant) string {
	parts := make([]string, len(tenants))
	for i, t := range tenants {
		parts[i] = fmt.Sprintf("%s weight %d, %d connections", t.ID, t.weight, t.conns)
	}
	return strings.Join(parts, "; ")
}

// second, tenth, goodput and wait are the medians over rounds of what the table shows.
func (a *arm) second() float64 { return a.median(func(s shares) float64 { return s.Second }) }
func (a *arm) tenth() float64  { return a.median(func(s shares) float64 { return s.Tenth }) }
func (a *arm) total() float64  { return a.median(func(s shares) float64 { return s.Total }) }
func (a *arm) busy() float64   { return a.median(func(s shares) float64 { return s.Busy }) }

func (a *arm) median(of func(shares) float64) float64 {
	v := make([]float64, len(a.Shares))
	for i, s := range a.Shares {
		v[i] = of(s)
	}
	return bed.Median(v)
}

// wait is the median of the ratios within the rounds.
func (a *arm) wait() (alone, beside, ratio float64) {
	var off, on []float64
	for _, w := range a.Waits {
		off, on = append(off, w.Alone), append(on, w.Beside)
	}
	return bed.Median(off), bed.Median(on), bed.Median(bed.Ratios(on, off))
}

func (a *arm) errors() (n int64) {
	for i := range a.Shares {
		n += a.Shares[i].Errors + a.Waits[i].Errors
	}
	return n
}

func (n *noisy) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-19s %14s %14s %10s %8s %6s %12s %12s %7s %7s\n", "arm", "min/max 1s", "min/max 100ms", "MB/s", "of rate", "cores", "alone p99 us",
		"beside p99", "ratio", "errors")
	for _, a := range n.arms {
		alone, beside, ratio := a.wait()
		fmt.Fprintf(&b, "%-19s %14.3f %14.3f %10.0f %8s %6.2f %12.0f %12.0f %7.2f %7d\n", a.Name, a.second(), a.tenth(), a.total()/1e6,
			n.ofRate(a), a.busy(), alone, beside, ratio, a.errors())
	}
	return b.String()
}

func (n *noisy) ofRate(a *arm) string {
	if !a.Rate {
		return "-"
	}
	return fmt.Sprintf("%.3f", a.total()/float64(n.rate))
}

func (n *noisy) fair() *arm { return n.arms[0] }

func (n *noisy) holds() bool {
	_, _, ratio := n.fair().wait()
	return n.fair().second() >= wantRatio && ratio <= wantWait
}

func (n *noisy) verdict() string {
	word := "SHORT"
	if n.holds() {
		word = "PASS"
	}
	_, _, ratio := n.fair().wait()
	return fmt.Sprintf("fair: worst second %.3f of an equal share (at least %.2f), victim's p99 %.2fx of alone (at most %.1f); ring-local: %.3f, fifo: %.3f: %s\n",
		n.fair().second(), wantRatio, ratio, wantWait, n.arms[1].second(), n.arms[2].second(), word)
}

// charts draw the last round: what each tenant got, by arm.
func (n *noisy) charts() []plot.Chart {
	var out []plot.Chart
	for _, a := range n.arms {
		last := a.Shares[len(a.Shares)-1]
		c := plot.Chart{Title: fmt.Sprintf("%s: worst second %.3f", a.Name, last.Second), X: "seconds", Y: "MB/s per weight"}
		for i, t := range n.tenants {
			y := make([]float64, len(last.Bytes[i]))
			for k, b := range last.Bytes[i] {
				y[k] = float64(b) / slice / 1e6 / float64(t.weight)
			}
			c.Series = append(c.Series, plot.Series{Name: fmt.Sprintf("%s (weight %d, %d conns)", t.ID, t.weight, t.conns), Step: slice, Y: y})
		}
		out = append(out, c)
	}
	return out
}

// MarshalJSON writes a figure that is missing as null.
func (s shares) MarshalJSON() ([]byte, error) {
	opt := func(v float64) *float64 {
		if math.IsNaN(v) {
			return nil
		}
		return &v
	}
	return json.Marshal(map[string]any{"bytes": s.Bytes, "bytes_s": s.Total, "min_max_1s": opt(s.Second), "min_max_100ms": opt(s.Tenth),
		"errors": s.Errors, "server_cores": s.Busy})
}
