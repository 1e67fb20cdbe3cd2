package server

import (
	"sync"
	"sync/atomic"

	"github.com/talon-worker/talon/origin"
)

// worker is what the loops of one Server share: settings, the opener, and what other
// goroutines may change while they run, by atomics alone.
type worker struct {
	cfg    *Config
	opener *origin.Opener
	budget atomic.Int64           // connections that may still come
	roster atomic.Pointer[roster] // the tenants in force; a loop reads it once a turn

	enlisting sync.Mutex // between those who change the roster; no loop takes it
	accounts  accounts
}

// newWorker makes what the loops share, with cfg's tenants in force.
func newWorker(cfg *Config, opener *origin.Opener) *worker {
	w := &worker{cfg: cfg, opener: opener}
	w.budget.Store(int64(cfg.MaxConnections))
	w.setTenants(cfg.Tenants)
	return w
}

// account is what a worker keeps of a tenant for as long as it is in the table,
// whatever becomes of its settings. Rings share it: they touch its atomics.
type account struct {
	connections atomic.Int64 // that belong to it now
}

// accounts are those of the table in force, by id. Who is taken out of the table
// is forgotten here; what is still its own keeps the account itself.
type accounts map[string]*account

// setTenants puts a table in force.
func (w *worker) setTenants(table *Tenants) {
	w.enlisting.Lock()
	defer w.enlisting.Unlock()
	w.roster.Store(w.enlist(table))
}

// enlist makes the roster of a table, with the accounts of the one before it. A nil
// table has only the anonymous tenant, who may read everything and is not bounded.
func (w *worker) enlist(table *Tenants) *roster {
	anonymous := w.cfg.AnonymousTenant
	var list []Tenant
	switch {
	case table != nil:
		list = table.list
	case anonymous != "":
		list = []Tenant{Tenant{ID: anonymous, Allow: []string{"/"}}.withDefaults()}
	}
	r := &roster{grants: make(map[string]grant), tenants: make([]*tenant, 0, len(list))}
	known := make(accounts, len(list))
	for i := range list {
		t := &tenant{Tenant: list[i], account: w.accounts[list[i].ID]}
		if t.account == nil {
			t.account = &account{}
		}
		known[t.ID] = t.account
		for _, prefix := range t.Allow {
			t.everything = t.everything || prefix == "/"
		}
		for _, token := range t.Tokens {
			r.grants[token.ID] = grant{hash: token.SHA256, tenant: t}
		}
		if t.ID == anonymous {
			r.anonymous = t
		}
		r.tenants = append(r.tenants, t)
	}
	w.accounts = known
	return r
}

// SetTenants puts a table in force, nil being that of a worker without tenants: each
// ring has it from its next turn on, and asks it about every request, those of
// connections that are open included. Any goroutine may call it.
func (s *Server) SetTenants(table *Tenants) { s.worker.setTenants(table) }
