package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/talon-worker/talon/coordinator"
	"github.com/talon-worker/talon/policy"
	"github.com/talon-worker/talon/qos"
	"github.com/talon-worker/talon/server"
)

// tenancy is the policy of a running worker: it reads the file, puts what is good in force, and keeps the last good one otherwise.
type tenancy struct {
	path string
	log  *slog.Logger
	fit  func(*policy.Set, tenantDefaults) problems // what of a policy this worker cannot do
	put  func(*inForce) error                       // puts a policy in force, or leaves the one before
	warn func(*inForce) []string                    // what in a good policy will disappoint

	now    atomic.Pointer[inForce]
	wrong  atomic.Pointer[problems] // why the file is not what is in force, or nil
	failed atomic.Uint64            // times that another file was read and not taken

	reading  sync.Mutex // one at a time: the file has changed, SIGHUP
	open     tenantDefaults
	versions policy.Versions      // of all that was put, also if it was not taken: the limiter may know a part of it
	watcher  *coordinator.Watcher // nil: SIGHUP alone
	told     *told                // nil: the file at path; else what a coordinator says
	doubt    func() error         // what is wrong with the coordinator; nil without one
}

// inForce is one policy in force. It does not change.
type inForce struct {
	text       []byte // of the file; nil: from a coordinator
	set        *policy.Set
	generation func(tenant string) uint64
	limits     []qos.Policy
	number     uint64 // of the policies that this process has had in force, from 1; 0: there is none yet
	since      time.Time
	open       tenantDefaults
}

// tenantDefaults are for what a policy leaves open.
type tenantDefaults struct {
	weight, queueRequests       int
	queueBytes                  int64
	queueDeadline, queueTarget  time.Duration
	maxInflight, maxConnections int
}

// load reads the file and puts it in force. What is wrong with it is returned, and shown until a good one is read; said is whether it is the same
// as before.
func (t *tenancy) load() (found problems, said bool) {
	next, found := t.read()
	return t.take(next, found)
}

// take puts the next policy in force, if there is one, and remembers what is wrong with it.
func (t *tenancy) take(next *inForce, found problems) (_ problems, said bool) {
	if next != nil {
		if err := t.put(next); err != nil {
			found = problems{fmt.Errorf("policy %s: %w", t.path, err)}
		}
	}
	if len(found) > 0 {
		before := t.wrong.Swap(&found)
		if said = before != nil && before.Error() == found.Error(); !said {
			t.failed.Add(1)
		}
		return found, said
	}
	t.wrong.Store(nil)
	if next != nil {
		t.now.Store(next)
	}
	return nil, false
}

// read returns the policy that would follow the one in force; nil: it is that one.
func (t *tenancy) read() (*inForce, problems) {
	if t.told != nil {
		return t.told.read(t)
	}
	text, err := readBounded(t.path, policy.MaxFile)
	if err != nil {
		return nil, problems{cannot("policy %w", err)}
	}
	was := t.now.Load()
	if was != nil && bytes.Equal(text, was.text) && t.open == was.open {
		return nil, nil
	}
	set, found := parsePolicy(t.path, text)
	if len(found) > 0 {
		return nil, found
	}
	if found = t.fit(set, t.open); len(found) > 0 {
		return nil, found
	}
	next := &inForce{text: text, set: set, number: 1, since: time.Now(), open: t.open}
	if was != nil {
		next.number = was.number + 1
	}
	t.versions, next.limits = t.versions.Next(set)
	next.generation = t.versions.Generation
	return next, nil
}

// begin reads the file for the first time.
func (t *tenancy) begin() problems {
	t.reading.Lock()
	defer t.reading.Unlock()
	found, _ := t.load()
	return found
}

// reload is load in a running worker, with these defaults from now on: what came of it goes to the log, unless nothing is new.
func (t *tenancy) reload(open *tenantDefaults) {
	t.reading.Lock()
	defer t.reading.Unlock()
	if open != nil {
		t.open = *open
	}
	was := t.now.Load()
	found, said := t.load()
	now := t.now.Load()
	switch {
	case len(found) > 0 && (!said || open != nil):
		t.log.Error("the policy is wrong and was not taken; the one before stays in force", "policy", t.path, "in_force", was.number, "problems", lines(found))
	case now != was:
		changes := policy.Diff(was.set, now.set)
		t.log.Info("policy in force", "policy", t.path, "number", now.number, "tenants", len(now.set.Tenants), "differences", len(changes), "changes", firstOf(changes, 20))
		for _, warning := range t.warn(now) {
			t.log.Warn(warning)
		}
	}
}

// firstOf shows a few changes; the log has their number beside them.
func firstOf(changes []policy.Change, most int) []string {
	shown := make([]string, 0, most)
	for _, c := range changes[:min(len(changes), most)] {
		shown = append(shown, c.String())
	}
	return shown
}

// watch follows the file from now on. What has changed since it was read is found by looking again.
func (t *tenancy) watch() {
	failed := func(err error) {
		t.log.Warn("watching the policy file: changes may need SIGHUP", "policy", t.path, "error", err)
	}
	w, err := coordinator.Watch(t.path, func() { t.reload(nil) }, failed)
	if err != nil {
		failed(err)
		return
	}
	t.watcher = w
	t.reload(nil)
}

func (t *tenancy) close() {
	if t.watcher == nil {
		return
	}
	if err := t.watcher.Close(); err != nil {
		t.log.Warn("closing the watch on the policy file", "error", err)
	}
}

// stale is why the file is not what is in force, or nil.
func (t *tenancy) stale() error {
	if t.doubt != nil {
		if err := t.doubt(); err != nil {
			return err
		}
	}
	if found := t.wrong.Load(); found != nil {
		return *found
	}
	return nil
}

// table is what the server is given of a policy.
func (p *inForce) table() (*server.Tenants, error) {
	tenants := make([]server.Tenant, 0, len(p.set.Tenants))
	for i := range p.set.Tenants {
		t := &p.set.Tenants[i]
		tokens := make([]server.Token, len(t.Tokens))
		for j, k := range t.Tokens {
			tokens[j] = server.Token{ID: k.ID, SHA256: k.SHA256}
		}
		tenants = append(tenants, server.Tenant{
			ID: t.ID, Generation: p.generation(t.ID), Allow: t.Allow, Tokens: tokens,
			Weight:        unlessOpen(t.Weight, p.open.weight),
			Dialect:       dialects[t.Dialect],
			QueueRequests: unlessOpen(t.Queue.Requests, p.open.queueRequests),
			QueueBytes:    unlessOpen(t.Queue.Bytes, p.open.queueBytes),
			QueueDeadline: unlessOpen(t.Queue.Deadline, p.open.queueDeadline),
			QueueTarget:   unlessOpen(t.Queue.Target, p.open.queueTarget),
			MaxInflight:   unlessOpen(t.MaxInflight, p.open.maxInflight), MaxConnections: unlessOpen(t.MaxConnections, p.open.maxConnections),
		})
	}
	return server.NewTenants(tenants)
}

var dialects = [...]server.Dialect{policy.Plain: server.DialectPlain, policy.S3: server.DialectS3}

// unlessOpen is what the policy says, or, where it is silent, the worker's own default.
func unlessOpen[T int | int64 | time.Duration](written, otherwise T) T {
	if written != 0 {
		return written
	}
	return otherwise
}

// limited is the number of limits that may deny something, in earnest or in shadow.
func (p *inForce) limited() (n int) {
	for i := range p.limits {
		if p.limits[i].Limits() {
			n++
		}
	}
	return n
}

// note says in a sentence what is in force.
func (p *inForce) note(path, anonymous string) string {
	who := "requests without credentials are answered 401"
	if anonymous != "" {
		who = "requests without credentials are tenant " + anonymous
	}
	if p.number == 0 {
		return fmt.Sprintf("policy %s: none yet, so every request is answered 401", path)
	}
	return fmt.Sprintf("policy %s, number %d: %d tenants, %d limits; %s", path, p.number, len(p.set.Tenants), p.limited(), who)
}
