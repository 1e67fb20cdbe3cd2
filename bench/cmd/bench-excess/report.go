package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/talon-worker/talon/bench/bed"
	"github.com/talon-worker/talon/bench/excess"
	"github.com/talon-worker/talon/bench/load"
	"github.com/talon-worker/talon/bench/plot"
)

// wantDelivered is what part of the rate must be delivered while more is asked for.
const wantDelivered = 0.95

// wantAlive tells a cluster that lives on a busy machine from one that does not.
const wantAlive = 0.5

// outcome is what a run has shown.
type outcome struct {
	from, to int64 // ns, when all clients counted
	shares   []share
	episodes []took
	planned  int
	traffic  map[string]float64 // by prefix of a metric, per second
	errors   int64
	slowest  time.Duration // until a change of the policy was in force
	lines    int           // of admission logs
	logs     int
}

// share is what became of one tenant's limit.
type share struct {
	name     string
	limit    excess.Limit
	byWorker [][]excess.Event // what clients received
	clients  verdict          // by that
	admitted verdict          // by the admission logs
	total    float64          // delivered of due, without faults
	rates    []float64
	alive    float64 // the best second since all was mended for the last time
}

// verdict is the word of one witness.
type verdict struct {
	points  []excess.Point
	worst   excess.Point
	highest int64 // excess, bytes
}

func judged(points []excess.Point) verdict {
	v := verdict{points: points, worst: excess.Worst(points)}
	for _, p := range points {
		v.highest = max(v.highest, p.Excess)
	}
	return v
}

func (v *verdict) kept() bool { return v.worst.Excess <= v.worst.Bound }

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
	text := fmt.Sprintf("%s\n%d workers of one ring, %d clients with %d connections for each of %d tenants, on the same cores%s; R %.1f MB/s, each further tenant half of the one before; "+
		"B %.2f MB, b %.2f MB, snapshot TTL %v, slices of %v; %s; %d faults, seed %d\n",
		strings.TrimSpace(sheet.String()), o.Workers, o.Workers, o.Conns, o.Tenants, map[bool]string{true: ", the first asked for all it gives, the others for a fifth"}[o.Skew], float64(o.Rate)/1e6, float64(o.Burst)/1e6, float64(o.LocalBurst)/1e6, o.TTL, o.Slice,
		strings.SplitAfterN(c.coordinator(), ":", 2)[0], o.Faults, o.Seed)
	fmt.Print(text)
	out, err := o.measure(ctx, c)
	if err != nil {
		return 1, err
	}
	part := out.table(o)
	fmt.Print(part)
	code := o.ExitCode(out.delivers(o.Patience))
	if !out.kept() || !out.lives() {
		code = 4
	}
	return code, o.Record("excess", sheet, text+part, out.record(o, sheet), out.charts()...)
}

// measure loads the cluster, breaks it if that is asked for, and judges what the workers admitted and the clients received.
func (o *options) measure(ctx context.Context, c *cluster) (*outcome, error) {
	const begin = 2 * time.Second // before the first fault, to start clients in
	seconds, stop := o.Seconds, chan struct{}(nil)
	if o.Faults > 0 {
		seconds, stop = float64(load.MaxSlices)*o.Slice.Seconds(), make(chan struct{})
	}
	var results []*load.Result
	var loadErr error
	loaded := make(chan struct{})
	started := time.Now()
	before := c.counters(ctx, reports, snapshots, peerBytes)
	go func() {
		defer close(loaded)
		results, loadErr = c.load(ctx, seconds, stop)
	}()
	out := &outcome{planned: o.Faults, traffic: map[string]float64{}}
	err := bed.Sleep(ctx, begin)
	for _, e := range o.plan() {
		if err != nil || time.Since(started).Seconds() > seconds-60 {
			break // out of time: the table says how many were carried out
		}
		var t took
		if t, err = e.run(ctx, c); err == nil {
			err = c.recovered(ctx, o.Patience)
		}
		out.episodes = append(out.episodes, t)
	}
	if stop != nil {
		close(stop)
	}
	<-loaded
	if err := errors.Join(err, loadErr); err != nil {
		return nil, err
	}
	for name, n := range c.counters(ctx, reports, snapshots, peerBytes) {
		out.traffic[name] = (n - before[name]) / time.Since(started).Seconds()
	}
	out.slowest = c.slowest
	if err := c.followAll(); err != nil {
		return nil, err
	}
	out.logs, out.lines = len(c.admitted.read), c.admitted.lines
	return out, out.judge(o, c, results, c.admitted.of)
}

// judge puts the clients' slices together, and the logs.
func (out *outcome) judge(o *options, c *cluster, results []*load.Result, logs map[string][]excess.Event) error {
	out.to = math.MaxInt64
	first := int64(math.MaxInt64)
	for _, r := range results {
		first = min(first, r.From)
		out.from, out.to = max(out.from, r.From), min(out.to, r.From+int64(r.Seconds*1e9))
		for i := range r.Streams {
			out.errors += r.Streams[i].Errors
		}
	}
	if out.to-out.from < 2*int64(time.Second) {
		return fmt.Errorf("all clients were at it for %.2f s: want 2, of which the first has the burst in it", float64(out.to-out.from)/1e9)
	}
	for i := range out.episodes {
		out.episodes[i].Relief = nil
	}
	for tenant := range o.Tenants {
		s := share{name: tenantName(tenant), limit: excess.Limit{Workers: o.Workers, Rate: o.rate(tenant), Burst: o.Burst, LocalBurst: o.LocalBurst,
			Staleness: o.TTL.Nanoseconds(), Slice: o.Slice.Nanoseconds()}}
		var seen, noted []excess.Event // by the clients' clock, and by that of the logs
		for _, h := range c.events {
			if h.tenant < 0 || h.tenant == tenant {
				e := h.event
				e.At = h.unix
				seen = append(seen, e)
				e.At = h.boot
				noted = append(noted, e)
			}
		}
		for _, r := range results {
			got := received(r, tenant, o.Slice)
			s.byWorker = append(s.byWorker, got)
			seen = append(seen, got...)
		}
		s.clients = judged(s.limit.Judge(first, seen))
		log := logs[s.name]
		begin := int64(math.MaxInt64)
		for _, e := range log {
			begin = min(begin, e.At)
		}
		s.admitted = judged(s.limit.Judge(begin, append(noted, log...)))
		s.due(out)
		out.shares = append(out.shares, s)
	}
	return nil
}

// due fills in what was delivered of what was due.
func (s *share) due(out *outcome) {
	for at := out.from + int64(time.Second); at+int64(time.Second) <= out.to; at += int64(time.Second) {
		s.rates = append(s.rates, s.delivered(at, at+int64(time.Second))) // without the first, which has the burst in it
	}
	s.total = s.delivered(out.from+int64(time.Second), out.to)
	for i := range out.episodes {
		t := &out.episodes[i]
		end := out.to
		if i+1 < len(out.episodes) {
			end = out.episodes[i+1].From
		}
		relief := math.NaN()
		s.alive = 0
		for at := t.Mended; at+int64(lookTime) <= end; at += int64(50 * time.Millisecond) {
			got := s.delivered(at, at+int64(lookTime))
			s.alive = max(s.alive, got)
			if got >= wantDelivered {
				relief = float64(at-t.Mended) / 1e9
				break
			}
		}
		t.Relief = append(t.Relief, relief)
	}
}

// delivered is what part of the rate all clients received in a window.
func (s *share) delivered(from, to int64) float64 {
	sum := int64(0)
	for _, events := range s.byWorker {
		i, _ := slices.BinarySearchFunc(events, from+1, func(e excess.Event, at int64) int { return cmp.Compare(e.At, at) })
		for ; i < len(events) && events[i].At <= to; i++ {
			sum += events[i].Bytes
		}
	}
	return float64(sum) / (float64(s.limit.Rate) * float64(to-from) / 1e9)
}

// kept reports whether the bound held, by either witness.
func (out *outcome) kept() bool {
	return !slices.ContainsFunc(out.shares, func(s share) bool { return !s.clients.kept() || !s.admitted.kept() })
}

// lives reports whether the cluster has delivered again after the last fault, however late: one that refuses for ever keeps every bound.
func (out *outcome) lives() bool {
	return out.planned == 0 || !slices.ContainsFunc(out.shares, func(s share) bool { return s.alive < wantAlive })
}

// delivers reports whether what was due was delivered: all the time, or so soon after each episode.
func (out *outcome) delivers(within time.Duration) bool {
	if out.planned == 0 {
		return !slices.ContainsFunc(out.shares, func(s share) bool { return s.total < wantDelivered })
	}
	return out.later(within) == 0 && out.done() == out.planned
}

// worst is the longest relief of any tenant; NaN: one had none.
func (t took) worst() float64 {
	w := 0.0
	for _, r := range t.Relief {
		if w = max(w, r); math.IsNaN(r) {
			return r
		}
	}
	return w
}

// later counts the episodes after which a second with what is due did not begin so soon.
func (out *outcome) later(than time.Duration) (n int) {
	for _, t := range out.episodes {
		if w := t.worst(); !(w <= than.Seconds()) {
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
	for _, s := range out.shares {
		for _, by := range []struct {
			witness string
			v       *verdict
			about   string
		}{{"admission logs", &s.admitted, ""}, {"clients", &s.clients, fmt.Sprintf(" (time is known to a slice: +-%.2f MB)", float64(s.limit.Rate)*o.Slice.Seconds()/1e6)}} {
			fmt.Fprintf(&b, "\n%s by the %s: excess over B + R*t %.3f MB at most%s; nearest to its bound N*b + R*d: %.3f of %.3f MB, %.2f of it: %s",
				s.name, by.witness, float64(by.v.highest)/1e6, by.about, float64(by.v.worst.Excess)/1e6, float64(by.v.worst.Bound)/1e6, by.v.worst.Of(), word(by.v.kept(), "VIOLATED"))
		}
		fmt.Fprintf(&b, "\n%s: delivered of R over %.0f s: %.3f; by second: least %.3f, most %.3f\n", s.name, float64(out.to-out.from)/1e9, s.total, slices.Min(s.rates), slices.Max(s.rates))
	}
	fmt.Fprintf(&b, "admission logs: %d lines in %d files\n", out.lines, out.logs)
	if out.planned == 0 {
		fmt.Fprintf(&b, "at least %.2f is due: %s\n", wantDelivered, word(out.delivers(0), "SHORT"))
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
		relief = append(relief, t.worst())
	}
	fmt.Fprintf(b, "%d of %d faults in %d episodes:", out.done(), out.planned, len(out.episodes))
	for _, name := range sortedKeys(counts) {
		fmt.Fprintf(b, " %d %s,", counts[name], name)
	}
	fmt.Fprintf(b, "\nwell again (a second with %.2f of R begins for every tenant) after a median of %.2f s; %d episodes of %d had to wait for longer than %v: %s",
		wantDelivered, bed.Median(relief), out.later(healTime), len(out.episodes), healTime, word(out.delivers(healTime), "SHORT"))
	if o.Patience > healTime {
		fmt.Fprintf(b, "; %d for longer than %v: %s", out.later(o.Patience), o.Patience, word(out.delivers(o.Patience), "SHORT"))
	}
	fmt.Fprintln(b)
	if out.slowest > 0 {
		fmt.Fprintf(b, "a change of the policy was in force on all workers after %v at most\n", out.slowest.Round(time.Millisecond))
	}
	if !out.lives() {
		fmt.Fprintf(b, "DEAD: the best second after the last fault has less than %.2f of R\n", wantAlive)
	}
	for i, t := range out.episodes {
		if w := t.worst(); w <= healTime.Seconds() {
			continue
		}
		fmt.Fprintf(b, "  late: episode %d, mended at %s, well again after %.2f s:", i+1, time.Unix(0, t.Mended).Format("15:04:05.000"), t.Relief)
		for _, f := range t.Faults {
			fmt.Fprintf(b, " %s;", f.tell())
		}
		fmt.Fprintln(b)
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
	var tenants []map[string]any
	for _, s := range out.shares {
		tenants = append(tenants, map[string]any{"name": s.name, "limit": s.limit, "worst_by_clients": s.clients.worst, "worst_by_logs": s.admitted.worst,
			"delivered": s.total, "by_second": s.rates})
	}
	return map[string]any{"machine": sheet, "settings": o, "tenants": tenants, "episodes": out.episodes, "per_second": out.traffic, "errors": out.errors,
		"admission_lines": out.lines, "policy_spread_s": out.slowest.Seconds(), "kept": out.kept(), "delivers": out.delivers(o.Patience), "faults": out.done()}
}

// MarshalJSON writes a relief that never came as null, and faults by their names.
func (t took) MarshalJSON() ([]byte, error) {
	relief := make([]*float64, len(t.Relief))
	for i := range t.Relief {
		if !math.IsNaN(t.Relief[i]) {
			relief[i] = &t.Relief[i]
		}
	}
	var faults []string
	for _, f := range t.Faults {
		faults = append(faults, f.tell())
	}
	return json.Marshal(map[string]any{"faults": faults, "from_ns": t.From, "mended_ns": t.Mended, "relief_s": relief})
}

// charts draw for each tenant what each worker delivered, and the excess below its bound.
func (out *outcome) charts() (all []plot.Chart) {
	for i := range out.shares {
		all = append(all, out.shares[i].charts(out.from, out.to)...)
	}
	return all
}

func (s *share) charts(from, to int64) []plot.Chart {
	const step = 0.1
	n := int(float64(to-from)/1e9/step) + 1
	series := func(name string) plot.Series { return plot.Series{Name: name, Step: step, Y: make([]float64, n)} }
	bin := func(at int64) int { return int(float64(at-from) / 1e9 / step) }
	rates := plot.Chart{Title: fmt.Sprintf("%s: received through each worker, R = %.0f MB/s together", s.name, float64(s.limit.Rate)/1e6), X: "seconds", Y: "MB/s"}
	sum := series("all")
	for w, events := range s.byWorker {
		of := series(id(w))
		for _, e := range events {
			if i := bin(e.At); e.At >= from && i < n {
				of.Y[i] += float64(e.Bytes) / 1e6 / step
				sum.Y[i] += float64(e.Bytes) / 1e6 / step
			}
		}
		rates.Series = append(rates.Series, of)
	}
	rates.Series = append(rates.Series, sum)
	over := plot.Chart{Title: fmt.Sprintf("%s: excess over B + R*t by the clients' count, %.2f of the bound at worst", s.name, s.clients.worst.Of()), X: "seconds", Y: "MB"}
	level, bound := series("excess"), series("bound N*b + R*d")
	for _, p := range s.clients.points {
		if i := bin(p.At); p.At >= from && i < n {
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
