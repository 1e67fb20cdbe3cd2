package policy

import (
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/talon-worker/talon/qos"
)

// generations are those of all policies in force.
func generations(policies []qos.Policy) map[string]uint64 {
	m := map[string]uint64{}
	for _, p := range policies {
		m[p.Limit().String()] = p.Generation
	}
	return m
}

// TestGenerations is the life of a small policy.
func TestGenerations(t *testing.T) {
	const head = "tenants:\n"
	a := func(iops string) string {
		return "- id: a\n  limits: {read_iops: {rate: " + iops + "/s, burst: 10, local_burst: 5}}\n"
	}
	b := func(weight string) string { return "- id: b\n  weight: " + weight + "\n" }
	var v Versions
	for i, step := range []struct {
		what, text string
		limits     map[string]uint64
		a, b       uint64 // of the tenants themselves
	}{
		{"the first set is 1; what has no limit is counted", head + a("100") + b("1"),
			map[string]uint64{"a/read_iops": 1, "a/client_egress_bytes": 1, "b/read_iops": 1, "b/client_egress_bytes": 1}, 1, 1},
		{"another order and another way to write it change nothing", head + b("01") + a("100"),
			map[string]uint64{"a/read_iops": 1, "a/client_egress_bytes": 1, "b/read_iops": 1, "b/client_egress_bytes": 1}, 1, 1},
		{"a rate is one row", head + a("200") + b("1"),
			map[string]uint64{"a/read_iops": 3, "a/client_egress_bytes": 1, "b/read_iops": 1, "b/client_egress_bytes": 1}, 1, 1},
		{"a weight is no limit", head + a("200") + b("2"),
			map[string]uint64{"a/read_iops": 3, "a/client_egress_bytes": 1, "b/read_iops": 1, "b/client_egress_bytes": 1}, 1, 4},
		{"a tenant goes", head + a("200"), map[string]uint64{"a/read_iops": 3, "a/client_egress_bytes": 1}, 1, 0},
		{"and comes back above all it has had", head + a("200") + b("2"),
			map[string]uint64{"a/read_iops": 3, "a/client_egress_bytes": 1, "b/read_iops": 6, "b/client_egress_bytes": 6}, 1, 6},
		{"back to an old number is a change, too", head + a("100") + b("2"),
			map[string]uint64{"a/read_iops": 7, "a/client_egress_bytes": 1, "b/read_iops": 6, "b/client_egress_bytes": 6}, 1, 6},
	} {
		var policies []qos.Policy
		v, policies = v.Next(mustParse(t, step.text))
		if got := generations(policies); !maps.Equal(got, step.limits) || v.Generation("a") != step.a || v.Generation("b") != step.b {
			t.Errorf("%d %s: %v, a %d, b %d", i+1, step.what, got, v.Generation("a"), v.Generation("b"))
		}
	}
}

// TestGenerationsAgainstHistory: over any sequence of sets, a row has the generation it had exactly if its content is the same and it was
// there in the set before; otherwise one above all that any row has ever had. The Versions before stay as they were.
func TestGenerationsAgainstHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var v Versions
		before := map[qos.Limit]qos.Policy{}
		highest := uint64(0)
		for range rapid.IntRange(1, 8).Draw(t, "sets") {
			s := &Set{}
			for _, id := range []string{"a", "b", "c"} {
				if !rapid.Bool().Draw(t, id) {
					continue
				}
				tenant := Tenant{ID: id, Weight: rapid.IntRange(1, 2).Draw(t, "weight")}
				for _, m := range qos.Metrics {
					if rate := rapid.Int64Range(0, 2).Draw(t, "rate"); rate > 0 {
						tenant.Limits = append(tenant.Limits, qos.Policy{Tenant: id, Metric: m, Rate: rate, Burst: 2, LocalBurst: 1, Enabled: rapid.Bool().Draw(t, "on")})
					}
				}
				s.Tenants = append(s.Tenants, tenant)
			}
			was := Versions{v.sets, maps.Clone(v.tenants), maps.Clone(v.limits)}
			next, policies := v.Next(s)
			if !reflect.DeepEqual(v, was) {
				t.Fatalf("Next has changed the value before")
			}
			now := map[qos.Limit]qos.Policy{}
			for _, p := range policies {
				now[p.Limit()] = p
				same := p
				old, had := before[p.Limit()]
				if same.Generation = old.Generation; had && same == old {
					if p.Generation != old.Generation {
						t.Fatalf("%v was generation %d and has not changed", p.Key(), old.Generation)
					}
				} else if p.Generation <= highest {
					t.Fatalf("%v has changed, and %d was the highest", p.Key(), highest)
				}
			}
			for _, id := range s.Tenants {
				for _, m := range counted {
					if _, ok := now[qos.Limit{Tenant: id.ID, Metric: m}]; !ok {
						t.Fatalf("%s has no row for %v", id.ID, m)
					}
				}
			}
			for _, p := range policies {
				highest = max(highest, p.Generation)
			}
			if !slices.IsSortedFunc(policies, func(a, b qos.Policy) int {
				if a.Limit().Less(b.Limit()) {
					return -1
				}
				return 1
			}) {
				t.Fatalf("not in order: %v", policies)
			}
			v, before = next, now
		}
	})
}
