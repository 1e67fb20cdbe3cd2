package server

import (
	"testing"

	"github.com/talon-worker/talon/qos"
)

// bootOffset is how far CLOCK_BOOTTIME is ahead in fake time: whoever mixes the clocks up is found out.
const bootOffset = 1_000_000e9

// control is a limiter's control loop of a worker that owns all its limits itself.
type control struct {
	t      testing.TB
	ledger *qos.Ledger
	owner  *qos.Owner
	rep    *qos.Reporter
	news   func() // views have changed
	frozen bool   // it does nothing: views grow stale
	out    []qos.Addressed
	push   []qos.RateSnapshot
}

// newControl has a ledger for rings rings, with policies; each limit's bucket is full.
func newControl(t testing.TB, rings int, policies ...qos.Policy) *control {
	t.Helper()
	return newControlOf(t, qos.DefaultConfig(), rings, policies...)
}

func newControlOf(t testing.TB, cfg qos.Config, rings int, policies ...qos.Policy) *control {
	t.Helper()
	c := &control{t: t, news: func() {}}
	c.ledger = must(qos.NewLedger(cfg, rings))
	c.owner = must(qos.NewOwner(cfg, "w", 1))
	c.rep = must(qos.NewReporter(cfg, c.ledger, "w", 1, 1))
	c.owner.SetRing(1, 0, func(qos.Limit) bool { return true }, 0)
	c.owner.Confirm(1 << 62)
	c.owner.Settle(0)
	c.rep.SetRing(1, 1, func(qos.Limit) qos.WorkerID { return "w" }, 0)
	for _, p := range policies {
		c.set(p, 0)
	}
	return c
}

// set puts a policy in force.
func (c *control) set(p qos.Policy, now int64) {
	c.t.Helper()
	if p.Generation == 0 {
		p.Generation = 1
	}
	if p.Rate == 0 { // counted, not limited
		p.Rate, p.Burst, p.LocalBurst = 1, 1, 1
	} else {
		p.Enabled = true
	}
	if p.LocalBurst == 0 {
		p.LocalBurst = max(p.Burst/4, 1)
	}
	for _, err := range []error{c.owner.SetPolicy(&p, now), c.ledger.SetPolicy(&p, now)} {
		if err != nil {
			c.t.Fatal(err)
		}
	}
}

// step is one turn of the control loop, if it has anything to do.
func (c *control) step(mono int64) {
	if c == nil || c.frozen {
		return
	}
	now := bootOffset + mono
	if !c.rep.Urgent() && now < min(c.rep.Next(), c.owner.NextPush()) {
		return
	}
	applied := false
	c.out = c.rep.Poll(now, c.out[:0])
	for i := range c.out {
		if s, why := c.owner.Apply(&c.out[i].Report, now); why == qos.Accepted {
			applied = c.rep.Apply(&s, now) == qos.InForce || applied
		}
	}
	c.push = c.owner.Push(now, c.push[:0])
	for i := range c.push {
		applied = c.rep.Apply(&c.push[i], now) == qos.InForce || applied
	}
	if applied {
		c.news()
	}
}

// used is what a limit has been charged, less what came back.
func (c *control) used(tenant string, m qos.Metric) int64 {
	return c.ledger.Cell(qos.Limit{Tenant: tenant, Metric: m}).Used()
}

// limited is the policies of a tenant with a limit of one metric and none of the other. A rate of 0 is no limit.
func limited(tenant string, reads, readBurst, egress, egressBurst int64) []qos.Policy {
	return []qos.Policy{
		{Tenant: tenant, Metric: qos.ReadIOPS, Rate: reads, Burst: readBurst},
		{Tenant: tenant, Metric: qos.ClientEgressBytes, Rate: egress, Burst: egressBurst},
	}
}
