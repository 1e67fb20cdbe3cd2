package qos

import "math"

// A meter is the state of one limit at its owner: the level, what of it is promised to whom, and who waits. All sums are kept as they
// change, so that a report takes the same steps with ten reporters and with ten thousand. The time is the same up to a thousand (160 ns of CPU, report and
// snapshot); with ten thousand it is 60 ns more, for what is fetched from afar: half of it by the look-up of the worker's id, the rest by the record.
// A record of fewer lines would not change that: they are fetched side by side, the look-up comes before them.
//
// What keeps the contract is one inequality. Ceilings are raised only while
//
//	level + rate*advance - reserved >= 0
//
// holds afterwards; so whatever workers do inside their ceilings, and however late they tell, the level that all of it leaves is at least
// -rate*advance, less what allowances and refunds let through: at most one local burst per worker.
type meter struct {
	limit     Limit
	cfg       *Config
	self      WorkerID
	policy    *Policy
	level     Level
	uncounted uint64 // use reported under generations up to this one is not charged: the limit was off

	owned   OwnerEpoch
	version *uint64 // of the owner's newest snapshot: one count for all its meters, so that a forgotten one does not begin again

	reporters map[WorkerID]*reporter // newest incarnation of each
	lines     [numLines]lineup
	reserved  int64 // sum of reporters' reservations and orphans; never negative
	orphans   int64 // reservations of incarnations that are gone, expired and unpaid; part of reserved
	stale     int64 // sum of the reservations of reporters that have expired; part of reserved
	shortfall int64 // sum of what those in line byTurn lack
	wants     int64 // sum of what active reporters want in hand

	used int64 // units of use applied
	debt int64 // deepest that the level has been below zero

	asked     wanted
	soft      bool
	softUntil int64 // listed as a violator until then
	banned    int64 // until then
	exhausted bool  // as last told
	toldAt    int64 // when the last change of exhausted was pushed

	at       int64 // when the owner has to look again
	heldBack int64 // when it last got some of the budget for pushes and wanted more; 0 none waits
	index    int   // in the owner's timeline
	id       uint64
	stats    *OwnerStats
}

// A reporter is one cell of one worker as its owner knows it.
//
// Reservation, the only promise that binds the owner, is the highest ceiling not named dead less the use known. Of the ceilings in the
// snapshots issued, two matter: the highest, and the newest if it is lower.
//
// It fills five cache lines, and the first is what its neighbours in the lines touch: with ten thousand reporters each of them is fetched from afar.
type reporter struct {
	links [numLines]links
	in    [numLines]bool

	expired bool // every snapshot of high is too old to be in force, and it is not named dead: nothing more is granted
	told    bool // the newest snapshot said exhausted
	gone    bool // a newer incarnation has taken its place

	id         ReporterID
	generation uint64 // of its newest report
	sequence   uint64
	stamp      int64 // newest, echoed
	heard      int64 // owner's time of the newest report
	total      Total
	lapsed     int64 // refunds that a full level did not take: given back by the worker, but spent all the same
	wanted     int64
	need       int64
	want       int64 // twice the demand: what it would like to have in hand; part of meter.wants while its lease lives

	reserved int64 // part of meter.reserved
	high     grant // highest ceiling not named dead
	low      grant // a lower ceiling that a later snapshot carried: what is left when high is named dead
	paid     int64 // with expired: what overflowing refill has paid of the reservation
	issued   Mark  // newest snapshot
	issuedAt int64
	lack     int64 // what it lacks, in the line byTurn
}

// A grant is a ceiling, in the owner's count, and the newest snapshot that carried it; unissued while none has.
type grant struct {
	ceiling int64
	mark    Mark
}

// unissued is the mark of a promise whose snapshot has yet to go: no report can name it dead.
func (m *meter) unissued() Mark { return Mark{Owner: m.owned, Version: math.MaxUint64} }

// known is the use of a reporter that the level has paid for.
func (r *reporter) known() int64 { return r.total.Used() + r.lapsed }

// viewLife is how long after a snapshot was issued it may be in force somewhere: the TTL, which counts from before that, on a clock that may
// run 2 % slower.
func (m *meter) viewLife() int64 { return int64(m.cfg.TTL) + int64(m.cfg.TTL)/50 }

// advance brings the meter to now: refill, refill without room, expired views, ended leases.
func (m *meter) advance(now int64) {
	m.pay(m.level.Advance(now))
	for r := m.lines[byView].head; r != nil && now-r.issuedAt >= m.viewLife(); r = m.lines[byView].head {
		m.lines[byView].drop(byView, r)
		m.expire(r)
	}
	for r := m.lines[byLease].head; r != nil && now-r.heard >= int64(m.cfg.Lease); r = m.lines[byLease].head {
		m.endLease(r)
		m.forget(r)
	}
}

// endLease makes a reporter one that is not active.
func (m *meter) endLease(r *reporter) {
	m.leaveTurn(r)
	m.lines[byLease].drop(byLease, r)
	m.wish(r, 0)
}

// wish notes what a reporter wants in hand.
func (m *meter) wish(r *reporter, want int64) {
	m.wants += want - r.want
	r.want = want
}

// expire handles a reporter whose newest snapshot is too old to be in force. What it holds stays reserved: it may have been used, and nobody has
// said so yet. Forgetting it here admits 18 times the bound when hot workers are cut off one after another.
func (m *meter) expire(r *reporter) {
	if r.reserved == 0 {
		m.forget(r)
		return
	}
	if r.gone {
		m.orphans += r.reserved
		r.reserved = 0
		return
	}
	if r.high.mark == m.unissued() { // what was never told, nobody can name dead; naming all that was told dead is enough
		r.high.mark = r.issued
	}
	if r.in[byTurn] { // a promise on top of it could never be named dead: told so, the worker names it, and asks again
		m.leaveTurn(r)
		m.lines[byPush].add(byPush, r)
	}
	r.expired = true
	m.stale += r.reserved
	m.lines[byExpiry].add(byExpiry, r)
}

// pay lets refill that found no room in the level pay for expired reservations: had their use been known, the level would have had room.
func (m *meter) pay(over int64) {
	if m.orphans == 0 && m.stale == 0 {
		m.level.spill = 0 // what found no room before there was something to pay for pays for nothing
		return
	}
	if over == 0 {
		return
	}
	n := min(over, m.orphans)
	m.orphans -= n
	m.reserved -= n
	over -= n
	for r := m.lines[byExpiry].head; r != nil && over > 0; r = m.lines[byExpiry].head {
		n := min(over, r.reserved)
		r.paid += n
		over -= n
		m.reserve(r)
		if r.reserved > 0 {
			return
		}
		m.bury(r, r.high.mark) // paid in full: the reporter starts afresh
		m.forget(r)
	}
}

// reserve brings a reporter's reservation up to date after a change of what it depends on.
func (m *meter) reserve(r *reporter) {
	n := max(r.high.ceiling-r.known(), r.low.ceiling-r.known(), 0)
	n = max(n-r.paid, 0)
	m.reserved += n - r.reserved
	if r.expired {
		m.stale += n - r.reserved
	}
	r.reserved = n
}

// free is what may be granted to r: at most what the level and the advance cover beyond what is promised, and not so much that all promises
// that may be spent yet pass local_burst for each reporter and one TTL of refill. What has expired cannot be spent any more: were it counted there,
// a few workers that were cut off with much in hand would leave nothing to those that live, whatever the level, until it is full.
func (m *meter) free(r *reporter) int64 {
	room := int64(m.lines[byLease].len)*min(m.policy.LocalBurst, MaxBurst>>15) + m.refillIn(int64(m.cfg.TTL))
	return min(m.level.Now()+m.advanceFor(r)-m.reserved, room-m.live())
}

// live is what is reserved under views that may be in force.
func (m *meter) live() int64 { return m.reserved - m.stale - m.orphans }

// advanceFor is how much of the refill to come may be granted. Where the only user is the owner's own worker there is no way for use to be
// late, and it gets none: bytes <= burst + rate*t.
func (m *meter) advanceFor(r *reporter) int64 {
	if m.lines[byLease].len <= 1 && r != nil && r.id.Worker == m.self {
		return 0
	}
	return m.refillIn(int64(m.cfg.Advance))
}

// refillIn is the refill in a span of ns.
func (m *meter) refillIn(span int64) int64 { return mulDiv(m.policy.Rate, span, perSecond) }

// active reports whether r's lease lives.
func (r *reporter) active() bool { return r.in[byLease] }

// forget drops a reporter of whom nothing is to be remembered: no lease, no reservation. Should it come back it starts from the base that it
// reports, which it has from this owner.
func (m *meter) forget(r *reporter) {
	if r.active() || r.reserved > 0 || r.in[byView] && r.high.ceiling > r.known() {
		return
	}
	for kind := range m.lines {
		m.lines[kind].drop(kind, r)
	}
	if m.reporters[r.id.Worker] == r {
		delete(m.reporters, r.id.Worker)
	}
}

// idle reports whether forgetting the meter forgets nothing: it starts again at no more than this level.
func (m *meter) idle() bool {
	return len(m.reporters) == 0 && m.reserved == 0 && m.level.Full() && m.lines[byView].len == 0
}

// replace retires the incarnation that a newer one follows. Its reservation stays: what it used and never told is under it.
func (m *meter) replace(r *reporter) {
	m.endLease(r)
	m.lines[byPush].drop(byPush, r)
	r.gone = true
	if r.reserved == 0 {
		m.lines[byView].drop(byView, r)
	}
	m.orphan(r)
	delete(m.reporters, r.id.Worker)
}

// orphan makes a reservation of a reporter that goes nobody's, unless the expiry of its view will: it had expired, or its snapshot never went. A copy
// of its last report must not find the promise again.
func (m *meter) orphan(r *reporter) {
	if r.reserved > 0 && !r.in[byView] {
		m.fresh(r)
		m.orphans += r.reserved
		r.reserved, r.high, r.low = 0, grant{}, grant{}
	}
}

// learn applies a report that has been found good. A late or doubled one changes nothing but the lease.
func (m *meter) learn(r *reporter, u *UsageReport, now int64) {
	r.heard = now
	m.lines[byLease].add(byLease, r)
	if u.Sequence < r.sequence {
		return
	}
	span := u.Stamp - r.stamp
	if r.sequence == 0 {
		span = int64(m.cfg.SyncMax)
	}
	m.bury(r, u.Dead)
	m.apply(r, u.Total, u.Key.Generation)
	m.asked.add(max(u.Wanted-r.wanted, 0), span, now)
	r.wanted = max(r.wanted, u.Wanted)
	r.sequence, r.generation = u.Sequence, max(r.generation, u.Key.Generation)
	r.need = min(u.Need, m.policy.Largest())
	m.wish(r, min(2*u.Demand, 2*MaxBurst/int64(m.cfg.MaxReporters)))
	r.stamp = max(r.stamp, u.Stamp)
}

// apply moves a reporter's totals and the level with them. Use is taken whatever is left; a refund that a full level has no room for
// lapses, and stays known as use, so that the worker's ceiling falls by it.
func (m *meter) apply(r *reporter, to Total, generation uint64) {
	to = Total{Charged: max(to.Charged, r.total.Charged), Refunded: max(to.Refunded, r.total.Refunded)}
	change := to.Used() - r.total.Used()
	r.total = to
	m.used += change
	switch {
	case !m.policy.Limits(), generation <= m.uncounted:
	case change > 0:
		m.level.Take(change)
		m.debt = max(m.debt, -m.level.Now())
	case change < 0:
		r.lapsed += -change - m.level.Give(-change)
	}
	m.reserve(r)
}

// bury frees the ceilings that the worker has named dead: it will not charge under them, so what is left of them is nobody's.
func (m *meter) bury(r *reporter, dead Mark) {
	if dead.Compare(r.high.mark) < 0 || r.high == (grant{}) {
		return
	}
	r.high, r.low = r.low, grant{}
	if dead.Compare(r.high.mark) >= 0 {
		r.high = grant{}
	}
	m.fresh(r)
	m.reserve(r)
}

// fresh ends that r has expired.
func (m *meter) fresh(r *reporter) {
	if r.expired {
		m.stale -= r.reserved
	}
	r.expired, r.paid = false, 0
	m.lines[byExpiry].drop(byExpiry, r)
}

// snapshot issues the next snapshot to r.
func (m *meter) snapshot(r *reporter, now int64) (s RateSnapshot) {
	*m.version++
	before := r.issued
	r.issued, r.issuedAt = m.newest(), now
	remaining := m.ceiling(r) - r.known()
	switch {
	case r.expired:
		remaining = 0
		r.low = grant{ceiling: r.known(), mark: r.issued}
	case r.low != (grant{}):
		if r.high.mark == m.unissued() { // nobody was told, so nobody can name it dead: naming all that was told before is enough
			r.high.mark = before
		}
		r.low = grant{ceiling: r.known() + remaining, mark: r.issued}
		m.lines[byView].add(byView, r)
	default:
		r.high = grant{ceiling: r.known() + remaining, mark: r.issued}
		m.lines[byView].add(byView, r)
	}
	m.lines[byPush].drop(byPush, r)
	r.told = m.out()
	s = RateSnapshot{
		Key: m.policy.Key(), To: r.id, Mark: r.issued,
		Acknowledged: r.total, AckSequence: r.sequence, Remaining: remaining, Stamp: r.stamp, ObservedAt: now,
		Exhausted: r.told, Queued: r.in[byTurn], Reporters: m.lines[byLease].len,
		Newest: m.policy.Generation, Level: m.level.Now(), Soft: m.soft,
		BanLeft: max(m.banned-now, 0),
	}
	if s.Queued || s.Exhausted {
		s.Turn = m.turn()
	}
	if r.generation < m.policy.Generation { // its numbers; what is left of its ceiling stays, and is not raised
		s.Key.Generation = r.generation
	}
	return s
}

// newest is the mark of the newest snapshot.
func (m *meter) newest() Mark { return Mark{Owner: m.owned, Version: *m.version} }

// out reports whether there is nothing left for anybody.
func (m *meter) out() bool {
	return m.policy.Limits() && (m.lines[byTurn].len > 0 || m.free(nil) <= 0)
}

// turn is about how many ns it takes until all that wait now have been served.
func (m *meter) turn() int64 {
	lack := m.shortfall - m.free(nil)
	if lack <= 0 {
		return 0
	}
	return mulDiv(lack, perSecond, m.policy.Rate)
}
