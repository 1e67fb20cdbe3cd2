package server

import (
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/talon-worker/talon/qos"
)

// simTenants are those of the seeds that have some. The last may read nothing.
var simTenants = []string{"t0", "t1", "t2", "t3"}

// invite lets the clients be tenants with limits, queues and weights of all sizes, behind a rate for all of them or not.
func (s *sim) invite(cfg *Config) {
	var policies []qos.Policy
	for _, id := range simTenants {
		policies = append(policies, s.somePolicies(id, 1)...)
	}
	s.control = newControl(s.t, 1, policies...)
	cfg.Ledger, cfg.Tenants, cfg.AnonymousTenant = s.control.ledger, s.someTenants(), ""
	cfg.OpenFiles = 2 * cfg.MaxConnections // paced responses keep theirs open
	if s.rnd.IntN(2) == 0 {
		cfg.EgressRate = 5e6 + s.rnd.Int64N(50e6)
	}
}

// slowToRefuse lets a third of the seeds be slow to tell refusals, and hold few.
func (s *sim) slowToRefuse() {
	rnd := rand.New(rand.NewPCG(s.seed, 2))
	if rnd.IntN(3) > 0 {
		return
	}
	t := &s.loop.telling
	t.each = 1 + rnd.Int64N(20e6)
	t.strangers.telling = pace{each: t.each, full: s.now + refusalBurst*t.each}
	t.all = pace{each: 1 + rnd.Int64N(8e6), full: s.now + rnd.Int64N(300e6)}
	t.most, t.keep = 1+rnd.IntN(2), rnd.IntN(2)
}

// checkHeld holds the queues of those whose refusal is not told yet against the connections.
func (s *sim) checkHeld() {
	l := s.loop
	held := map[*seat]int{}
	for i := range l.conns {
		if c := &l.conns[i]; (c.holder != nil) != (c.state == stateHeld) {
			s.t.Errorf("seed %d: slot %d in state %d is held: %v", s.seed, i, c.state, c.holder != nil)
		} else if c.holder != nil {
			held[c.holder]++
		}
	}
	for _, x := range l.telling.seats {
		n, since := 0, int64(0)
		for slot := x.refused.first; slot != noSlot; slot = l.conns[slot].door.next {
			if c := &l.conns[slot]; c.holder != x || c.heldSince < since {
				s.t.Errorf("seed %d: slot %d stands in a queue that is not its own, or before one that came earlier", s.seed, slot)
			}
			n, since = n+1, l.conns[slot].heldSince
		}
		if n != x.refused.len || n != held[x] || !x.tells {
			s.t.Errorf("seed %d: a tenant holds %d refusals, %d by its count, %d by the connections", s.seed, n, x.refused.len, held[x])
		}
		delete(held, x)
	}
	if len(held) > 0 {
		s.t.Errorf("seed %d: %d tenants hold refusals and nobody will tell them", s.seed, len(held))
	}
}

func (s *sim) someTenants() *Tenants {
	var list []Tenant
	for i, id := range simTenants {
		t := Tenant{ID: id, Weight: 1 + s.rnd.IntN(5), Tokens: []Token{tokenOf(id)}}
		if i < len(simTenants)-1 {
			t.Allow = []string{"/o"}
		}
		if s.rnd.IntN(3) == 0 {
			t.QueueRequests, t.QueueBytes, t.MaxInflight, t.MaxConnections = 1+s.rnd.IntN(4), 1+s.rnd.Int64N(20_000), 1+s.rnd.IntN(5), 1+s.rnd.IntN(4)
		}
		if s.rnd.IntN(3) == 0 {
			t.QueueDeadline, t.QueueTarget = time.Duration(1+s.rnd.IntN(200))*time.Millisecond, time.Duration(1+s.rnd.IntN(50))*time.Millisecond
		}
		list = append(list, t)
	}
	return must(NewTenants(list))
}

// somePolicies are a tenant's limits: one that is met often, or none, and now and then in shadow, rejecting, banning, or too small for a response.
func (s *sim) somePolicies(id string, generation uint64) (all []qos.Policy) {
	for _, m := range []qos.Metric{qos.ReadIOPS, qos.ClientEgressBytes} {
		p := qos.Policy{Tenant: id, Metric: m, Generation: generation}
		if s.rnd.IntN(4) > 0 {
			p.Rate, p.Burst = 200+s.rnd.Int64N(2000), 1+s.rnd.Int64N(50)
			if m == qos.ClientEgressBytes {
				p.Rate, p.Burst = 1e6+s.rnd.Int64N(20e6), 1+s.rnd.Int64N(100_000)
			}
		}
		switch s.rnd.IntN(8) {
		case 0:
			p.Mode = qos.Shadow
		case 1:
			p.OnLimit = qos.Reject
		case 2:
			p.OnLimit, p.BanFor, p.BanMode = qos.Ban, time.Duration(1+s.rnd.IntN(1e9)), qos.BanMode(s.rnd.IntN(2))
			p.Rate = p.Rate/100 + min(p.Rate, 1) // it asks for that much more
		}
		all = append(all, p)
	}
	return all
}

// govern changes the table of tenants or their policies, or lets the limiter lose sight of things for a while.
func (s *sim) govern() {
	s.reloads++
	switch s.rnd.IntN(3) {
	case 0:
		if err := s.worker.setTenants(s.someTenants()); err != nil {
			s.t.Errorf("seed %d: %v", s.seed, err)
		}
	case 1:
		for _, p := range s.somePolicies(simTenants[s.rnd.IntN(len(simTenants))], 1+uint64(s.reloads)) {
			s.control.set(p, bootOffset+s.now)
		}
	case 2:
		s.control.frozen = !s.control.frozen
	}
}

// owe appends a request and what it must get. Where there are tenants, a client is another one with every request.
func (c *simClient) owe(method string, status int, body []byte, name string, lines ...string) {
	if c.s.control != nil && c.s.rnd.IntN(16) > 0 {
		lines = append(lines, bearer(simTenants[c.s.rnd.IntN(len(simTenants))]))
	}
	c.unsent = append(c.unsent, method...)
	c.unsent = append(c.unsent, strings.TrimPrefix(getRequest("/"+name, lines...), "GET")...)
	c.owed = append(c.owed, simRequest{method: method, status: status, body: body, tenant: c.s.control != nil})
}

// refusedProperly reports whether a response refuses a tenant and says why.
func refusedProperly(resp *http.Response) bool {
	switch resp.StatusCode {
	case 401:
		return resp.Header.Get("Www-Authenticate") != ""
	case 403:
		return true
	case 429, 503:
		return strings.HasPrefix(resp.Header.Get("Talon-Throttle"), "limit=") && resp.Header.Get("Retry-After") != ""
	}
	return false
}

// addTenants counts what the tenants that are in the table at the end have met.
func (y *simTally) addTenants(s *sim) {
	for _, a := range s.worker.accounts {
		if seat := a.seats[0]; seat != nil {
			y.tenants.add(&seat.stats)
		}
	}
}

// wantEveryDecision fails if a decision that the seeds are meant to meet was not met.
func (y *simTally) wantEveryDecision(t *testing.T) {
	n := &y.tenants
	for _, m := range []limit{limitReadIOPS, limitEgress} {
		if n.Went[m] == 0 || n.Denied[m] == 0 || n.Shadow[m] == 0 || n.Refused[m][whyExhausted] == 0 || n.Refused[m][whyStaleView] == 0 {
			t.Errorf("the seeds never had: some decision of %v: went %d, denied %d, shadow %d, refused %v", m, n.Went[m], n.Denied[m], n.Shadow[m], n.Refused[m])
		}
	}
	for _, m := range []limit{limitQueueRequests, limitQueueBytes, limitInflight, limitConnections} {
		if n.Refused[m][whyFull] == 0 {
			t.Errorf("the seeds never had: %v full", m)
		}
	}
	if n.Refused[limitWorker][whyDeadline] == 0 || n.Refunded == 0 || n.Uncounted == 0 {
		t.Errorf("the seeds never had: a deadline (%d), a refund (%d), a read_iops given back (%d)", n.Refused[limitWorker][whyDeadline], n.Refunded, n.Uncounted)
	}
}

// balance holds what the ledger says was charged against what the responses account for: nothing is charged that was not used, refunded twice, or forgotten.
func (s *sim) balance() {
	if s.control == nil {
		return
	}
	for _, st := range s.control.rep.Status(bootOffset+s.now, nil) {
		seat := s.worker.accounts[st.Key.Tenant].seats[0]
		if seat == nil {
			continue
		}
		n := &seat.stats
		want := int64(n.Charged)
		if st.Key.Metric == qos.ReadIOPS {
			want = int64(n.Went[limitReadIOPS] - n.Shadow[limitReadIOPS] - n.Uncounted)
		}
		if got := st.Total.Used() - st.Lapsed; got != want {
			s.t.Errorf("seed %d: %v: %d charged less what was given back (%d more came too late), the responses account for %d", s.seed, st.Key, got, st.Lapsed, want)
		}
		if seat.flows != 0 || seat.stowed != 0 || seat.door != emptyFifo || seat.refused != emptyFifo {
			s.t.Errorf("seed %d: %s: %d requests are here after the end, %d as bytes", s.seed, st.Key.Tenant, seat.flows, seat.stowed)
		}
	}
}
