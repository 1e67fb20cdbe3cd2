package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/talon-worker/talon/bench/bed"
	"github.com/talon-worker/talon/bench/load"
)

// The bounds: hot readers must be this much faster than with the probe off, and their 99th percentile
// no longer than this.
const (
	wantRatio = 20
	wantP99US = 5000
	retries   = 2
)

// beside runs the three arms.
type beside struct {
	o      *options
	cold   string // file
	client bed.Client
	arms   []arm
}

// arm is one of the three; its slices have an element for each round, NaN where it was refused.
type arm struct {
	Name   string
	server *bed.Server
	beside bool // with the cold streams

	hotRate, hotP50, hotP99, coldGBps, coldP50, diskShare, busy []float64
	refused                                                     []string
}

func (b *beside) report(ctx context.Context) (int, error) {
	sheet := bed.Describe(b.o.Hygiene)
	text := fmt.Sprintf("%sserver on core %d, client on core %d; %d rounds of %gs after %gs; %d hot connections (4 KiB), %d cold (1 MiB of %s, evicted every %v); talon %s, probe off by %s\n",
		sheet, b.o.ServerCPU, b.o.ClientCPU, b.o.Rounds, b.o.Window, b.o.Warmup, b.o.HotConns, b.o.ColdConns, b.o.Size, b.o.EvictEvery, b.o.Args, b.o.NoProbe)
	fmt.Print(text)
	for round := range b.o.Rounds {
		for _, i := range bed.Order(len(b.arms), round) {
			if err := b.arms[i].round(ctx, b); err != nil {
				return 1, fmt.Errorf("%s: %w", b.arms[i].Name, err)
			}
		}
	}
	v := judge(&b.arms[0], &b.arms[1], &b.arms[2])
	part := table(b.arms) + v.text()
	fmt.Print(part)
	return b.exitCode(v), b.o.Record("cold", sheet, text+part, map[string]any{"machine": sheet, "settings": b.o, "arms": b.arms, "verdict": v})
}

func (b *beside) exitCode(v verdict) int {
	if math.IsNaN(v.ratio) || math.IsNaN(v.p99) {
		return 3
	}
	return b.o.ExitCode(v.holds())
}

// round measures the arm once, again if it was refused, and records it.
func (a *arm) round(ctx context.Context, b *beside) error {
	for range 1 + retries {
		res, share, err := a.once(ctx, b)
		if err != nil {
			return err
		}
		why := refusal(res)
		if why == "" {
			a.add(res, share)
			return nil
		}
		a.refused = append(a.refused, why)
	}
	a.add(nil, math.NaN())
	return nil
}

func refusal(r *load.Result) string {
	why := r.Refused
	for _, s := range r.Streams {
		if s.Errors > 0 {
			why = append(why, fmt.Sprintf("%s: %d errors: %v", s.Name, s.Errors, s.ByFault))
		}
	}
	return strings.Join(why, "; ")
}

// once evicts, measures, and finds how much of the cold bytes really came from the disk.
func (a *arm) once(ctx context.Context, b *beside) (res *load.Result, share float64, err error) {
	stop, err := bed.KeepCold(b.cold, b.o.EvictEvery)
	if err != nil {
		return nil, 0, err
	}
	before, err := bed.DiskReads(a.server.PIDs)
	if err == nil {
		res, err = b.client.Measure(ctx, b.o.config(a))
	}
	if serr := stop(); err == nil {
		err = serr
	}
	if err != nil {
		return nil, 0, err
	}
	after, err := bed.DiskReads(a.server.PIDs)
	share = math.NaN()
	if a.beside && res.Streams[1].AllBytes > 0 {
		share = float64(after-before) / float64(res.Streams[1].AllBytes)
	}
	return res, share, err
}

func (o *options) config(a *arm) load.Config {
	c := load.Config{Target: a.server.Target, WarmupS: o.Warmup, DurationS: o.Window, Headers: o.Headers, ServerPIDs: a.server.PIDs, Seed: 1,
		Streams: []load.Stream{{Name: "hot", Conns: o.HotConns, Keys: []string{"/" + hotKey}}}}
	if a.beside {
		c.Streams = append(c.Streams, load.Stream{Name: "cold", Conns: o.ColdConns, Keys: []string{"/" + coldKey},
			Range: load.Range{Kind: "random", Length: o.ColdRange, Align: 4096}})
	}
	return c
}

func (a *arm) add(r *load.Result, share float64) {
	nan := math.NaN()
	hot, cold, busy := load.StreamResult{Rate: nan, P50US: nan, P99US: nan}, load.StreamResult{GBps: nan, P50US: nan}, nan
	if r != nil {
		hot, busy = r.Streams[0], r.Server.Busy
		if len(r.Streams) > 1 {
			cold = r.Streams[1]
		}
	}
	a.hotRate = append(a.hotRate, hot.Rate)
	a.hotP50 = append(a.hotP50, hot.P50US)
	a.hotP99 = append(a.hotP99, hot.P99US)
	a.coldGBps = append(a.coldGBps, cold.GBps)
	a.coldP50 = append(a.coldP50, cold.P50US)
	a.diskShare = append(a.diskShare, share)
	a.busy = append(a.busy, busy)
}

// MarshalJSON writes the rounds; a figure that is missing is null.
func (a arm) MarshalJSON() ([]byte, error) {
	m := map[string]any{"arm": a.Name, "refused": a.refused}
	for name, v := range map[string][]float64{"hot_req_per_s": a.hotRate, "hot_p50_us": a.hotP50, "hot_p99_us": a.hotP99, "cold_gb_per_s": a.coldGBps,
		"cold_p50_us": a.coldP50, "disk_share": a.diskShare, "server_busy": a.busy} {
		m[name] = nullable(v...)
	}
	return json.Marshal(m)
}

func nullable(v ...float64) []*float64 {
	out := make([]*float64, len(v))
	for i := range v {
		if !math.IsNaN(v[i]) && !math.IsInf(v[i], 0) {
			out[i] = &v[i]
		}
	}
	return out
}

// verdict is the first arm against the second, with the third beside it.
type verdict struct{ ratio, p99, ofAlone float64 }

func judge(probing, blind, alone *arm) verdict {
	return verdict{
		ratio:   bed.Median(bed.Ratios(probing.hotRate, blind.hotRate)),
		p99:     bed.Median(probing.hotP99),
		ofAlone: bed.Median(bed.Ratios(probing.hotRate, alone.hotRate)),
	}
}

func (v verdict) holds() bool { return v.ratio >= wantRatio && v.p99 <= wantP99US }

// MarshalJSON writes a missing figure as null.
func (v verdict) MarshalJSON() ([]byte, error) {
	n := nullable(v.ratio, v.p99, v.ofAlone)
	return json.Marshal(map[string]any{"ratio_to_probe_off": n[0], "hot_p99_us": n[1], "ratio_to_alone": n[2], "holds": v.holds()})
}

func (v verdict) text() string {
	word := "SHORT"
	if v.holds() {
		word = "PASS"
	}
	return fmt.Sprintf("hot readers: %.1fx of probe off (at least %d), p99 %.2f ms (at most %d), %.2f of the same readers alone: %s\n",
		v.ratio, wantRatio, v.p99/1000, wantP99US/1000, v.ofAlone, word)
}

func table(arms []arm) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%-10s %10s %10s %10s %10s %11s %10s %6s %7s\n", "arm", "hot req/s", "p50 us", "p99 us", "cold GB/s", "cold p50 us", "from disk", "busy", "spread")
	for i := range arms {
		a := &arms[i]
		fmt.Fprintf(&b, "%-10s %10.0f %10.0f %10.0f %10s %11s %10s %6s %7s", a.Name, bed.Median(a.hotRate), bed.Median(a.hotP50), bed.Median(a.hotP99),
			dash("%.3f", bed.Median(a.coldGBps)), dash("%.0f", bed.Median(a.coldP50)), dash("%.2f", bed.Median(a.diskShare)),
			dash("%.2f", bed.Median(a.busy)), dash("%.2f", bed.Spread(a.hotRate)))
		if len(a.refused) > 0 {
			fmt.Fprintf(&b, "  refused %d times, last: %s", len(a.refused), a.refused[len(a.refused)-1])
		}
		b.WriteString("\n")
	}
	return b.String()
}

func dash(format string, v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return fmt.Sprintf(format, v)
}
