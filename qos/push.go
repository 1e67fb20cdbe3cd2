package qos

import (
	"cmp"
	"math"
	"slices"
)

// Push appends the snapshots that cannot wait to be asked for: turns that have come, the crossing into exhaustion and out of it, bans. Call
// it after a batch of reports, and when NextPush says so.
func (o *Owner) Push(now int64, out []RateSnapshot) []RateSnapshot {
	if o.barred = !o.Acts(now); o.barred {
		return out
	}
	for o.agenda.len() > 0 && o.agenda.first().at <= now {
		m := o.agenda.first()
		m.tick(now)
		var left bool
		before := len(out)
		out, left = o.drain(m, now, out)
		if o.evict(m, now) {
			continue
		}
		switch m.at = m.next(now); {
		case !left:
			m.heldBack = 0
		case len(out) > before || m.heldBack == 0:
			m.heldBack = now
			fallthrough
		default:
			m.at = o.pushes.until
		}
		o.agenda.fix(m)
	}
	return out
}

// NextPush returns when Push has something to do: math.MaxInt64 when nothing is metered, or the owner may not act until it is confirmed.
func (o *Owner) NextPush() int64 {
	if o.agenda.len() == 0 || o.barred {
		return math.MaxInt64
	}
	return o.agenda.first().at
}

// tick brings a meter to now without a report.
func (m *meter) tick(now int64) {
	m.advance(now)
	m.serve(now)
	m.judge(now)
	m.cross(now)
}

// drain pushes to those in line for it, as far as the budget goes.
func (o *Owner) drain(m *meter, now int64, out []RateSnapshot) (_ []RateSnapshot, left bool) {
	for r := m.lines[byPush].head; r != nil; r = m.lines[byPush].head {
		if !o.spend(now) {
			o.Stats.HeldBack++
			return out, true
		}
		s := m.snapshot(r, now)
		s.RingEpoch = o.ring
		out = append(out, s)
		o.Stats.Pushed++
	}
	return out, false
}

// spend takes one push from the budget.
func (o *Owner) spend(now int64) bool {
	b := &o.pushes
	if now >= b.until {
		b.until, b.left = now+int64(o.cfg.SyncMin), o.cfg.Budget
	}
	if b.left == 0 {
		return false
	}
	b.left--
	return true
}

// cross notices that the limit has run out, or has enough again, and lines up those who can act upon it: whoever may have a view in force that says
// otherwise. It is told at most once per SyncMax: a level that trembles around nothing must not make a storm.
func (m *meter) cross(now int64) {
	out := m.out() || m.exhausted && m.policy.Limits() && m.free(nil) < m.enough()
	if out == m.exhausted || m.toldAt != never && now-m.toldAt < int64(m.cfg.SyncMax) {
		return
	}
	m.exhausted, m.toldAt = out, now
	for r := m.lines[byView].head; r != nil; r = r.links[byView].next {
		if r.told != out && !r.gone && r.active() {
			m.lines[byPush].add(byPush, r)
		}
	}
}

// enough is how much must be free for the limit to count as not exhausted again.
func (m *meter) enough() int64 {
	return max((m.policy.Burst+m.refillIn(int64(m.cfg.Advance)))/16, 1)
}

// next returns when the meter has to be looked at again if no report comes.
func (m *meter) next(now int64) int64 {
	at := int64(math.MaxInt64)
	if m.lines[byPush].len > 0 {
		return now
	}
	if r := m.lines[byTurn].head; r != nil {
		at = min(at, m.nextTurn(r))
	}
	if r := m.lines[byLease].head; r != nil {
		at = min(at, r.heard+int64(m.cfg.Lease))
	}
	if r := m.lines[byView].head; r != nil {
		at = min(at, r.issuedAt+m.viewLife())
	}
	if m.exhausted && m.lines[byTurn].len == 0 {
		back := m.level.Until(min(m.enough()+m.reserved-m.refillIn(int64(m.cfg.Advance)), m.level.burst))
		at = min(at, max(back, now+int64(m.cfg.SyncMax)))
	}
	if at == math.MaxInt64 { // nobody is left: look again when there is nothing left to remember
		at = max(m.level.Until(m.level.burst), now+int64(m.cfg.Lease))
	}
	return at
}

// plan sets the owner's next look at a meter after a report: later, too, or the owner would look at every limit in use once in each TTL for nothing.
func (o *Owner) plan(m *meter, now int64) {
	m.cross(now)
	at := m.next(now)
	if at != m.at {
		m.at = at
		o.agenda.fix(m)
	}
}

// evict forgets a meter of which there is nothing to remember. It starts again at most as full as it was, so that eviction never grants.
func (o *Owner) evict(m *meter, now int64) bool {
	if !m.idle() {
		return false
	}
	o.retire(o.limits[m.limit])
	o.use(now)
	o.Stats.Evicted++
	return true
}

func sortMeters(all []*meter) {
	slices.SortFunc(all, func(a, b *meter) int { return cmp.Compare(a.id, b.id) })
}

// A meter stands in the owner's timeline by when to look at it; of those whose pushes wait for budget the one that was served longest ago comes first.
// By id alone, one limit with many reporters would take all of it.
func (m *meter) order() (int64, uint64) {
	if m.heldBack > 0 {
		return m.at, uint64(m.heldBack)
	}
	return m.at, 1<<63 | m.id
}
func (m *meter) place() *int { return &m.index }
