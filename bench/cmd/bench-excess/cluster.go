package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
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
	etcd        *etcd // nil: the file is the coordinator

	mu       sync.Mutex
	events   []excess.Event // births and rates
	slowest  time.Duration  // until a change of the policy was in force on a worker that answers
	unspread int            // workers that answered and did not have it after spreadTime
}

func newCluster(ctx context.Context, o *options, files, work, client string) (c *cluster, err error) {
	c = &cluster{o: o, files: files, work: work, client: bed.Client{Path: client, CPU: bed.AnyCPU}, tenant: bed.NewTenant("greedy", "")}
	if o.Etcd {
		if c.etcd, err = newEtcd(work); err != nil {
			return nil, err
		}
		if err := c.etcd.up(); err != nil {
			return nil, err
		}
	}
	for i := range o.Workers {
		peer, err := bed.FreePort()
		if err != nil {
			return nil, err
		}
		c.peers = append(c.peers, peer)
		s := bed.Talon(id(i), o.talon, fmt.Sprintf("serve --listen {listen} --admin {admin} --origin {dir} --rings 1 --coordinator %s --worker-id %s --peer-listen %s "+
			"--state-dir %s --snapshot-ttl %v", c.coordinator(), id(i), peer, filepath.Join(work, id(i)), o.TTL))
		if err := os.Mkdir(filepath.Join(work, id(i)), 0o755); err != nil {
			return c, err
		}
		s.Paused = true
		c.servers = append(c.servers, s)
	}
	for late := time.Now().Add(10 * time.Second); ; time.Sleep(100 * time.Millisecond) { // etcd takes its time to begin
		if err = c.setRate(ctx, o.Rate); err == nil || c.etcd == nil || time.Now().After(late) {
			return c, err
		}
	}
}

func (c *cluster) coordinator() string {
	if c.etcd != nil {
		return "etcd://" + c.etcd.client + "/talon"
	}
	return "file:" + c.policyFile()
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

// setRate puts a policy with another rate in the place of the one there is: the file, or by talon policy set.
func (c *cluster) setRate(ctx context.Context, rate int64) error {
	next := c.policyFile() + ".next"
	if err := os.WriteFile(next, []byte(c.policy(rate)), 0o644); err != nil {
		return err
	}
	if c.etcd == nil {
		return os.Rename(next, c.policyFile())
	}
	if out, err := exec.CommandContext(ctx, c.o.talon, "policy", "set", next, "--coordinator", c.coordinator()).CombinedOutput(); err != nil {
		return fmt.Errorf("talon policy set: %w: %s", err, out)
	}
	return nil
}

// spread waits until a rate is in force on every worker that answers, at most until by.
func (c *cluster) spread(ctx context.Context, rate int64, from, by time.Time) {
	var all sync.WaitGroup
	for _, s := range c.servers {
		all.Go(func() {
			for {
				asked := time.Now()
				l, err := limitOf(ctx, s)
				c.mu.Lock()
				switch {
				case err == nil && l.Rate == rate:
					c.slowest = max(c.slowest, asked.Sub(from))
				case err == nil && asked.After(by):
					c.unspread++
				}
				c.mu.Unlock()
				if err == nil && l.Rate == rate || asked.After(by) || pause(ctx, 20*time.Millisecond) != nil {
					return
				}
			}
		})
	}
	all.Wait()
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
		if s.Started() {
			s.Resume()
			s.Down()
		}
	}
	if c.etcd != nil {
		c.etcd.kill()
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

// limit is what a worker's admin port says about the tenant's.
type limit struct {
	Metric, Owner string
	Rate          int64
}

func limitOf(ctx context.Context, s *bed.Server) (limit, error) {
	var answer struct {
		Tenants []struct{ Limits []limit }
	}
	if err := ask(ctx, s, "/api/v1/tenants", func(r *http.Response) error { return json.NewDecoder(r.Body).Decode(&answer) }); err != nil {
		return limit{}, err
	}
	for _, t := range answer.Tenants {
		for _, l := range t.Limits {
			if l.Metric == "client_egress_bytes" {
				return l, nil
			}
		}
	}
	return limit{}, errors.New("no limit of client_egress_bytes")
}

// owner asks the workers who meters the limit.
func (c *cluster) owner(ctx context.Context) (int, error) {
	for _, s := range c.servers {
		l, err := limitOf(ctx, s)
		for i := range c.servers {
			if err == nil && l.Owner == id(i) {
				return i, nil
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
