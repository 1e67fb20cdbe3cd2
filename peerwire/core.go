package peerwire

import (
	"cmp"
	"math"
	"slices"

	"github.com/talon-worker/talon/qos"
)

// aloneEpoch is the ring epoch of a worker that is alone. A ring with peers that follows needs a higher one.
const aloneEpoch = 1

// A core is the control plane of one worker as a value: what the loop does in a turn, without clock, goroutine, lock or socket. One owner drives it.
type core struct {
	self  qos.WorkerID
	epoch uint64
	cfg   qos.Config

	ledger   *qos.Ledger
	reporter *qos.Reporter
	owner    *qos.Owner
	voter    *qos.Voter
	tenure   *qos.Tenure

	policies map[qos.Limit]known
	dropped  int // of them

	ringed  bool      // Config.Ringed
	started bool      // owns something, or may
	ring    *qos.Ring // nil: alone, or, with ringed, none yet
	before  *qos.Ring // the one that ring replaced, if it is known
	asksAt  int64     // when the voters are asked next, or a word of theirs begins to count; math.MaxInt64 where there is nothing to ask
	uses    bool      // the tenure knows that a limit is in use here: qos.Owner.InUse at the last asking
	chaseAt int64     // when they are asked next for the sake of what leaves

	peers     map[qos.WorkerID]uint64 // incarnations of those that can be reached
	leaving   []qos.HandOver          // for owners that cannot be reached yet
	leaveBy   int64                   // when they are worth nothing any more
	tooEarly  []letter                // hand-overs for a ring that is not known here yet
	earlyHeld int                     // their weight
	flushing  bool

	boxes   map[qos.WorkerID]*batch // by destination; kept for their room
	parcels []parcel
	changed bool
	stats   Counters

	addressed []qos.Addressed
	pushed    []qos.RateSnapshot
	voters    []qos.WorkerID
}

// outputs is what a step leaves behind. The parcels are the core's, until the next step.
type outputs struct {
	parcels []parcel
	ring    []Member // with the addresses of a ring that was adopted or confirmed in this step; nil none
	changed bool     // rings may charge what they could not, or may not what they could
	next    int64    // ns: when the next step is due if nothing comes before; after now
}

// newCore returns the control plane of a worker that starts at now, and knows neither policies nor ring.
func newCore(cfg *Config, now int64) (*core, error) {
	c := &core{
		self: cfg.Worker, epoch: cfg.Epoch, ringed: cfg.Ringed, cfg: cfg.Limits, ledger: cfg.Ledger, asksAt: math.MaxInt64,
		policies: map[qos.Limit]known{}, peers: map[qos.WorkerID]uint64{}, boxes: map[qos.WorkerID]*batch{},
	}
	var err error
	if c.reporter, err = qos.NewReporter(cfg.Limits, cfg.Ledger, cfg.Worker, cfg.Epoch, uint64(now)); err != nil {
		return nil, err
	}
	if c.owner, err = qos.NewOwner(cfg.Limits, cfg.Worker, cfg.Epoch); err != nil {
		return nil, err
	}
	c.voter = qos.NewVoter(cfg.Worker, cfg.Epoch, now, int64(cfg.Limits.Confirm))
	c.tenure = qos.NewTenure(cfg.Worker, cfg.Epoch, int64(cfg.Limits.Confirm))
	return c, nil
}

// step takes in what has happened by now, lets everything happen that is due, and says what is to be sent and when to come again.
func (c *core) step(now int64, in *inputs) outputs {
	c.changed = false
	for _, p := range c.parcels {
		p.batch.reset()
	}
	c.parcels = c.parcels[:0]

	var members []Member
	for _, p := range in.policies {
		p.done <- c.setPolicies(p.policies, now)
	}
	for _, r := range in.rings {
		err := c.setRing(&r.ring, now)
		if err == nil {
			members = r.ring.Members
		}
		r.done <- err
	}
	if !c.started && !c.ringed { // no ring will be named: nobody else is there
		c.startAlone(now)
	}
	if c.ring != nil && in.force == c.ring.Epoch() {
		c.tenure.Force(now)
		c.mayAct(now)
	}
	for _, p := range in.presence {
		c.meet(p, now)
	}
	for i := range in.letters {
		c.receive(&in.letters[i], now)
	}
	if in.flush && !c.flushing {
		c.flushing = true
		c.reporter.Flush(now)
	}
	next := c.tick(now)
	for _, q := range in.queries {
		q <- c.status(now)
	}
	for to, b := range c.boxes { // any order: sorted below
		if !b.empty() {
			c.parcels = append(c.parcels, parcel{to, b})
		} else if c.peers[to] == 0 {
			delete(c.boxes, to)
		}
	}
	slices.SortFunc(c.parcels, func(a, b parcel) int { return cmp.Compare(a.to, b.to) })
	return outputs{parcels: c.parcels, ring: members, changed: c.changed, next: next}
}

// startAlone makes this worker the owner of everything, for good: nobody else answers for its limits, so nobody has to be asked.
func (c *core) startAlone(now int64) {
	c.started = true
	c.owner.SetRing(aloneEpoch, 0, func(qos.Limit) bool { return true }, now)
	c.owner.Confirm(math.MaxInt64)
	c.owner.Settle(now)
	c.reporter.SetRing(aloneEpoch, 1, func(qos.Limit) qos.WorkerID { return c.self }, now)
}

// tick lets everything happen that is due. What this worker tells itself arrives within the tick.
func (c *core) tick(now int64) (next int64) {
	if now >= c.asksAt || c.wakes(now) {
		c.ask(now)
	}
	c.addressed = c.reporter.Poll(now, c.addressed[:0])
	for i := range c.addressed {
		c.report(&c.addressed[i], now)
	}
	c.pushed = c.owner.Push(now, c.pushed[:0])
	for i := range c.pushed {
		c.inform(&c.pushed[i], now)
	}
	if c.wakes(now) { // by a report of this very worker
		c.ask(now)
	}
	return max(min(c.reporter.Next(), c.owner.NextPush(), c.asksAt), now+1)
}

// box is where a worker's mail is collected.
func (c *core) box(to qos.WorkerID) *batch {
	b := c.boxes[to]
	if b == nil {
		b = &batch{}
		c.boxes[to] = b
	}
	return b
}

// report brings one report to its owner.
func (c *core) report(a *qos.Addressed, now int64) {
	if a.To != c.self {
		b := c.box(a.To)
		b.reports = append(b.reports, a.Report)
		return
	}
	s, why := c.owner.Apply(&a.Report, now)
	if why != qos.Accepted {
		d := c.owner.Redirect(&a.Report, why)
		c.reporter.Redirected(&d, now)
		return
	}
	c.inForce(&s, now)
}

// inform brings a snapshot to its reporter.
func (c *core) inform(s *qos.RateSnapshot, now int64) {
	if s.To.Worker == c.self {
		c.inForce(s, now)
		return
	}
	b := c.box(s.To.Worker)
	b.snapshots = append(b.snapshots, *s)
}

// inForce gives a snapshot to this worker's reporter.
func (c *core) inForce(s *qos.RateSnapshot, now int64) {
	if c.reporter.Apply(s, now) == qos.InForce {
		c.changed = true
	}
}

// done reports whether a worker that shuts down has nothing left to tell.
func (c *core) done() bool { return c.flushing && c.reporter.Done() }
