package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/talon-worker/talon/bench/bed"
	"github.com/talon-worker/talon/bench/excess"
	"github.com/talon-worker/talon/bench/load"
)

// objectKey is what the tenant asks for.
const objectKey = "1M"

// ringConfirm is talon's default of --ring-confirm.
const ringConfirm = 500 * time.Millisecond

// cluster is the workers, their policy file and what has happened to them.
type cluster struct {
	o           *options
	files, work string
	client      bed.Client
	tenant      bed.Tenant
	peers       []string // host:port
	servers     []*bed.Server

	mu     sync.Mutex
	events []excess.Event // births and rates
}

func newCluster(o *options, files, work, client string) (*cluster, error) {
	c := &cluster{o: o, files: files, work: work, client: bed.Client{Path: client, CPU: bed.AnyCPU}, tenant: bed.NewTenant("greedy", "")}
	for i := range o.Workers {
		peer, err := bed.FreePort()
		if err != nil {
			return nil, err
		}
		c.peers = append(c.peers, peer)
		s := bed.Talon(id(i), o.talon, fmt.Sprintf("serve --listen {listen} --admin {admin} --origin {dir} --rings 1 --coordinator file:%s --worker-id %s --peer-listen %s "+
			"--state-dir %s --snapshot-ttl %v", c.policyFile(), id(i), peer, work, o.TTL))
		s.Paused = true
		c.servers = append(c.servers, s)
	}
	return c, c.setRate(o.Rate)
}

func id(worker int) string { return "w" + strconv.Itoa(worker+1) }

func (c *cluster) policyFile() string { return filepath.Join(c.work, "policy.yaml") }

// policy is the file for a rate.
func (c *cluster) policy(rate int64) string {
	var b strings.Builder
	b.WriteString("ring_epoch: 1\npeers:\n")
	for i, p := range c.peers {
		fmt.Fprintf(&b, "  - {id: %s, addr: %q}\n", id(i), p)
	}
	t := c.tenant
	t.Fields = fmt.Sprintf("queue: {requests: 10000, bytes: 64GiB, deadline: 60s, target: 59s}, limits: {client_egress_bytes: {rate: %d B/s, burst: %d B, local_burst: %d B}}",
		rate, c.o.Burst, c.o.LocalBurst)
	t.Fields = strings.ReplaceAll(t.Fields, " B", "B")
	return b.String() + bed.Policy([]bed.Tenant{t})
}

// setRate puts a policy with another rate in the place of the one there is.
func (c *cluster) setRate(rate int64) error {
	next := c.policyFile() + ".next"
	if err := os.WriteFile(next, []byte(c.policy(rate)), 0o644); err != nil {
		return err
	}
	return os.Rename(next, c.policyFile())
}

// happened notes what the judge must know.
func (c *cluster) happened(e excess.Event) {
	e.At = time.Now().UnixNano()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, e)
}

// start starts a worker, again if it has been there before.
func (c *cluster) start(ctx context.Context, worker int) error {
	return c.servers[worker].Up(ctx, c.files, c.work, bed.AnyCPU, false, "/"+objectKey)
}

func (c *cluster) down() {
	for _, s := range c.servers {
		s.Resume()
		s.Down()
	}
}

// up starts all workers and waits until every one of them has served something of the tenant's.
func (c *cluster) up(ctx context.Context) error {
	for i := range c.servers {
		if err := c.start(ctx, i); err != nil {
			return err
		}
	}
	for _, s := range c.servers {
		for late := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			err := c.get(ctx, s)
			if err == nil {
				break
			}
			if ctx.Err() != nil || time.Now().After(late) {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
		}
	}
	return nil
}

// get asks for the object's head as the tenant.
func (c *cluster) get(ctx context.Context, s *bed.Server) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, s.Target+"/"+objectKey, nil)
	if err != nil {
		return err
	}
	name, value, _ := strings.Cut(c.tenant.Header(), ": ")
	req.Header.Set(name, value)
	req.Close = true
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

// load asks every worker for as much as it gives, each with a client process of its own, for so many seconds. What they received comes as events,
// by worker.
func (c *cluster) load(ctx context.Context, seconds float64) ([]*load.Result, error) {
	results := make([]*load.Result, len(c.servers))
	errs := make([]error, len(c.servers))
	var done sync.WaitGroup
	for i, s := range c.servers {
		done.Go(func() {
			results[i], errs[i] = c.client.Measure(ctx, load.Config{Target: s.Target, DurationS: seconds, SliceS: c.o.Slice.Seconds(), TimeoutS: 30, Seed: 1,
				Streams: []load.Stream{{Name: s.Name, Conns: c.o.Conns, Keys: []string{"/" + objectKey}, Headers: []string{c.tenant.Header()}, Refusals: []int{401, 429, 503}}}})
		})
	}
	done.Wait()
	return results, errors.Join(errs...)
}

// received are a client's slices as events. The bytes of a slice are counted at its end: a window may look up to one slice shorter than it was.
func received(r *load.Result, slice time.Duration) []excess.Event {
	var out []excess.Event
	for i, n := range r.Streams[0].Slices {
		if n > 0 {
			out = append(out, excess.Event{At: r.From + int64(i+1)*slice.Nanoseconds(), Bytes: n})
		}
	}
	return out
}

// owner asks the workers who meters the limit.
func (c *cluster) owner(ctx context.Context) (int, error) {
	for _, s := range c.servers {
		var answer struct {
			Tenants []struct {
				Limits []struct{ Metric, Owner string }
			}
		}
		if err := ask(ctx, s, "/api/v1/tenants", func(r *http.Response) error { return json.NewDecoder(r.Body).Decode(&answer) }); err != nil {
			continue // the next one knows
		}
		for _, t := range answer.Tenants {
			for _, l := range t.Limits {
				for i := range c.servers {
					if l.Metric == "client_egress_bytes" && l.Owner == id(i) {
						return i, nil
					}
				}
			}
		}
	}
	return 0, errors.New("no worker says who owns the limit")
}

// counters are those of /metrics that begin so, added up over the workers; one that has just been killed counts from its restart.
func (c *cluster) counters(ctx context.Context, prefixes ...string) map[string]float64 {
	sum := map[string]float64{}
	for _, s := range c.servers {
		_ = ask(ctx, s, "/metrics", func(r *http.Response) error { // a worker that does not answer is left out
			lines := bufio.NewScanner(r.Body)
			for lines.Scan() {
				name, value, _ := strings.Cut(lines.Text(), " ")
				for _, p := range prefixes {
					if v, err := strconv.ParseFloat(value, 64); err == nil && strings.HasPrefix(name, p) {
						sum[p] += v
					}
				}
			}
			return lines.Err()
		})
	}
	return sum
}

func ask(ctx context.Context, s *bed.Server, path string, read func(*http.Response) error) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Admin+path, nil)
	if err != nil {
		return err
	}
	req.Close = true
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return read(resp)
}
