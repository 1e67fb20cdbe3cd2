package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/talon-worker/talon/bench/bed"
	"github.com/talon-worker/talon/bench/load"
)

// objectKey has one byte, so that the bytes that clients count are admitted requests.
const objectKey = "1"

// workers are talon's: one ring of owners, one policy file, one tenant.
type workers struct {
	*bed.Site
	o       *options
	tenant  bed.Tenant
	servers []*bed.Server
}

func newWorkers(o *options, site *bed.Site) (*workers, error) {
	w := &workers{Site: site, o: o, tenant: bed.NewTenant("greedy", "")}
	w.tenant.Fields = fmt.Sprintf("limits: {read_iops: {rate: %d/s, burst: %d, local_burst: %d, on_limit: reject}}", o.Rate, o.Burst, o.LocalBurst)
	policy := "ring_epoch: 1\npeers:\n"
	for i := range o.Workers {
		peer, err := bed.FreePort()
		if err != nil {
			return nil, err
		}
		id := "w" + strconv.Itoa(i+1)
		policy += fmt.Sprintf("  - {id: %s, addr: %q}\n", id, peer)
		state := filepath.Join(site.Work, id)
		if err := os.Mkdir(state, 0o755); err != nil {
			return nil, err
		}
		w.servers = append(w.servers, bed.Talon(id, o.Talon, fmt.Sprintf("serve --listen {listen} --admin {admin} --origin {dir} --rings 1 --coordinator file:{work}/policy.yaml "+
			"--worker-id %s --peer-listen %s --state-dir %s", id, peer, state)))
	}
	return w, os.WriteFile(filepath.Join(site.Work, "policy.yaml"), []byte(policy+bed.Policy([]bed.Tenant{w.tenant})), 0o644)
}

// up starts the workers and waits until every one of them has admitted something: by then it knows the owner.
func (w *workers) up(ctx context.Context) error {
	for _, s := range w.servers {
		if err := s.Up(ctx, w.Files, w.Work, bed.AnyCPU, false, "/"+objectKey); err != nil {
			return err
		}
	}
	for _, s := range w.servers {
		if err := s.Await(ctx, http.MethodGet, objectKey, w.tenant, 10*time.Second); err != nil {
			return err
		}
	}
	return nil
}

func (w *workers) down() {
	for _, s := range w.servers {
		s.Down()
	}
}

// window offers the load to all workers, each from a client process of its own.
func (w *workers) window(ctx context.Context) (*window, error) {
	before, err := w.messages(ctx)
	if err != nil {
		return nil, err
	}
	results := make([]*load.Result, len(w.servers))
	errs := make([]error, len(w.servers))
	var done sync.WaitGroup
	for i, s := range w.servers {
		done.Go(func() {
			// A second more than the window: the processes do not begin at the same instant.
			results[i], errs[i] = w.Client.Measure(ctx, load.Config{Target: s.Target, DurationS: w.o.Seconds + 1, SliceS: w.o.Slice.Seconds(), Seed: uint64(i),
				Headers: []string{w.tenant.Header()},
				Streams: []load.Stream{{Name: s.Name, Conns: w.o.Conns, Keys: []string{"/" + objectKey}, Rate: w.o.Offered / float64(len(w.servers)), Refusals: []int{429}}}})
		})
	}
	done.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	after, err := w.messages(ctx)
	if err != nil {
		return nil, err
	}
	var parts []part
	offered := 0.0
	for _, r := range results {
		s := r.Streams[0]
		if s.Errors > 0 {
			return nil, fmt.Errorf("%s: %d errors: %v %v", s.Name, s.Errors, s.ByFault, s.ByStatus)
		}
		parts = append(parts, part{from: r.From, slice: w.o.Slice.Nanoseconds(), admitted: s.Slices})
		offered += s.Rate + s.RefusedRate
	}
	// The clients' second more is in the count of messages.
	return w.o.judge(parts, offered, (after-before)/(w.o.Seconds+1)), nil
}

const framesOut = `talon_peer_frames_total{direction="out"}`

// messages is how many frames the workers have sent each other, heartbeats among them.
func (w *workers) messages(ctx context.Context) (sum float64, err error) {
	for _, s := range w.servers {
		m, err := s.Metrics(ctx)
		if err != nil {
			return 0, err
		}
		n, ok := m[framesOut]
		if !ok {
			return 0, fmt.Errorf("%s: no %s in its metrics", s.Name, framesOut)
		}
		sum += n
	}
	return sum, nil
}
