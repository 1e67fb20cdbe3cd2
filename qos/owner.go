package qos

import (
	"errors"
	"fmt"
	"maps"
	"math"
)

// An Owner meters the limits that the ring gives to this worker: it takes usage reports and answers each with a snapshot, and says what
// must be pushed without being asked. One goroutine, or one simulated worker, drives it.
//
// It acts only while it is confirmed (Confirm), only for limits that its ring gives it, and for those that it has gained only after a
// hand-over (Import) or the wait that Settle ends. Voters decides both; an Owner that is not told so answers NotOwner.
type Owner struct {
	cfg   Config
	self  WorkerID
	epoch uint64 // of this worker

	ring    uint64
	owns    func(Limit) bool
	until   int64 // acts before this
	barred  bool  // Push could not act since the last Confirm
	settled int64 // limits gained in this ring start here, exhausted; never before Settle
	idleAt  int64 // until then it is in use though nothing is metered; see InUse

	limits  map[Limit]*owned
	recent  *owned // that find has found, of limit sought and still in limits
	sought  Limit
	agenda  timeline[*meter]
	leaving []*meter // of the last SetRing, to be exported
	lastID  uint64
	version uint64
	pushes  budget
	Stats   OwnerStats
}

// owned is what an Owner knows of a limit whether it meters it or not.
type owned struct {
	policy *Policy // nil after DropPolicy
	newest uint64  // its generation, kept over a drop
	since  int64   // when policy was set here
	begun  uint64  // ring in which a meter was last started: a hand-over for it comes too late
	meter  *meter  // nil while nobody uses it
	parts  []*HandOver
}

// OwnerStats counts what an Owner did.
type OwnerStats struct {
	Applied  uint64 // reports
	Late     uint64 // of them, older than what was known
	Pushed   uint64 // snapshots without a report
	HeldBack uint64 // pushes that waited for budget
	Granted  uint64 // units by which ceilings were raised
	Evicted  uint64 // idle meters forgotten
	Refused  [numRefusals]uint64
}

// NewOwner returns the owner's half of a worker, in no ring yet. epoch is the worker's.
func NewOwner(cfg Config, worker WorkerID, epoch uint64) (*Owner, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if worker == "" || epoch == 0 {
		return nil, errors.New("qos: an owner needs a worker id and an epoch of at least 1")
	}
	return &Owner{cfg: cfg, self: worker, epoch: epoch, until: never, settled: never, limits: map[Limit]*owned{}}, nil
}

// SetPolicy makes a policy version known. The meter of the limit goes on under the new numbers, its level cut to the new burst: a new
// generation is not a new bucket. A version that is not newer is refused.
func (o *Owner) SetPolicy(p *Policy, now int64) error {
	if err := p.Validate(); err != nil {
		return err
	}
	k := o.limits[p.Limit()]
	switch {
	case k == nil && len(o.limits) >= o.cfg.MaxLimits && !o.forgetDropped():
		return fmt.Errorf("%w: %d, raise it or remove tenants", ErrLimitsFull, len(o.limits))
	case k == nil:
		k = &owned{}
		o.limits[p.Limit()] = k
	case k.newest >= p.Generation:
		return fmt.Errorf("%w: %v, have generation %d", ErrOldPolicy, p.Key(), k.newest)
	}
	own := *p
	k.policy, k.newest, k.since = &own, p.Generation, now
	if k.meter != nil {
		k.meter.retune(&own, now)
		o.plan(k.meter, now)
	}
	return nil
}

// retune puts a meter under new numbers. What was not limited until now starts exhausted: nobody has counted what is left of it.
func (m *meter) retune(p *Policy, now int64) {
	limited := m.policy.Limits()
	if !limited {
		m.uncounted = m.policy.Generation
	}
	m.advance(now)
	m.policy = p
	m.level.Retune(p.Rate, p.Burst, now)
	if !limited && p.Limits() {
		m.level = NewLevel(p.Rate, p.Burst, 0, now)
	}
	for r := m.lines[byTurn].head; r != nil; r = m.lines[byTurn].head {
		m.leaveTurn(r) // they ask again under the new generation
		m.lines[byPush].add(byPush, r)
	}
	m.cut()
}

// cut lowers all ceilings, in proportion, to what the level and the advance cover, after a change that left less in the level than is promised. A worker that knows
// the new policy gets views of it: with what it was promised under a burst ten times as large it would pass the new one by the difference.
func (m *meter) cut() {
	cover := max(m.level.Now()+m.refillIn(int64(m.cfg.Advance)), 0)
	if !m.policy.Limits() || m.reserved <= cover {
		return
	}
	for _, r := range m.reporters { // any order: each by itself
		own := m.ceiling(r) - r.known()
		if goal := mulDiv(r.reserved, cover, m.reserved); !r.expired && goal < own {
			m.lower(r, goal)
		}
	}
}

// forgetDropped makes room of what is kept of dropped limits, and reports whether there was any.
func (o *Owner) forgetDropped() bool {
	had := len(o.limits)
	maps.DeleteFunc(o.limits, func(_ Limit, k *owned) bool { return k.policy == nil })
	o.recent = nil
	return len(o.limits) < had
}

// DropPolicy forgets a limit. Its reports are answered UnknownPolicy.
func (o *Owner) DropPolicy(l Limit) {
	if k := o.limits[l]; k != nil {
		o.retire(k)
		k.policy = nil
	}
}

// retire takes a limit's meter out of work.
func (o *Owner) retire(k *owned) {
	if k.meter != nil && k.meter.index >= 0 {
		o.agenda.remove(k.meter)
	}
	k.meter, k.parts = nil, nil
}

// SetRing changes the ring: owns says whether a limit is this worker's, before is the epoch of the ring that this one replaced. Meters of limits
// that were this worker's in that very ring and still are go on; those that have gone elsewhere wait for Export, if the owner acts at now. If the worker has
// missed a ring in between, another may have owned and counted any limit meanwhile: all meters are discarded.
func (o *Owner) SetRing(epoch, before uint64, owns func(Limit) bool, now int64) {
	if epoch <= o.ring {
		return
	}
	kept, acts := o.ring != 0 && before == o.ring, o.Acts(now)
	o.leaving = nil
	for _, m := range o.ordered() {
		k := o.limits[m.limit]
		switch {
		case !kept:
			o.retire(k)
		case !owns(m.limit):
			m.advance(now)
			o.retire(k)
			if acts { // else a later incarnation of this worker may have metered the limit since
				o.leaving = append(o.leaving, m)
			}
		}
	}
	for _, k := range o.limits { // any order: each by itself
		k.parts = nil
	}
	o.ring, o.owns, o.settled, o.until, o.barred, o.idleAt = epoch, owns, never, never, false, never
}

// ordered returns the meters by the order in which they were made.
func (o *Owner) ordered() []*meter {
	all := append([]*meter(nil), o.agenda.items...)
	sortMeters(all)
	return all
}

// Confirm says that a majority of the ring's voters has confirmed this ring: the owner may act before until.
func (o *Owner) Confirm(until int64) {
	if until > o.until {
		o.until, o.barred = until, false
	}
}

// Settle says that no owner of an earlier ring can act any more: limits gained without a hand-over start now, exhausted.
func (o *Owner) Settle(now int64) {
	if o.settled == never {
		o.settled = now
	}
}

// Acts reports whether the owner may act at now.
func (o *Owner) Acts(now int64) bool { return o.ring != 0 && now < o.until }

// InUse reports whether the owner needs its confirmation: it meters a limit, or has forgotten one lately, or was asked to by a report that it had to refuse. An owner
// that is not in use may fall silent towards the voters. (By what the ring gives it alone, nearly every worker would have to ask all the
// time where there are more tenants than workers.)
func (o *Owner) InUse(now int64) bool { return o.agenda.len() > 0 || now < o.idleAt }

// use keeps the owner in use for 4 F: a tenant that comes a little less often than its meter lives does not find a silent owner each time.
func (o *Owner) use(now int64) { o.idleAt = now + 4*int64(o.cfg.Confirm) }

// Apply takes a report and answers it. The snapshot is valid only with Accepted; any other refusal has changed nothing.
func (o *Owner) Apply(u *UsageReport, now int64) (s RateSnapshot, why Refusal) {
	m, why := o.meterFor(u, now)
	if why != Accepted {
		return o.refuse(why)
	}
	m.advance(now) // first: it may forget the reporter
	r, why := m.reporterFor(u)
	if why != Accepted {
		return o.refuse(why)
	}
	if r == nil {
		if r, why = m.enroll(u); why != Accepted {
			return o.refuse(why)
		}
	}
	o.Stats.Applied++
	again := u.Sequence < r.sequence || u.Sequence == r.sequence && u.Stamp <= r.stamp // overtaken, or a copy: it changes nothing
	m.learn(r, u, now)
	if again {
		o.Stats.Late++
	} else {
		m.keepTurn(r)
		m.divide(r, now)
	}
	m.judge(now)
	s = m.snapshot(r, now)
	s.RingEpoch = o.ring
	if u.Final {
		m.leave(r)
	}
	o.plan(m, now)
	return s, Accepted
}

func (o *Owner) refuse(why Refusal) (RateSnapshot, Refusal) {
	o.Stats.Refused[why]++
	return RateSnapshot{}, why
}

// Redirect is the answer to a report that Apply refused.
func (o *Owner) Redirect(u *UsageReport, why Refusal) Redirect {
	d := Redirect{Key: u.Key, To: u.From, Sequence: u.Sequence, RingEpoch: o.ring, Reason: why}
	if k := o.limits[u.Key.Limit()]; k != nil {
		d.Newest = k.newest
	}
	return d
}

// meterFor finds the meter of a report, and makes one where nobody has used the limit since it became this worker's.
func (o *Owner) meterFor(u *UsageReport, now int64) (*meter, Refusal) {
	if !u.sound() {
		return nil, BadReport
	}
	if u.RingEpoch != o.ring {
		return nil, OtherRing
	}
	k := o.find(u.Key.Limit())
	if !o.Acts(now) {
		if k != nil && k.policy != nil && !o.InUse(now) && o.ring != 0 && o.owns(u.Key.Limit()) {
			o.use(now)
		}
		return nil, NotOwner
	}
	if k == nil || k.policy == nil || k.policy.Generation < u.Key.Generation {
		if !o.owns(u.Key.Limit()) {
			return nil, NotOwner
		}
		return nil, UnknownPolicy
	}
	if k.meter != nil {
		return k.meter, Accepted
	}
	if o.settled == never || !o.owns(u.Key.Limit()) {
		return nil, NotOwner
	}
	// Empty when the ring settled, or when the policy came, and refilled since: as if it had been metered all the time and nobody had used it. Never
	// a full bucket out of nothing. Empty means less one advance: the owner before may have granted its own until just then, and views of it live on.
	return o.start(k, max(o.settled, k.since), OwnerEpoch{Ring: o.ring, Worker: o.epoch}), Accepted
}

// find returns what is known of a limit or nil. It remembers the last: a limit that is hot on many workers is reported in runs.
func (o *Owner) find(l Limit) *owned {
	if o.recent == nil || o.sought != l {
		o.recent, o.sought = o.limits[l], l
	}
	return o.recent
}

// start makes the meter of a limit, empty at since.
func (o *Owner) start(k *owned, since int64, epoch OwnerEpoch) *meter {
	o.lastID++
	m := &meter{
		limit: k.policy.Limit(), cfg: &o.cfg, self: o.self, policy: k.policy, owned: epoch,
		level: NewLevel(k.policy.Rate, k.policy.Burst, -mulDiv(k.policy.Rate, int64(o.cfg.Advance), perSecond), since), reporters: map[WorkerID]*reporter{},
		version: &o.version, at: math.MaxInt64, index: -1, id: o.lastID, stats: &o.Stats, toldAt: never,
	}
	k.meter, k.parts, k.begun = m, nil, o.ring
	o.agenda.push(m)
	return m
}

// sound reports whether a report can come from a sound worker: whatever is checked here needs no state.
func (u *UsageReport) sound() bool {
	iops, bytes := u.Total.Used()-u.Base.Used(), int64(0)
	if !u.Key.Metric.Requests() {
		iops, bytes = bytes, iops
	}
	return u.Key.Metric.Valid() && u.Key.Tenant != "" && u.Key.Generation > 0 && u.From.Worker != "" && u.From.Epoch > 0 && u.Sequence > 0 &&
		u.Total.sound() && u.Base.sound() && u.Base.Charged <= u.Total.Charged && u.Base.Refunded <= u.Total.Refunded &&
		u.Wanted >= u.Total.Charged && u.Wanted <= MaxBurst && u.Need >= 0 && u.Demand >= 0 && u.Demand <= MaxBurst &&
		u.IopsDelta == iops && u.ByteDelta == bytes
}

// sound reports whether a total is one: nothing negative, nothing that sums could overflow on, no more back than out.
func (t Total) sound() bool {
	return t.Refunded >= 0 && t.Refunded <= t.Charged && t.Charged <= MaxBurst
}

// reporterFor finds the reporter of a report, nil if it is new, and refuses what contradicts what is known. It changes nothing.
func (m *meter) reporterFor(u *UsageReport) (*reporter, Refusal) {
	if newest := m.newest(); u.Dead.Compare(newest) > 0 || u.InForce.Compare(newest) > 0 {
		return nil, UnknownVersion
	}
	r := m.reporters[u.From.Worker]
	switch {
	case r == nil, u.From.Epoch > r.id.Epoch, u.From.Epoch == r.id.Epoch && u.From.Cell > r.id.Cell:
		return nil, Accepted
	case u.From != r.id:
		return nil, OldEpoch
	case u.Sequence == r.sequence && (u.Total != r.total || u.Wanted != r.wanted),
		u.Sequence > r.sequence && (u.Total.Charged < r.total.Charged || u.Total.Refunded < r.total.Refunded || u.Wanted < r.wanted),
		u.Sequence < r.sequence && (u.Total.Charged > r.total.Charged || u.Total.Refunded > r.total.Refunded || u.Wanted > r.wanted):
		return nil, Contradiction
	}
	return r, Accepted
}

// enroll takes in a new reporter. It starts from its base: what it has used before that, an owner has counted, and this one starts no fuller for it.
//
// It may be one that was forgotten, and whose base is older than what was known of it: the answer to its last report was lost. What it has used since
// its base counts twice then, and what it has given back must not: that lapses, as far as there was use to give back from.
func (m *meter) enroll(u *UsageReport) (*reporter, Refusal) {
	if len(m.reporters) >= m.cfg.MaxReporters {
		return nil, TableFull
	}
	if old := m.reporters[u.From.Worker]; old != nil {
		m.replace(old)
	}
	r := &reporter{id: u.From, total: u.Base, wanted: u.Wanted - (u.Total.Charged - u.Base.Charged)}
	r.lapsed = min(u.Total.Refunded-u.Base.Refunded, u.Base.Used())
	r.total.Refunded += r.lapsed
	m.reporters[u.From.Worker] = r
	return r, Accepted
}

// leave lets a reporter that has said goodbye go: nothing is granted to it or kept for it. It is forgotten with its lease: were it forgotten at once,
// the copy or the retry of its last report would be applied again from its base.
func (m *meter) leave(r *reporter) {
	m.leaveTurn(r)
	m.lines[byPush].drop(byPush, r)
	if r.reserved == 0 {
		m.lines[byView].drop(byView, r)
	}
	m.orphan(r)
}

// judge decides by the last second's wanted use whether the tenant is over its soft rate, and whether it is banned.
func (m *meter) judge(now int64) {
	p := m.policy
	asked := m.asked.last(now)
	if p.SoftRate > 0 && asked > p.SoftRate {
		m.softUntil = now + perSecond
	}
	m.soft = p.SoftRate > 0 && now < m.softUntil
	if p.OnLimit == Ban && p.Limits() && asked > p.Rate && now >= m.banned {
		m.banned = now + int64(p.BanFor)
		for r := m.lines[byLease].head; r != nil; r = r.links[byLease].next {
			m.lines[byPush].add(byPush, r)
		}
	}
}
