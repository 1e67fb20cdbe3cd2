package main

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/talon-worker/talon/admin"
	"github.com/talon-worker/talon/peerwire"
	"github.com/talon-worker/talon/qos"
	"github.com/talon-worker/talon/server"
)

// TestTenantCounters: what the server counts arrives in the field of the same meaning.
func TestTenantCounters(t *testing.T) {
	s := server.TenantStats{
		ID: "a", Connections: 1, Inflight: 2, Queued: 3, QueuedBytes: 4, Responses: 100, SentBytes: 6, Waited: 7, Throttled: 1500 * time.Millisecond,
		ShareDue: 9, ShareGot: 10, Stale: 11, Shadow: map[string]uint64{"read_iops": 12},
		Refused: map[string]map[string]uint64{"read_iops": {"exhausted": 1000, "banned": 10000}, "queue": {"deadline": 100000}},
	}
	s.Wait.Sum, s.Wait.Count[3] = 2_500_000_000, 8
	var got admin.Tenant
	countTenant(&got, &s)
	want := admin.Tenant{
		Connections: 1, Inflight: 2, Queued: 3, QueuedBytes: 4, Requests: 111100, SentBytes: 6, Waited: 7, WaitedFor: 2.5, Throttled: 1.5,
		ShareDue: 9, ShareGot: 10, Stale: 11, Shadow: s.Shadow, Denied: s.Refused, Wait: adminHistogram(&s.Wait),
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	// A field that is not set here would be zero on both sides.
	v := reflect.ValueOf(want)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Name; v.Field(i).IsZero() && !strings.Contains(" ID Class Weight Generation Limits ", " "+name+" ") {
			t.Errorf("nothing counts Tenant.%s", name)
		}
	}
	var none admin.Tenant
	countTenant(&none, &server.TenantStats{})
	if text, err := json.Marshal(none); err != nil || !strings.Contains(string(text), `"denied":{},"shadow_denied":{}`) {
		t.Errorf("%v %s", err, text)
	}
}

// TestLimiterState: a limit that is metered here, one that another worker meters, one that nobody has used yet, and one that only counts.
func TestLimiterState(t *testing.T) {
	row := func(m qos.Metric, enabled bool) qos.Policy {
		return qos.Policy{Tenant: "a", Metric: m, Generation: 5, Rate: 10, Burst: 20, LocalBurst: 15, SoftRate: 8, Enabled: enabled, Mode: qos.Shadow, OnLimit: qos.Reject}
	}
	p := &inForce{limits: []qos.Policy{row(qos.ReadIOPS, true), row(qos.ClientEgressBytes, true), row(qos.OriginReadBytes, true), row(qos.WriteIOPS, false)}}
	key := func(m qos.Metric) qos.RateKey { return qos.RateKey{Tenant: "a", Metric: m, Generation: 5} }
	s := &peerwire.Status{
		Worker: "w1", Epoch: 2, Ring: 3, Members: []qos.WorkerID{"w1", "w2"}, Acts: true,
		Cells: []qos.CellStatus{
			{Key: key(qos.ReadIOPS), Owner: "w1", Total: qos.Total{Charged: 9, Refunded: 2}, Refused: 4, Waiting: 6, Room: 7, Age: 250e6},
			{Key: key(qos.ClientEgressBytes), Owner: "w2", Age: -1},
			{Key: key(qos.OriginReadBytes), Owner: "w1", Age: -1},
			{Key: key(qos.WriteIOPS), Owner: "w1", Age: -1},
		},
		Owned: []qos.LimitStatus{
			{Key: key(qos.ReadIOPS), Level: -1, Burst: 20, Wanted: 2, Used: 3, Reserved: 4, Expired: 1, Reporters: 5, Waiting: 6, Excess: 7, Exhausted: true, Soft: true, BanLeft: 1_500_000_000},
			{Key: key(qos.WriteIOPS), Level: 1 << 50, Wanted: 3, Exhausted: true, Excess: 9},
		},
	}
	s.Reporter.Reports, s.Reporter.Retries, s.Reporter.Snapshots, s.Reporter.Late, s.Reporter.Expired, s.Owner.Applied = 11, 12, 13, 14, 15, 16
	own, limits := limiterState(s, p)
	if want := (admin.Limiter{Worker: "w1", Epoch: 2, Ring: 3, Members: 2, Acts: true, Reports: 11, Retries: 12, Snapshots: 13, Late: 14, Expired: 15, Applied: 16}); *own != want {
		t.Errorf("got  %+v\nwant %+v", *own, want)
	}
	age := 0.25
	base := admin.Limit{Generation: 5, Limited: true, Mode: "shadow", OnLimit: "reject", Rate: 10, Burst: 20, LocalBurst: 15, SoftRate: 8}
	here, there, unused := base, base, base
	here.Metric, here.Owner, here.Used, here.Refused, here.Waiting, here.Room, here.Age = "read_iops", "w1", 7, 4, 6, 7, &age
	here.Cluster = &admin.Cluster{Level: -1, Wanted: 2, Used: 3, Reserved: 4, Reporters: 5, Waiting: 6, Excess: 7, Exhausted: true, Violator: true, BanLeft: 1.5}
	there.Metric, there.Owner = "client_egress_bytes", "w2"
	unused.Metric, unused.Owner, unused.Cluster = "origin_read_bytes", "w1", &admin.Cluster{Level: 20}
	counted := admin.Limit{Metric: "write_iops", Generation: 5, Mode: "shadow", OnLimit: "reject", SoftRate: 8, Owner: "w1", Cluster: &admin.Cluster{Wanted: 3}}
	if want := []admin.Limit{here, there, unused, counted}; !reflect.DeepEqual(limits["a"], want) {
		got, _ := json.Marshal(limits["a"])
		text, _ := json.Marshal(want)
		t.Errorf("got  %s\nwant %s", got, text)
	}
	keys := []admin.Key{
		{Tenant: "a", Metric: "read_iops", Generation: 5, Level: -1, Burst: 20, Reserved: 4, Expired: 1, Reporters: 5, Waiting: 6, Used: 3, Wanted: 2, Excess: 7, Bound: 2*15 + 10/5},
		{Tenant: "a", Metric: "write_iops", Generation: 5, Level: 1 << 50, Wanted: 3, Excess: 9},
	}
	if got := keysOf(s, p, 200*time.Millisecond); !slices.Equal(got, keys) {
		t.Errorf("got  %+v\nwant %+v", got, keys)
	}
}
