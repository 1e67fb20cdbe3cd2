package sim

import (
	"slices"

	"github.com/talon-worker/talon/qos"
)

// A coordinator stores policies and proposes rings. It is reliable; what reaches whom, and when, is not. It never shows a worker id anything
// older than it has shown that id before: a worker keeps a copy on disk.
type coordinator struct {
	down     bool
	epochs   uint64 // worker epochs handed out
	rings    []*qos.Ring
	owners   [][]int32      // for each ring and limit, the index of the owner's id
	policies [][]qos.Policy // for each limit, its versions; Generation 0 is a removal
}

func (c *coordinator) nextEpoch() uint64 { c.epochs++; return c.epochs }

func (c *coordinator) init(w *World, s Setup) error {
	for i := range s.Limits {
		c.policies = append(c.policies, []qos.Policy{s.Limits[i].Policy})
	}
	members := s.Members
	if members == nil {
		members = w.allIndexes()
	}
	w.fewest = len(members)
	return w.addRing(1, members, nil)
}

func (w *World) allIndexes() []int {
	all := make([]int, len(w.ids))
	for i := range all {
		all[i] = i
	}
	return all
}

func (w *World) addRing(epoch uint64, members []int, replaces []qos.Voting) error {
	ids := make([]qos.WorkerID, len(members))
	for i, m := range members {
		ids[i] = w.ids[m]
	}
	r, err := qos.NewRing(epoch, ids, replaces...)
	if err != nil {
		return err
	}
	owners := make([]int32, len(w.limits))
	for i, l := range w.limits {
		owners[i] = w.index[r.Members()[r.Owner(qos.PlaceOf(l.policy.Limit()))]]
	}
	w.coord.rings, w.coord.owners = append(w.coord.rings, r), append(w.coord.owners, owners)
	w.fewest = min(w.fewest, len(members))
	return nil
}

// propose makes the next ring. One that would replace too many unsettled ones is not proposed: the coordinator waits.
func (w *World) propose(members []int) bool {
	last := w.coord.rings[len(w.coord.rings)-1]
	settled := len(w.coord.rings) == 1 || slices.ContainsFunc(w.workers, func(k *worker) bool {
		return k.alive && k.tenure.Ring() == last && k.tenure.Open(k.clock.read(w.now))
	})
	if len(members) == 0 || w.addRing(last.Epoch()+1, members, last.Replaced(settled)) != nil {
		return false
	}
	w.tellAll()
	return true
}

// tellAll lets every worker read the coordinator soon, each at its own time.
func (w *World) tellAll() {
	for _, k := range w.workers {
		if k.alive && !k.gone {
			at := w.now + 1 + w.rnd.Int64N(max(w.setup.Spread, 1))
			w.queue.push(at, aRead, k.whoever(), 0)
		}
	}
}

// read lets a worker take in what the coordinator, or its own copy of it, has.
func (w *World) read(k *worker) {
	if !w.coord.down && !k.cutOff {
		k.shownR = len(w.coord.rings) - 1
		for i := range k.shown {
			k.shown[i] = len(w.coord.policies[i]) - 1
		}
	}
	local := k.clock.read(w.now)
	owners := w.coord.owners[k.shownR]
	for i, v := range k.shown {
		if v > k.version[i] && (!w.setup.Sparse || owners[i] == k.index || k.use(int32(i)) != nil) {
			w.learnPolicy(k, int32(i), v, local)
		}
	}
	w.settlePolicies()
	w.learnRing(k, local)
	w.control(k)
}

// learnPolicy takes in one version of one policy, as a user and as an owner of the limit.
func (w *World) learnPolicy(k *worker, i int32, version int, local int64) {
	k.version[i] = version
	p := &w.coord.policies[i][version]
	u := k.use(i)
	if u != nil {
		u.refillSpare(w, local)
	}
	if p.Generation == 0 {
		w.result.Branches[Dropped]++
		k.ledger.DropPolicy(w.limits[i].name, local)
		k.owner.DropPolicy(w.limits[i].name)
		if u != nil {
			u.generation, u.fresh = 0, 0
		}
		return
	}
	if err := k.ledger.SetPolicy(p, local); err != nil {
		w.fail("%s: %v", k.id, err)
	}
	if err := k.owner.SetPolicy(p, local); err != nil {
		w.fail("%s: %v", k.id, err)
	}
	if u != nil {
		if c := k.ledger.Cell(p.Limit()); c != u.cell {
			u = w.remade(k, u, c)
		}
		u.generation, u.fresh = p.Generation, 0
	}
}

// remade gives a worker the use of a cell that was made anew: it counts from zero, under a name of its own. What was used of the old one counts
// like the use of an incarnation that has died.
func (w *World) remade(k *worker, old *use, c *qos.Cell) *use {
	u := old
	if old.charged > 0 {
		fresh := *old
		fresh.tally = tally{known: w.limits[old.limit].unknown(), spare: old.spare, spareAt: old.spareAt}
		u = &fresh
		k.life.replace(old, u)
		old.life = &life{n: int32(len(w.lives)), slot: k.slot, uses: []*use{old}}
		w.lives = append(w.lives, old.life)
		w.promise(old) // nothing any more
	}
	for r := range u.lanes {
		if u.lanes[r].view != nil {
			u.lanes[r].view = c.View()
		}
		u.lanes[r].told = 0
	}
	u.cell = c
	return u
}

// learnRing takes in the newest ring shown, and hands over what has moved away.
func (w *World) learnRing(k *worker, local int64) {
	r := w.coord.rings[k.shownR]
	if r.Epoch() <= k.epochR {
		return
	}
	k.voter.Learn(r.Epoch())
	w.mayAct(k, local) // for the last time under the old ring: what it may hand over depends on it
	k.tenure.Learn(r)
	k.epochR, k.learned = r.Epoch(), w.now
	owners := w.coord.owners[k.shownR]
	k.member, k.chases = r.Index(k.id) >= 0, local
	k.owner.SetRing(r.Epoch(), r.Replaces(), func(l qos.Limit) bool { return owners[w.limitOf(l)] == k.index }, local)
	w.mayAct(k, local)
	members := len(r.Members())
	if r.Index(k.id) < 0 {
		members = 0 // it serves, but is not one of them
	}
	k.reporter.SetRing(r.Epoch(), members, func(l qos.Limit) qos.WorkerID { return w.ids[owners[w.limitOf(l)]] }, local)
	w.handAway(k)
}

// handAway hands over what has moved away with the newest ring, once nobody can act in the ring before.
func (w *World) handAway(k *worker) {
	if !k.owner.Leaves() || !k.tenure.SeenOff(k.tenure.Ring().Replaces()) {
		return
	}
	owners := w.coord.owners[k.shownR]
	w.exported = k.owner.Export(w.exported[:0])
	for i := range w.exported {
		h := &w.exported[i]
		k.since[w.limitOf(h.Limit)] = 0
		h.ToEpoch = w.workers[w.route[owners[w.limitOf(h.Limit)]]].epoch // as the connection's hello has said
		send(w, k, w.ids[owners[w.limitOf(h.Limit)]], aHandOver, &w.handovers, h, handOverBytes*(1+len(h.Reporters)))
		w.result.Exports++
	}
}

// enact stores the next version of a policy and spreads it.
func (w *World) enact(i int32, p qos.Policy) {
	lim := w.limits[i]
	old := lim.policy
	p.Generation = lim.generations() + 1
	w.coord.policies[i] = append(w.coord.policies[i], p)
	if lim.before != nil {
		old.Rate, old.Burst = max(old.Rate, lim.before.Rate), max(old.Burst, lim.before.Burst)
		old.LocalBurst = max(old.LocalBurst, lim.before.LocalBurst)
	}
	lim.off = lim.off || !old.Limits() || !p.Limits()
	lim.wasOff = lim.wasOff || lim.off
	lim.before, lim.policy = &old, p
	lim.newest = p.Generation
	lim.local, lim.top = max(lim.local, p.LocalBurst), max(lim.top, p.Rate)
	w.retune(lim, max(old.Rate, p.Rate), max(old.Burst, p.Burst))
	w.tellAll()
}

// remove takes a policy away. Nothing is admitted by whoever knows; the numbers that others still act upon stay in force for the checks.
func (w *World) remove(i int32) {
	lim := w.limits[i]
	if old := lim.policy; lim.before == nil {
		lim.before = &old
	}
	lim.off, lim.wasOff = true, true
	w.coord.policies[i] = append(w.coord.policies[i], qos.Policy{})
	w.tellAll()
}

func (l *limit) generations() uint64 { return max(l.newest, l.policy.Generation) }

func (w *World) retune(lim *limit, rate, burst int64) {
	lim.rate, lim.burst = drifted(rate, w.setup.DriftPM), burst
	lim.meter.Change(w.now, lim.rate, burst)
	lim.ideal.retune(w.now, lim.rate, burst)
}

// settlePolicies ends the spreading of what every worker has been shown.
func (w *World) settlePolicies() {
	for i, lim := range w.limits {
		if lim.before == nil {
			continue
		}
		newest := len(w.coord.policies[i]) - 1
		if !slices.ContainsFunc(w.workers, func(k *worker) bool { return !k.gone && (k.shown[i] < newest || k.alive && k.version[i] < newest) }) {
			lim.before, lim.off = nil, false
			w.retune(lim, lim.policy.Rate, lim.policy.Burst)
		}
	}
}
