package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/talon-worker/talon/qos"
)

// Enlist is of Source: it writes the worker's key under a new lease. The worker's epoch follows from the revision of that; a later process of the same id
// overwrites the key and has a higher one.
func (e *Etcd) Enlist(ctx context.Context, self Member) (uint64, error) {
	last, err := readLife(e.cfg.StateDir)
	if err == nil {
		err = last.of(self.ID, e.cfg.StateDir)
	}
	if err != nil {
		return 0, err
	}
	w := worker{Addr: self.Addr, Start: e.start}
	lease, revision, err := e.register(ctx, self.ID, w)
	if err != nil {
		return 0, err
	}
	now, err := last.enlist(self.ID, revision)
	if err != nil {
		return 0, err
	}
	if err := writeLife(e.cfg.StateDir, now); err != nil {
		e.cfg.Logger.Warn("the worker's epoch was not kept", "error", err)
	}
	w.Epoch = now.Epoch
	e.mu.Lock()
	defer e.mu.Unlock()
	e.lease, e.self = lease, w
	return w.Epoch, nil
}

// Resume begins a life of a worker that cannot enlist, for what Enlist has said, with the policy and the ring of its state directory. Stay enlists it
// when the cluster answers. The epoch is above those of all processes that have used the directory, and below that of each that enlists later; a worker that
// lives under the same id elsewhere is the older or the newer one, and the older stops (ErrReplaced, or by the word of an owner).
func (e *Etcd) Resume(self Member, why error) (uint64, error) {
	cannot := func(what any) (uint64, error) {
		return 0, fmt.Errorf("%w; and the worker cannot begin without it: %v", why, what)
	}
	if e.cfg.StateDir == "" {
		return cannot("no state directory is given that could hold the last policy and ring")
	}
	last, err := readLife(e.cfg.StateDir)
	if err == nil {
		err = last.of(self.ID, e.cfg.StateDir)
	}
	if err != nil {
		return cannot(err)
	}
	now, err := last.resume()
	if err != nil {
		return cannot(fmt.Errorf("state directory %s: %w", e.cfg.StateDir, err))
	}
	kept, err := readCopy(e.cfg.StateDir)
	switch {
	case err != nil:
		return cannot(err)
	case kept.Book.Generation == 0:
		return cannot(fmt.Errorf("state directory %s has no policy yet", e.cfg.StateDir))
	}
	if err := writeLife(e.cfg.StateDir, now); err != nil {
		return cannot(err)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.self = worker{Addr: self.Addr, Epoch: now.Epoch, Start: e.start}
	return now.Epoch, nil
}

// Enlisted reports whether the cluster knows of this process: false from Resume until Stay has enlisted it.
func (e *Etcd) Enlisted() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lease != 0
}

// errRaced says that a worker's key was written by another between looking and writing.
var errRaced = errors.New("its key has changed meanwhile")

// register writes a worker's key under a new lease, if what holds of it.
func (e *Etcd) register(ctx context.Context, id qos.WorkerID, w worker, what ...clientv3.Cmp) (clientv3.LeaseID, int64, error) {
	ctx, cancel := ask(ctx)
	defer cancel()
	grant, err := e.client.Grant(ctx, int64(e.cfg.Lease/time.Second))
	if err != nil {
		return 0, 0, e.silent(err, "a lease for worker "+string(id))
	}
	put, err := e.client.Txn(ctx).If(what...).Then(clientv3.OpPut(e.key(workerPrefix+string(id)), encode(w), clientv3.WithLease(grant.ID))).Commit()
	if err != nil {
		return 0, 0, e.silent(err, "enlisting worker "+string(id))
	}
	if !put.Succeeded {
		return 0, 0, fmt.Errorf("etcd: enlisting worker %s: %w", id, errRaced)
	}
	return grant.ID, put.Header.Revision, nil
}

// ErrReplaced ends Stay: another process has enlisted under this worker's id.
var ErrReplaced = errors.New("etcd: another process has enlisted under this worker's id; give every worker an id of its own")

// Stay keeps a worker a member until ctx ends: it renews the lease, and enlists it, with the epoch that it has, when it has begun without the cluster or
// its lease has run out while that was away. failed is told what is wrong (nil: nothing any more).
func (e *Etcd) Stay(ctx context.Context, id qos.WorkerID, failed func(error)) error {
	every := time.NewTicker(e.cfg.Lease / 3)
	defer every.Stop()
	bad := false
	for {
		err := e.renew(ctx, id)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrReplaced):
			return err
		case err != nil || bad:
			failed(err)
		}
		bad = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
	}
}

func (e *Etcd) renew(ctx context.Context, id qos.WorkerID) error {
	e.mu.Lock()
	lease, self := e.lease, e.self
	e.mu.Unlock()
	short, cancel := ask(ctx)
	defer cancel()
	if lease != 0 {
		if alive, err := e.client.KeepAliveOnce(short, lease); err == nil && alive.TTL > 0 {
			return nil
		}
	}
	get, gerr := e.client.Get(short, e.key(workerPrefix+string(id)))
	if gerr != nil {
		if lease == 0 {
			return e.silent(gerr, fmt.Sprintf("worker %s has begun with the policy and the ring that it kept, and has not enlisted since", id))
		}
		return e.silent(gerr, "renewing the lease of worker "+string(id))
	}
	seen := int64(0)
	if len(get.Kvs) > 0 {
		seen = get.Kvs[0].ModRevision
		c := &contents{workers: map[qos.WorkerID]enlisted{}}
		if err := c.put(workerPrefix+string(id), get.Kvs[0]); err != nil {
			return err
		}
		if w := c.workers[id]; w.Epoch > self.Epoch && w.Start != self.Start {
			return ErrReplaced
		}
	}
	now, _, err := e.register(ctx, id, self, clientv3.Compare(clientv3.ModRevision(e.key(workerPrefix+string(id))), "=", seen))
	if err != nil {
		return err
	}
	e.mu.Lock()
	e.lease = now
	e.mu.Unlock()
	if lease == 0 {
		e.cfg.Logger.Info("enlisted", "worker", id, "epoch", self.Epoch)
	} else {
		e.cfg.Logger.Warn("the lease had run out; enlisted again", "worker", id, "epoch", self.Epoch)
	}
	return nil
}

// Withdraw is of Source: the lease is given back, and the key goes with it.
func (e *Etcd) Withdraw(ctx context.Context) error {
	e.mu.Lock()
	lease := e.lease
	e.lease = 0
	e.mu.Unlock()
	if lease == 0 {
		return errors.New("etcd: the worker is not enlisted, so there is nothing to give back")
	}
	ctx, cancel := ask(ctx)
	defer cancel()
	if _, err := e.client.Revoke(ctx, lease); err != nil {
		return fmt.Errorf("etcd: giving the lease back: %w; the worker stays a member until it runs out", err)
	}
	return nil
}

// Propose lets this worker propose rings while it is the one that has been enlisted longest: what a Damper makes of the workers that come and
// go becomes the ring's key, in a transaction that fails if another ring was proposed meanwhile. settled says whether the ring of an epoch has replaced
// those before it, as this worker knows. It returns when ctx ends.
//
// All workers look, for any of them may be next; two that propose at once, having seen different things, make two rings one after the other, which
// costs a move and no more.
func (e *Etcd) Propose(ctx context.Context, id qos.WorkerID, settled func(epoch uint64) bool, failed func(error)) {
	p := &proposer{e: e, id: id, settled: settled, damper: qos.NewDamper(qos.DamperConfig{})}
	every := time.NewTicker(proposeEvery)
	defer every.Stop()
	bad := false
	for {
		err := p.look(ctx, time.Now())
		if ctx.Err() != nil {
			return
		}
		if err != nil || bad {
			failed(err)
		}
		bad = err != nil
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
}

// proposeEvery is how often the members are looked at: joins and leaves count after a fraction of a second or more.
const proposeEvery = 200 * time.Millisecond

// proposer is one Propose.
type proposer struct {
	e       *Etcd
	id      qos.WorkerID
	settled func(uint64) bool
	damper  *qos.Damper
	begun   time.Time
	up      time.Time // since when the cluster has answered without a break; zero: it does not
}

// look reads the members once, and proposes a ring if it is this worker's to do so.
func (p *proposer) look(ctx context.Context, now time.Time) error {
	c, err := p.e.read(ctx)
	if err != nil {
		p.up = time.Time{}
		return err
	}
	if p.begun.IsZero() {
		p.begun = now
	}
	if p.up.IsZero() {
		p.up = now
	}
	// After an outage the leases of all may have run out, and they enlist again one by one: who has just come back sees only half of them.
	if c.ringAt != 0 && now.Sub(p.up) < p.e.cfg.Lease && len(p.gone(c)) > 0 {
		return nil
	}
	at := int64(now.Sub(p.begun))
	p.damper.Adopt(at, c.ring.IDs())
	p.damper.Observe(at, c.there())
	if c.first() != p.id {
		return nil
	}
	members, ok := p.damper.Propose(at)
	if !ok {
		return nil
	}
	return p.propose(ctx, c, members)
}

// gone are members of the ring that are not there.
func (p *proposer) gone(c *contents) (ids []qos.WorkerID) {
	for _, m := range c.ring.Members {
		if _, ok := c.workers[m.ID]; !ok {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

func (p *proposer) propose(ctx context.Context, c *contents, members []qos.WorkerID) error {
	next := Ring{}
	for _, id := range members {
		next.Members = append(next.Members, Member{ID: id, Addr: c.workers[id].Addr})
	}
	if c.ringAt != 0 {
		next.Replaces = []qos.Voting{voting(c.ring.Epoch, c.ring.IDs())}
		if !p.settled(c.ring.Epoch) && c.forced < c.ring.Epoch {
			next.Replaces = append(next.Replaces, c.ring.Replaces...)
		}
	}
	if len(next.Replaces) > qos.MaxReplaced {
		return fmt.Errorf("etcd: %d rings have followed each other and none has settled: no new one is proposed; talon ring status says what they wait for", len(next.Replaces)-1)
	}
	ctx, cancel := ask(ctx)
	defer cancel()
	resp, err := p.e.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(p.e.key(ringKey)), "=", c.ringAt)).
		Then(clientv3.OpPut(p.e.key(ringKey), encode(next))).Commit()
	if err != nil {
		return fmt.Errorf("etcd: proposing a ring of %d: %w", len(members), err)
	}
	if resp.Succeeded {
		p.e.cfg.Logger.Info("proposed a ring", "epoch", resp.Header.Revision, "members", len(members))
	}
	return nil
}
