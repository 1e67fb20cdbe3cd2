package sim

import (
	"time"

	"github.com/talon-worker/talon/qos"
)

// checkAdmitted holds one charge against the contract and against what the worker was entitled to.
func (w *World) checkAdmitted(k *worker, u *use, n, local int64, why qos.Reason, held bool) {
	lim := w.limits[u.limit]
	if why == qos.ShadowDenied {
		return
	}
	if u.charged == 0 {
		lim.users++
	}
	u.charged += n
	lim.charged += n
	w.trace(uint64(u.limit)<<32|uint64(uint32(k.slot)), uint64(n))
	if why == qos.Unlimited {
		w.result.Branches[Unlimited]++
		if lim.valid {
			w.unknow(lim, u.limit)
		}
		u.known, u.free = -1, u.charged
		if u.generation == 0 && !held {
			w.fail("%s admits %d of %v without a policy", k.id, n, u.place)
		}
		return
	}
	w.checkContract(k, u, lim, n)
	if !held { // under a view from before the ring was stopped; what it may charge so is bounded in finish
		w.checkEntitled(k, u, n, local)
	}
	lim.ideal.take(w.now, n)
}

// checkContract is the bound of the contract, for every window that ends now.
func (w *World) checkContract(k *worker, u *use, lim *limit, n int64) {
	excess := lim.meter.Admit(w.now, n)
	if era := lim.meter.Era(); era != lim.era {
		lim.era, lim.active = era, 0
		lim.local, lim.top = lim.policy.LocalBurst, lim.policy.Rate
		if b := lim.before; b != nil {
			lim.local, lim.top = max(lim.local, b.LocalBurst), max(lim.top, b.Rate)
		}
	}
	if u.era != lim.era {
		u.era = lim.era
		lim.active++
	}
	if excess <= 0 { // something is always allowed: see allowed, where N and b are at least 1
		return
	}
	allowed := lim.allowed(&w.setup)
	if excess > allowed {
		w.fail("%v: excess %d, allowed N*b + R*d = %d*%d + %d*%v = %d (charge of %d on %s)",
			u.place, excess, lim.active, lim.local, lim.top, w.setup.Config.TTL, allowed, n, k.id)
	}
	lim.ratio = max(lim.ratio, float64(excess)/float64(allowed))
}

// checkEntitled holds a charge against the view: within the highest ceiling while a view can be fresh, else within the allowance.
func (w *World) checkEntitled(k *worker, u *use, n, local int64) {
	p := u.cell.View().Policy()
	if p == nil || u.generation == 0 {
		w.fail("%s admits %d of %v under no policy", k.id, n, u.place)
		return
	}
	if local < u.fresh && u.cell.Used() <= max(u.ceiling, u.ceilingBefore) {
		return
	}
	w.result.Branches[Allowance]++
	u.refillSpare(w, local)
	if u.spare -= float64(n); u.spare < -1 {
		w.fail("%s admits %d of %v: above every ceiling it was given (used %d, ceiling %d, fresh for %s), and past the allowance by %.0f",
			k.id, n, u.place, u.cell.Used(), u.ceiling, ms(u.fresh-local), -u.spare)
	}
}

// refillSpare is rule 9's allowance, told apart from the code under test: bootstrap at most, R / members.
func (u *use) refillSpare(w *World, local int64) {
	p := u.cell.View().Policy()
	if p == nil {
		p = u.last // removed: the allowance goes on at the rate that it had
	}
	if u.last = p; p == nil {
		return
	}
	cfg := &w.setup.Config
	top := min(cfg.BootstrapBytes, p.LocalBurst)
	if p.Metric.Requests() {
		top = min(cfg.BootstrapIops, p.LocalBurst)
	}
	if u.spareAt == 0 {
		u.spare, u.spareAt = float64(top), local
	}
	u.spare += float64(p.Rate) / float64(w.fewest) * time.Duration(max(local-u.spareAt, 0)).Seconds()
	u.spare = min(u.spare, float64(top))
	u.spareAt = max(local, u.spareAt)
}

// checkRefunded books what came back.
func (w *World) checkRefunded(u *use, n int64) {
	lim := w.limits[u.limit]
	u.refunded += n
	lim.refunded += n
	lim.meter.Admit(w.now, -n)
}

// checkReport holds what a worker reports against what was really charged: refused requests never are.
func (w *World) checkReport(k *worker, u *use, r *qos.UsageReport) {
	if r.Total.Charged != u.charged {
		w.fail("%s reports %d of %v as charged, admitted were %d", k.id, r.Total.Charged, u.place, u.charged)
	}
	if r.Total.Refunded > u.refunded {
		w.fail("%s reports %d of %v as given back, it was %d", k.id, r.Total.Refunded, u.place, u.refunded)
	}
}

// checkApplied holds the owner's level, just after a report, against the bucket of one who knows everything:
//
//	level - use that is not reported <= ideal level
//
// The ideal bucket is charged when it happens and gets refunds back when the owner does: what is given back while a bucket is full is lost, and
// which is full when is not the owner's to know. Whatever makes an owner forget use shows here at once, long before enough of it has gathered
// to break the contract.
func (w *World) checkApplied(k *worker, l *letter[qos.UsageReport], s *qos.RateSnapshot, local int64) {
	u := l.use
	i := u.limit
	lim := w.limits[i]
	k.since[i] = k.epochR
	if lim.mark != s.Mark.Owner {
		w.checkAlone(k, lim, i)
		w.changeHands(k, lim, i, s)
		lim.mark = s.Mark.Owner
	}
	u.counted = max(u.counted, s.Acknowledged.Charged)
	if u.known < 0 { // it counts from the base that the report names, as the owner does
		u.backKnown = s.Acknowledged.Refunded
	} else if back := s.Acknowledged.Refunded - u.backKnown; back > 0 {
		lim.ideal.take(w.now, -back)
		u.backKnown = s.Acknowledged.Refunded
	}
	u.know(lim, u.counted)
	u.usedKnown = s.Acknowledged.Used()
	w.promise(u)
	lim.level = s.Level
	if lim.wasOff { // what was used without a limit is charged or not by when it is reported: nothing to compare with
		return
	}
	if s.Acknowledged.Charged < u.free { // use that is not limited is not charged to the level when it is reported late
		u.known = -1
	}
	if !lim.valid {
		w.resync(lim, i, s.Level)
		return
	}
	lim.ideal.to(w.now)
	if lim.before == nil && lim.refunded == 0 && !w.untold(lim, i) { // a refund that found no room is spent for the owner, and nobody else knows of it
		w.checkPromised(k, lim, i, s)
	}
	if over := s.Level - (lim.charged - lim.known) - lim.ideal.level; over > 2+mul(lim.rate, 2, 1e9) { // clocks tell whole nanoseconds, at either end
		w.fail("%v: owner %s has level %d with %d units unreported, an ideal bucket has %d: %d too many",
			u.place, k.id, s.Level, lim.charged-lim.known, lim.ideal.level, over)
	}
}

// checkPromised holds what workers may still spend against what the owner has to pay for it with: the room under every ceiling in force is at
// most the level and the advance. Use through allowances takes from the level what was promised to others, and so does a stopped ring that holds an
// older view: at most a local burst for each worker. A promise that is forgotten shows here before anybody spends it.
//
// A ceiling is in force while the worker's view names it. The highest that was ever in force is not owed: the owner may have sent a lower one, and
// a worker whose view names that has nothing left above it.
//
// What is left is the owner's level, or what an ideal bucket has where that is more: use for which overflowing refill has paid, because nobody knew of
// it, takes from the level a second time when it is told after all. The promises were made before.
//
// The sum is kept as views change, and those that grow old stay in it: only when it passes what there is to pay with are they looked for.
func (w *World) checkPromised(k *worker, lim *limit, i int32, s *qos.RateSnapshot) {
	advance := mul(lim.policy.Rate, int64(w.setup.Config.Advance), 1e9) + 1
	left := max(s.Level, lim.ideal.level+lim.charged-lim.known)
	paid := max(left+advance, lim.demand.Need) + lim.users*lim.local
	if lim.promised <= paid && !w.thorough {
		return
	}
	promised, kept := int64(0), lim.promised
	for _, k := range w.workers {
		u := k.use(i)
		if u == nil || !k.alive {
			continue
		}
		if w.promise(u); !k.draining && u.charged > 0 && u.owner == s.Mark.Owner {
			promised += u.promised
		}
	}
	if promised > kept {
		w.fail("%v: workers may still spend %d, and the sum kept of it was %d", lim.name, promised, kept)
	}
	if promised > paid {
		w.fail("%v: workers may still spend %d under views in force, and owner %s has level %d, an ideal bucket would have %d before what is not told, %d of advance and %d users' bursts of %d",
			lim.name, promised, k.id, s.Level, left, advance, lim.users, lim.local)
	}
}

// promise brings the sum of what may be spent up to date after a change of a view, or of what is known to be used under it.
func (w *World) promise(u *use) {
	n := int64(0)
	if u.life.alive {
		if v := u.cell.View(); v.Fresh(w.workers[u.life.slot].clock.read(w.now)) {
			n = max(v.Ceiling()-u.usedKnown, 0)
		}
	}
	w.limits[u.limit].promised += n - u.promised
	u.promised = n
}

// checkAlone finds a second owner: whoever acted last must not be able to any more.
func (w *World) checkAlone(k *worker, lim *limit, i int32) {
	if lim.actor < 0 || lim.actor == k.life.n {
		return
	}
	old := w.lives[lim.actor]
	o := w.workers[old.slot]
	if !old.alive || o.life != old || o.paused {
		return
	}
	p := qos.PlaceOf(lim.policy.Limit())
	if o.tenure.MayAct(o.clock.read(w.now), p, o.since[i]) {
		w.fail("%v: %s acts as owner in ring %d, and %s in ring %d still may", lim.policy.Limit(), k.id, k.epochR, o.id, o.epochR)
	}
}

// changeHands takes note of another ownership. One that was handed the state knows what the last one knew; one that was not starts with nothing,
// and its level can be compared again once it has heard of everybody; it has at most what has been refilled since it learned of the ring.
func (w *World) changeHands(k *worker, lim *limit, i int32, s *qos.RateSnapshot) {
	level := s.Level
	if lim.actor >= 0 && (lim.handed != k.life.n || lim.handedIn != s.Mark.Owner.Ring) { // or it has lost what it was handed: it missed a ring since
		w.result.Branches[ColdStart]++
		if most := mul(lim.rate, w.now-k.learned, 1e9) + 1; level > most {
			w.fail("%v: new owner %s, who was handed nothing, begins with a level of %d: at most %d has been refilled since it learned of ring %d",
				lim.name, k.id, level, most, k.epochR)
		}
		w.unknow(lim, i)
	} else if lim.actor >= 0 {
		w.result.Branches[HandOver]++
	}
	lim.actor, lim.handed = k.life.n, -1
}

// unknow gives up the comparison until every living incarnation has been heard of again.
func (w *World) unknow(lim *limit, i int32) {
	lim.valid = false
	for _, l := range w.lives {
		if u := l.use(i); u != nil {
			u.known = -1
		}
	}
}

// know notes what has been counted of a use: by the owner that acts or by one before it, whose count an owner begins from. A report that an earlier
// owner has answered long ago and that comes to this one again, late, makes nothing unknown.
func (u *use) know(lim *limit, charged int64) {
	if u.known >= 0 {
		lim.known += charged - u.known
	}
	u.known = charged
}

// resync starts the comparison again when every living incarnation is known to the owner.
func (w *World) resync(lim *limit, i int32, level int64) {
	known := int64(0)
	lim.untold = false
	for _, l := range w.lives {
		u := l.use(i)
		if u == nil || u.charged == 0 {
			continue
		}
		if u.owed = 0; l.alive { // what a dead one has not told, the bucket is not charged with
			u.owed, lim.untold = u.charged, true
		}
		if u.known < 0 && l.alive {
			return
		}
		if u.known < 0 {
			u.known = u.charged // died unheard; its last reports may still come
		}
		known += u.known
	}
	lim.known, lim.valid = known, true
	lim.ideal = bucket{rate: lim.rate, burst: lim.burst, level: min(level-(lim.charged-known), lim.burst), at: w.now}
}

// untold reports whether something that was used before the comparison began has not been told yet. The ideal bucket began without it, but overflowing refill may
// have paid for it long ago, and then the owner's level falls for it once more when it is told: until then nothing says what promises were paid with.
func (w *World) untold(lim *limit, i int32) bool {
	if !lim.untold {
		return false
	}
	for _, l := range w.lives {
		if u := l.use(i); u != nil && u.counted < u.owed {
			return true
		}
	}
	lim.untold = false
	return false
}

// checkIssued takes note of a snapshot as it is sent.
func (w *World) checkIssued(k *worker, s *qos.RateSnapshot, local int64) {
	if s.Remaining < 0 {
		w.fail("%s: a snapshot of %v with %d remaining", k.id, s.Key, s.Remaining)
	}
	if s.Exhausted {
		w.result.Branches[Exhausted]++
	}
	if s.Queued {
		w.result.Branches[Queued]++
	}
}

// checkInForce takes note of a snapshot that a worker has put in force.
func (w *World) checkInForce(u *use, s *qos.RateSnapshot) {
	if u.owner != s.Mark.Owner { // a stopped ring may still hold a view of the ownership before
		u.owner, u.ceiling, u.ceilingBefore = s.Mark.Owner, 0, u.ceiling
	}
	if c := s.Ceiling(); c > u.ceiling {
		u.ceiling = c
	}
	u.fresh = max(u.fresh, s.Stamp+int64(w.setup.Config.TTL))
	if s.Key.Generation != u.generation {
		w.fail("%v: a view of generation %d in force, the worker knows %d", u.place, s.Key.Generation, u.generation)
	}
}
