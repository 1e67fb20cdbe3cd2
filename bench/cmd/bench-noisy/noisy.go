package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/talon-worker/talon/bench/bed"
	"github.com/talon-worker/talon/bench/load"
)

// slice is the grain of what is kept of a window, in seconds.
const (
	perSecond = 10
	slice     = 1.0 / perSecond
)

// tenant is one party of the scenario.
type tenant struct {
	bed.Tenant
	weight int
	conns  int
}

// newTenants are the aggressor, and victims with few connections and more weight.
func newTenants(aggressor int) []tenant {
	make := func(id string, weight, conns int) tenant {
		fields := fmt.Sprintf("weight: %d, max_connections: 10000, max_inflight: 10000, queue: {requests: 10000, bytes: 64GiB, deadline: 60s, target: 59s}", weight)
		return tenant{bed.NewTenant(id, fields), weight, conns}
	}
	return []tenant{make("aggressor", 1, aggressor), make("victim1", 1, 1), make("victim2", 2, 8), make("victim4", 4, 32)}
}

func parties(all []tenant) []bed.Tenant {
	out := make([]bed.Tenant, len(all))
	for i, t := range all {
		out[i] = t.Tenant
	}
	return out
}

// noisy runs the arms.
type noisy struct {
	o           *options
	files, work string
	tenants     []tenant
	client      bed.Client
	capacity    float64 // bytes/s of all tenants together without a rate
	rate        int64   // bytes/s
	arms        []*arm
}

// arm is one way to run the worker. Its slices have an element for each round.
type arm struct {
	Name string `json:"arm"`
	Rate bool   `json:"rate"` // --egress-rate is set
	srv  *bed.Server

	Shares []shares `json:"shares"`
	Waits  []waits  `json:"waits"`
}

// waits is what a victim that asks for half of its share waits for 64 KiB, by p99 in microseconds.
type waits struct {
	Alone  float64 `json:"alone_p99_us"`
	Beside float64 `json:"beside_p99_us"`
	Errors int64   `json:"errors"`
}

func (n *noisy) down() {
	for _, a := range n.arms {
		a.srv.Down()
	}
}

// server is a talon under a policy file.
func (n *noisy) server(name, policy string, extra ...string) *bed.Server {
	args := append([]string{"--rings", fmt.Sprint(n.o.Rings), "--max-connections", "16384", "--policy", "{work}/" + name + ".yaml"}, extra...)
	s := bed.Talon(name, n.o.Talon, "serve --listen {listen} --admin {admin} --origin {dir} "+strings.Join(args, " "))
	s.Files = map[string]string{"{work}/" + name + ".yaml": policy}
	return s
}

func (n *noisy) up(ctx context.Context, s *bed.Server) error {
	return s.Up(ctx, n.files, n.work, bed.AnyCPU, n.o.Hygiene, "/"+smallKey)
}

// prepare measures the capacity and starts the arms.
func (n *noisy) prepare(ctx context.Context) error {
	each := parties(n.tenants)
	n.arms = n.openArms(bed.Policy(each))
	for _, a := range n.arms {
		if err := n.up(ctx, a.srv); err != nil {
			return err
		}
	}
	// With the small objects that the victim waits for: they cost most per byte, and a rate of which the machine can carry that share for large ones
	// alone would leave it saturated with these.
	res, err := n.client.Measure(ctx, n.backlogged(n.arms[0].srv, smallKey))
	if err != nil {
		return err
	}
	for _, s := range res.Streams {
		n.capacity += s.GBps * 1e9
	}
	n.rate = int64(n.o.Share * n.capacity)
	if n.o.Rate > 0 {
		n.rate = n.o.Rate
	}
	bound := n.boundArms(bed.Policy(each), bed.PolicyOfOne("everybody", n.tenants[0].Fields, each))
	n.arms = append(bound, n.arms...)
	for _, a := range bound {
		if err := n.up(ctx, a.srv); err != nil {
			return err
		}
	}
	return nil
}

// schedulers are what is compared, the one that is meant to be used first.
var schedulers = []string{"fair", "ring-local", "fifo"}

// openArms have no rate.
func (n *noisy) openArms(policy string) (arms []*arm) {
	for _, s := range schedulers {
		arms = append(arms, &arm{Name: s + ", no rate", srv: n.server(s+"-open", policy, "--scheduler="+s)})
	}
	return arms
}

// boundArms have one; the last cannot tell tenants apart.
func (n *noisy) boundArms(policy, ofOne string) (arms []*arm) {
	egress := fmt.Sprintf("--egress-rate=%d/s", n.rate)
	for _, s := range schedulers {
		arms = append(arms, &arm{Name: s, Rate: true, srv: n.server(s, policy, "--scheduler="+s, egress)})
	}
	return append(arms, &arm{Name: "blind", Rate: true, srv: n.server("blind", ofOne, egress)})
}

// backlogged has every tenant ask for more than its share on all of its connections.
func (n *noisy) backlogged(s *bed.Server, key string) load.Config {
	c := load.Config{Target: s.Target, WarmupS: n.o.Warmup, DurationS: n.o.Window, SliceS: slice, ServerPIDs: s.PIDs, TimeoutS: 60, Seed: 1}
	for _, t := range n.tenants {
		c.Streams = append(c.Streams, load.Stream{Name: t.ID, Conns: t.conns, Keys: []string{"/" + key}, Headers: []string{t.Header()}})
	}
	return c
}

// waiting has victim1 ask for half of its share in small objects. Of two tenants with weight 1, a share is half of the rate.
func (n *noisy) waiting(s *bed.Server) load.Config {
	victim := &n.tenants[1]
	return load.Config{Target: s.Target, WarmupS: n.o.Warmup, DurationS: n.o.Window, ServerPIDs: s.PIDs, TimeoutS: 60, Seed: 1,
		Streams: []load.Stream{{Name: victim.ID, Conns: 32, Keys: []string{"/" + smallKey}, Headers: []string{victim.Header()}, Rate: float64(n.rate) / 4 / smallLen}}}
}

// attack has the aggressor ask for all it can, from before a window of waiting until after it.
func (n *noisy) attack(s *bed.Server) load.Config {
	aggressor := &n.tenants[0]
	return load.Config{Target: s.Target, WarmupS: n.o.Warmup / 2, DurationS: n.o.Warmup/2 + n.o.Window + 1, TimeoutS: 60, Seed: 1,
		Streams: []load.Stream{{Name: aggressor.ID, Conns: aggressor.conns, Keys: []string{"/" + bulkKey}, Headers: []string{aggressor.Header()}}}}
}

// wait measures what the victim waits, beside the aggressor if there is to be one. That one is a client process of its own: a thread that drains 512
// large bodies looks at the victim's connections when it is through with them, and what is then measured is the client. Nor is it raised: with the rings'
// weight it would make them wait for their own cores, as no client on another machine can.
func (n *noisy) wait(ctx context.Context, s *bed.Server, beside bool) (*load.StreamResult, error) {
	var attacked sync.WaitGroup
	var attackErr error
	if beside {
		attacker := bed.Client{Path: n.client.Path, CPU: n.client.CPU}
		attacked.Go(func() { _, attackErr = attacker.Measure(ctx, n.attack(s)) })
	}
	res, err := n.client.Measure(ctx, n.waiting(s))
	attacked.Wait()
	if err = errors.Join(err, attackErr); err != nil {
		return nil, err
	}
	return &res.Streams[0], nil
}

// round measures the arm once.
func (a *arm) round(ctx context.Context, n *noisy) error {
	res, err := n.client.Measure(ctx, n.backlogged(a.srv, bulkKey))
	if err != nil {
		return err
	}
	a.Shares = append(a.Shares, sharesOf(res, n.tenants))
	var w waits
	for _, beside := range []bool{false, true} {
		victim, err := n.wait(ctx, a.srv, beside)
		if err != nil {
			return err
		}
		w.Errors += victim.Errors
		if beside {
			w.Beside = victim.P99US
		} else {
			w.Alone = victim.P99US
		}
	}
	a.Waits = append(a.Waits, w)
	return nil
}
