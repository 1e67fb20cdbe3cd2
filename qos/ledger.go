package qos

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync/atomic"
)

// A Ledger is one worker's table of Cells, and the rings' passes through them. Rings look cells up and charge them at any time; one
// control loop (the Reporter's) does everything else.
type Ledger struct {
	cfg    Config
	shards [ledgerShards]atomic.Pointer[map[Limit]*Cell] // immutable maps: a new policy replaces one of them
	noted  atomic.Pointer[Cell]                          // cells that want the reporter's attention, see Cell.wake
	urgent func()                                        // called by the ring that notes the first of them; nil none
	full   atomic.Bool                                   // count has reached Config.MaxLimits
	passes []ringPass
	none   *Cell // what Cell answers for a limit that is not known
	spill  *Cell // and when the table is full

	// Control loop.
	count   int    // cells
	recent  *Cell  // that known has found, still in the table
	lastID  uint64 // id of the newest cell
	members int64  // of the ring: the allowance refills at the rate divided by it; 0, as before the first ring: not at all
	self    WorkerID
	ring    uint64               // epoch of the ring by which owners are chosen; 0 before the first
	owner   func(Limit) WorkerID // of that ring
	grace   grace
}

// ledgerShards keeps the price of one new limit at the copying of a small map.
const ledgerShards = 1024

// maxRings bounds the rings of one worker.
const maxRings = 1024

// ringPass counts a ring's passes: odd while it is inside one.
type ringPass struct {
	n atomic.Uint64
	_ [cacheLine - 8]byte
}

// ErrLimitsFull is returned for a policy that finds no room in the table.
var ErrLimitsFull = errors.New("qos: the worker's table of limits is full")

// ErrOldPolicy is returned for a policy that is not newer than the one known.
var ErrOldPolicy = errors.New("qos: policy is not newer than the one in force")

// NewLedger returns an empty ledger for a worker with that many rings.
func NewLedger(cfg Config, rings int) (*Ledger, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if rings < 1 || rings > maxRings {
		return nil, fmt.Errorf("qos: %d rings: want 1 to %d", rings, maxRings)
	}
	l := &Ledger{cfg: cfg, passes: make([]ringPass, rings)}
	l.grace.begun = make([]uint64, rings)
	l.none, l.spill = l.newCell(Limit{}), l.newCell(Limit{})
	l.spill.view.Store(&View{plain: -1, barred: never, full: true, expires: never, pause: int64(cfg.SyncMax)})
	return l, nil
}

func (l *Ledger) newCell(limit Limit) *Cell {
	c := &Cell{limit: limit, ledger: l, id: l.lastID, waits: make([]ringWait, len(l.passes))}
	c.view.Store(&View{plain: -1, barred: never, expires: never, early: math.MaxInt64, pause: int64(l.cfg.SyncMax)})
	c.rep.index = -1
	return c
}

// Cell returns the cell of a limit, from any ring; never nil. A limit without a policy has a closed cell that admits nothing with reason
// NoPolicy; whoever keeps a cell and meets that reason looks it up again.
func (l *Ledger) Cell(limit Limit) *Cell {
	if m := l.shard(limit).Load(); m != nil {
		if c := (*m)[limit]; c != nil {
			return c
		}
	}
	if l.full.Load() {
		return l.spill
	}
	return l.none
}

// shard picks by FNV-1a of the tenant (all metrics of a tenant share one).
func (l *Ledger) shard(limit Limit) *atomic.Pointer[map[Limit]*Cell] {
	h := uint32(2166136261)
	for i := range len(limit.Tenant) {
		h = (h ^ uint32(limit.Tenant[i])) * 16777619
	}
	return &l.shards[h%ledgerShards]
}

// known returns the cell of a limit or nil. Only the control loop may ask: it remembers the last, whose snapshots come in runs.
func (l *Ledger) known(limit Limit) *Cell {
	if c := l.recent; c != nil && c.limit == limit {
		return c
	}
	if m := l.shard(limit).Load(); m != nil {
		l.recent = (*m)[limit]
		return l.recent
	}
	return nil
}

// Enter begins a pass of a ring: until Leave it may hold views and charge under them.
func (l *Ledger) Enter(ring int) { l.passes[ring].n.Add(1) }

// Leave ends a pass: the ring has forgotten every view that it has read.
func (l *Ledger) Leave(ring int) { l.passes[ring].n.Add(1) }

// OnUrgent has f called whenever Reporter.Urgent becomes true, by the ring that makes it so and within its charge: f must not block. Set it before any
// ring charges. A control loop that sleeps would else have to look at Urgent every millisecond, day and night.
func (l *Ledger) OnUrgent(f func()) { l.urgent = f }

// Rings returns the number of rings.
func (l *Ledger) Rings() int { return len(l.passes) }

// SetPolicy puts a policy version in force: at once, in that what an older generation was granted is not spent any more. An older or equal
// generation is refused, whoever sends it.
func (l *Ledger) SetPolicy(p *Policy, now int64) error {
	if err := p.Validate(); err != nil {
		return err
	}
	c := l.known(p.Limit())
	if c == nil {
		if l.count >= l.cfg.MaxLimits && !l.evict(now) {
			return fmt.Errorf("%w: %d, raise it or remove tenants", ErrLimitsFull, l.count)
		}
		c = l.add(p.Limit())
	}
	v := *c.view.Load()
	if v.policy != nil && v.policy.Generation >= p.Generation || c.rep.newest >= p.Generation {
		return fmt.Errorf("%w: %v, have generation %d", ErrOldPolicy, p.Key(), c.rep.newest)
	}
	own := *p
	c.rep.newest = p.Generation
	c.rep.policy = &own
	c.tune(now)
	v.policy, v.expires, v.barred = &own, never, never // the ceiling was computed with other numbers, and the place was for them
	l.allow(c, &v)
	l.publish(c, &v)
	return nil
}

// allow sets what a view permits beyond its ceiling. Allowance and late refunds share one local burst. Where the worker is the owner itself there
// is no allowance: nothing is far away.
func (l *Ledger) allow(c *Cell, v *View) {
	v.spare, v.lapse = 0, 0
	if p := v.policy; p != nil {
		if l.ownerOf(c) != l.self || l.ring == 0 {
			v.spare = l.cfg.bootstrap(p)
		}
		v.lapse = p.LocalBurst - v.spare
	}
}

// ownerOf returns the owner of a cell's limit, looked up once per ring; "" before the first ring.
func (l *Ledger) ownerOf(c *Cell) WorkerID {
	if rep := &c.rep; rep.ownerRing != l.ring {
		rep.owner, rep.ownerRing, rep.budget = l.owner(c.limit), l.ring, nil
	}
	return c.rep.owner
}

// add makes a cell.
func (l *Ledger) add(limit Limit) *Cell {
	l.lastID++
	c := l.newCell(limit)
	at, m := l.shard(limit), map[Limit]*Cell{}
	if old := at.Load(); old != nil {
		m = maps.Clone(*old)
	}
	m[limit] = c
	at.Store(&m)
	l.count++
	l.full.Store(l.count >= l.cfg.MaxLimits)
	return c
}

// evict forgets a limit that has been dropped and has nothing left to tell: its allowance is full, so that a new cell's is no fuller.
func (l *Ledger) evict(now int64) bool {
	var gone *Cell
	l.each(func(c *Cell) {
		full := c.rep.policy == nil && c.rep.index < 0 && c.note.Load() == quiet && c.allowance.Load().Level(now) == c.allowance.Load().burst
		if gone == nil && full {
			gone = c
		}
	})
	if gone == nil {
		return false
	}
	at := l.shard(gone.limit)
	m := maps.Clone(*at.Load())
	delete(m, gone.limit)
	l.recent = nil
	at.Store(&m)
	l.count--
	return true
}

// DropPolicy closes a limit: nothing is admitted until it has a policy again, of a higher generation. The cell and its allowance stay,
// so that removing and adding a tenant re-arms nothing.
func (l *Ledger) DropPolicy(limit Limit, now int64) {
	c := l.known(limit)
	if c == nil {
		return
	}
	v := *c.view.Load()
	v.policy, v.expires = nil, never
	c.rep.policy = nil
	l.publish(c, &v)
}

// tune carries the allowance over to the rate and the ring of today. Closing the old word first makes the level exact: a ring that comes in
// between is denied once.
func (c *Cell) tune(now int64) {
	p, l := c.rep.policy, c.ledger
	if p == nil {
		return
	}
	spare := l.cfg.bootstrap(p)
	level := spare
	if old := c.allowance.Load(); old != nil {
		level = old.Close(now) + min(spare-old.burst, 0)
	}
	// Workers that are not members refill nothing: eight of them beside a ring of one would refill nine times the rate. Once in 27 hours is
	// nothing.
	rate, share := p.Rate, l.members
	if share == 0 {
		rate, share = max(spare, 1), maxShare
	}
	c.allowance.Store(NewGCRA(rate, share, max(spare, 1), level, now))
}

// maxShare is among how many a rate may be divided.
const maxShare = 100_000

// setMembers says how many workers the ring has; 0 if this is not one of them.
func (l *Ledger) setMembers(n, now int64) {
	n = min(max(n, 0), maxShare)
	if n == l.members {
		return
	}
	l.members = n
	l.each(func(c *Cell) { c.tune(now) })
}

// each visits every cell, in the order they were made.
func (l *Ledger) each(visit func(*Cell)) {
	cells := make([]*Cell, 0, l.count)
	for i := range l.shards {
		if m := l.shards[i].Load(); m != nil {
			for _, c := range *m { // any order: sorted below
				cells = append(cells, c)
			}
		}
	}
	slices.SortFunc(cells, func(a, b *Cell) int { return int(a.id) - int(b.id) })
	for _, c := range cells {
		visit(c)
	}
}

// publish puts a view in force. The one before it may be in the hands of a ring for one more pass.
// The caller is done with v.
func (l *Ledger) publish(c *Cell, v *View) {
	c.rep.swapped = l.grace.next()
	v.plain = v.plainUpTo()
	c.view.Store(v)
}

// takeNoted takes the list of noted cells; the caller follows next and moves each to active before it reads totals.
func (l *Ledger) takeNoted() *Cell { return l.noted.Swap(nil) }

// A grace counts grace periods: spans in which every ring has passed a point at which it holds no view. As quiescent-state based
// reclamation does (McKenney), with an even count for a ring that is between passes.
type grace struct {
	begun []uint64 // each ring's pass count when the running period began
	done  uint64   // periods that have ended; one is always running
}

// next is the period after whose end nothing that was in force until now can be in use: the one that begins after the running one.
func (g *grace) next() uint64 { return g.done + 2 }

// step ends the running period if every ring has gone on since it began, or holds nothing, and begins the next. Called twice it
// carries an idle worker over both.
func (l *Ledger) step() {
	g := &l.grace
	for i := range l.passes {
		if n := l.passes[i].n.Load(); n&1 == 1 && n == g.begun[i] {
			return
		}
	}
	g.done++
	for i := range l.passes {
		g.begun[i] = l.passes[i].n.Load()
	}
}

// quiescent reports whether every ring has been between passes since the period was asked for.
func (l *Ledger) quiescent(period uint64) bool { return l.grace.done >= period }
