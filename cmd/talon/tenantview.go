package main

import (
	"github.com/talon-worker/talon/admin"
	"github.com/talon-worker/talon/peerwire"
	"github.com/talon-worker/talon/qos"
	"github.com/talon-worker/talon/server"
)

// policyState is the policy in force, for the admin port.
func (w *worker) policyState() admin.Policy {
	p := w.tenancy.now.Load()
	state := admin.Policy{
		File: w.tenancy.path, Number: p.number, Since: p.since, Tenants: uint64(len(p.set.Tenants)), Limits: uint64(p.limited()), Rejected: w.tenancy.failed.Load(),
	}
	if err := w.tenancy.stale(); err != nil {
		state.Stale = err.Error()
	}
	return state
}

// tenantState asks the rings and the limiter.
func (w *worker) tenantState() (admin.Tenancy, error) {
	var t admin.Tenancy
	if w.tenancy == nil {
		return t, nil
	}
	p, s := w.tenancy.now.Load(), w.limiter.node.Status()
	own, limits := limiterState(&s, p)
	own.SnapshotTTL = w.limits().TTL.Seconds()
	t.Limiter, t.Keys = own, keysOf(&s, w.tenancy.now.Load(), w.limits().TTL)
	if w.cluster != nil {
		peers := w.peersOf(&s)
		t.Peers = &peers
	}
	stats, err := w.server.TenantStats(ringAnswer)
	met := make(map[string]*server.TenantStats, len(stats))
	for i := range stats {
		met[stats[i].ID] = &stats[i]
	}
	for i := range p.set.Tenants {
		one := &p.set.Tenants[i]
		tenant := admin.Tenant{
			ID: one.ID, Class: one.Class, Weight: unlessOpen(one.Weight, p.open.weight), Generation: p.generation(one.ID), Limits: limits[one.ID],
		}
		if s := met[one.ID]; s != nil { // else it has come this moment
			countTenant(&tenant, s)
		}
		t.Tenants = append(t.Tenants, tenant)
	}
	return t, err
}

// countTenant copies what a tenant has met into the admin port's shape.
func countTenant(to *admin.Tenant, s *server.TenantStats) {
	to.Connections, to.Inflight, to.Queued, to.QueuedBytes = s.Connections, s.Inflight, s.Queued, s.QueuedBytes
	to.Requests, to.SentBytes, to.Stale = s.Responses, s.SentBytes, s.Stale
	to.Waited, to.WaitedFor, to.Wait, to.Throttled = s.Waited, float64(s.Wait.Sum)/1e9, adminHistogram(&s.Wait), s.Throttled.Seconds()
	to.ShareDue, to.ShareGot = uint64(max(s.ShareDue, 0)), uint64(max(s.ShareGot, 0))
	to.Denied, to.Shadow = orEmpty(s.Refused), orEmpty(s.Shadow)
	for _, reasons := range s.Refused {
		for _, n := range reasons {
			to.Requests += n
		}
	}
}

// orEmpty is a map that JSON writes as one.
func orEmpty[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return m
}

// limiterState copies what the limiter knows into the admin port's shapes: its own part, and each tenant's limits.
func limiterState(s *peerwire.Status, p *inForce) (own *admin.Limiter, limits map[string][]admin.Limit) {
	own = &admin.Limiter{
		Worker: string(s.Worker), Epoch: s.Epoch, Alone: s.Alone, Ring: s.Ring, Members: len(s.Members), Acts: s.Acts,
		Reports: s.Reporter.Reports, Retries: s.Reporter.Retries, Snapshots: s.Reporter.Snapshots, Late: s.Reporter.Late,
		Expired: s.Reporter.Expired, Applied: s.Owner.Applied,
	}
	cells, owned := map[qos.Limit]*qos.CellStatus{}, map[qos.Limit]*qos.LimitStatus{}
	for i := range s.Cells {
		cells[s.Cells[i].Key.Limit()] = &s.Cells[i]
	}
	for i := range s.Owned {
		owned[s.Owned[i].Key.Limit()] = &s.Owned[i]
	}
	limits = map[string][]admin.Limit{}
	for i := range p.limits {
		l := &p.limits[i]
		cell, meter := cells[l.Limit()], owned[l.Limit()]
		if meter == nil && cell != nil && cell.Owner == s.Worker { // nobody has asked for it yet, or for a long time
			meter = &qos.LimitStatus{Level: l.Burst}
		}
		limits[l.Tenant] = append(limits[l.Tenant], adminLimit(l, cell, meter))
	}
	return own, limits
}

func adminLimit(p *qos.Policy, cell *qos.CellStatus, meter *qos.LimitStatus) admin.Limit {
	l := admin.Limit{
		Metric: p.Metric.String(), Generation: p.Generation, Limited: p.Limits(), Mode: modeNames[p.Mode], OnLimit: onLimitNames[p.OnLimit], SoftRate: p.SoftRate,
	}
	if p.Limits() {
		l.Rate, l.Burst, l.LocalBurst = p.Rate, p.Burst, p.LocalBurst
	}
	if cell != nil {
		l.Used, l.Refused, l.Waiting, l.Room, l.Owner = cell.Total.Used(), cell.Refused, cell.Waiting, cell.Room, string(cell.Owner)
		if cell.Age >= 0 {
			age := float64(cell.Age) / 1e9
			l.Age = &age
		}
	}
	if meter != nil {
		l.Cluster = &admin.Cluster{
			Level: meter.Level, Wanted: meter.Wanted, Used: meter.Used, Reserved: meter.Reserved, Reporters: meter.Reporters, Waiting: meter.Waiting,
			Excess: meter.Excess, Exhausted: meter.Exhausted, Violator: meter.Soft, BanLeft: float64(meter.BanLeft) / 1e9,
		}
		if !p.Limits() { // its numbers are made up
			l.Cluster.Level, l.Cluster.Excess, l.Cluster.Exhausted = 0, 0, false
		}
	}
	return l
}

// As a policy file writes them.
var (
	modeNames    = [...]string{qos.Enforce: "enforce", qos.Shadow: "shadow", qos.Off: "off"}
	onLimitNames = [...]string{qos.Pace: "pace", qos.Reject: "reject", qos.Ban: "ban"}
)
