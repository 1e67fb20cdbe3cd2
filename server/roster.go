package server

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/talon-worker/talon/origin"
	"github.com/talon-worker/talon/qos"
	"github.com/talon-worker/talon/sched"
)

// worker is what the loops of one Server share: settings, the opener, and what other
// goroutines may change while they run, by atomics alone.
type worker struct {
	cfg    *Config
	opener *origin.Opener
	ledger *qos.Ledger
	sched  *sched.Worker
	loops  []*loop
	budget atomic.Int64           // connections that may still come
	roster atomic.Pointer[roster] // the tenants in force; a loop reads it once a turn

	enlisting sync.Mutex // between those who change the roster; no loop takes it
	accounts  map[string]*account
	retired   []*account // of tenants that were taken out of the table and may still have something here
}

// newWorker makes what the loops share, with cfg's tenants in force. Its defaults are filled in.
func newWorker(cfg *Config, opener *origin.Opener) (*worker, error) {
	w := &worker{cfg: cfg, opener: opener, accounts: map[string]*account{}}
	if cfg.Tenants != nil {
		w.ledger = cfg.Ledger
	}
	if w.ledger != nil && w.ledger.Rings() != cfg.Rings {
		return nil, fmt.Errorf("ledger: made for %d rings, the worker has %d", w.ledger.Rings(), cfg.Rings)
	}
	if a := cfg.AdmissionLog; a != nil && len(a.parts) != cfg.Rings {
		return nil, fmt.Errorf("admission log: made for %d rings, the worker has %d", len(a.parts), cfg.Rings)
	}
	var err error
	w.sched, err = sched.NewWorker(sched.Config{
		Order: cfg.Order, Rings: cfg.Rings, Rate: cfg.EgressRate, Chunk: max(int64(cfg.TransferChunk), sched.LeastEstimate),
		Wake: func(ring int) { w.loops[ring].mail.rouse() },
	})
	if err != nil {
		return nil, err
	}
	w.budget.Store(int64(cfg.MaxConnections))
	return w, w.setTenants(cfg.Tenants)
}

// account is what a worker keeps of a tenant for as long as it is in the table,
// whatever becomes of its settings.
type account struct {
	id          string
	flow        *sched.Tenant
	connections atomic.Int64 // that belong to it now
	seats       []*seat      // by ring: each is made and touched by its ring's thread alone
	retiredAt   uint64       // version of the first roster without it
}

// setTenants puts a table in force.
func (w *worker) setTenants(table *Tenants) error {
	w.enlisting.Lock()
	defer w.enlisting.Unlock()
	w.bury()
	r, err := w.enlist(table)
	if err != nil {
		return err
	}
	w.roster.Store(r)
	for _, l := range w.loops {
		l.mail.rouse()
	}
	return nil
}

// enlist makes the roster of a table, with the accounts of the one before it. A nil
// table has only the anonymous tenant, who may read everything and is not bounded.
func (w *worker) enlist(table *Tenants) (*roster, error) {
	anonymous, bounded := w.cfg.AnonymousTenant, table != nil
	var list []Tenant
	switch {
	case bounded:
		list = table.list
	case anonymous != "":
		list = []Tenant{{ID: anonymous, Weight: 1, Allow: []string{"/"}}}
	}
	r := &roster{version: 1, grants: make(map[string]grant), tenants: make([]*tenant, 0, len(list))}
	if old := w.roster.Load(); old != nil {
		r.version = old.version + 1
	}
	known := make(map[string]*account, len(list))
	for i := range list {
		t := &tenant{Tenant: list[i]}
		var err error
		if t.account, err = w.account(&t.Tenant); err != nil {
			return nil, err
		}
		known[t.ID] = t.account
		t.everything = slices.Contains(t.Allow, "/")
		for _, token := range t.Tokens {
			r.grants[token.ID] = grant{hash: token.SHA256, tenant: t}
		}
		if t.ID == anonymous {
			r.anonymous = t
		}
		r.tenants = append(r.tenants, t)
	}
	for id, a := range w.accounts {
		if known[id] == nil {
			a.retiredAt = r.version
			w.retired = append(w.retired, a)
		}
	}
	w.accounts = known
	return r, nil
}

// account returns the account of a tenant, with its settings known to the scheduler.
func (w *worker) account(t *Tenant) (*account, error) {
	cfg := sched.TenantConfig{
		Weight: t.Weight, QueueRequests: t.QueueRequests, QueueBytes: t.QueueBytes,
		Deadline: int64(t.QueueDeadline), Target: int64(t.QueueTarget), MaxInflight: t.MaxInflight,
	}
	if a := w.accounts[t.ID]; a != nil {
		return a, a.flow.Configure(cfg)
	}
	flow, err := w.sched.NewTenant(cfg)
	if err != nil {
		return nil, err
	}
	return &account{id: t.ID, flow: flow, seats: make([]*seat, w.cfg.Rings)}, nil
}

// bury forgets the accounts of which nothing is left: every ring has a roster without
// them, so that nobody becomes theirs any more, and no connection is.
func (w *worker) bury() {
	w.retired = slices.DeleteFunc(w.retired, func(a *account) bool {
		for _, l := range w.loops {
			if l.heeded.Load() < a.retiredAt {
				return false
			}
		}
		if a.connections.Load() > 0 {
			return false
		}
		w.sched.Remove(a.flow)
		return true
	})
}

// heed takes the roster in force.
func (l *loop) heed() {
	if r := l.worker.roster.Load(); r != l.roster {
		l.roster = r
		l.heeded.Store(r.version)
	}
}

// SetTenants puts a table in force, nil being that of a worker without tenants: each
// ring has it from its next turn on, and asks it about every request, those of
// connections that are open included. Any goroutine may call it. It fails, and changes
// nothing, where there is no room for so many tenants beside those that still have
// connections here.
func (s *Server) SetTenants(table *Tenants) error { return s.worker.setTenants(table) }
