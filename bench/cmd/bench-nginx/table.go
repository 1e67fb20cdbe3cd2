package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/talon-worker/talon/bench/bed"
)

func header(sheet bed.Machine, o *options) string {
	client := "bodies discarded in the kernel"
	if o.Copy {
		client = "bodies copied"
	}
	return fmt.Sprintf("%sserver on core %d, client on core %d (%s); %d rounds of %gs after %gs; talon %s\n"+
		"medians; x columns are medians of per-round ratios to the best nginx (above 1 is better), limit is the share of the C loop\n",
		sheet, o.ServerCPU, o.ClientCPU, client, o.Rounds, o.Window, o.Warmup, o.Args)
}

// table is a cell as text.
func (c *cell) table() string {
	var b strings.Builder
	byRate, byCPU := c.bestNginx()
	limit := c.row("limit")
	fmt.Fprintf(&b, "\n%s, %d connections\n%-18s %9s %7s %9s %5s %5s %5s %9s %9s %6s %6s %7s %6s %6s\n", c.Size, c.Conns,
		"server", "req/s", "GB/s", "us/req", "busy", "wait", "idle", "p50 us", "p99 us", "little", "spread", "x req/s", "x CPU", "limit")
	for i := range c.Rows {
		r := &c.Rows[i]
		fmt.Fprintf(&b, "%-18s %9.0f %7.3f %9.2f %5s %5s %5s %9.0f %9.0f %6s %6s %7s %6s %6s", r.Server, bed.Median(r.Rate), bed.Median(r.GBps),
			bed.Median(r.CPU), percent(r.Busy), percent(r.Wait), percent(r.Idle), bed.Median(r.P50), bed.Median(r.P99),
			num(bed.Median(r.Little)/float64(c.Conns)), num(bed.Spread(r.Rate)),
			num(over(r, byRate, func(r *row) figures { return r.Rate })),
			num(1/over(r, byCPU, func(r *row) figures { return r.CPU })),
			num(over(r, limit, func(r *row) figures { return r.Rate })))
		b.WriteString(r.remarks() + "\n")
	}
	if c.Verdict != nil {
		b.WriteString("talon: " + c.Verdict.text(c.Size) + "\n")
	}
	if c.Policy != nil {
		b.WriteString(withPolicy + ": " + c.Policy.text() + "\n")
	}
	return b.String()
}

// remarks says what was refused, if anything.
func (r *row) remarks() string {
	if len(r.Refuse) == 0 {
		return ""
	}
	return fmt.Sprintf("  %d of %d rounds good; refused %d times, last: %s", r.good(), len(r.Rate), len(r.Refuse), r.Refuse[len(r.Refuse)-1])
}

func over(a, b *row, pick func(*row) figures) float64 {
	if a == nil || b == nil {
		return math.NaN()
	}
	return bed.Median(bed.Ratios(pick(a), pick(b)))
}

func percent(f figures) string {
	if m := bed.Median(f); !math.IsNaN(m) {
		return fmt.Sprintf("%.0f%%", 100*m)
	}
	return "-"
}

func num(v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return fmt.Sprintf("%.2f", v)
}

func (v *verdict) text(size string) string {
	if v.ByRate == "" {
		return "no nginx beside it, no verdict; share of the limit " + num(float64(v.Limit))
	}
	s := fmt.Sprintf("%s of %s by req/s, %s of %s by CPU, decided by %s", num(float64(v.RateRatio)), v.ByRate, num(float64(v.CPURatio)), v.ByCPU, v.Basis)
	if t, ok := targets[size]; ok {
		s += fmt.Sprintf("; floor %.2f, goal %.2f", t.floor, t.goal)
	}
	if n, _ := bed.ParseSize(size); n >= limitFrom {
		s += fmt.Sprintf("; limit %s of at least %.2f", num(float64(v.Limit)), limitFloor)
	}
	return s + ": " + v.Word
}

func (v *toll) text() string {
	return fmt.Sprintf("%.3f of talon by req/s, %.3f by CPU, decided by %s; floor %.2f: %s", float64(v.RateRatio), float64(v.CPURatio), v.Basis, policyFloor, v.Word)
}

// summary is a line per cell, and one for the policy in all cells.
func summary(cells []*cell) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-6s %5s  %-18s %6s %7s %6s %6s %-16s %5s %5s  %s\n", "size", "conns", "best nginx", "spread", "x req/s", "x CPU", "limit", "decided by",
		"floor", "goal", "verdict")
	for _, c := range cells {
		best, _ := c.bestNginx()
		if best == nil {
			continue
		}
		t := targets[c.Size]
		v := c.Verdict
		if v == nil {
			fmt.Fprintf(&b, "%-6s %5d  %-18s %6s  (without talon)\n", c.Size, c.Conns, best.Server, num(bed.Spread(best.Rate)))
			continue
		}
		fmt.Fprintf(&b, "%-6s %5d  %-18s %6s %7s %6s %6s %-16s %5.2f %5.2f  %s\n", c.Size, c.Conns, v.ByRate, num(float64(v.Spread)),
			num(float64(v.RateRatio)), num(float64(v.CPURatio)), num(float64(v.Limit)), v.Basis, t.floor, t.goal, v.Word)
	}
	for _, c := range cells {
		if c.Policy != nil {
			fmt.Fprintf(&b, "%-6s %5d  %s: %s\n", c.Size, c.Conns, withPolicy, c.Policy.text())
		}
	}
	return b.String()
}
