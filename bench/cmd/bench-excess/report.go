package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/talon-worker/talon/bench/bed"
	"github.com/talon-worker/talon/bench/excess"
	"github.com/talon-worker/talon/bench/load"
	"github.com/talon-worker/talon/bench/plot"
)

// wantDelivered is what part of the rate must be delivered while more is asked for, and settleTime after all is mended.
const wantDelivered = 0.95

// wantAlive tells a cluster that lives on a busy machine from one that does not.
const wantAlive = 0.5

// patience is how long after the last fault the cluster is given to deliver at all.
const patience = 5 * time.Second

// outcome is what a run has shown.
type outcome struct {
	from, to int64 // ns, when all clients counted
	limit    excess.Limit
	byWorker [][]excess.Event
	points   []excess.Point
	worst    excess.Point
	total    float64 // delivered of due, without faults
	rates    []float64
	episodes []took
	planned  int
	traffic  map[string]float64 // by prefix of a metric, per second
	errors   int64
	slowest  time.Duration // until a change of the policy was in force
	unspread int
	alive    float64 // the best second since all was mended for the last time
}

// Metrics of the workers about what they say to each other.
const (
	reports   = "talon_global_reports_total"
	snapshots = "talon_global_snapshots_total"
	peerBytes = `talon_peer_bytes_total{direction="out"}`
)

func (o *options) report(ctx context.Context, c *cluster) (int, error) {
	sheet := bed.Describe(false)
	if err := c.up(ctx); err != nil {
		return 1, err
	}
	text := fmt.Sprintf("%s\n%d workers of one ring, %d clients with %d connections each, on the same cores; R %.1f MB/s, B %.2f MB, b %.2f MB, snapshot TTL %v, slices of %v; %s; %d faults, seed %d\n",
		strings.TrimSpace(sheet.String()), o.Workers, o.Workers, o.Conns, float64(o.Rate)/1e6, float64(o.Burst)/1e6, float64(o.LocalBurst)/1e6, o.TTL, o.Slice, c.coordinator(), o.Faults, o.Seed)
	fmt.Print(text)
	out, err := o.measure(ctx, c)
	if err != nil {
		return 1, err
	}
	part := out.table(o)
	fmt.Print(part)
	if !o.noWrite {
		name, err := bed.Append(o.results, "excess", sheet, text+part, out.record(o, sheet))
		if err != nil {
			return 1, err
		}
		picture := strings.TrimSuffix(name, filepath.Ext(name)) + ".svg"
		if err := plot.WriteFile(picture, out.charts(o)); err != nil {
			return 1, err
		}
		fmt.Println("appended to", name, "and drew", picture)
	}
	if !out.kept() || !out.lives() || o.strict && !out.delivers() {
		return 4, nil
	}
	return 0, nil
}

// measure loads the cluster, breaks it if that is asked for, and judges what the clients received.
func (o *options) measure(ctx context.Context, c *cluster) (*outcome, error) {
	all := o.plan()
	seconds := o.Seconds
	const begin = time.Second // before the first fault, and to start clients in
	if o.Faults > 0 {
		seconds = math.Ceil((o.longestRun(all...) + 3*begin + patience).Seconds())
	}
	var results []*load.Result
	var loadErr error
	loaded := make(chan struct{})
	started := time.Now()
	before := c.counters(ctx, reports, snapshots, peerBytes)
	go func() {
		defer close(loaded)
		results, loadErr = c.load(ctx, seconds)
	}()
	out := &outcome{planned: o.Faults, traffic: map[string]float64{}}
	err := pause(ctx, 2*begin)
	for _, e := range all {
		if err != nil || time.Since(started).Seconds()+o.longestRun(e).Seconds() > seconds {
			break // out of time: the table says how many were carried out
		}
		var t took
		if t, err = e.run(ctx, c); err == nil {
			err = pause(ctx, settleTime+lookTime)
		}
		out.episodes = append(out.episodes, t)
	}
	<-loaded
	if err := errors.Join(err, loadErr); err != nil {
		return nil, err
	}
	for name, n := range c.counters(ctx, reports, snapshots, peerBytes) {
		out.traffic[name] = (n - before[name]) / time.Since(started).Seconds()
	}
	out.slowest, out.unspread = c.slowest, c.unspread
	out.judge(o, c, results)
	return out, nil
}

// judge puts the clients' slices together.
func (out *outcome) judge(o *options, c *cluster, results []*load.Result) {
	out.limit = excess.Limit{Workers: o.Workers, Rate: o.Rate, Burst: o.Burst, LocalBurst: o.LocalBurst, Staleness: o.TTL.Nanoseconds(), Slice: o.Slice.Nanoseconds()}
	out.to = math.MaxInt64
	events := slices.Clone(c.events)
	first := int64(math.MaxInt64)
	for _, r := range results {
		got := received(r, o.Slice)
		out.byWorker = append(out.byWorker, got)
		events = append(events, got...)
		first = min(first, r.From)
		out.from, out.to = max(out.from, r.From), min(out.to, r.From+int64(r.Seconds*1e9))
		out.errors += r.Streams[0].Errors
	}
	out.points = out.limit.Judge(first, events)
	out.worst = excess.Worst(out.points)
	for at := out.from + int64(time.Second); at+int64(time.Second) <= out.to; at += int64(time.Second) {
		out.rates = append(out.rates, out.delivered(at, at+int64(time.Second))) // without the first, which has the burst in it
	}
	out.total = out.delivered(out.from+int64(time.Second), out.to)
	for i := range out.episodes {
		t := &out.episodes[i]
		look := t.Mended + int64(settleTime)
		t.Due = out.delivered(look, look+int64(lookTime))
		t.Relief = math.NaN()
		for at := t.Mended; at <= look; at += int64(50 * time.Millisecond) {
			if out.delivered(at, at+int64(lookTime)) >= wantDelivered {
				t.Relief = float64(at-t.Mended) / 1e9
				break
			}
		}
		out.alive = 0
		for at := t.Mended; at+int64(lookTime) <= out.to; at += int64(50 * time.Millisecond) {
			out.alive = max(out.alive, out.delivered(at, at+int64(lookTime)))
		}
	}
}

// delivered is what part of the rate all clients received in a window.
func (out *outcome) delivered(from, to int64) float64 {
	sum := int64(0)
	for _, events := range out.byWorker {
		for _, e := range events {
			if e.At > from && e.At <= to {
				sum += e.Bytes
			}
		}
	}
	return float64(sum) / (float64(out.limit.Rate) * float64(to-from) / 1e9)
}

// kept reports whether the bound held.
func (out *outcome) kept() bool { return out.worst.Excess <= out.worst.Bound }

// lives reports whether the cluster has delivered again after the last fault, however late: one that refuses for ever keeps every bound.
func (out *outcome) lives() bool { return out.planned == 0 || out.alive >= wantAlive }

// delivers reports whether what was due was delivered: all the time, or after each episode.
func (out *outcome) delivers() bool {
	if out.planned == 0 {
		return out.total >= wantDelivered
	}
	return out.short() == 0 && out.done() == out.planned
}

func (out *outcome) short() (n int) {
	for _, t := range out.episodes {
		if t.Due < wantDelivered {
			n++
		}
	}
	return n
}

func (out *outcome) done() (n int) {
	for _, t := range out.episodes {
		n += len(t.Faults)
	}
	return n
}

func word(ok bool, no string) string {
	if ok {
		return "PASS"
	}
	return no
}

func (out *outcome) table(o *options) string {
	var b strings.Builder
	highest := int64(0)
	for _, p := range out.points {
		highest = max(highest, p.Excess)
	}
	resolution := float64(out.limit.Rate) * o.Slice.Seconds()
	fmt.Fprintf(&b, "\nexcess over B + R*t: %.3f MB at most (time is known to a slice: +-%.2f MB); nearest to its bound N*b + R*d: %.3f of %.3f MB, %.2f of it: %s\n",
		float64(highest)/1e6, resolution/1e6, float64(out.worst.Excess)/1e6, float64(out.worst.Bound)/1e6, out.worst.Of(), word(out.kept(), "VIOLATED"))
	fmt.Fprintf(&b, "delivered of R over %.0f s: %.3f; by second: least %.3f, most %.3f\n", float64(out.to-out.from)/1e9, out.total, slices.Min(out.rates), slices.Max(out.rates))
	if out.planned == 0 {
		fmt.Fprintf(&b, "at least %.2f is due: %s\n", wantDelivered, word(out.delivers(), "SHORT"))
	} else {
		out.faultTable(o, &b)
	}
	fmt.Fprintf(&b, "between workers: %.0f reports/s, %.0f snapshots/s", out.traffic[reports], out.traffic[snapshots])
	if bytes, there := out.traffic[peerBytes]; there {
		fmt.Fprintf(&b, ", %.1f kB/s\n", bytes/1e3)
	} else {
		fmt.Fprintf(&b, "; their bytes are in no metric\n")
	}
	fmt.Fprintf(&b, "clients saw %d errors, of connections that a killed worker had\n", out.errors)
	return b.String()
}

func (out *outcome) faultTable(o *options, b *strings.Builder) {
	counts := map[string]int{}
	var relief []float64
	for _, t := range out.episodes {
		for _, f := range t.Faults {
			counts[f.String()]++
		}
		relief = append(relief, t.Relief)
	}
	fmt.Fprintf(b, "%d of %d faults in %d episodes:", out.done(), out.planned, len(out.episodes))
	for _, name := range sortedKeys(counts) {
		fmt.Fprintf(b, " %d %s,", counts[name], name)
	}
	fmt.Fprintf(b, "\nwell again (a second with %.2f of R begins) after a median of %.2f s; %d episodes of %d had less %v after all was mended: %s\n",
		wantDelivered, bed.Median(relief), out.short(), len(out.episodes), settleTime, word(out.delivers(), "SHORT"))
	if out.slowest > 0 {
		fmt.Fprintf(b, "a change of the policy was in force after %v at most; %d answers without it after %v\n", out.slowest.Round(time.Millisecond), out.unspread, o.spreadTime())
	}
	if !out.lives() {
		fmt.Fprintf(b, "DEAD: the best second after the last fault has %.3f of R\n", out.alive)
	}
	for i, t := range out.episodes {
		if t.Due < wantDelivered {
			fmt.Fprintf(b, "  short: episode %d delivered %.3f:", i+1, t.Due)
			for _, f := range t.Faults {
				fmt.Fprintf(b, " %v (%s) for %v at %v;", f, id(f.Worker), f.Hold.Round(time.Millisecond), f.After.Round(time.Millisecond))
			}
			fmt.Fprintln(b)
		}
	}
}

func sortedKeys(m map[string]int) (keys []string) {
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (out *outcome) record(o *options, sheet bed.Machine) map[string]any {
	return map[string]any{"machine": sheet, "settings": o, "limit": out.limit, "worst": out.worst, "delivered": out.total, "by_second": out.rates,
		"episodes": out.episodes, "per_second": out.traffic, "errors": out.errors, "policy_spread_s": out.slowest.Seconds(), "policy_unspread": out.unspread, "kept": out.kept(), "delivers": out.delivers()}
}

// MarshalJSON writes a relief that never came as null.
func (t took) MarshalJSON() ([]byte, error) {
	m := map[string]any{"faults": t.Faults, "from_ns": t.From, "mended_ns": t.Mended, "delivered": t.Due, "relief_s": t.Relief}
	if math.IsNaN(t.Relief) {
		m["relief_s"] = nil
	}
	return json.Marshal(m)
}

// charts draw what each worker delivered, and the excess below its bound.
func (out *outcome) charts(*options) []plot.Chart {
	const step = 0.1
	n := int(float64(out.to-out.from)/1e9/step) + 1
	series := func(name string) plot.Series { return plot.Series{Name: name, Step: step, Y: make([]float64, n)} }
	bin := func(at int64) int { return int(float64(at-out.from) / 1e9 / step) }
	rates := plot.Chart{Title: fmt.Sprintf("received through each worker, R = %.0f MB/s together", float64(out.limit.Rate)/1e6), X: "seconds", Y: "MB/s"}
	sum := series("all")
	for w, events := range out.byWorker {
		s := series(id(w))
		for _, e := range events {
			if i := bin(e.At); e.At >= out.from && i < n {
				s.Y[i] += float64(e.Bytes) / 1e6 / step
				sum.Y[i] += float64(e.Bytes) / 1e6 / step
			}
		}
		rates.Series = append(rates.Series, s)
	}
	rates.Series = append(rates.Series, sum)
	over := plot.Chart{Title: fmt.Sprintf("excess over B + R*t: %.2f of the bound at worst", out.worst.Of()), X: "seconds", Y: "MB"}
	level, bound := series("excess"), series("bound N*b + R*d")
	for _, p := range out.points {
		if i := bin(p.At); p.At >= out.from && i < n {
			level.Y[i], bound.Y[i] = max(level.Y[i], float64(p.Excess)/1e6), max(bound.Y[i], float64(p.Bound)/1e6)
		}
	}
	for i := 1; i < n; i++ { // where nothing was received the bound is what it was
		if bound.Y[i] == 0 {
			bound.Y[i] = bound.Y[i-1]
		}
	}
	over.Series = []plot.Series{level, bound}
	return []plot.Chart{rates, over}
}
