package sched

import (
	"fmt"
	"math/bits"
	"sync/atomic"
)

// Worker is what the rings of one worker share.
type Worker struct {
	cfg    Config
	plans  plans
	bucket bucket
	rings  []beacon

	_     [64]byte
	front atomic.Int64 // the furthest that any tenant's virtual time has come, in this frame
	begun atomic.Int64 // and the furthest that anyone's had come when it was dispatched; see Ring.served
	_     [112]byte

	want     atomic.Int64 // rate asked for
	tenants  atomic.Int64 // that exist
	joined   atomic.Pointer[Tenant]
	asked    atomic.Int64 // plans asked for
	hurry    atomic.Bool  // the bucket has had too little: the next plan is due as soon as may be
	planning atomic.Bool  // somebody plans: it owns what follows

	cur     plan
	active  []*Tenant
	weights int64 // of active, each by the part of it that is needed, 1/partOne
	boost   int64
	used    int64 // sum of the rings' used at the last periodic plan
	stalls  int64 // and of their stalls
	seen    []glimpse
	began   int64 // ns of that plan
	beganV  int64
	lead    int64 // that V would have had over everybody since then

	ids   int32   // handed out ever; NewTenant's
	freed []int32 // of removed tenants
}

// beacon is what a ring lets the planner see.
type beacon struct {
	until   atomic.Int64 // ns until which the ring sleeps; 0: it is awake
	awaits  atomic.Int64 // V that its first waiting tenant awaits; never: none waits
	used    atomic.Int64 // bytes charged less refunds, while paced
	stalls  atomic.Int64 // times that the bucket had too little
	slumber atomic.Int64 // ns that it slept because all that was ready waited for V

	claim    atomic.Int64 // bytes that it waits for because the bucket has too little; 0: it does not wait
	deadline atomic.Int64 // virtual, of the dispatch that it waits with
	_        [72]byte
}

// glimpse is what a ring had done at the last periodic plan.
type glimpse struct{ used, slumber int64 }

// NewWorker checks c and returns a Worker without tenants.
func NewWorker(c Config) (*Worker, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	w := &Worker{cfg: c, rings: make([]beacon, c.Rings), seen: make([]glimpse, c.Rings), boost: boostOne, cur: plan{piece: c.Chunk}}
	w.want.Store(c.Rate)
	for i := range w.rings {
		w.rings[i].awaits.Store(never)
	}
	w.replan(0)
	return w, nil
}

// NewTenant adds a tenant. NewTenant and Remove are called by one goroutine at a time; the rings may run meanwhile.
func (w *Worker) NewTenant(c TenantConfig) (*Tenant, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	t := &Tenant{w: w}
	switch n := len(w.freed); {
	case n > 0:
		t.id, w.freed = w.freed[n-1], w.freed[:n-1]
	case w.ids == MaxTenants:
		return nil, fmt.Errorf("sched: more than %d tenants", MaxTenants)
	default:
		t.id = w.ids
		w.ids++
	}
	t.cfg.Store(newTenantConfig(c, w))
	t.idle.Store(-staleAfter)
	t.frame.Store(none)
	w.tenants.Add(1)
	w.replan(0)
	return t, nil
}

// Remove forgets a tenant. No ring may have a flow of it any more.
func (w *Worker) Remove(t *Tenant) {
	w.freed = append(w.freed, t.id)
	w.tenants.Add(-1)
	w.replan(0)
}

// SetRate changes the rate that binds, 0 for none, from any goroutine.
func (w *Worker) SetRate(bytesPerSecond, now int64) error {
	if err := inRange("rate", bytesPerSecond, 0, MaxRate); err != nil {
		return err
	}
	w.want.Store(bytesPerSecond)
	w.replan(now)
	return nil
}

// Rate is the rate that binds, in bytes per second; 0: none.
func (w *Worker) Rate() int64 { return w.want.Load() }

// Used is the bytes that rings have charged, with ResponseCost, less what they gave back, while a rate bound.
func (w *Worker) Used() int64 {
	used, _ := w.usedByAll()
	return used
}

// Burst is what the worker may send at once when it has been idle, in bytes, at a rate: 4 ms of it, and what the rings may have in flight.
func (w *Worker) Burst(rate int64) int64 {
	return max(rate/250, int64(w.cfg.Rings*w.cfg.Depth+1)*(w.cfg.Chunk+2*ResponseCost))
}

// advance notes that a tenant's virtual time has become vt.
func (w *Worker) advance(vt int64) { raise(&w.front, vt) }

// raise makes to the value of a, if it is less.
func raise(a *atomic.Int64, to int64) {
	for {
		v := a.Load()
		if to-v <= 0 || a.CompareAndSwap(v, to) {
			return
		}
	}
}

// join makes a tenant count among the active ones.
func (w *Worker) join(t *Tenant) bool {
	if !t.member.CompareAndSwap(false, true) {
		return false
	}
	for {
		first := w.joined.Load()
		t.next = first
		if w.joined.CompareAndSwap(first, t) {
			return true
		}
	}
}

// replan makes a new plan if there is reason for one. Who finds somebody planning leaves it to them: they look again when they are done.
func (w *Worker) replan(now int64) {
	w.asked.Add(1)
	for w.planning.CompareAndSwap(false, true) {
		n := w.asked.Load()
		w.plan(now)
		w.planning.Store(false)
		if w.asked.Load() == n {
			return
		}
	}
}

// plan puts a new plan in force if anything that it depends on has changed. The caller holds planning.
func (w *Worker) plan(now int64) {
	p := w.cur
	m := w.mode()
	joined := w.fold()
	rate := w.want.Load()
	periodic := m.planned() && (now >= p.due || w.hurry.Load() && now >= w.began+hurried)
	if !joined && !periodic && m == p.mode && rate == p.rate && w.plans.seq.Load() > 0 {
		return
	}
	now = max(now, p.at)
	p.v = w.cur.virtual(now)
	if lead := p.v - w.front.Load(); lead > 0 {
		p.v -= lead
		w.lead += lead
	}
	if w.cur.rate > 0 {
		p.credit, _ = w.cur.granted(now)
	}
	p.at = now
	if m != p.mode {
		p.mode, p.frame = m, p.frame+1
		w.boost, p.piece = boostOne, w.cfg.Chunk
		w.began, w.beganV, w.lead = now, p.v, 0
		w.used, w.stalls = w.usedByAll()
		p.period, p.due = p.period+1, now+period
		periodic = false
	}
	if rate != p.rate {
		if p.rate == 0 {
			p.credit = w.bucket.spent.Load() + w.Burst(rate) // it starts full
		}
		p.rate, p.burst = rate, w.Burst(rate)
	}
	if joined {
		p.due = min(p.due, max(now, w.began)+hurried)
	}
	if periodic {
		w.hurry.Store(false)
		w.review(&p)
		w.bucket.fill(p.credit, p.burst)
		p.period, p.due = p.period+1, now+period
	}
	p.pace = w.pace(rate)
	faster, reframed := p.pace > w.cur.pace, p.frame != w.cur.frame
	w.cur = p
	w.plans.publish(&p)
	if faster || reframed {
		w.rouse(reframed)
	}
}

func (w *Worker) mode() mode {
	switch {
	case w.cfg.Order != Fair:
		return local + mode(w.cfg.Order-RingLocal)
	case w.want.Load() > 0:
		return paced
	case w.tenants.Load() > 1:
		return free
	}
	return solo
}

// fold takes in who has joined. They count in full until the next plan, very soon, finds out what they need: one request that came alone must not slow V for
// long.
func (w *Worker) fold() bool {
	if w.joined.Load() == nil {
		return false
	}
	for t := w.joined.Swap(nil); t != nil; {
		next := t.next
		t.next = nil
		t.weight = int64(t.cfg.Load().Weight)
		t.part, t.began, t.rests = partOne, t.vt.Load()-t.lifted.Load(), 0
		w.active = append(w.active, t)
		w.weights += t.weight * partOne
		t = next
	}
	return true
}

// review ends a period: it finds out who needs how much of its weight, drops who had no work, takes V back to where the service is, and corrects the
// boost.
func (w *Worker) review(p *plan) {
	elapsed := min(p.at-w.began, 10*period)
	used, stalls := w.usedByAll()
	stalled := stalls != w.stalls
	w.weights = 0
	live, all, behind, cushion, votes, floor := int64(0), int64(0), int64(0), int64(0), int64(0), w.beganV
	kept := w.active[:0]
	for _, t := range w.active {
		if w.gone(t, p) {
			continue
		}
		cfg := t.cfg.Load()
		t.weight = int64(cfg.Weight)
		t.measure(p, p.v-w.beganV, min(elapsed, 2*period))
		w.weights += t.weight * t.part
		all += t.weight
		vt := t.vt.Load()
		if began := vt - cfg.chunk; began-floor > 0 {
			floor = began
		}
		if t.live.Load() > 0 {
			lag := p.v - vt
			live += t.weight
			behind += min(max(lag, -cfg.lag), cfg.lag) / 16 * t.weight
			cushion += cfg.lag / 4 / 16 * t.weight
			if votes -= t.weight; lag >= cfg.lag/4 {
				votes += 2 * t.weight
			}
		}
		kept = append(kept, t)
	}
	clear(w.active[len(kept):])
	w.active = kept
	share := mulDiv(p.rate, aimPart*elapsed, 1000*second)
	for _, t := range kept {
		t.due.Add(mulDiv(share, t.weight, all))
	}
	// Rings that have nothing to do because all their tenants wait for V show that V binds. If they are few, and most of the weight that has work is behind V
	// by a quarter of what a charge lets it be, then the rings bind, as the bucket does where it had too little: V has promised more than there was.
	slept := w.slept(elapsed)
	if !stalled {
		behind -= cushion // so that rings do not sleep because V went back
	}
	p.piece = w.cfg.Chunk
	if slept > 0 && p.mode == paced { // rings that have no time to spare would send less by pieces
		p.piece = max(p.piece/pieces, LeastEstimate)
	}
	over := behind > 0 && (stalled || slept < 1<<15 && votes > 0)
	if p.at-w.began < 2*period { // else everybody slept for part of it
		promised := mulDiv(p.v-w.beganV+w.lead, w.weights, partOne<<unitBits)
		w.adjust(share, used-w.used, promised, elapsed, over, slept)
	}
	if over {
		// V goes back to where those who have work are ahead of it and behind it by the same number of bytes, as in EEVDF; but not behind what it has
		// let anybody begin, which would be a debt that they have never made.
		if v := p.v - behind/live*16; v-floor > 0 {
			p.v = v
		} else if p.v-floor > 0 {
			p.v = floor
		}
	}
	w.used, w.stalls, w.began, w.beganV, w.lead = used, stalls, p.at, p.v, 0
}

// gone drops a tenant that has had no work for a while.
func (w *Worker) gone(t *Tenant, p *plan) bool {
	switch {
	case t.stamp.Load() >= p.period:
		t.rests = 0
		return false
	case t.rests == 0:
		t.rests = p.at
		return false
	case p.at-t.rests < lingering:
		return false
	}
	t.idle.Store(p.at)
	t.member.Store(false)
	// A ring that had work of it meanwhile has either seen that, or its stamp is seen here.
	return t.stamp.Load() < p.period || !t.member.CompareAndSwap(false, true)
}

// measure finds what part of its weight a tenant needs: what it has been taking, as V has moved by dv, or if that is more the part of the time for which it has
// had work without a pause until now. A burst that has just begun says little.
func (t *Tenant) measure(p *plan, dv, elapsed int64) {
	vt := t.vt.Load() - t.lifted.Load() // without what it was given for nothing
	took := vt - t.began
	t.began = vt
	part := partOne
	if took < dv {
		part = mulDiv(max(took, 0), partOne, max(dv, 1))
		if t.live.Load() > 0 && elapsed > 0 {
			part = max(part, min(max(p.at-t.since.Load(), 0), elapsed)*partOne/elapsed)
		}
	}
	t.part = max(t.part+(part-t.part)*elapsed/(2*period), 1)
}

// adjust moves the boost by three tenths of what it was wrong by: what was left of the aim, and how long rings waited for V, says how much too slow V was. Where
// V has promised too much, the boost loses half of that; below one it makes V follow rings that cannot carry the rate. While there is work for
// nobody it goes back to one.
func (w *Worker) adjust(aim, used, promised, elapsed int64, over bool, slept int64) {
	by := int64(0)
	switch {
	case over:
		by, elapsed = -mulDiv(w.boost/2, max(promised-used, 0), max(promised, 1)), period
	case slept == 0:
		by = (boostOne - w.boost) * gainPart / 10
	case used < aim:
		grow := min(mulDiv(aim-used, 1<<16, max(used, 1)), slept, growMost)
		by = w.boost * gainPart / 10 * grow >> 16
		by = max(by, (boostOne/2-w.boost)*gainPart/10*min(slept, 1<<16)>>16) // by parts of next to nothing V would take very long
	default:
		by = -mulDiv(w.boost*gainPart/10, used-aim, max(used, 1))
	}
	// What one plan sees is as good as its period is long: a few chunks more or less say little about a millisecond.
	w.boost = min(max(w.boost+by*min(elapsed, period)/period, boostLeast), boostMost)
}

// pace is the speed of V: boost * 0.995 * rate / weights, and never more than a tenant of weight 1 that has everything can use.
func (w *Worker) pace(rate int64) int64 {
	if w.weights == 0 || rate == 0 {
		return 0
	}
	aim := min(rate*aimPart/1000*w.boost>>16, mulDiv(rate, max(w.weights, partOne), partOne))
	return mulDiv(mulDiv(aim, 1<<(paceShift+unitBits-partBits), second), 1<<(2*partBits), w.weights)
}

// claims is what other rings wait for that come before a dispatch with a deadline. The bucket's burst has room for a chunk of each ring, so that a claim that
// is not kept holds nobody up for long.
func (w *Worker) claims(own *beacon, deadline int64) (bytes int64) {
	if w.bucket.claims.Load() == 0 {
		return 0
	}
	for i := range w.rings {
		if b := &w.rings[i]; b != own {
			if n := b.claim.Load(); n > 0 && b.deadline.Load()-deadline < 0 {
				bytes += n
			}
		}
	}
	return bytes
}

// usedByAll is what the rings have charged ever, and how often the bucket had too little for them.
func (w *Worker) usedByAll() (used, stalls int64) {
	for i := range w.rings {
		used += w.rings[i].used.Load()
		stalls += w.rings[i].stalls.Load()
	}
	return used, stalls
}

// slept is how long the rings that have done anything since it was last asked have slept because all that was ready waited for V, as a part of how long they
// did not, in 1/65536; 0 if it was less than a twentieth of the time.
func (w *Worker) slept(elapsed int64) int64 {
	slept, worked := int64(0), int64(0)
	for i := range w.rings {
		b, seen := &w.rings[i], &w.seen[i]
		now := glimpse{b.used.Load(), b.slumber.Load()}
		if now != *seen {
			worked++
			slept += now.slumber - seen.slumber
		}
		*seen = now
	}
	if 20*slept < worked*elapsed {
		return 0
	}
	return mulDiv(slept, 1<<16, max(worked*elapsed-slept, 1))
}

// rouse wakes the rings that would sleep too long, or all that sleep.
func (w *Worker) rouse(all bool) {
	if w.cfg.Wake == nil {
		return
	}
	for i := range w.rings {
		b := &w.rings[i]
		until := b.until.Load()
		if until == 0 {
			continue
		}
		awaits := b.awaits.Load()
		if all || awaits != never && addCapped(w.cur.when(awaits), 1<<tickBits) < until {
			w.cfg.Wake(i)
		}
	}
}

// mulDiv is a*b/c for values that are not negative, cut to 2^62.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return 1 << 62
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, 1<<62))
}
