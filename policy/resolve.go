package policy

import (
	"time"

	"github.com/talon-worker/talon/qos"
)

// resolve gives every tenant what it inherits, and checks what only shows when all is together.
func (p *parser) resolve() *Set {
	s := &Set{RingEpoch: uint64(p.epoch), Peers: p.peers}
	if len(p.tenants) == 0 && !p.unknown && len(p.found) == 0 {
		p.wrong(1, "no tenants: every request would be answered 401; name at least one")
	}
	if len(p.peers) > 0 && p.epochAt == 0 {
		p.wrong(p.peersAt, "peers without a ring_epoch: write  ring_epoch: 1  and raise it with every change of the peers")
	}
	tenants, tokens := map[string]int{}, map[string]bool{}
	for i := range p.tenants {
		e := &p.tenants[i]
		if first, again := tenants[e.id]; again && e.id != "" {
			p.wrong(e.line, "tenant %.64s is there twice, first in line %d", e.id, first)
		} else {
			tenants[e.id] = e.line
		}
		for _, t := range e.tokens {
			if tokens[t.ID] && t.ID != "" {
				p.wrong(e.line, "tenant %.64s: token id %.64s is there twice; a token is one tenant's", e.id, t.ID)
			}
			tokens[t.ID] = true
		}
		s.Tenants = append(s.Tenants, p.inherit(e))
	}
	return s
}

// inherit is a tenant whole: its own fields, else those of its class, else the defaults.
func (p *parser) inherit(e *entry) Tenant {
	from := []*level{&e.level}
	if class := p.classes[e.class]; class != nil {
		from = append(from, class)
	} else if e.class != "" {
		p.wrong(e.classAt, "class %.64q: there is no such class in this file", e.class)
	}
	from = append(from, &p.defaults)
	number := func(path string) int64 { v, _ := written(from, path); return v.n }
	t := Tenant{
		ID: e.id, Class: e.class, Tokens: e.tokens,
		Weight: int(number("weight")), Dialect: Dialect(number("dialect")),
		Queue: Queue{
			Requests: int(number("queue.requests")), Bytes: number("queue.bytes"),
			Deadline: time.Duration(number("queue.deadline")), Target: time.Duration(number("queue.target")),
		},
		MaxInflight: int(number("max_inflight")), MaxConnections: int(number("max_connections")),
	}
	if allow, ok := written(from, "allow"); ok {
		t.Allow = allow.list
	}
	if target, ok := written(from, "queue.target"); ok && t.Queue.Deadline > 0 && t.Queue.Target >= t.Queue.Deadline {
		p.wrong(target.line, "target %v is not under the deadline, %v: no request would wait long enough to be judged", t.Queue.Target, t.Queue.Deadline)
	}
	for _, m := range qos.Metrics {
		if l, ok := p.limit(e, m, from); ok {
			t.Limits = append(t.Limits, l)
		}
	}
	return t
}

// written is a field's value at the nearest level that writes it.
func written(from []*level, path string) (value, bool) {
	for _, l := range from {
		if v, ok := l.values[path]; ok {
			return v, true
		}
	}
	return value{}, false
}

// limit puts one limit together; ok is false where no level names it, or it is wrong.
func (p *parser) limit(e *entry, m qos.Metric, from []*level) (l qos.Policy, ok bool) {
	line, own := 0, false
	for i, level := range from {
		if line = level.limits[m]; line > 0 {
			own = i == 0
			break
		}
	}
	if line == 0 {
		return l, false
	}
	whose := "" // said only where the line is the tenant's: a fault of the defaults is one, not one of each tenant
	if own && e.id != "" {
		whose = "tenant " + e.id + ": "
	}
	good := true
	need := func(name string) int64 {
		v, ok := written(from, "limits."+m.String()+"."+name)
		if !ok && !p.unknown {
			p.wrong(line, "%s%v has no %s, here or in what it inherits from", whose, m, name)
		}
		good = good && ok && !v.bad
		return v.n
	}
	may := func(name string, unset int64) int64 {
		v, ok := written(from, "limits."+m.String()+"."+name)
		good = good && !v.bad
		if !ok {
			return unset
		}
		return v.n
	}
	l = qos.Policy{
		Tenant: e.id, Metric: m, Rate: need("rate"), Burst: need("burst"), LocalBurst: need("local_burst"),
		SoftRate: may("soft_rate", 0), Enabled: may("enabled", 1) == 1,
		Mode: qos.Mode(may("mode", 0)), OnLimit: qos.OnLimit(may("on_limit", 0)),
	}
	if l.OnLimit == qos.Ban {
		l.BanFor, l.BanMode = time.Duration(need("ban.for")), qos.BanMode(may("ban.mode", 0))
	}
	if good && l.LocalBurst > l.Burst {
		p.wrong(line, "%s%v: local_burst %s is more than the burst, %s", whose, m, amount(m, l.LocalBurst), amount(m, l.Burst))
		good = false
	}
	return l, good
}
