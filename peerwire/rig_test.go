package peerwire

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/talon-worker/talon/qos"
)

// A cluster is several nodes in this process, over loopback TCP. Between each two there is a proxy of the test's own for each way of dialing, so that a pair
// can be cut off or slowed down.
type cluster struct {
	t       *testing.T
	limits  qos.Config
	ring    Membership // without addresses
	proxies map[pair]*proxy
	workers []*worker
	judges  map[qos.Limit]*judge
	mend    func(c *Config)
}

// A pair is who dials whom.
type pair struct{ from, to qos.WorkerID }

// A worker is one node with the rings that charge its ledger.
type worker struct {
	c     *cluster
	id    qos.WorkerID
	epoch uint64
	addr  string // of its listener
	node  *Node
	stop  func()
}

// A judge is the exact excess meter of one limit over the whole cluster. All workers share one clock, that of this machine, and the lock puts their charges
// in its order.
type judge struct {
	mu     sync.Mutex
	excess *qos.Excess
	policy qos.Policy
	total  int64
	lives  int // worker incarnations that have charged
}

// bound is N*b + R*d.
func (j *judge) bound(limits *qos.Config) int64 {
	return int64(j.lives)*j.policy.LocalBurst + int64(float64(j.policy.Rate)*limits.TTL.Seconds())
}

// testLimits are the defaults with a shorter F, for tests wait for it.
func testLimits() qos.Config {
	c := qos.DefaultConfig()
	c.Confirm = 200 * time.Millisecond
	return c
}

// newCluster starts n workers that know the policies and their ring.
func newCluster(t *testing.T, n int, mend func(c *Config), policies ...qos.Policy) *cluster {
	return newClusterWith(t, testLimits(), n, mend, policies...)
}

func newClusterWith(t *testing.T, limits qos.Config, n int, mend func(c *Config), policies ...qos.Policy) *cluster {
	c := &cluster{t: t, limits: limits, ring: Membership{Epoch: 1}, judges: map[qos.Limit]*judge{}, proxies: map[pair]*proxy{}, mend: mend}
	for _, p := range policies {
		c.judges[p.Limit()] = &judge{policy: p, excess: qos.NewExcess(Boottime(), p.Rate, p.Burst)}
	}
	for range n {
		c.add()
	}
	for _, w := range c.workers {
		w.boot()
	}
	return c
}

// add makes room for one more worker and puts it into the next ring.
func (c *cluster) add() *worker {
	w := &worker{c: c, id: qos.WorkerID(fmt.Sprintf("w%d", len(c.workers)+1))}
	for _, o := range c.workers {
		c.proxies[pair{w.id, o.id}], c.proxies[pair{o.id, w.id}] = newProxy(c.t), newProxy(c.t)
		if o.addr != "" {
			c.proxies[pair{w.id, o.id}].to(o.addr)
		}
	}
	c.workers = append(c.workers, w)
	c.ring.Members = append(c.ring.Members, Member{ID: w.id})
	return w
}

// boot starts the next incarnation of a worker.
func (w *worker) boot() {
	t := w.c.t
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	w.addr = ln.Addr().String()
	for p, x := range w.c.proxies {
		if p.to == w.id {
			x.to(w.addr)
		}
	}
	w.epoch++
	cfg := Config{
		Worker: w.id, Epoch: w.epoch, Limits: w.c.limits, Ledger: must(qos.NewLedger(w.c.limits, 2)), Listener: ln,
		Patience: 300 * time.Millisecond, // the last to stop finds no majority any more, and waits so long
		Logger:   slog.New(slog.NewTextHandler(io.Discard, nil)),
	}
	if testing.Verbose() {
		cfg.Logger = slog.New(slog.NewTextHandler(testWriter{t}, nil)).With("worker", w.id)
	}
	if w.c.mend != nil {
		w.c.mend(&cfg)
	}
	w.node = must(New(cfg))
	var set []qos.Policy
	for _, j := range w.c.judges {
		set = append(set, j.policy)
	}
	check(t, w.node.SetPolicies(set))
	check(t, w.node.SetRing(w.ring()))
	w.stop = run(t, w.node)
}

// ring is the cluster's ring with the addresses at which this worker finds the others.
func (w *worker) ring() Membership {
	r := w.c.ring
	r.Members = slices.Clone(r.Members)
	for i := range r.Members {
		if p := w.c.proxies[pair{w.id, r.Members[i].ID}]; p != nil {
			r.Members[i].Addr = p.addr()
		}
	}
	return r
}

// cut cuts a worker off from all others, both ways, or heals that.
func (w *worker) cut(down bool) {
	for p, x := range w.c.proxies {
		if p.from == w.id || p.to == w.id {
			x.cut(down)
		}
	}
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(string(p[:len(p)-1]))
	return len(p), nil
}

// charge lets a ring of the worker want size units of a limit again and again, until it has got so many in all or stop is set, and returns what it got.
func (w *worker) charge(ring int, limit qos.Limit, size, want int64, stop *atomic.Bool) (got int64) {
	j, ledger := w.c.judges[limit], w.node.cfg.Ledger
	j.mu.Lock()
	j.lives++
	j.mu.Unlock()
	for got < want && !stop.Load() {
		cell := ledger.Cell(limit)
		ledger.Enter(ring)
		j.mu.Lock()
		now := Boottime()
		ok := cell.Admit(size, now).Charged()
		if ok {
			j.excess.Admit(now, size)
			j.total += size
		}
		j.mu.Unlock()
		ledger.Leave(ring)
		if ok {
			got += size
			cell.Await(ring, 0, 0)
		} else {
			cell.Await(ring, size, size)
			time.Sleep(100 * time.Microsecond) // the ring waits for completions
		}
	}
	ledger.Cell(limit).Await(ring, 0, 0)
	return got
}

// judge wants no limit passed its bound.
func (c *cluster) judge() {
	c.t.Helper()
	for limit, j := range c.judges {
		j.mu.Lock()
		worst, bound := j.excess.Worst(), j.bound(&c.limits)
		c.t.Logf("%v: %d units, excess %d of %d", limit, j.total, worst, bound)
		if worst > bound {
			c.t.Errorf("%v: excess %d, bound %d", limit, worst, bound)
		}
		j.mu.Unlock()
	}
}

// ownerOf is the worker that owns a limit in the present ring.
func (c *cluster) ownerOf(limit qos.Limit) *worker {
	r := must(qos.NewRing(c.ring.Epoch, c.ring.ids()))
	id := r.Members()[r.Owner(qos.PlaceOf(limit))]
	for _, w := range c.workers {
		if w.id == id {
			return w
		}
	}
	return nil
}

// until waits for something to become true.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for !is() {
		if ctx.Err() != nil {
			buf := make([]byte, 1<<16)
			t.Fatalf("not within a minute: %s\n%s", what, buf[:runtime.Stack(buf, true)])
		}
		time.Sleep(time.Millisecond)
	}
}

// A proxy forwards connections to one worker. It can refuse and cut them, hold bytes back, or swallow those of one way.
type proxy struct {
	ln     net.Listener
	mu     sync.Mutex
	target string
	down   bool
	conns  map[net.Conn]bool
	delay  atomic.Int64 // ns before each forwarded read
	frozen atomic.Bool  // bytes stay where they are
	wg     sync.WaitGroup
}

func newProxy(t *testing.T) *proxy {
	p := &proxy{ln: must(net.Listen("tcp", "127.0.0.1:0")), conns: map[net.Conn]bool{}}
	p.wg.Go(func() {
		for {
			c, err := p.ln.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.forward(c) })
		}
	})
	t.Cleanup(func() {
		p.ln.Close()
		p.cut(true)
		p.frozen.Store(false)
		p.wg.Wait()
	})
	return p
}

func (p *proxy) addr() string { return p.ln.Addr().String() }

func (p *proxy) to(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

// cut closes all connections, and refuses new ones until it is called with false.
func (p *proxy) cut(down bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = down
	if down {
		for c := range p.conns {
			c.Close()
		}
	}
}

func (p *proxy) track(c net.Conn, on bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if on && p.down {
		c.Close()
		return false
	}
	if on {
		p.conns[c] = true
	} else {
		delete(p.conns, c)
		c.Close()
	}
	return true
}

func (p *proxy) forward(c net.Conn) {
	if !p.track(c, true) {
		return
	}
	defer p.track(c, false)
	p.mu.Lock()
	target := p.target
	p.mu.Unlock()
	up, err := net.Dial("tcp", target)
	if err != nil || !p.track(up, true) {
		return
	}
	defer p.track(up, false)
	var both sync.WaitGroup
	pump := func(dst, src net.Conn) {
		buf := make([]byte, 32<<10)
		for {
			n, err := src.Read(buf)
			if d := p.delay.Load(); d > 0 {
				time.Sleep(time.Duration(d))
			}
			for p.frozen.Load() {
				time.Sleep(time.Millisecond)
			}
			if n > 0 {
				if _, err := dst.Write(buf[:n]); err != nil {
					break
				}
			}
			if err != nil {
				break
			}
		}
		if half, ok := dst.(*net.TCPConn); ok {
			half.CloseWrite()
		}
	}
	both.Go(func() { pump(up, c) })
	both.Go(func() { pump(c, up) })
	both.Wait()
}
