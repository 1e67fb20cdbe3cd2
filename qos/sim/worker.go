package sim

import (
	"math"
	"slices"

	"github.com/talon-worker/talon/qos"
)

const (
	forever = math.MaxInt64
	lagged  = -2 // life of a message that a slow worker has already made wait
)

// What a message costs on the wire, about: the fixed fields of its protobuf and a share of the frame. Tenant names are counted apart.
const (
	reportBytes   = 96
	snapshotBytes = 80
	answerBytes   = 24
	handOverBytes = 64
)

// A worker is one process on one machine: production state machines, a clock, data-plane rings with requests, and nothing else.
type worker struct {
	slot   int32
	index  int32 // of its id
	id     qos.WorkerID
	epoch  uint64 // worker epoch, from the coordinator
	life   *life
	nth    int32 // life.n, at hand for each event
	clock  clock
	alive  bool
	paused bool
	gone   bool // shut down for good
	held   []event

	ledger   *qos.Ledger
	reporter *qos.Reporter
	owner    *qos.Owner
	tenure   *qos.Tenure
	voter    *qos.Voter
	rings    []ring
	wakeAt   int64 // real time of the timer that counts
	wakeFor  int64 // local time it was set for
	lag      int64 // ns, at most, for each message
	busy     int64

	cutOff   bool     // from the coordinator
	shownR   int      // newest ring that the coordinator has shown this id, by index: it never goes back
	shown    []int    // for each limit, the newest policy version, likewise
	version  []int    // for each limit, newest policy version taken in; -1 none
	draining bool     // shuts down
	member   bool     // of the ring
	uses     bool     // what it told the tenure last: Owner.InUse
	asks     int64    // local time of the next ask, or of the next word that begins to count; forever if there is none
	chases   int64    // local time of the next ask for the sake of what is to be handed over
	since    []uint64 // for each limit, the ring in which its state here was last acted upon; see Tenure.MayAct
	epochR   uint64   // ring epoch of the owner's state machine
	learned  int64    // real time when it learned of that
}

// A life is one incarnation of one worker.
type life struct {
	n     int32
	slot  int32
	uses  []*use
	byKey map[int32]*use // the same, once they are many
	alive bool
}

func (l *life) add(u *use) {
	l.uses = append(l.uses, u)
	if len(l.uses) == few {
		l.byKey = map[int32]*use{}
		for _, u := range l.uses {
			l.byKey[u.limit] = u
		}
	} else if len(l.uses) > few {
		l.byKey[u.limit] = u
	}
}

func (l *life) replace(old, u *use) {
	l.uses[slices.Index(l.uses, old)] = u
	if l.byKey != nil {
		l.byKey[u.limit] = u
	}
}

func (l *life) use(limit int32) *use {
	if l.byKey != nil {
		return l.byKey[limit]
	}
	for _, u := range l.uses {
		if u.limit == limit {
			return u
		}
	}
	return nil
}

// boot starts a worker, or the next incarnation of one, in a slot.
func (w *World) boot(slot, index int32) error {
	s := &w.setup
	for int(slot) >= len(w.workers) {
		w.workers = append(w.workers, &worker{slot: int32(len(w.workers))})
	}
	k := w.workers[slot]
	if k.life == nil {
		k.index, k.id = index, w.ids[index]
		k.clock.start = 1 + w.rnd.Int64N(1e12)
		if s.DriftPM > 0 {
			k.clock.ppm = w.rnd.Int64N(2*s.DriftPM+1) - s.DriftPM
			w.result.Faults[Drift]++
		}
		k.version, k.shown = make([]int, len(s.Limits)), make([]int, len(s.Limits))
		for _, o := range w.workers[:slot] { // what its id has been shown it knows, if nothing newer: see coordinator
			if o.life != nil && o.index == index {
				k.shownR = max(k.shownR, o.shownR)
				for i, v := range o.shown {
					k.shown[i] = max(k.shown[i], v)
				}
			}
		}
	}
	k.life = &life{n: int32(len(w.lives)), slot: slot, alive: true}
	w.lives, k.nth = append(w.lives, k.life), k.life.n
	k.epoch = w.coord.nextEpoch()
	k.alive, k.paused, k.held, k.wakeAt = true, false, nil, forever
	w.route[index] = slot
	local := k.clock.read(w.now)

	var err error
	if k.ledger, err = qos.NewLedger(s.Config, s.Rings); err != nil {
		return err
	}
	if k.reporter, err = qos.NewReporter(s.Config, k.ledger, k.id, k.epoch, s.Seed); err != nil {
		return err
	}
	if k.owner, err = qos.NewOwner(s.Config, k.id, k.epoch); err != nil {
		return err
	}
	confirm := int64(s.Config.Confirm)
	k.voter, k.tenure = qos.NewVoter(k.id, k.epoch, local, confirm), qos.NewTenure(k.id, k.epoch, confirm)
	k.since = make([]uint64, len(s.Limits))
	k.epochR, k.asks, k.uses, k.member, k.draining = 0, forever, false, false, false
	for i := range k.version {
		k.version[i] = -1
	}
	k.rings = make([]ring, s.Rings)
	for r := range k.rings {
		w.queue.push(w.now+1+w.rnd.Int64N(s.Pass), aPass, k.itself(), int32(r))
	}
	for _, i := range w.users[index] {
		l := w.limits[i]
		u := &use{limit: i, life: k.life, place: l.policy.Limit(), need: max(l.demand.Need, 1), lanes: make([]lane, s.Rings), tally: tally{known: l.unknown()}}
		for r := range u.lanes {
			u.lanes[r].since, u.lanes[r].acc = w.now, w.rnd.Int64N(1e12)
		}
		u.cell = k.ledger.Cell(u.place)
		if l.pair >= 0 {
			u.pair = k.use(int32(l.pair))
		}
		k.life.add(u)
		w.setRate(k, i)
	}
	w.read(k)
	return nil
}

// control is the worker's control loop: everything that is due goes out, and the timer is set.
func (w *World) control(k *worker) {
	local := k.clock.read(w.now)
	if local >= k.asks { // first: the owner may act again because of it
		w.askVoters(k, local)
	}
	if k.reporter.Urgent() || k.reporter.Next() <= local {
		w.addressed = k.reporter.Poll(local, w.addressed[:0])
		for i := range w.addressed {
			w.report(k, &w.addressed[i])
		}
	}
	if k.owner.NextPush() <= local {
		w.pushed = k.owner.Push(local, w.pushed[:0])
		for i := range w.pushed {
			w.push(k, &w.pushed[i], local)
		}
	}
	if at := min(k.reporter.Next(), k.owner.NextPush(), k.asks); at <= local && w.err == nil {
		w.fail("%s: the control loop has just run at %d, and is to run again at %d (reporter %d, owner %d, voters %d): it would spin",
			k.id, local, at, k.reporter.Next(), k.owner.NextPush(), k.asks)
	}
	w.setTimer(k)
}

// setTimer asks for the next turn of the control loop.
func (w *World) setTimer(k *worker) {
	at := min(k.reporter.Next(), k.owner.NextPush(), k.asks)
	if at == forever || k.wakeAt != forever && at >= k.wakeFor {
		return
	}
	k.wakeFor = at
	real := max(k.clock.when(at), w.now+1)
	k.wakeAt = real
	w.queue.push(real, aWake, k.itself(), 0)
}

// report sends one report to its owner.
func (w *World) report(k *worker, a *qos.Addressed) {
	u := k.use(w.limitOf(a.Report.Key.Limit()))
	w.checkReport(k, u, &a.Report)
	w.trace(uint64(a.Report.Total.Charged), uint64(a.Report.Sequence))
	w.result.Reports++
	l := letter[qos.UsageReport]{from: k.slot, use: u, body: a.Report}
	send(w, k, a.To, aReport, &w.reports, &l, reportBytes+len(a.Report.Key.Tenant)+len(k.id))
}

// reported hands a report to the owner that it has reached.
func (w *World) reported(k *worker, l *letter[qos.UsageReport], local int64) {
	r := &l.body
	s, why := k.owner.Apply(r, local)
	w.result.Refusals[why]++
	if why != qos.Accepted {
		d := k.owner.Redirect(r, why)
		post(w, k, w.workers[l.from], aRedirect, &w.redirects, &d, answerBytes)
		w.wake(k, local)
		return
	}
	w.checkApplied(k, l, &s, local)
	w.checkIssued(k, &s, local)
	post(w, k, w.workers[l.from], aSnapshot, &w.snapshots, &s, snapshotBytes+len(s.Key.Tenant))
	w.wake(k, local)
	if k.owner.NextPush() != forever {
		w.setTimer(k)
	}
}

// wake lets a worker ask its voters that has asked nobody until now.
func (w *World) wake(k *worker, local int64) {
	if !k.uses && k.owner.InUse(local) {
		w.result.Branches[Woken]++
		w.askVoters(k, local)
		w.setTimer(k)
	}
}

// push sends a snapshot that nobody has asked for.
func (w *World) push(k *worker, s *qos.RateSnapshot, local int64) {
	w.checkIssued(k, s, local)
	w.result.Pushes++
	send(w, k, s.To.Worker, aSnapshot, &w.snapshots, s, snapshotBytes+len(s.Key.Tenant))
}

// snapshot hands a snapshot to the worker that it has reached.
func (w *World) snapshot(k *worker, s *qos.RateSnapshot, local int64) {
	verdict := k.reporter.Apply(s, local)
	w.result.Verdicts[verdict]++
	if verdict == qos.InForce {
		u := k.use(w.limitOf(s.Key.Limit()))
		w.checkInForce(u, s)
		w.promise(u)
		w.trace(uint64(s.Ceiling()), s.Mark.Version)
		w.retry(k, u)
	}
	w.control(k)
}

// handed takes in what the owner of the ring before knew.
func (w *World) handed(k *worker, h *qos.HandOver, local int64) {
	if why := k.owner.Import(h, local); why == qos.Accepted {
		w.result.Imports++
		i := w.limitOf(h.Limit)
		w.limits[i].handed, w.limits[i].handedIn = k.life.n, h.ToRing
		k.since[i] = max(k.since[i], h.FromRing)
		w.wake(k, local)
	}
	w.setTimer(k)
}

// askVoters sends the asks that are due.
func (w *World) askVoters(k *worker, local int64) {
	k.uses = k.owner.InUse(local)
	w.asked = k.tenure.Poll(local, k.uses, w.asked[:0])
	if k.owner.Leaves() {
		w.asked = k.tenure.Chase(local, w.asked)
		k.chases = local + int64(w.setup.Config.Confirm)/50
	}
	a := letter[qos.Ask]{from: k.slot, body: k.tenure.Ask(local)}
	for _, id := range w.asked {
		send(w, k, id, anAsk, &w.asks, &a, answerBytes)
	}
	w.mayAct(k, local)
	w.handAway(k)
}

// mayAct tells the owner what the voters have said. The voters' word is needed to act, to hand over, and to be noted in time by one that may own something
// in use later.
func (w *World) mayAct(k *worker, local int64) {
	k.owner.Confirm(k.tenure.Until())
	if k.tenure.Open(local) {
		k.owner.Settle(local)
	}
	k.asks = forever
	if k.member || k.owner.Leaves() {
		k.asks = k.tenure.Next(k.uses)
	}
	if k.owner.Leaves() {
		k.asks = min(k.asks, k.chases)
	}
}

// use finds what a worker uses of a limit, or nil.
func (k *worker) use(limit int32) *use { return k.life.use(limit) }
