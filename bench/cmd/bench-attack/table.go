package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/talon-worker/talon/bench/bed"
)

// table prints medians over the rounds; the ratio is the median of the rounds' own.
func (s *siege) table() (text string, holds bool) {
	var b strings.Builder
	holds = true
	fmt.Fprintf(&b, "\n%-13s %6s %9s %9s %9s %9s %6s %7s %6s %6s %8s %8s\n", "attack", "n", "calm p50", "p50 us", "calm p99", "p99 us", "x p99", "spread", "busy", "errors", "RSS MiB", "bound")
	for _, a := range s.arms {
		ratio, rss := bed.Median(bed.Ratios(a.p99, a.calmP99)), slices.Max(a.rss)
		word := "PASS"
		if !(ratio <= wantRatio) || rss > s.bound() || a.errors > 0 {
			word, holds = "SHORT", false
		}
		fmt.Fprintf(&b, "%-13s %6d %9.0f %9.0f %9.0f %9.0f %6.2f %7.2f %6.2f %6d %8.0f %8.0f  %s\n", a.kind.name, a.n, bed.Median(a.calmP50), bed.Median(a.p50),
			bed.Median(a.calmP99), bed.Median(a.p99), ratio, bed.Spread(a.p99), bed.Median(a.busy), a.errors, rss, s.bound(), word)
	}
	for _, a := range s.arms {
		var why []string
		for _, name := range slices.Sorted(maps.Keys(a.closed)) {
			why = append(why, fmt.Sprintf("%s %.0f", name, a.closed[name]))
		}
		fmt.Fprintf(&b, "%s: closed for %s\n", a.kind.name, strings.Join(why, ", "))
	}
	fmt.Fprintf(&b, "well-behaved readers: p99 at most %gx of calm, no error, memory within its bound (%.0f MiB before, %d per ring, %d for the runtime)\n",
		wantRatio, s.base, ringMiB, runtimeMiB)
	return b.String(), holds
}

// record is the run for a program.
func (s *siege) record() (arms []map[string]any) {
	for _, a := range s.arms {
		arms = append(arms, map[string]any{"attack": a.kind.name, "n": a.n, "calm_p50_us": a.calmP50, "calm_p99_us": a.calmP99, "p50_us": a.p50, "p99_us": a.p99,
			"errors": a.errors, "rss_mib": a.rss, "bound_mib": s.bound(), "closed": a.closed})
	}
	return arms
}
