package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/talon-worker/talon/coordinator"
	"github.com/talon-worker/talon/peerwire"
	"github.com/talon-worker/talon/policy"
	"github.com/talon-worker/talon/qos"
)

// cluster is what makes a worker one of several: who says what the policy and the ring are, and the peer port.
type cluster struct {
	w      *worker
	source coordinator.Source
	etcd   *coordinator.Etcd // source, if it is one
	self   coordinator.Member
	epoch  uint64
	kept   error        // why the worker has begun with what its state directory keeps, and not with what the coordinator says; nil: it has not
	port   net.Listener // the node's once it runs

	state atomic.Pointer[coordinator.State] // last applied
	wrong [dealings]atomic.Pointer[error]   // what is wrong with the coordinator now, by what is done with it; nil is nothing

	begun atomic.Bool   // the first State is taken in, or will not be waited for any more
	ready chan struct{} // closed when the server is made: later States wait for it

	stop     context.CancelFunc // of Follow
	followed sync.WaitGroup
	resign   context.CancelFunc // of the membership
	resigned sync.WaitGroup
}

// dealing is one of the things that a worker does with its coordinator, each by itself.
type dealing int

const (
	following dealing = iota
	staying
	proposing
	dealings
)

// firstState is how long a worker waits at its start for the coordinator to enlist it, and then for what it says; without the one it begins with what its
// state directory keeps, without the other closed.
const firstState = 2 * time.Second

// leaveTime bounds how long a worker that has withdrawn waits for the ring without it, to hand over what it owns.
const leaveTime = 4 * time.Second

// openCoordinator opens what --coordinator names.
func (f *serveFlags) openCoordinator(w *worker) (coordinator.Source, *coordinator.Etcd, error) {
	if path, ok := strings.CutPrefix(f.coordinator, "file:"); ok {
		return coordinator.OpenFile(path), nil, nil
	}
	cfg, err := f.etcd()
	if err != nil {
		return nil, nil, err
	}
	if w != nil {
		cfg.StateDir, cfg.Logger = f.stateDir, w.log
	}
	e, err := coordinator.OpenEtcd(cfg)
	return e, e, err
}

// etcd is the cluster that --coordinator names, with the settings about it.
func (f *serveFlags) etcd() (coordinator.EtcdConfig, error) {
	endpoints, prefix, err := splitEtcd(f.coordinator)
	if err != nil {
		return coordinator.EtcdConfig{}, err
	}
	cfg := coordinator.EtcdConfig{Endpoints: endpoints, Prefix: prefix, User: f.etcdUser, Lease: f.memberLease}
	if f.etcdTLSCA != "" {
		if cfg.TLS, err = coordinator.ClientTLS(f.etcdTLSCert, f.etcdTLSKey, f.etcdTLSCA); err != nil {
			return cfg, cannot("etcd: %w", err)
		}
	}
	if f.etcdPasswordFile != "" {
		text, err := readBounded(f.etcdPasswordFile, 4096)
		if err != nil {
			return cfg, cannot("etcd-password-file: %w", err)
		}
		cfg.Password = strings.TrimRight(string(text), "\r\n")
	}
	return cfg, nil
}

// splitEtcd takes etcd://host:port[,...]/prefix apart.
func splitEtcd(text string) (endpoints []string, prefix string, err error) {
	rest, ok := strings.CutPrefix(text, "etcd://")
	hosts, prefix, slash := strings.Cut(rest, "/")
	if !ok || hosts == "" || !slash || prefix == "" {
		return nil, "", fmt.Errorf("%q: give file:PATH or etcd://host:port[,...]/prefix", text)
	}
	for host := range strings.SplitSeq(hosts, ",") {
		if _, _, err := net.SplitHostPort(host); err != nil {
			return nil, "", fmt.Errorf("%q: %w; give host:port", host, err)
		}
		endpoints = append(endpoints, host)
	}
	return endpoints, prefix, nil
}

// openCluster binds the peer port, enlists the worker, and makes its limiter and its policy, which is none until the coordinator has said one.
func (w *worker) openCluster() (err error) {
	c := &cluster{w: w, ready: make(chan struct{})}
	w.cluster = c
	if c.source, c.etcd, err = w.conf.openCoordinator(w); err != nil {
		return err
	}
	if c.port, err = net.Listen("tcp", w.conf.peerListen); err != nil {
		return cannot("peer port: %w; --peer-listen takes another address", err)
	}
	c.self = coordinator.Member{ID: qos.WorkerID(w.conf.workerID), Addr: w.conf.peerAdvertise}
	if c.self.Addr == "" {
		c.self.Addr = c.port.Addr().String()
	}
	if err = c.enlist(); err != nil {
		return cannot("coordinator %s: %w", w.conf.coordinator, err)
	}
	if w.limiter, err = w.newClusterLimiter(c); err != nil {
		return err
	}
	g := &told{}
	w.tenancy = &tenancy{path: w.conf.coordinator, log: w.log, open: w.conf.leftOpen(), put: w.put, warn: w.policyWarnings, told: g,
		fit: func(set *policy.Set, open tenantDefaults) problems { return w.conf.fits(w.conf.coordinator, set, open) }}
	w.tenancy.doubt = c.doubt
	w.tenancy.now.Store(&inForce{set: &policy.Set{}, generation: func(string) uint64 { return 0 }, open: w.tenancy.open, since: time.Now()})
	c.follow()
	return nil
}

// enlist makes the worker known, or lets it begin with the policy and the ring that it has kept, where the coordinator does not answer.
func (c *cluster) enlist() (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), firstState)
	defer cancel()
	if c.epoch, err = c.source.Enlist(ctx, c.self); err == nil || c.etcd == nil || !errors.Is(err, coordinator.ErrAway) {
		return err
	}
	c.kept = err
	c.wrong[staying].Store(&c.kept) // until Stay says more
	if c.epoch, err = c.etcd.Resume(c.self, err); err != nil {
		return fmt.Errorf("%w; start the worker when etcd answers (is it running, and is the address right?). "+
			"A worker with --state-dir that has been enlisted once starts without it", err)
	}
	return nil
}

// enlisted reports whether the coordinator knows of this process.
func (c *cluster) enlisted() bool { return c.etcd == nil || c.etcd.Enlisted() }

// warnings are what is to be said of the beginning, after the first log line.
func (c *cluster) warnings() []string {
	if c.kept == nil {
		return nil
	}
	return []string{fmt.Sprintf("the coordinator does not answer: the worker has begun with the policy and the ring in %s, as incarnation %d, and enlists as soon as it can: %v",
		c.w.conf.stateDir, c.epoch, c.kept)}
}

// follow begins to follow the coordinator, and waits a little for what it says first: with that the server begins.
func (c *cluster) follow() {
	first := make(chan struct{})
	ctx, stop := context.WithCancel(context.Background())
	c.stop = stop
	c.followed.Go(func() {
		c.source.Follow(ctx, func(s coordinator.State) {
			if c.begun.CompareAndSwap(false, true) {
				c.apply(s)
				close(first)
				return
			}
			select {
			case <-c.ready:
				c.apply(s)
			case <-ctx.Done():
			}
		}, c.failed(following))
	})
	select {
	case <-first:
	case <-time.After(firstState):
		if !c.begun.CompareAndSwap(false, true) {
			<-first // it is being taken in
			return
		}
		c.w.log.Warn("the coordinator has not said a policy yet; until it does every request is answered 401", "coordinator", c.w.conf.coordinator)
	}
}

func (w *worker) newClusterLimiter(c *cluster) (*limiter, error) {
	cfg := w.conf.limits()
	ledger, err := qos.NewLedger(cfg, ringCount(w.conf.rings))
	if err != nil {
		return nil, err
	}
	conf := peerwire.Config{Worker: c.self.ID, Epoch: c.epoch, Ringed: true, Limits: cfg, Ledger: ledger, Listener: c.port,
		Changed: w.nudge, Logger: w.log}
	if w.conf.peerTLSCert != "" {
		if conf.TLS, err = peerwire.LoadTLS(w.conf.peerTLSCert, w.conf.peerTLSKey, w.conf.peerTLSCA); err != nil {
			return nil, cannot("%w", err)
		}
	}
	node, err := peerwire.New(conf)
	if err != nil {
		return nil, cannot("%w", err)
	}
	return &limiter{ledger: ledger, node: node}, nil
}

// nudge lets the rings look at their limits again; before the server runs there is nobody to look.
func (w *worker) nudge() {
	if w.serving.Load() {
		w.server.Nudge()
	}
}

// told is the policy that a coordinator has said last.
type told struct {
	mu   sync.Mutex
	next *coordinator.Policy
}

// read returns the policy that would follow the one in force; nil: it is that one. It is tenancy.read for a coordinator.
func (g *told) read(t *tenancy) (*inForce, problems) {
	g.mu.Lock()
	p := g.next
	g.mu.Unlock()
	was := t.now.Load()
	if p == nil || was.number > 0 && was.set == p.Set && t.open == was.open {
		return nil, nil
	}
	if found := t.fit(p.Set, t.open); len(found) > 0 {
		return nil, found
	}
	return &inForce{set: p.Set, generation: p.TenantGeneration, limits: p.Limits, number: was.number + 1, since: time.Now(), open: t.open}, nil
}

// apply puts what the coordinator says in force: the ring first, so that no limit is metered by a worker whose ring does not give it that limit.
func (c *cluster) apply(s coordinator.State) {
	node := c.w.limiter.node
	if s.Ring.Epoch > 0 {
		m := peerwire.Membership{Epoch: s.Ring.Epoch, Replaces: s.Ring.Replaces}
		for _, one := range s.Ring.Members {
			m.Members = append(m.Members, peerwire.Member{ID: one.ID, Addr: one.Addr})
		}
		if err := node.SetRing(m); err != nil {
			c.w.log.Error("the ring was not taken", "epoch", s.Ring.Epoch, "error", err)
		}
	}
	if s.Forced > 0 {
		node.ForceRing(s.Forced)
	}
	c.w.tenancy.told.mu.Lock()
	c.w.tenancy.told.next = s.Policy
	c.w.tenancy.told.mu.Unlock()
	was := c.state.Swap(&s)
	if !c.w.serving.Load() { // the first log line says what is in force
		if found := c.w.tenancy.begin(); len(found) > 0 {
			c.w.log.Error("the policy is wrong and was not taken", "coordinator", c.w.conf.coordinator, "problems", lines(found))
		}
		return
	}
	c.w.tenancy.reload(nil)
	if was == nil || was.Ring.Epoch != s.Ring.Epoch {
		c.w.log.Info("ring proposed", "epoch", s.Ring.Epoch, "members", s.Ring.IDs())
	}
}

// failed takes what is wrong with the coordinator in one dealing with it, or nil. That a cluster is away shows in all of them, now in one way, now in another: the first
// is logged.
func (c *cluster) failed(in dealing) func(error) {
	return func(err error) {
		if err == nil {
			if c.wrong[in].Swap(nil) != nil && c.doubt() == nil {
				c.w.log.Info("the coordinator is well again", "coordinator", c.w.conf.coordinator)
			}
			return
		}
		known := errors.Is(err, coordinator.ErrAway) && errors.Is(c.doubt(), coordinator.ErrAway)
		if was := c.wrong[in].Swap(&err); !known && (was == nil || (*was).Error() != err.Error()) {
			c.w.log.Warn("the coordinator: what it said last stays in force", "coordinator", c.w.conf.coordinator, "error", err)
		}
	}
}

// doubt is what is wrong with the coordinator now, or nil: that it does not answer before all else.
func (c *cluster) doubt() (found error) {
	for i := range c.wrong {
		if err := c.wrong[i].Load(); err != nil && (found == nil || errors.Is(*err, coordinator.ErrAway) && !errors.Is(found, coordinator.ErrAway)) {
			found = *err
		}
	}
	return found
}

// stay keeps the worker a member, and lets it propose rings when that is its turn. Only etcd has members that come and go by themselves; to a file
// the workers tell which ring has settled.
func (c *cluster) stay() {
	ctx, resign := context.WithCancel(context.Background())
	c.resign = resign
	if f, ok := c.source.(*coordinator.File); ok {
		c.resigned.Go(func() { c.tellSettled(ctx, f) })
		return
	}
	c.resigned.Go(func() {
		if err := c.etcd.Stay(ctx, c.self.ID, c.failed(staying)); err != nil {
			c.w.fenced(err)
		}
	})
	c.resigned.Go(func() { c.etcd.Propose(ctx, c.self.ID, c.settled, c.failed(proposing)) })
}

// settledEvery is how often a ring that has not settled is looked at.
const settledEvery = 200 * time.Millisecond

// tellSettled writes down, beside the policy file, when a ring has replaced those before it, once for each ring.
func (c *cluster) tellSettled(ctx context.Context, f *coordinator.File) {
	look := time.NewTicker(settledEvery)
	defer look.Stop()
	for told := uint64(0); ; {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
		s := c.state.Load()
		if s == nil || s.Ring.Epoch == told || !c.settled(s.Ring.Epoch) {
			continue
		}
		if err := f.Settled(s.Ring.Epoch); err != nil {
			c.w.log.Warn("that the ring has settled could not be written down; rings that follow soon replace more than they must", "epoch", s.Ring.Epoch, "error", err)
		}
		told = s.Ring.Epoch
	}
}

// settled reports whether the ring of that epoch has seen off those before it.
func (c *cluster) settled(epoch uint64) bool {
	s := c.w.limiter.node.Status()
	return s.Ring == epoch && s.Settled
}

// leave withdraws a worker that serves nobody any more, and waits until the ring is one without it, so that what it owns is handed over and not lost.
func (c *cluster) leave() {
	if c.resign != nil {
		c.resign()
		c.resigned.Wait()
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	if err := c.source.Withdraw(ctx); err != nil {
		c.w.log.Warn("withdrawing from the cluster", "error", err)
		return
	}
	if c.etcd == nil {
		return
	}
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		if s := c.state.Load(); s == nil || len(s.Ring.Members) < 2 || !isMember(s, c.self.ID) {
			return // handed over, or nobody is there to take it
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			c.w.log.Warn("left before the ring did without this worker; what it owned starts anew, exhausted")
			return
		}
	}
}

func isMember(s *coordinator.State, id qos.WorkerID) bool {
	for _, m := range s.Ring.Members {
		if m.ID == id {
			return true
		}
	}
	return false
}

// close ends the talk with the coordinator.
func (c *cluster) close() {
	if c.stop != nil {
		c.stop()
		c.followed.Wait()
	}
	if c.etcd != nil {
		_ = c.etcd.Close() // whatever it says, the process ends
	}
	if c.port != nil {
		_ = c.port.Close() // the node's, if it ran, and closed by it
	}
}

// clusterRefusal is what the settings of a cluster, which only mean something together, break, and the one to name for it.
func (f *serveFlags) clusterRefusal() (name string, err error) {
	if f.coordinator == "" {
		for _, s := range []struct{ name, value string }{{"worker-id", f.workerID}, {"peer-listen", f.peerListen}, {"peer-advertise", f.peerAdvertise}} {
			if s.value != "" {
				return s.name, errors.New("does nothing without a coordinator")
			}
		}
		return "", nil
	}
	whole := func(names string, all ...string) error {
		set := 0
		for _, v := range all {
			if v != "" {
				set++
			}
		}
		if set != 0 && set != len(all) {
			return fmt.Errorf("give all of %s, or none", names)
		}
		return nil
	}
	switch {
	case f.policy != "":
		return "policy", errors.New("the policy comes from the coordinator: give one of the two (a coordinator of file:PATH is a policy file with peers)")
	case f.workerID == "":
		return "worker-id", errors.New("is missing: the name of this worker, as no other worker has it, for example w1")
	case f.peerListen == "":
		return "peer-listen", errors.New("is missing: the address for the other workers, for example 127.0.0.1:7001")
	}
	if host, _, err := net.SplitHostPort(f.peerListen); err == nil && f.peerAdvertise == "" && strings.HasPrefix(f.coordinator, "etcd:") {
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			return "peer-advertise", fmt.Errorf("is missing: peer-listen %s is every address of this machine, and the other workers must be told one", f.peerListen)
		}
	}
	if err := whole("peer-tls-cert, peer-tls-key and peer-tls-ca", f.peerTLSCert, f.peerTLSKey, f.peerTLSCA); err != nil {
		return "peer-tls-cert", err
	}
	if err := whole("etcd-tls-cert and etcd-tls-key", f.etcdTLSCert, f.etcdTLSKey); err != nil {
		return "etcd-tls-cert", err
	}
	if f.etcdTLSCert != "" && f.etcdTLSCA == "" {
		return "etcd-tls-ca", errors.New("is missing: the authority of the cluster's certificates")
	}
	return "", nil
}

func (f *serveFlags) checkCoordinator() error {
	switch path, isFile := strings.CutPrefix(f.coordinator, "file:"); {
	case f.coordinator == "":
		return nil
	case isFile && path == "":
		return errors.New("file: without a path; give file:PATH")
	case isFile:
		return nil
	}
	_, _, err := splitEtcd(f.coordinator)
	return err
}

func (f *serveFlags) checkWorkerID() error {
	if f.workerID != "" && !tenantName.MatchString(f.workerID) {
		return fmt.Errorf("%q is no name of a worker; use up to 64 letters, digits, dots, dashes and underscores", f.workerID)
	}
	return nil
}

func (f *serveFlags) checkStateDir() error {
	if f.stateDir == "" {
		return nil
	}
	info, err := os.Stat(f.stateDir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is no directory", f.stateDir)
	}
	return err
}
