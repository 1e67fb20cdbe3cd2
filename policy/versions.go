package policy

import (
	"slices"

	"github.com/talon-worker/talon/qos"
)

// Versions remembers which generation each tenant and each limit has, from one Set to the next. It is a value: Next returns another.
//
// Sets are numbered, and what has changed takes the number of its set. So a generation grows with every change of its own row and with
// nothing else, and a row that was removed and comes back has a higher one than before, without anything being remembered of it.
//
// The numbers are this process's own. Workers that share limits have to share the numbers, too; they come from whoever hands out the policy.
// The zero Versions has seen nothing.
type Versions struct {
	sets    uint64 // how many there were
	tenants map[string]versioned
	limits  map[qos.Limit]qos.Policy
}

// versioned is a tenant's own part, without its limits.
type versioned struct {
	fields     []line
	generation uint64
}

// counted are the metrics that every request is charged to. A tenant without a limit of one has a row that counts and does not limit: what
// has no row at all is not known, and is not served.
var counted = []qos.Metric{qos.ReadIOPS, qos.ClientEgressBytes}

// Next numbers a set that follows those before. The policies are all that are in force under it, by tenant and metric.
func (v Versions) Next(s *Set) (next Versions, policies []qos.Policy) {
	next = Versions{sets: v.sets + 1, tenants: map[string]versioned{}, limits: map[qos.Limit]qos.Policy{}}
	for i := range s.Tenants {
		t := &s.Tenants[i]
		own := versioned{t.own(), next.sets}
		if before, ok := v.tenants[t.ID]; ok && slices.Equal(before.fields, own.fields) {
			own.generation = before.generation
		}
		next.tenants[t.ID] = own
		for _, row := range Rows(t) {
			row.Generation = next.sets
			if before, ok := v.limits[row.Limit()]; ok {
				same := row
				if same.Generation = before.Generation; same == before {
					row = before
				}
			}
			next.limits[row.Limit()] = row
			policies = append(policies, row)
		}
	}
	return next, policies
}

// Generation returns that of a tenant's own part: weight, prefixes, tokens, queue and caps. 0: no such tenant.
func (v Versions) Generation(tenant string) uint64 { return v.tenants[tenant].generation }

// rowOf is the policy in force for a metric of a tenant, if there is to be one.
func rowOf(t *Tenant, m qos.Metric) (row qos.Policy, ok bool) {
	if l := t.Limit(m); l != nil {
		return *l, true
	}
	return qos.Policy{Tenant: t.ID, Metric: m, Rate: qos.MaxRate, Burst: qos.MaxBurst, LocalBurst: qos.MaxBurst}, slices.Contains(counted, m)
}

// Rows are a tenant's policies in the order of qos.Metrics, without generations: its limits, and one that only counts for each of what every
// request is charged to.
func Rows(t *Tenant) (rows []qos.Policy) {
	for _, m := range qos.Metrics {
		if row, ok := rowOf(t, m); ok {
			rows = append(rows, row)
		}
	}
	return rows
}
