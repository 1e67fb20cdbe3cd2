package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/talon-worker/talon/peerwire"
	"github.com/talon-worker/talon/policy"
	"github.com/talon-worker/talon/qos"
)

// limiter is this worker's part of the limits: the ledger that rings charge, and the loop that reports it.
type limiter struct {
	ledger *qos.Ledger
	node   *peerwire.Node
	stop   context.CancelFunc
	ran    sync.WaitGroup
	err    error // why the loop has ended, once ran is done
}

// alone is the name of a worker that no policy names as a peer.
const alone = "alone"

// limits are the settings of the limiter: as configured with a coordinator, those of a worker that is alone without.
func (w *worker) limits() qos.Config {
	if w.cluster == nil {
		return w.conf.limits().Alone()
	}
	return w.conf.limits()
}

// newLimiter makes the limiter of a worker that has these rings and begins with this policy. changed is called when rings may charge what they could not.
func newLimiter(cfg qos.Config, rings int, first *inForce, w *worker) (*limiter, error) {
	ledger, err := qos.NewLedger(cfg, rings)
	if err != nil {
		return nil, err
	}
	id := qos.WorkerID(alone)
	if len(first.set.Peers) == 1 {
		id = qos.WorkerID(first.set.Peers[0].ID)
	}
	node, err := peerwire.New(peerwire.Config{
		Worker: id, Epoch: uint64(time.Now().UnixNano()), // grows across restarts, as long as the clock does
		Limits: cfg, Ledger: ledger, Changed: w.nudge, Logger: w.log,
	})
	if err != nil {
		return nil, err
	}
	return &limiter{ledger: ledger, node: node}, nil
}

// run begins the loop. failed is called if it ends before stop, which means that the worker must end, too.
func (l *limiter) run(failed func(error)) {
	ctx, stop := context.WithCancel(context.Background())
	l.stop = stop
	l.ran.Go(func() {
		if l.err = l.node.Run(ctx); l.err != nil {
			failed(l.err)
		}
	})
}

// close ends the loop, when no ring charges any more.
func (l *limiter) close() {
	if l.stop != nil {
		l.stop()
		l.ran.Wait()
	}
}

// onlyPeer refuses a policy whose limits are meant for several workers: each by itself would let the whole limit through.
func onlyPeer(path string, set *policy.Set) problems {
	if n := len(set.Peers); n > 1 {
		return problems{problemf("%s: %d peers share these limits, and with --policy a worker is alone: each would let through the whole of every limit; use --coordinator file:%s, or list one peer", path, n, path)}
	}
	return nil
}

// put puts a policy in force: limits first, so that no tenant is served whose limits are not known.
func (w *worker) put(p *inForce) error {
	table, err := p.table()
	if err != nil {
		return err
	}
	if w.limiter == nil { // the first: the server begins with it
		return nil
	}
	if err := w.limiter.node.SetPolicies(p.limits); err != nil {
		return err
	}
	if !w.serving.Load() { // the server begins with what is in force then
		return nil
	}
	return w.server.SetTenants(table)
}

// openPolicy reads the policy for the first time, and makes what keeps its limits.
func (w *worker) openPolicy() error {
	t := &tenancy{path: w.conf.policy, log: w.log, open: w.conf.leftOpen(), put: w.put, warn: w.policyWarnings}
	t.fit = func(set *policy.Set, open tenantDefaults) problems {
		return append(onlyPeer(t.path, set), w.conf.fits(t.path, set, open)...)
	}
	if found := t.begin(); len(found) > 0 {
		return found
	}
	first := t.now.Load()
	l, err := newLimiter(w.limits(), ringCount(w.conf.rings), first, w)
	if err != nil {
		return err
	}
	if err := l.node.SetPolicies(first.limits); err != nil {
		return fmt.Errorf("policy %s: %w", t.path, err)
	}
	w.tenancy, w.limiter = t, l
	return nil
}

// policyWarnings are what in a policy will disappoint: the first few, talon policy check has them all.
func (w *worker) policyWarnings(p *inForce) (found []string) {
	by := w.conf.judge(p.set)
	all := policy.Warnings(p.set, &by)
	const most = 10
	for _, one := range all[:min(len(all), most)] {
		found = append(found, fmt.Sprintf("tenant %s: %s", one.Tenant, one.Text))
	}
	if more := len(all) - most; more > 0 {
		found = append(found, fmt.Sprintf("%d more like these; talon policy check %s shows them", more, w.conf.policy))
	}
	return found
}
