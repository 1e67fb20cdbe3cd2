package qos

import (
	"cmp"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
)

// A Reporter is the logic of a worker's control loop for the limits that it uses: it says what to report, to whom and when, and puts
// snapshots in force as Views. It owns the control side of its Ledger; one goroutine, or one simulated worker, drives it.
//
// Reports carry cumulative totals, so none of them matters by itself: what is lost, late, doubled or held back for want of budget
// is in the next one. The alternative, deltas under sequence numbers, needs every report kept until acknowledged, and one retried under
// a new number counts twice.
type Reporter struct {
	cfg    Config
	ledger *Ledger
	self   WorkerID
	epoch  uint64
	rand   *rand.PCG

	due     timeline[*Cell]      // by rep.due: cells that are not quiet
	budgets map[WorkerID]*budget // by owner
	flush   bool
	fenced  bool
	Stats   ReporterStats
}

// ReporterStats counts what a Reporter did.
type ReporterStats struct {
	Reports   uint64 // handed out by Poll
	Retries   uint64 // of them, sent again because no answer came
	Early     uint64 // of them, with unacknowledged use past the early threshold of the view
	HeldBack  uint64 // times the message budget made a report wait, its totals merged into a later one
	Snapshots uint64 // put in force
	Late      uint64 // snapshots too old to be acted upon when they arrived
	Dropped   uint64 // snapshots older than the one in force, of another ring, or for another incarnation
	Bad       uint64 // snapshots that contradict what was reported
	Expired   uint64 // views that grew too old in use
	Redirects uint64 // reports that an owner did not take
}

// NewReporter returns the reporter of one incarnation of a worker: epoch grows across restarts. seed drives the jitter.
func NewReporter(cfg Config, l *Ledger, worker WorkerID, epoch, seed uint64) (*Reporter, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if worker == "" || epoch == 0 {
		return nil, errors.New("qos: a reporter needs a worker id and an epoch of at least 1")
	}
	l.self = worker
	return &Reporter{cfg: cfg, ledger: l, self: worker, epoch: epoch, rand: rand.NewPCG(seed, epoch), budgets: map[WorkerID]*budget{}}, nil
}

// SetRing changes the ring of owners: members is its size, or 0 if this worker is not one of them; owner says who owns a limit. Views stay in
// force until they expire.
func (r *Reporter) SetRing(epoch uint64, members int, owner func(Limit) WorkerID, now int64) {
	r.ledger.ring, r.ledger.owner = epoch, owner
	r.ledger.setMembers(int64(members), now)
	r.due.all(func(c *Cell) { // another owner keeps no place; and it is not asked by everybody in the same instant
		at := now + int64(r.rand.Uint64()%uint64(r.cfg.SyncMax))
		c.rep.tries, c.rep.queued, c.rep.retryAt, c.rep.due = 0, false, at, at
	})
	clear(r.budgets)
}

// Poll appends the reports that are due to out, sorted by owner, and takes views that have expired out of force. Call it when Next
// says so and when Urgent does.
func (r *Reporter) Poll(now int64, out []Addressed) []Addressed {
	r.ledger.step()
	r.ledger.step()
	r.collect(now)
	from := len(out)
	for r.due.len() > 0 && r.due.first().rep.due <= now {
		c := r.due.first()
		c.rep.due = math.MaxInt64 // whatever considers it says when it is next
		if r.consider(c, now) {
			out = append(out, Addressed{To: c.rep.owner})
			r.report(c, now, &out[len(out)-1].Report)
		}
		if c.rep.index >= 0 {
			r.due.fix(c)
		}
	}
	if len(out)-from > 1 {
		slices.SortStableFunc(out[from:], func(a, b Addressed) int { return cmp.Compare(a.To, b.To) })
	}
	return out
}

// Next returns when Poll has something to do if no ring wakes it: math.MaxInt64 when nothing is in use.
func (r *Reporter) Next() int64 {
	if r.due.len() == 0 {
		return math.MaxInt64
	}
	return r.due.first().rep.due
}

// Urgent reports whether a ring has asked for attention since the last Poll. Any goroutine may ask.
func (r *Reporter) Urgent() bool { return r.ledger.noted.Load() != nil }

// collect takes in the cells that rings have noted.
func (r *Reporter) collect(now int64) {
	for c := r.ledger.takeNoted(); c != nil; {
		next := c.next
		c.next = nil
		c.note.Store(active) // before totals are read: what is charged after this notes the cell again
		r.awaken(c, now)
		c = next
	}
}

// awaken brings a noted cell forward.
func (r *Reporter) awaken(c *Cell, now int64) {
	rep := &c.rep
	if rep.index < 0 {
		rep.interval, rep.trip = int64(r.cfg.SyncMax), cmp.Or(rep.trip, int64(r.cfg.Trip))
		rep.due = now
		r.due.push(c)
		return
	}
	if at := max(now, r.earliest(c)); at < rep.due {
		rep.due = at
		r.due.fix(c)
	}
}

// earliest is when a report may go that is not due by its interval, if the answer to the last is in, or once per view: Config.earlyGap after it. Were
// it sooner, a limit that has run out would be reported once in each round trip, by workers whose view holds a unit or two: ten workers sent 26,000 messages
// a second instead of 10,000, and were served no better. Spread like every interval: in step, whoever came first would go first for ever.
func (r *Reporter) earliest(c *Cell) int64 {
	rep := &c.rep
	v := c.view.Load()
	switch {
	case rep.open && rep.earlyAt == v.mark:
		return rep.due
	case rep.open && c.used.Load() < v.early:
		return rep.due // it only waits for more, which the answer will bring
	}
	return rep.earlyFrom
}

// consider decides whether a due cell reports now, and if not, when to ask again.
func (r *Reporter) consider(c *Cell, now int64) bool {
	rep, v := &c.rep, c.view.Load()
	if v.expires != never && !v.Fresh(now) {
		r.Stats.Expired++
		r.letGo(c)
		v = c.view.Load()
	}
	r.nameDead(c, v)
	total := r.total(c)
	need, waiting := c.waiting()
	news := total != rep.sent || r.saying(c) != rep.sentMore
	wants := waiting > 0 && !rep.queued && (v.expires == never || c.used.Load()+need > v.ceiling)
	switch {
	case r.ledger.ownerOf(c) == "":
		rep.due = now + int64(r.cfg.SyncMax)
		return false
	case rep.open:
		early := news && rep.earlyAt != v.mark && c.used.Load() >= v.early
		if now < rep.retryAt && !early {
			rep.due = rep.retryAt
			return false
		}
	case !news && !wants && rep.queued && now < rep.sentAt+int64(r.cfg.Lease)/2:
		rep.due = rep.sentAt + int64(r.cfg.Lease)/2
		return false
	case !news && !wants && !rep.queued:
		return r.idle(c, v, now)
	}
	if at, ok := r.spend(c, now); !ok {
		r.Stats.HeldBack++
		rep.due = at
		if rep.heldBack == 0 {
			rep.heldBack = now
		}
		return false
	}
	rep.heldBack = 0
	return true
}

// idle handles a cell with nothing to say: its view is let go when it expires, what was in it is given back, and then it falls silent.
func (r *Reporter) idle(c *Cell, v *View, now int64) bool {
	rep := &c.rep
	switch {
	case v.expires != never && rep.holds() && !r.flush:
		rep.due = v.expires
	case v.expires != never:
		r.letGo(c)
		rep.due = now + 1
	case rep.holds() && rep.dead != rep.seen: // a ring is still in its pass
		rep.due = now + int64(r.cfg.SyncMin)/4
	default:
		r.silence(c, now)
	}
	return false
}

// silence takes a cell off the list. A ring that charges meanwhile either finds it quiet, and notes it, or has charged before the totals
// are looked at again.
func (r *Reporter) silence(c *Cell, now int64) {
	if !c.note.CompareAndSwap(active, quiet) {
		c.rep.due = now + 1 // noted again already
		return
	}
	if (r.total(c) != c.rep.sent || r.saying(c) != c.rep.sentMore || c.anyWaits()) && c.note.CompareAndSwap(quiet, active) {
		c.rep.due = now + 1
		return
	}
	r.due.remove(c)
}

// letGo takes the view out of force. The owner hears of it when no ring can hold it any more.
func (r *Reporter) letGo(c *Cell) {
	v := *c.view.Load()
	v.expires, v.early = never, math.MaxInt64
	r.ledger.publish(c, &v)
}

// nameDead moves the mark up to which no ring can charge.
func (r *Reporter) nameDead(c *Cell, v *View) {
	rep := &c.rep
	switch {
	case !r.ledger.quiescent(rep.swapped):
	case v.expires == never && rep.late && c.anyWaits():
		rep.dead = rep.seen.Before() // its turn, told too late: what the owner keeps for it is asked for, not given back
	case v.expires == never:
		rep.dead = rep.seen
	default:
		rep.dead = v.mark.Before()
	}
}

// total is cumulative use as reports show it: never less than before, though a refund in progress may look so for a moment.
func (r *Reporter) total(c *Cell) Total {
	t := c.totals()
	return Total{Charged: max(t.Charged, c.rep.sent.Charged), Refunded: max(t.Refunded, c.rep.sent.Refunded)}
}

// saying is what a report would say now, beside totals.
func (r *Reporter) saying(c *Cell) said {
	need, _ := c.waiting()
	more := said{wanted: c.refused.Load(), need: need, dead: c.rep.sentMore.dead}
	if c.view.Load().expires == never && c.rep.holds() && more.dead.Compare(c.rep.held) < 0 { // what has been said is repeated, not outdone: there would be no end to it
		more.dead = c.rep.dead
	}
	more.final = r.flush && (c.rep.dead == c.rep.seen || !c.rep.holds())
	return more
}

// report makes the report of a cell, in u, which is empty, and schedules the next.
func (r *Reporter) report(c *Cell, now int64, u *UsageReport) {
	rep, v := &c.rep, c.view.Load()
	total, more := r.total(c), r.saying(c)
	fresh := total != rep.sent || more != rep.sentMore || rep.sequence == 0
	used := total.Used() - rep.sent.Used()
	leaving := v.expires == never && total == rep.sent && more.need == 0
	if fresh {
		rep.sequence++
		rep.tries = 0
	} else if rep.open {
		r.Stats.Retries++
	}
	if v.expires != never && c.used.Load() >= v.early {
		rep.earlyAt = v.mark
		r.Stats.Early++
	}
	r.sample(c, total.Charged+more.wanted, now)
	r.pace(c, used)
	rep.missed = rep.missed || rep.open && !rep.leaves
	rep.leaves = leaving && rep.dead.Compare(rep.held) >= 0
	rep.sent, rep.sentMore, rep.sentAt, rep.open, rep.queued = total, more, now, true, false
	rep.tries++
	rep.retryAt = now + r.retryAfter(c)
	c.reported.Store(total.Used())
	spread := r.jitter(rep.interval)
	rep.nextAt, rep.earlyFrom = now+spread, now+mulDiv(spread, r.cfg.earlyGap(), rep.interval)
	if rep.calm > 0 {
		rep.nextAt = beat(rep.calm, now)
	}
	rep.due = min(rep.nextAt, rep.retryAt)
	if v.expires != never {
		rep.due = min(rep.due, max(v.expires, now+1))
	}
	r.Stats.Reports++
	r.fill(c, v, u)
	if !leaving {
		_, waiting := c.waiting()
		u.Demand = r.demand(c, waiting)
	}
}

// fill writes the report down, but for the demand: a worker that gives back asks for nothing.
func (r *Reporter) fill(c *Cell, v *View, u *UsageReport) {
	rep := &c.rep
	u.Key = RateKey{Tenant: c.limit.Tenant, Metric: c.limit.Metric, Generation: rep.newest}
	u.From = ReporterID{Worker: r.self, Epoch: r.epoch, Cell: c.id}
	u.RingEpoch, u.Sequence, u.Stamp = r.ledger.ring, rep.sequence, rep.sentAt
	u.Total, u.Base, u.Wanted = rep.sent, rep.acked, rep.wanted
	u.Need, u.Dead, u.Final = rep.sentMore.need, rep.dead, rep.sentMore.final
	if v.expires != never {
		u.InForce = v.mark
	}
	delta := u.Total.Used() - u.Base.Used()
	if c.limit.Metric.Requests() {
		u.IopsDelta = delta
	} else {
		u.ByteDelta = delta
	}
}

// sample folds wanted use since the last report into the EWMA: with weight dt/(dt+tau), so that ten short intervals weigh as one long
// one, and a first sample after a long silence is spread over that silence.
func (r *Reporter) sample(c *Cell, wanted, now int64) {
	rep := &c.rep
	tau := 2 * int64(r.cfg.SyncMax)
	span := tau
	if rep.sampled != 0 {
		span += max(now-rep.sampled, 0)
	}
	rep.rate = min(mulDiv(rep.rate, tau, span)+mulDiv(max(wanted-rep.wanted, 0), perSecond, span), MaxRate)
	rep.wanted, rep.sampled = max(wanted, rep.wanted), now
}

// demand is what the worker expects to charge until the answer to its next report, with all that waits.
func (r *Reporter) demand(c *Cell, waiting int64) int64 {
	rep := &c.rep
	return min(mulDiv(rep.rate, rep.interval+rep.trip, perSecond)+waiting, MaxBurst)
}

// pace shortens the interval of a hot limit and stretches that of a cold one, and of one that is calm.
func (r *Reporter) pace(c *Cell, used int64) {
	rep := &c.rep
	_, waiting := c.waiting()
	if waiting > 0 {
		rep.calm = 0
	}
	if rep.calm > 0 {
		rep.interval = rep.calm
		return
	}
	switch {
	case used >= r.cfg.threshold(c.limit.Metric):
		rep.interval = max(rep.interval/2, int64(r.cfg.SyncMin))
	case waiting > 0:
		rep.interval = int64(r.cfg.SyncMax)
	default:
		rep.interval = min(rep.interval*3/2, r.cfg.longest())
	}
}

// retryAfter is how long an answer is waited for, longer each time, at most a TTL or four trips.
func (r *Reporter) retryAfter(c *Cell) int64 {
	rep := &c.rep
	wait := max(int64(r.cfg.SyncMax), 3*rep.trip) << min(max(rep.tries-1, 0), 3)
	return min(wait, max(int64(r.cfg.TTL), 4*rep.trip))
}

// jitter spreads d by 20 % either way.
func (r *Reporter) jitter(d int64) int64 {
	return d - d/5 + int64(r.rand.Uint64()%uint64(2*(d/5)+1))
}

// A budget counts the reports to one owner in one window of SyncMin.
type budget struct {
	until int64
	left  int
}

// spend takes one report from the budget of c's owner, or says when the next window begins.
func (r *Reporter) spend(c *Cell, now int64) (at int64, ok bool) {
	b := c.rep.budget
	if b == nil {
		if b = r.budgets[c.rep.owner]; b == nil {
			b = &budget{}
			r.budgets[c.rep.owner] = b
		}
		c.rep.budget = b
	}
	if now >= b.until {
		b.until, b.left = now+int64(r.cfg.SyncMin), r.cfg.Budget
	}
	if b.left == 0 {
		return b.until, false
	}
	b.left--
	return 0, true
}

// Fenced reports whether an owner has heard of a newer incarnation of this worker: this process is a copy or has been declared dead, its use is
// not counted any more, and it has to stop.
func (r *Reporter) Fenced() bool { return r.fenced }

// Flush begins the shutdown: views are let go, and every total is reported as final. Nothing may be admitted any more. Poll until Done, or
// until patience ends: what is then not acknowledged is what a crash loses.
func (r *Reporter) Flush(now int64) {
	r.flush = true
	r.due.all(func(c *Cell) {
		c.rep.due = now
		v := *c.view.Load()
		v.policy, v.expires, v.early = nil, never, math.MaxInt64
		r.ledger.publish(c, &v)
	})
}

// Done reports whether everything has been acknowledged.
func (r *Reporter) Done() bool { return r.due.len() == 0 && !r.Urgent() }
