package admin

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

var testPolicy = Policy{File: "/etc/policy.yaml", Number: 71, Since: time.Date(2026, 11, 30, 12, 0, 30, 500e6, time.UTC), Tenants: 3, Limits: 2, Rejected: 74}

// testTenancy has three tenants: one that is always shown, one that is because it has sent most, and one of the others, who is over its soft
// rate and banned.
func testTenancy() Tenancy {
	age := 0.25
	tenant := func(id string, k uint64) Tenant {
		return Tenant{
			ID: id, Weight: int(k), Generation: 2 * k, Connections: 3 * k, Inflight: 4 * k, Queued: 5 * k, QueuedBytes: 6 * k,
			Requests: 100 * k, SentBytes: 8000 * k, Waited: 9 * k, WaitedFor: 0.5 * float64(k), Throttled: 0.25 * float64(k), ShareDue: 14 * k, ShareGot: 15 * k,
			Denied: map[string]map[string]uint64{"read_iops": {"exhausted": 4 * k, "banned": 6 * k}, "queue": {"deadline": 11 * k}}, Shadow: map[string]uint64{"client_egress_bytes": 12 * k}, Stale: 13 * k,
			Wait:   Histogram{Upper: []float64{0.001, 0.5}, Count: []uint64{k, 2 * k, 3 * k}, Sum: 0.75 * float64(k)},
			Limits: []Limit{},
		}
	}
	vip, most, bad := tenant("vip", 1), tenant("most", 100), tenant("bad", 10)
	vip.Class = "gold"
	vip.Limits = []Limit{{
		Metric: "read_iops", Generation: 1, Limited: true, Mode: "enforce", OnLimit: "pace", Rate: 5000, Burst: 500, LocalBurst: 50,
		Used: 21, Refused: 22, Waiting: 23, Room: 24, Age: &age, Owner: "w2",
	}}
	bad.Limits = []Limit{{
		Metric: "client_egress_bytes", Generation: 2, Limited: true, Mode: "enforce", OnLimit: "ban", Rate: 1 << 20, Burst: 1 << 20, LocalBurst: 1 << 19, SoftRate: 1 << 19, Owner: "w1",
		Cluster: &Cluster{Level: -31, Wanted: 2 << 20, Used: 33, Reserved: 34, Reporters: 35, Waiting: 36, Excess: 37, Exhausted: true, Violator: true, BanLeft: 1.5},
	}, {Metric: "read_iops", Generation: 2, Mode: "enforce", OnLimit: "pace", Owner: "w1", Cluster: &Cluster{Reporters: 1, Excess: 38}}}
	return Tenancy{
		Tenants: []Tenant{vip, most, bad},
		Limiter: &Limiter{Worker: "w1", Epoch: 51, Ring: 52, Members: 53, Acts: true, SnapshotTTL: 0.5, Reports: 54, Retries: 55, Snapshots: 56, Late: 57, Expired: 58, Applied: 59},
	}
}

func TestTenants(t *testing.T) {
	golden(t, "tenants.json", get(testWorker(), "/api/v1/tenants").Body.Bytes())
	golden(t, "violators.json", get(testWorker(), "/api/v1/violators").Body.Bytes())

	var one Tenancy
	rec := get(testWorker(), "/api/v1/tenants?id=most")
	if err := json.Unmarshal(rec.Body.Bytes(), &one); err != nil || rec.Code != 200 || len(one.Tenants) != 1 || one.Tenants[0].ID != "most" {
		t.Errorf("got %d %s", rec.Code, rec.Body)
	}
	if rec := get(testWorker(), "/api/v1/tenants?id=nobody"); rec.Code != 404 || rec.Body.String() != "no such tenant\n" {
		t.Errorf("got %d %s", rec.Code, rec.Body)
	}
	silent := testWorker()
	silent.Tenancy = func() (Tenancy, error) { return Tenancy{}, errors.New("ring 1 did not answer within 1s") }
	for _, path := range []string{"/api/v1/tenants", "/api/v1/violators"} {
		if rec := get(silent, path); rec.Code != 503 || rec.Body.String() != "ring 1 did not answer within 1s\n" {
			t.Errorf("got %d %s", rec.Code, rec.Body)
		}
	}
	nobody := testWorker()
	nobody.Tenancy = func() (Tenancy, error) { return Tenancy{}, nil }
	if rec := get(nobody, "/api/v1/tenants"); rec.Body.String() != "{\n  \"tenants\": []\n}\n" {
		t.Errorf("got %s", rec.Body)
	}
	if rec := get(nobody, "/api/v1/violators"); rec.Body.String() != "{\n  \"violators\": []\n}\n" {
		t.Errorf("got %s", rec.Body)
	}
}

// TestStalePolicy: the note is for people and never a reason to send requests elsewhere.
func TestStalePolicy(t *testing.T) {
	w := testWorker()
	if rec := get(w, "/readyz?verbose"); !strings.HasSuffix(rec.Body.String(), "[+] policy ok: number 71 of /etc/policy.yaml\n") {
		t.Errorf("got %s", rec.Body)
	}
	p := testPolicy
	p.Stale = "policy.yaml:3: weight: zero is refused"
	w.Policy = func() Policy { return p }
	if rec := get(w, "/readyz?verbose"); rec.Code != 200 || !strings.HasSuffix(rec.Body.String(), "[!] policy: number 71 stays in force: policy.yaml:3: weight: zero is refused\n") {
		t.Errorf("got %d %s", rec.Code, rec.Body)
	}
	if rec := get(w, "/readyz"); rec.Code != 200 || rec.Body.String() != "ok\n" {
		t.Errorf("got %d %s", rec.Code, rec.Body)
	}
	if page := exposed(w); !strings.Contains(page, "\ntalon_policy_stale 1\n") {
		t.Errorf("not in\n%s", page)
	}
}

// TestMetricsLookOnce: a scrape asks the limiter's loop once, for each look costs it time in proportion to the limits.
func TestMetricsLookOnce(t *testing.T) {
	looks := 0
	wk := testWorker()
	wk.Tenancy = func() (Tenancy, error) {
		looks++
		tenancy := testTenancy()
		tenancy.Peers = &Peers{Settled: true}
		return tenancy, nil
	}
	wk.Keys = func() []Key { looks++; return nil }
	wk.Peers = func() Peers { looks++; return Peers{} }
	page := get(wk, "/metrics").Body.String()
	if looks != 1 {
		t.Errorf("%d looks at the limiter, want 1", looks)
	}
	for _, want := range []string{"\ntalon_violators ", "\ntalon_global_excess_of_bound ", "\ntalon_global_settled 1\n"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q on the page", want)
		}
	}
}
