package main

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/talon-worker/talon/bench/bed"
	"github.com/talon-worker/talon/bench/load"
)

// The bounds of the attacks. An attacked talon may have resident what it had before the first attack, and
// per ring what ARCHITECTURE.md lists: 17 MiB of send slabs, 26 MiB of input slabs, 8 MiB of waiting requests
// and 8 MiB of slots; and its runtime's slack. Buffers for receiving are there from the start.
const (
	wantRatio   = 2.0
	ringMiB     = 17 + 26 + 8 + 8
	runtimeMiB  = 24
	sampleEvery = 20 * time.Millisecond
)

// siege is the whole run.
type siege struct {
	o      *options
	self   string
	server *bed.Server
	client bed.Client
	arms   []*arm
	base   float64 // MiB resident before the first attack
	rings  float64
}

// arm is one attack and the calm before it, a value of each per round.
type arm struct {
	kind *kind
	n    int

	calmP50, calmP99, p50, p99, rss []float64
	busyCalm, busy                  []float64
	errors                          int64
	closed                          map[string]float64
}

func (s *siege) report(ctx context.Context) (int, error) {
	sheet := bed.Describe(s.o.Hygiene)
	text := fmt.Sprintf("%sserver on core %d, readers and attackers on core %d; %d rounds of %gs after %gs; %d connections ask for %g x 4 KiB a second; talon %s\n",
		sheet, s.o.ServerCPU, s.o.ClientCPU, s.o.Rounds, s.o.Window, s.o.Warmup, s.o.Conns, s.o.Rate, s.o.Args)
	fmt.Print(text)
	if _, err := s.measure(ctx); err != nil { // everything is touched once
		return 1, err
	}
	var err error
	if s.base, err = resident(s.server.PIDs); err != nil {
		return 1, err
	}
	if s.rings, err = s.countRings(ctx); err != nil {
		return 1, err
	}
	for round := range s.o.Rounds {
		for _, i := range bed.Order(len(s.arms), round) {
			if err := s.round(ctx, s.arms[i]); err != nil {
				return 1, fmt.Errorf("%s: %w", s.arms[i].kind.name, err)
			}
		}
	}
	part, holds := s.table()
	fmt.Print(part)
	return s.o.ExitCode(holds), s.o.Record("attack", sheet, text+part, map[string]any{"machine": sheet, "settings": s.o, "arms": s.record(), "holds": holds})
}

// bound is how much talon may have resident, in MiB.
func (s *siege) bound() float64 { return s.base + ringMiB*s.rings + runtimeMiB }

// round measures calm, then the same under attack.
func (s *siege) round(ctx context.Context, a *arm) error {
	calm, err := s.measure(ctx)
	if err != nil {
		return err
	}
	before, err := s.counters(ctx)
	if err != nil {
		return err
	}
	var watch sync.WaitGroup
	over := make(chan struct{})
	most := 0.0
	watch.Go(func() {
		for {
			if mib, err := resident(s.server.PIDs); err == nil {
				most = max(most, mib)
			}
			select {
			case <-over:
				return
			case <-time.After(sampleEvery):
			}
		}
	})
	hit, err := s.attacked(ctx, a)
	close(over)
	watch.Wait()
	if err != nil {
		return err
	}
	after, err := s.counters(ctx)
	if err != nil {
		return err
	}
	a.add(calm, hit, most)
	a.count(before, after)
	return s.settle(ctx)
}

// attacked measures while an attack goes on.
func (s *siege) attacked(ctx context.Context, a *arm) (*load.Result, error) {
	processes := (a.n + perProcess - 1) / perProcess
	target := strings.TrimPrefix(s.server.Target, "http://")
	for i := range processes {
		ready := &readyWriter{ready: make(chan struct{})}
		n := a.n/processes + min(a.n%processes, 1-min(i, 1))
		p, err := bed.Start(bed.Spec{Argv: []string{s.self, attackerArg, a.kind.name, strconv.Itoa(n), fmt.Sprint(float64(comeAgain) / float64(processes)), target},
			CPU: s.o.ClientCPU, Out: ready})
		if err != nil {
			return nil, err
		}
		defer p.Stop()
		select {
		case <-ready.ready:
		case <-p.Done():
			return nil, fmt.Errorf("an attacker ended: %v: %s", p.Wait(), p.Log())
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(settleTime):
			return nil, fmt.Errorf("%d attackers did not come within %v", n, settleTime)
		}
	}
	return s.measure(ctx)
}

// readyWriter tells when an attacker has said something.
type readyWriter struct {
	once  sync.Once
	ready chan struct{}
}

func (w *readyWriter) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("ready")) {
		w.once.Do(func() { close(w.ready) })
	}
	return len(p), nil
}

// measure is one window of the well-behaved readers. They sleep between requests: a reader that polled
// would take the core from the attackers.
func (s *siege) measure(ctx context.Context) (*load.Result, error) {
	r, err := s.client.Measure(ctx, load.Config{Target: s.server.Target, WarmupS: s.o.Warmup, DurationS: s.o.Window, ServerPIDs: s.server.PIDs, Seed: 1, Block: true,
		Streams: []load.Stream{{Name: "good", Conns: s.o.Conns, Keys: []string{"/" + goodKey}, Rate: s.o.Rate}}})
	if err == nil && r.Streams[0].Requests == 0 {
		err = fmt.Errorf("no reader was served: %v", r.Refused)
	}
	return r, err
}

// settle waits until the attackers are gone.
func (s *siege) settle(ctx context.Context) error {
	for end := time.Now().Add(settleTime); ; {
		c, err := s.counters(ctx)
		if err != nil {
			return err
		}
		if c["talon_connections"] <= float64(s.o.Conns) {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%g connections are still open %v after the attack", c["talon_connections"], settleTime)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// series matches what counters wants of the exposition: who is connected, closed and why.
var series = regexp.MustCompile(`^(talon_connections(?:_closed_total|_refused_total)?)(?:\{([^}]*)\})?$`)

// label finds the reason of a close or the cause of a refusal.
var label = regexp.MustCompile(`(?:reason|cause|lacking|by)="([^"]*)"`)

// counters reads talon's metrics, summed over rings: talon_connections, and the closes and refusals by
// their reason.
func (s *siege) counters(ctx context.Context) (map[string]float64, error) {
	sums := map[string]float64{}
	all, err := s.server.Metrics(ctx)
	for key, v := range all {
		m := series.FindStringSubmatch(key)
		if m == nil {
			continue
		}
		name := m[1]
		if name != "talon_connections" {
			name = strings.TrimSuffix(strings.TrimPrefix(name, "talon_connections_"), "_total")
			if l := label.FindStringSubmatch(m[2]); l != nil {
				name = l[1]
			}
		}
		sums[name] += v
	}
	return sums, err
}

// countRings counts the series of one metric that each ring has.
func (s *siege) countRings(ctx context.Context) (n float64, err error) {
	all, err := s.server.Metrics(ctx)
	for key := range all {
		if strings.HasPrefix(key, "talon_ring_accept_rearms_total") {
			n++
		}
	}
	return max(n, 1), err
}

// resident is the memory of processes in MiB.
func resident(pids []int) (mib float64, err error) {
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
		if err != nil {
			return 0, err
		}
		var size, pages float64
		if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
			return 0, err
		}
		mib += pages * float64(os.Getpagesize()) / (1 << 20)
	}
	return mib, nil
}

func (a *arm) add(calm, hit *load.Result, rss float64) {
	busy := func(r *load.Result) float64 {
		if r.Server == nil {
			return math.NaN()
		}
		return r.Server.Busy
	}
	a.calmP50, a.calmP99 = append(a.calmP50, calm.Streams[0].P50US), append(a.calmP99, calm.Streams[0].P99US)
	a.p50, a.p99 = append(a.p50, hit.Streams[0].P50US), append(a.p99, hit.Streams[0].P99US)
	a.busyCalm, a.busy = append(a.busyCalm, busy(calm)), append(a.busy, busy(hit))
	a.rss = append(a.rss, rss)
	a.errors += hit.Streams[0].Errors
}

func (a *arm) count(before, after map[string]float64) {
	if a.closed == nil {
		a.closed = map[string]float64{}
	}
	for name, v := range after {
		if d := v - before[name]; d > 0 && name != "talon_connections" {
			a.closed[name] += d
		}
	}
}
