package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/talon-worker/talon/bench/bed"
	"github.com/talon-worker/talon/bench/load"
)

// The workers: the one that is measured, the one that goes bad, and the one that does not.
const (
	measured = iota
	bad
	well
	workers
)

// candidates are so many tenants that some have both of their limits metered by the measured worker, and some by the bad one.
const candidates = 60

// limits that no load reaches. Shadow ones decide and report like others, and let through what they would refuse: the tenant whose limits the bad
// worker meters is served alike whether that one is well or not.
const limits = "limits: {read_iops: {rate: 500000/s, burst: 500000, local_burst: 50000, mode: %[1]s}, client_egress_bytes: {rate: 8GiB/s, burst: 8GiB, local_burst: 1GiB, mode: %[1]s}}"

// ring is three workers and a relay before the second.
type ring struct {
	*bed.Site
	o             *options
	self          string // this program
	servers       [workers]*bed.Server
	peers         [workers]string // host:port of their peer ports
	relay         *child
	relayAddr     string
	sink          *child // a process that has nothing to do with the ring
	sinkAddr      string
	own, reported bed.Tenant // metered by the measured worker, and by the bad one
}

func id(worker int) string { return "w" + strconv.Itoa(worker+1) }

// up starts all, chooses the tenants, and waits until every worker has a connection with both others.
func (r *ring) up(ctx context.Context) (err error) {
	for i := range r.peers {
		if r.peers[i], err = bed.FreePort(); err != nil {
			return err
		}
	}
	if r.relay, r.relayAddr, err = r.startChild("relay", r.peers[bad]); err != nil {
		return err
	}
	if r.sink, r.sinkAddr, err = r.startChild("sink"); err != nil {
		return err
	}
	var tenants []bed.Tenant
	for i := range candidates {
		mode := "enforce"
		if i%2 == 1 {
			mode = "shadow"
		}
		tenants = append(tenants, bed.NewTenant("t"+strconv.Itoa(i), fmt.Sprintf(limits, mode)))
	}
	policy := bed.Policy(tenants)
	for i := range workers {
		// The bad worker is reached through the relay, and reaches the measured one only over the connection that comes from there: by its file it
		// would have to dial a port on which nobody listens.
		first := r.peers[measured]
		if i == bad {
			if first, err = bed.FreePort(); err != nil {
				return err
			}
		}
		state := filepath.Join(r.Work, id(i))
		if err := os.Mkdir(state, 0o755); err != nil {
			return err
		}
		file := filepath.Join(state, "policy.yaml")
		text := fmt.Sprintf("ring_epoch: 1\npeers:\n  - {id: %s, addr: %q}\n  - {id: %s, addr: %q}\n  - {id: %s, addr: %q}\n%s", id(measured), first, id(bad), r.relayAddr, id(well), r.peers[well], policy)
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
		s := bed.Talon(id(i), r.o.Talon, fmt.Sprintf("serve --listen {listen} --admin {admin} --origin {dir} --rings 1 --coordinator file:%s --worker-id %s --peer-listen %s --state-dir %s",
			file, id(i), r.peers[i], state))
		s.Paused = true
		r.servers[i] = s
	}
	for i := range workers {
		if err := r.start(ctx, i); err != nil {
			return err
		}
	}
	if err := r.connected(ctx); err != nil {
		return err
	}
	return r.choose(ctx, tenants)
}

func (r *ring) start(ctx context.Context, worker int) error {
	cpu := r.o.ClientCPU
	if worker == measured {
		cpu = r.o.ServerCPU
	}
	return r.servers[worker].Up(ctx, r.Files, r.Work, cpu, r.o.Hygiene, "/"+objectKey)
}

func (r *ring) down() {
	for _, s := range r.servers {
		if s != nil && s.Started() {
			s.Resume()
			s.Down()
		}
	}
	for _, c := range []*child{r.relay, r.sink} {
		if c != nil {
			c.stop()
		}
	}
}

// connectTime is how long the workers may take to find each other, again too: back-offs are two seconds at most.
const connectTime = 15 * time.Second

// connected waits until the measured worker has connections with both others, and acts as an owner.
func (r *ring) connected(ctx context.Context) error {
	for late := time.Now().Add(connectTime); ; {
		m, err := r.servers[measured].Metrics(ctx)
		if err == nil && m["talon_peers_connected"] == workers-1 && m["talon_global_acts"] == 1 {
			return nil
		}
		if time.Now().After(late) {
			return fmt.Errorf("the workers did not find each other within %v: %g of 2 connected, acts %g, %w", connectTime, m["talon_peers_connected"], m["talon_global_acts"], err)
		}
		if err := bed.Sleep(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// choose finds the two tenants.
func (r *ring) choose(ctx context.Context, tenants []bed.Tenant) error {
	var answer struct {
		Tenants []struct {
			ID     string
			Limits []struct{ Owner string }
		}
	}
	if err := r.servers[measured].Ask(ctx, "/api/v1/tenants", &answer); err != nil {
		return err
	}
	for _, t := range answer.Tenants {
		i, err := strconv.Atoi(strings.TrimPrefix(t.ID, "t"))
		if err != nil || len(t.Limits) != 2 || t.Limits[0].Owner != t.Limits[1].Owner {
			continue
		}
		switch owner, shadow := t.Limits[0].Owner, i%2 == 1; {
		case owner == id(measured) && !shadow:
			r.own = tenants[i]
		case owner == id(bad) && shadow:
			r.reported = tenants[i]
		}
	}
	if r.own.ID == "" || r.reported.ID == "" {
		return fmt.Errorf("of %d tenants none has both limits metered by %s, or none by %s", candidates, id(measured), id(bad))
	}
	return nil
}

// measure is one window of the load. One in which nothing at all is served is tried twice more: a core that is stolen for all of a short window says nothing, and a
// worker that serves nobody says so each time.
func (r *ring) measure(ctx context.Context) (res *load.Result, err error) {
	stream := func(t bed.Tenant) load.Stream {
		return load.Stream{Name: t.ID, Conns: r.o.Conns, Keys: []string{"/" + objectKey}, Headers: []string{t.Header()}}
	}
	s := r.servers[measured]
	for range 3 {
		res, err = r.Client.Measure(ctx, load.Config{Target: s.Target, WarmupS: r.o.Warmup, DurationS: r.o.Window, ServerPIDs: s.PIDs, Seed: 1, Block: true,
			Streams: []load.Stream{stream(r.own), stream(r.reported)}})
		if err != nil || res.Streams[0].Requests+res.Streams[1].Requests > 0 {
			return res, err
		}
	}
	return nil, fmt.Errorf("nothing was served in three windows: %v", res.Refused)
}
