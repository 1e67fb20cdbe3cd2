package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/talon-worker/talon/admin"
)

// shownTenancy has a tenant for each thing that a line can say.
var shownTenancy = admin.Tenancy{Tenants: []admin.Tenant{
	{ID: "quiet", Weight: 1},
	{ID: "serving", Weight: 4, Connections: 12, Inflight: 3, Queued: 2, Requests: 12345, SentBytes: 5 << 30, Denied: map[string]map[string]uint64{"read_iops": {"exhausted": 5, "banned": 1}, "queue": {"deadline": 1}},
		Limits: []admin.Limit{
			{Metric: "read_iops", Limited: true, Rate: 20000, Mode: "enforce", Cluster: &admin.Cluster{Wanted: 812}},
			{Metric: "client_egress_bytes", Limited: true, Rate: 400 << 20, Mode: "enforce", Cluster: &admin.Cluster{Wanted: 401 << 20, Violator: true}},
		}},
	{ID: "elsewhere", Weight: 1, Limits: []admin.Limit{
		{Metric: "read_iops", Mode: "enforce", Cluster: &admin.Cluster{Exhausted: true}},
		{Metric: "client_egress_bytes", Limited: true, Rate: 1000, Mode: "shadow"},
	}},
	{ID: "loud", Weight: 1, Limits: []admin.Limit{
		{Metric: "read_iops", Limited: true, Rate: 5, Mode: "enforce", Cluster: &admin.Cluster{Wanted: 9, Exhausted: true, Violator: true, BanLeft: 2.25}},
		{Metric: "client_egress_bytes", Limited: true, Rate: 5, Mode: "enforce", Cluster: &admin.Cluster{Wanted: 9, Exhausted: true}},
	}},
}}

const shownTable = `TENANT     WEIGHT  CONNS  INFLIGHT  QUEUED  REQUESTS  SENT  REFUSED  READS/S        BYTES/S           NOTE
quiet      1       0      0         0       0         0B    0        -              -                 
serving    4       12     3         2       12345     5GiB  7        812 of 20000   401MiB of 400MiB  violates client_egress_bytes
elsewhere  1       0      0         0       0         0B    0        0 of no limit  - of 1000B        client_egress_bytes in shadow
loud       1       0      0         0       0         0B    0        9 of 5         9B of 5B          banned by read_iops for 2.2s, client_egress_bytes exhausted
`

func TestTenantTable(t *testing.T) {
	var b bytes.Buffer
	tenantTable(&b, &shownTenancy)
	if b.String() != shownTable {
		t.Errorf("got\n%s\nwant\n%s", b.String(), shownTable)
	}
}

// TestWatchTenants: now and at every tick, through a worker that does not answer for a while, until it is interrupted.
func TestWatchTenants(t *testing.T) {
	body, err := json.Marshal(shownTenancy)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var out bytes.Buffer
	ticks, asked := make(chan time.Time, 3), 0
	for range cap(ticks) {
		ticks <- time.Time{}
	}
	v := tenantView{out: &out, clear: true, ask: func(context.Context) ([]byte, error) {
		switch asked++; asked {
		case 2:
			return nil, errors.New("no answer")
		case 4:
			stop()
		}
		return body, nil
	}}
	if err := v.watch(ctx, ticks); err != nil {
		t.Fatal(err)
	}
	const clear = "\x1b[H\x1b[J"
	if want := clear + shownTable + "no answer\n" + clear + shownTable; !strings.HasPrefix(out.String(), want) {
		t.Errorf("got\n%q", out.String())
	}
	if asked < 4 {
		t.Errorf("asked %d times in four ticks", asked)
	}
}
