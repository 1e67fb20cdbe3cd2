package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/talon-worker/talon/qos"
)

// TenantStats adds up what the rings have seen of each tenant, of more tenants than one question holds.
func TestTenantStats(t *testing.T) {
	var list []Tenant
	var policies []qos.Policy
	for i := range sheetsAtOnce + 10 {
		id := fmt.Sprint("t", i)
		list = append(list, Tenant{ID: id, Generation: 3, Allow: []string{"/x"}, Tokens: []Token{tokenOf(id)}})
		policies = append(policies, limited(id, 0, 0, 0, 0)...)
	}
	reject := limited("t1", 1, 1, 0, 0)
	reject[0].OnLimit, reject[0].Generation = qos.Reject, 2
	control := newControl(t, 2, policies...)
	control.set(reject[0], 0)
	r := startRig(t, func(c *Config) {
		c.Tenants, c.Ledger, c.Rings = must(NewTenants(patient(list))), control.ledger, 2
	})
	r.put("x", pattern(1000, 1))
	for range 8 {
		c := r.dial()
		c.get("/x", bearer("t0"))
		c.get("/y", bearer("t0")) // not allowed: no work for it
		c.get("/x", bearer(fmt.Sprint("t", sheetsAtOnce+5)))
	}
	r.s.loops[0].mail.post(&message{run: func(l *loop) { // so that a refusal is there to be counted
		s := l.seatOf(l.worker.accounts["t1"])
		s.stats.Refused[limitReadIOPS][whyStaleView] += 2
		s.stats.Shadow[limitEgress]++
	}})
	all, err := r.s.TenantStats(waitLong)
	if err != nil || len(all) != len(list) {
		t.Fatalf("%d tenants, %v", len(all), err)
	}
	for i, s := range all {
		want := TenantStats{ID: fmt.Sprint("t", i), Generation: 3, Wait: s.Wait, Waited: s.Waited, ShareGot: s.ShareGot, Throttled: s.Throttled}
		switch i {
		case 0, sheetsAtOnce + 5:
			want.Admitted, want.Responses, want.SentBytes, want.ChargedBytes = 8, 8, 8000, 8*(1000+responseCost)
			if i > 0 {
				want.Connections = 8
			}
			n := uint64(0)
			for _, c := range s.Wait.Count {
				n += c
			}
			if n != 8 || s.ShareGot != 8000 {
				t.Errorf("%s: %d waits, %d bytes by the scheduler", s.ID, n, s.ShareGot)
			}
		case 1:
			want.Stale, want.Shadow, want.Refused = 2, map[string]uint64{"client_egress_bytes": 1}, map[string]map[string]uint64{"read_iops": {"stale_view": 2}}
		}
		if fmt.Sprint(s) != fmt.Sprint(want) {
			t.Errorf("%s:\n%+v, want\n%+v", s.ID, s, want)
		}
	}
	r.s.Drain(0)
	if err := <-r.ran; err != nil {
		t.Fatal(err)
	}
	r.ran <- nil
	again, err := r.s.TenantStats(waitLong)
	if err != nil || again[0].Responses != 8 {
		t.Errorf("after the end: %d responses, %v", again[0].Responses, err)
	}
}

// A request counts once among those that waited, however often its tenant's limit said not yet.
func TestWaitsAreCountedOnce(t *testing.T) {
	s := tellOf(t, []Tenant{{ID: "a", QueueDeadline: time.Minute}}, limited("a", 0, 0, 2000, 1300))
	clients := s.asks(6, "/o700", "a")
	s.pass(6 * time.Second)
	s.wantAnswers(clients, map[string]int{"200": 6})
	n := &s.worker.accounts["a"].seats[0].stats
	all := uint64(0)
	for _, c := range n.Wait.Count {
		all += c
	}
	if n.Denied[limitEgress] < 10 || n.Waited < 4 || n.Waited > 6 || all != 6 {
		t.Errorf("%d denials, %d waited, %d waits for 6 requests", n.Denied[limitEgress], n.Waited, all)
	}
}
