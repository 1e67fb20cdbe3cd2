package admin

import (
	"maps"
	"slices"
	"time"
)

const (
	readIOPS = "read_iops"
	egress   = "client_egress_bytes"
)

// perTenant are the families with a series for each tenant that is shown.
var perTenant = []struct {
	name, help string
	gauge      bool
	value      func(*shown) float64
}{
	{"talon_tenant_requests_total", "Requests of the tenant that were answered, refusals included.", false, func(s *shown) float64 { return float64(s.counts.requests) }},
	{"talon_tenant_sent_bytes_total", "Body bytes that the tenant's clients have taken.", false, func(s *shown) float64 { return float64(s.counts.sentBytes) }},
	{"talon_tenant_queued_total", "Requests of the tenant that did not have their first turn at once.", false, func(s *shown) float64 { return float64(s.counts.waited) }},
	{"talon_tenant_throttled_seconds_total", "How long the tenant's limit of bytes let it sleep, summed over the rings.", false, func(s *shown) float64 { return s.counts.throttled }},
	{"talon_tenant_share_due_bytes_total", "What the tenant's weight was due of the worker's rate while it had work; 0 without such a rate.", false, func(s *shown) float64 { return float64(s.counts.due) }},
	{"talon_tenant_share_got_bytes_total", "What the tenant has had of it.", false, func(s *shown) float64 { return float64(s.counts.got) }},
	{"talon_tenant_connections", "Connections of the tenant now.", true, sumNow(func(t *Tenant) uint64 { return t.Connections })},
	{"talon_tenant_inflight", "Requests of the tenant that are here now, waiting or being answered.", true, sumNow(func(t *Tenant) uint64 { return t.Inflight })},
	{"talon_tenant_queued", "Of these, how many wait for their first turn.", true, sumNow(func(t *Tenant) uint64 { return t.Queued })},
	{"talon_tenant_queued_bytes", "What those are expected to send.", true, sumNow(func(t *Tenant) uint64 { return t.QueuedBytes })},
}

func sumNow(of func(*Tenant) uint64) func(*shown) float64 {
	return func(s *shown) (sum float64) {
		for _, t := range s.now {
			sum += float64(of(t))
		}
		return sum
	}
}

// writeTenancy writes the families of tenants, limits and peers, by one look at them. What a scrape of the page costs is bounded by the policy, what it
// shows by the series.
func (wk Worker) writeTenancy(e *exposition) {
	if wk.Policy != nil {
		wk.Policy().write(e)
	}
	if wk.Tenancy == nil {
		return
	}
	t, err := wk.Tenancy()
	if err == nil { // as with the rings: talon_up says so
		wk.writeTenants(e, &t)
	}
	t.writePeers(e)
}

func (wk Worker) writeTenants(e *exposition, t *Tenancy) {
	page, all := wk.series.take(t.Tenants)
	writeAdmission(e, all)
	for _, f := range perTenant {
		kind := "counter"
		if f.gauge {
			kind = "gauge"
		}
		e.family(f.name, kind, f.help)
		for i := range page {
			e.sample(f.name, f.value(&page[i]), "tenant", page[i].label)
		}
	}
	e.family("talon_tenant_denied_total", "counter", "Requests of the tenant that were refused, by the limit or bound that refused them.")
	for i := range page {
		for _, limit := range slices.Sorted(maps.Keys(page[i].counts.denied)) {
			e.sample("talon_tenant_denied_total", float64(page[i].counts.denied[limit]), "tenant", page[i].label, "limit", limit)
		}
	}
	for _, f := range []struct{ name, help, metric string }{
		{"talon_tenant_limit_bytes_per_second", "What the tenant's clients may take in the whole cluster.", egress},
		{"talon_tenant_limit_requests_per_second", "Requests that the tenant may have in the whole cluster.", readIOPS},
	} {
		e.family(f.name, "gauge", f.help)
		for i := range page[:len(page)-1] {
			if l := page[i].now[0].limit(f.metric); l != nil && l.Limited {
				e.sample(f.name, float64(l.Rate), "tenant", page[i].label)
			}
		}
	}
	e.family("talon_violators", "gauge", "Limits over their soft rate, or banned, of those that this worker meters; /api/v1/violators names them.")
	e.sample("talon_violators", float64(len(t.violators())))
	if t.Limiter != nil {
		t.Limiter.write(e, t, all)
	}
}

func (t *Tenant) limit(metric string) *Limit {
	i := slices.IndexFunc(t.Limits, func(l Limit) bool { return l.Metric == metric })
	if i < 0 {
		return nil
	}
	return &t.Limits[i]
}

func (p Policy) write(e *exposition) {
	for _, f := range []struct {
		name, kind, help string
		value            float64
	}{
		{"talon_policy_number", "gauge", "The policy in force, counted from 1 since start.", float64(p.Number)},
		{"talon_policy_since_timestamp_seconds", "gauge", "When it was put in force, in Unix time.", float64(p.Since.UnixNano()) / float64(time.Second)},
		{"talon_policy_tenants", "gauge", "Tenants that it names.", float64(p.Tenants)},
		{"talon_policy_limits", "gauge", "Limits that it enforces or tries in shadow.", float64(p.Limits)},
		{"talon_policy_rejected_total", "counter", "Times that a changed policy file was read and not taken.", float64(p.Rejected)},
		{"talon_policy_stale", "gauge", "1 while the policy file is not what is in force; /readyz?verbose says why.", boolean(p.Stale != "")},
	} {
		e.family(f.name, f.kind, f.help)
		e.sample(f.name, f.value)
	}
}

// writeAdmission writes what became of all requests at the door.
func writeAdmission(e *exposition, all counts) {
	const name = "talon_admission_total"
	e.family(name, "counter", "Requests by what became of them at the limits; limit names what refused them, or would have.")
	admitted := all.requests
	for _, n := range all.denied {
		admitted -= min(n, admitted)
	}
	e.sample(name, float64(admitted), "outcome", "admitted", "limit", "none")
	e.sample(name, float64(all.waited), "outcome", "queued", "limit", "none")
	for _, limit := range slices.Sorted(maps.Keys(all.denied)) {
		e.sample(name, float64(all.denied[limit]), "outcome", "denied", "limit", limit)
	}
	for _, limit := range slices.Sorted(maps.Keys(all.shadow)) {
		e.sample(name, float64(all.shadow[limit]), "outcome", "shadow_denied", "limit", limit)
	}
	const wait = "talon_queue_wait_seconds"
	e.family(wait, "histogram", "Of requests that were admitted: from there to their first turn, or their refusal.")
	e.histogram(wait, all.wait)
}

// write writes the limiter's families.
func (l *Limiter) write(e *exposition, t *Tenancy, all counts) {
	var age, debt float64
	var reporters, excessBytes, excessRequests int64
	for i := range t.Tenants {
		for _, one := range t.Tenants[i].Limits {
			if one.Age != nil {
				age = max(age, *one.Age)
			}
			c := one.Cluster
			switch {
			case c == nil:
				continue
			case one.Metric == readIOPS:
				excessRequests = max(excessRequests, c.Excess)
			default:
				excessBytes = max(excessBytes, c.Excess)
			}
			if one.Limited && one.Rate > 0 {
				debt = max(debt, -float64(c.Level)/float64(one.Rate))
			}
			reporters += int64(c.Reporters)
		}
	}
	for _, f := range []struct {
		name, kind, help string
		value            float64
	}{
		{"talon_global_reports_total", "counter", "Reports of use handed to the owners of limits.", float64(l.Reports)},
		{"talon_global_report_retries_total", "counter", "Of these, how many were sent again.", float64(l.Retries)},
		{"talon_global_reports_applied_total", "counter", "Reports taken in as owner.", float64(l.Applied)},
		{"talon_global_snapshots_total", "counter", "Snapshots of limits put in force.", float64(l.Snapshots)},
		{"talon_global_snapshots_late_total", "counter", "Snapshots too old to be acted upon when they came.", float64(l.Late)},
		{"talon_global_views_expired_total", "counter", "Views of limits that grew too old in use.", float64(l.Expired)},
		{"talon_global_stale_decisions_total", "counter", "Decisions that found nothing fresh from a limit's owner.", float64(all.stale)},
		{"talon_global_snapshot_age_seconds", "gauge", "Age of the oldest view that is acted upon.", age},
		{"talon_global_snapshot_ttl_seconds", "gauge", "How old a view may become that is acted upon.", l.SnapshotTTL},
		{"talon_global_debt_seconds", "gauge", "Of the limits metered here, the largest debt, in seconds of the limit's rate.", debt},
		{"talon_global_active_reporters", "gauge", "Workers active on the limits that this worker meters, summed over limits.", float64(reporters)},
		{"talon_global_excess_bytes", "gauge", "Estimate: the most that reported use of a limit metered here was ahead of an ideal bucket.", float64(excessBytes)},
		{"talon_global_excess_requests", "gauge", "The same for limits of requests.", float64(excessRequests)},
		{"talon_global_ring_epoch", "gauge", "Epoch of the ring of owners.", float64(l.Ring)},
		{"talon_global_members", "gauge", "Workers in it.", float64(l.Members)},
		{"talon_global_acts", "gauge", "1 while this worker may act as an owner.", boolean(l.Acts)},
	} {
		e.family(f.name, f.kind, f.help)
		e.sample(f.name, f.value)
	}
}
