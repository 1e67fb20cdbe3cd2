package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/talon-worker/talon/bench/bed"
	"github.com/talon-worker/talon/bench/excess"
	"github.com/talon-worker/talon/bench/load"
)

// objectKey is what the tenant asks for, of objectLen bytes.
const (
	objectKey = "1M"
	objectLen = 1 << 20
)

// ringConfirm is talon's default of --ring-confirm.
const ringConfirm = 500 * time.Millisecond

// cluster is the workers, their policy, the network between them and what has happened to them.
type cluster struct {
	*bed.Site
	o        *options
	net      *bed.Net
	tenants  []bed.Tenant
	listens  []string // host:port of each worker's peer port
	peers    []string // of the proxy through which the others reach it
	servers  []*bed.Server
	etcd     *etcd // nil: the file is the coordinator
	admitted *admissions
	logs     []io.Closer
	began    time.Time

	policyMu sync.Mutex
	policy   policy

	mu      sync.Mutex
	events  []happening
	starts  []int         // of each worker
	slowest time.Duration // until a change of the policy was in force everywhere
}

// policy is what changes of it.
type policy struct {
	epoch int     // of the ring
	out   []bool  // workers that are not named as peers
	rates []int64 // by tenant
}

// happening is what the judges must know, by both clocks that something is counted with.
type happening struct {
	tenant     int // -1: all
	unix, boot int64
	event      excess.Event
}

func newCluster(ctx context.Context, o *options, site *bed.Site) (c *cluster, err error) {
	c = &cluster{Site: site, o: o, net: bed.NewNet(), admitted: newAdmissions(),
		policy: policy{out: make([]bool, o.Workers)}, starts: make([]int, o.Workers)}
	for i := range o.Tenants {
		c.tenants = append(c.tenants, bed.NewTenant(tenantName(i), ""))
		c.policy.rates = append(c.policy.rates, o.rate(i))
	}
	if o.Etcd {
		if c.etcd, err = newEtcd(site.Work); err != nil {
			return c, err
		}
		if err := errors.Join(c.etcd.up(), c.etcd.ready(ctx)); err != nil {
			return c, err
		}
	}
	for i := range o.Workers {
		if err := c.add(i); err != nil {
			return c, err
		}
	}
	return c, c.change(ctx, func(p *policy) { p.epoch++ })
}

// add makes a worker, which others reach through the network, as it reaches them and etcd.
func (c *cluster) add(worker int) error {
	listen, err := bed.FreePort()
	if err != nil {
		return err
	}
	peer, err := c.net.Put(id(worker), listen, bed.WorkerOf)
	if err != nil {
		return err
	}
	coordinator := c.coordinator()
	if c.etcd != nil {
		proxy, err := c.net.Put(etcdName, c.etcd.client, bed.Caller(id(worker)))
		if err != nil {
			return err
		}
		coordinator = "etcd://" + proxy + "/talon"
	}
	c.listens, c.peers = append(c.listens, listen), append(c.peers, peer)
	s := bed.Talon(id(worker), c.o.Talon, fmt.Sprintf("serve --listen {listen} --admin {admin} --origin {dir} --rings 1 --coordinator %s --worker-id %s --peer-listen %s "+
		"--peer-advertise %s --state-dir %s --snapshot-ttl %v --admission-log", coordinator, id(worker), listen, peer, filepath.Join(c.Work, id(worker)), c.o.TTL))
	s.Argv = append(s.Argv, "") // the log's name, another for each start
	s.Paused = true
	if c.o.logs != "" {
		f, err := os.OpenFile(filepath.Join(c.o.logs, id(worker)+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		s.Log, c.logs = f, append(c.logs, f)
	}
	c.servers = append(c.servers, s)
	return os.Mkdir(filepath.Join(c.Work, id(worker)), 0o755)
}

func (c *cluster) coordinator() string {
	if c.etcd != nil {
		return "etcd://" + c.etcd.client + "/talon"
	}
	return "file:" + c.policyFile()
}

func id(worker int) string { return "w" + strconv.Itoa(worker+1) }

func tenantName(tenant int) string { return "t" + strconv.Itoa(tenant+1) }

// policyFile is in a directory of its own: workers look at it whenever something happens there.
func (c *cluster) policyFile() string { return filepath.Join(c.Work, "policy", "policy.yaml") }

// admissionLog is where a worker's start so many records what it admits.
func (c *cluster) admissionLog(worker, start int) string {
	return filepath.Join(c.Work, fmt.Sprintf("%s-%d.admissions", id(worker), start))
}

// text is the policy file.
func (c *cluster) text(p *policy) string {
	var b strings.Builder
	fmt.Fprintf(&b, "ring_epoch: %d\npeers:\n", p.epoch)
	for i, addr := range c.peers {
		if !p.out[i] {
			fmt.Fprintf(&b, "  - {id: %s, addr: %q}\n", id(i), addr)
		}
	}
	tenants := slices.Clone(c.tenants)
	for i := range tenants {
		tenants[i].Fields = fmt.Sprintf("queue: {requests: 10000, bytes: 64GiB, deadline: 60s, target: 59s}, limits: {client_egress_bytes: {rate: %dB/s, burst: %dB, local_burst: %dB}}",
			p.rates[i], c.o.Burst, c.o.LocalBurst)
	}
	return b.String() + bed.Policy(tenants)
}

// change puts a changed policy in the place of the one there is: the file, or by talon policy set.
func (c *cluster) change(ctx context.Context, how func(*policy)) error {
	c.policyMu.Lock()
	defer c.policyMu.Unlock()
	how(&c.policy)
	next := filepath.Join(c.Work, "policy.next")
	err := os.MkdirAll(filepath.Dir(c.policyFile()), 0o755)
	if err == nil {
		err = os.WriteFile(next, []byte(c.text(&c.policy)), 0o644)
	}
	if err != nil {
		return err
	}
	if c.etcd == nil {
		return os.Rename(next, c.policyFile())
	}
	if out, err := exec.CommandContext(ctx, c.o.Talon, "policy", "set", next, "--coordinator", c.coordinator()).CombinedOutput(); err != nil {
		return fmt.Errorf("talon policy set: %w: %s", err, out)
	}
	return nil
}

// spreadTime is when a change of the policy must have spread: workers that are stopped, cut off or ended meanwhile have come back long before.
const spreadTime = 60 * time.Second

// spread waits until a tenant's rate is in force on every worker.
func (c *cluster) spread(ctx context.Context, tenant int, rate int64, from time.Time) error {
	for _, s := range c.servers {
		for {
			l, err := limitOf(ctx, s, tenantName(tenant))
			if err == nil && l.Rate == rate {
				break
			}
			if time.Since(from) > spreadTime {
				return fmt.Errorf("%s: the rate of %s is %d and not %d, %v after the policy was changed (%v)", s.Name, tenantName(tenant), l.Rate, rate, spreadTime, err)
			}
			if err := bed.Sleep(ctx, 20*time.Millisecond); err != nil {
				return err
			}
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.slowest = max(c.slowest, time.Since(from))
	return nil
}

// happened notes what the judges must know.
func (c *cluster) happened(tenant int, e excess.Event) {
	h := happening{tenant, time.Now().UnixNano(), boottime(), e}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events = append(c.events, h)
}

// start starts a worker, again if it has been there before.
func (c *cluster) start(ctx context.Context, worker int) error {
	c.mu.Lock()
	c.starts[worker]++
	n := c.starts[worker]
	c.mu.Unlock()
	s := c.servers[worker]
	s.Argv[len(s.Argv)-1] = c.admissionLog(worker, n)
	return s.Up(ctx, c.Files, c.Work, bed.AnyCPU, false, "/"+objectKey)
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
	c.net.Close()
	for _, f := range c.logs {
		f.Close()
	}
}

// up starts all workers and waits until every one of them has served something of every tenant's.
func (c *cluster) up(ctx context.Context) error {
	for i := range c.servers {
		if err := c.start(ctx, i); err != nil {
			return err
		}
	}
	for _, s := range c.servers {
		for _, t := range c.tenants {
			if err := s.Await(ctx, http.MethodHead, objectKey, t, 20*time.Second); err != nil {
				return err
			}
		}
	}
	c.began = time.Now()
	return nil
}

// streams are what a worker is asked for, of every tenant.
func (c *cluster) streams(worker int) (streams []load.Stream) {
	for i, t := range c.tenants {
		rate := 0.0 // the closed loop
		if c.o.Skew && worker > 0 {
			rate = float64(c.o.rate(i)) / 5 / float64(len(c.servers)-1) / objectLen
		}
		streams = append(streams, load.Stream{Name: t.ID, Conns: c.o.Conns, Keys: []string{"/" + objectKey}, Headers: []string{t.Header()}, Refusals: []int{401, 429, 503}, Rate: rate})
	}
	return streams
}

// load asks every worker for its part, each with a client process of its own that has a stream for every tenant, for so many seconds or
// until stop is closed.
func (c *cluster) load(ctx context.Context, seconds float64, stop <-chan struct{}) ([]*load.Result, error) {
	results := make([]*load.Result, len(c.servers))
	errs := make([]error, len(c.servers))
	var done sync.WaitGroup
	for i, s := range c.servers {
		done.Go(func() {
			results[i], errs[i] = c.Client.MeasureUntil(ctx, stop, load.Config{Target: s.Target, DurationS: seconds, SliceS: c.o.Slice.Seconds(), TimeoutS: 30, Seed: 1,
				Streams: c.streams(i)})
		})
	}
	done.Wait()
	return results, errors.Join(errs...)
}

// received are a client's slices as events. The bytes of a slice are counted at its end: a window may look up to one slice shorter than it was.
func received(r *load.Result, tenant int, slice time.Duration) []excess.Event {
	var out []excess.Event
	for i, n := range r.Streams[tenant].Slices {
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

func limitOf(ctx context.Context, s *bed.Server, tenant string) (limit, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second) // it may be stopped
	defer cancel()
	var answer struct {
		Tenants []struct {
			ID     string
			Limits []limit
		}
	}
	if err := s.Ask(ctx, "/api/v1/tenants", &answer); err != nil {
		return limit{}, err
	}
	for _, t := range answer.Tenants {
		for _, l := range t.Limits {
			if t.ID == tenant && l.Metric == "client_egress_bytes" {
				return l, nil
			}
		}
	}
	return limit{}, fmt.Errorf("%s has no limit of client_egress_bytes", tenant)
}

// owner asks the workers who meters a tenant's limit.
func (c *cluster) owner(ctx context.Context, tenant int) (int, error) {
	for late := time.Now().Add(10 * time.Second); ; {
		for _, s := range c.servers {
			l, err := limitOf(ctx, s, tenantName(tenant))
			for i := range c.servers {
				if err == nil && l.Owner == id(i) {
					return i, nil
				}
			}
		}
		if time.Now().After(late) {
			return 0, fmt.Errorf("no worker says who meters the limit of %s", tenantName(tenant))
		}
		if err := bed.Sleep(ctx, 50*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

// counters are those of /metrics that begin so, added up over the workers; one that has just been killed counts from its restart.
func (c *cluster) counters(ctx context.Context, prefixes ...string) map[string]float64 {
	sum := map[string]float64{}
	for _, s := range c.servers {
		m, _ := s.Metrics(ctx) // a worker that does not answer is left out
		for name, v := range m {
			for _, p := range prefixes {
				if strings.HasPrefix(name, p) {
					sum[p] += v
				}
			}
		}
	}
	return sum
}
