package sim

import (
	"fmt"
	"math"
	"slices"

	"github.com/talon-worker/talon/sched"
)

// checks are the properties, and what they need to know.
type checks struct {
	err error

	used    []float64        // by tenant: bytes/weight charged less refunds
	charges float64          // how often anything was, for rounding
	backlog []bool           // by tenant
	ready   [][]int          // by ring and tenant: flows that could be dispatched
	flying  []int            // by ring: flows in flight
	bytes   [][]int64        // by ring and tenant: bytes in flight
	stood   []sched.Standing // by tenant: as seen from the ring that is about to decide
	least   [][]float64      // by ordered pair: the least lead of one over the other since both began to be backlogged
	hungry  []int64          // by tenant: since when it has been backlogged and not served; 0: it is not
	until   []int64          // by tenant: until when its own limit has made it sleep, which is no hunger
	unfair  bool             // the end has come, or something was done that voids fairness for this run
	ledger  []charge         // every charge in the bucket
	open    []int            // by connection: its charge in the ledger; none: nothing
	held    []int64          // by connection: bytes reserved with ResponseCost
	payload []int64          //
	waits   []int            // by tenant: admitted and not dispatched
	inside  []int            // by tenant: admitted and not over
	sentAll int64            // while paced from the beginning to the end
	cost    int64            // ResponseCosts
	steady  bool             // no rate has changed
}

// charge is bytes at a time, less what came back later.
type charge struct{ at, n int64 }

const none = -1

func (k *checks) init(w *World) {
	n := len(w.tenant)
	k.used, k.backlog, k.hungry = make([]float64, n), make([]bool, n), make([]int64, n)
	k.until, k.waits, k.inside = make([]int64, n), make([]int, n), make([]int, n)
	k.stood = make([]sched.Standing, n)
	for range w.s.Rings {
		k.ready = append(k.ready, make([]int, n))
		k.bytes = append(k.bytes, make([]int64, n))
	}
	k.flying = make([]int, w.s.Rings)
	for range n {
		k.least = append(k.least, make([]float64, n))
	}
	k.open = slices.Repeat([]int{none}, len(w.conns))
	k.held, k.payload = make([]int64, len(w.conns)), make([]int64, len(w.conns))
	k.steady = true
}

func (k *checks) failf(format string, args ...any) {
	if k.err == nil {
		k.err = fmt.Errorf(format, args...)
	}
}

// admitted: P9, the bounds of the queue, and that no refusal is for nothing.
func (k *checks) admitted(w *World, c *conn, v sched.Verdict) {
	t, cfg := c.tenant, &c.tenant.setup.Config
	switch v.Reason {
	case sched.Go:
		k.waits[t.id]++
		k.inside[t.id]++
		if cfg.QueueRequests > 0 && k.waits[t.id] > cfg.QueueRequests {
			k.failf("P9: tenant %d has %d requests in its queue, %d allowed", t.id, k.waits[t.id], cfg.QueueRequests)
		}
		if cfg.MaxInflight > 0 && k.inside[t.id] > cfg.MaxInflight {
			k.failf("P9: tenant %d has %d requests under way, %d allowed", t.id, k.inside[t.id], cfg.MaxInflight)
		}
	case sched.QueueRequests:
		if k.waits[t.id] < cfg.QueueRequests {
			k.failf("P9: tenant %d refused for a full queue with %d of %d requests", t.id, k.waits[t.id], cfg.QueueRequests)
		}
	case sched.Inflight:
		if k.inside[t.id] < cfg.MaxInflight {
			k.failf("P9: tenant %d refused with %d of %d requests under way", t.id, k.inside[t.id], cfg.MaxInflight)
		}
	}
}

// readied: a flow can be dispatched.
func (k *checks) readied(w *World, c *conn) {
	k.ready[c.ring][c.tenant.id]++
	k.touch(w, c.tenant)
}

// picked: the scheduler has decided.
func (k *checks) picked(w *World, r *ring, p *sched.Pick) {
	c := r.bySlot[p.Slot]
	t := c.tenant
	cfg := &t.setup.Config
	if c.state != ready || w.byID[p.Tenant] != t {
		k.failf("P7: ring %d picked connection %d, which is in state %d", r.id, c.id, c.state)
		return
	}
	if p.First != c.fresh {
		k.failf("P7: connection %d: first %v, want %v", c.id, p.First, c.fresh)
	}
	if p.First && p.Wait != r.clock-c.asked && w.s.Policy == Production {
		k.failf("P9: connection %d waited %d, told %d", c.id, r.clock-c.asked, p.Wait)
	}
	k.ready[c.ring][t.id]--
	switch {
	case p.Refuse == sched.Expired && p.Wait <= cfg.Deadline:
		k.failf("P9: refused as expired after %d ns of %d", p.Wait, cfg.Deadline)
	case p.Refuse == sched.Shed && p.Wait <= 2*cfg.Target:
		k.failf("P9: shed after %d ns with a target of %d", p.Wait, cfg.Target)
	case p.Refuse == sched.Go && p.First && cfg.Deadline > 0 && p.Wait > cfg.Deadline:
		k.failf("P9: dispatched %d ns after its deadline", p.Wait-cfg.Deadline)
	}
	if p.Refuse != sched.Go {
		k.waits[t.id]--
		k.inside[t.id]--
		return
	}
	held := p.Bytes
	if p.First {
		held += sched.ResponseCost
	}
	if p.Bytes > w.s.Chunk || p.Bytes > c.left {
		k.failf("%d bytes picked of %d, chunk %d", p.Bytes, c.left, w.s.Chunk)
	}
	k.held[c.id], k.payload[c.id] = held, p.Bytes
	k.ordered(w, c)
	k.forgave(w, c, held)
	k.passed(w, c)
	k.bytes[c.ring][t.id] += held
	k.add(w, t, held)
	if w.rate > 0 {
		k.open[c.id] = len(k.ledger)
		k.ledger = append(k.ledger, charge{r.clock, held})
	}
	if h := max(k.hungry[t.id], k.until[t.id]); k.hungry[t.id] > 0 && w.s.Fair && !k.unfair {
		weights := int64(0)
		for _, o := range w.tenant {
			weights += o.weight
		}
		// Its debt may be as large as all that was in flight, its share as small as its weight; V may be replanned once, and the ring busy for a turn.
		chunk := w.s.Chunk + sched.ResponseCost
		bound := float64(int64(w.s.Rings*w.s.Depth+2)*chunk) / float64(w.s.Rate) * float64(weights) / float64(t.weight) * float64(sec)
		bound += float64(20*msec) + float64(w.s.Turn)*float64(w.rings[0].cost(chunk)) + float64(w.s.Latency)
		w.r.Hunger = max(w.r.Hunger, float64(w.now-h)/bound)
		if float64(w.now-h) > bound {
			k.failf("P10: tenant %d was backlogged for %.1f ms without being served, bound %.1f ms", t.id, float64(w.now-h)/1e6, bound/1e6)
		}
	}
	k.hungry[t.id] = 0
}

// paced reports whether tenants go by one virtual time.
func (k *checks) paced(w *World) bool {
	return !k.unfair && w.s.Order == sched.Fair && w.s.Policy == Production && w.rate > 0
}

// deciding: a ring is about to be asked.
func (k *checks) deciding(w *World, r *ring) {
	if k.paced(w) {
		for i, t := range w.tenant {
			k.stood[i] = r.prod.Standing(t.sched)
		}
	}
}

// ordered: P2, what may be forgiven. On a ring nobody goes before another that is ready there and whose deadline is earlier by more than what it had in flight,
// which may have come back since the ring looked. Who was passed over because its part of the ring is in flight is not asked.
func (k *checks) ordered(w *World, c *conn) {
	if !k.paced(w) {
		return
	}
	chunk := w.s.Chunk + sched.ResponseCost
	for o, n := range k.bytes[c.ring] {
		t := w.tenant[o]
		if t == c.tenant || !k.stood[o].Ready || n > 0 && n+chunk > k.part(w) {
			continue
		}
		may := float64(int64(w.s.Rings*w.s.Depth+1)*chunk) / float64(t.weight)
		if late := k.stood[c.tenant.id].VT - k.stood[o].VT; late > may+1 {
			k.failf("P2: ring %d: tenant %d goes before tenant %d, which is behind it by %.0f, bound %.0f", c.ring, c.tenant.id, o, late, may)
		}
	}
}

// forgave: P2, and no more than that is forgiven. Who has been lifted by its charge is where it would have been lifted to, and not beyond.
func (k *checks) forgave(w *World, c *conn, held int64) {
	if !k.paced(w) || c.tenant.limit != nil {
		return // who slept for its limit came back just now, and was lifted for that, too
	}
	st := w.turn.prod.Standing(c.tenant.sched)
	by := st.Forgiven - k.stood[c.tenant.id].Forgiven
	if over := st.VT - float64(held)/float64(c.tenant.weight) - st.Floor; by > 0 && over > 1 {
		k.failf("P2: tenant %d was forgiven %.0f, %.0f too much", c.tenant.id, by, over)
	}
}

// part is how much of a ring's depth one tenant may have, if others are ready.
func (k *checks) part(w *World) int64 { return max(int64(w.s.Depth-1), 1) * w.s.Chunk }

// passed: who has its part of the ring in flight already is passed over for others, and has no claim on what they get meanwhile.
func (k *checks) passed(w *World, c *conn) {
	for o, n := range k.bytes[c.ring] {
		if o != c.tenant.id && n > 0 && n+w.s.Chunk+sched.ResponseCost > k.part(w) {
			k.begin(w, o)
		}
	}
}

// add charges, or gives back where n is negative, and looks at the tenant's lag to all others.
func (k *checks) add(w *World, t *tenant, n int64) {
	k.used[t.id] += float64(n) / float64(t.weight)
	k.charges++
	k.lags(w, t, n > 0)
}

// lead is what one tenant has had before another since the beginning, in bytes/weight. What the other was forgiven counts as if it had got it: and so
// does, at the end of an interval, what it would be forgiven now.
func (k *checks) lead(w *World, one, other int) (begin, end float64) {
	begin = k.used[one] - k.used[other]
	end = begin
	if w.turn != nil && w.s.Policy == Production {
		st := w.turn.prod.Standing(w.tenant[other].sched)
		begin, end = begin-st.Forgiven, end-st.Forgiven-max(st.Floor-st.VT, 0)
	}
	return begin, end
}

// lags: P1 and P2. Between two tenants that have been backlogged all the while, what they got differs by no more than what can be in flight, whichever
// interval one takes, beyond what the one that got less was forgiven in it: a tenant whose weight is great falls behind the service by more than it may keep
// while it waits for one chunk of another. docs/decisions/0005 proves the bound, and that without what is forgiven there is none. ordered and forgave check that
// nobody is made to wait, or forgiven, for nothing.
func (k *checks) lags(w *World, t *tenant, charged bool) {
	alone := w.s.Rings == 1 && w.rate == 0
	if k.unfair || w.s.Order != sched.Fair || !k.backlog[t.id] || !alone && !(w.s.Fair && w.rate == w.s.Rate) || t.limit != nil {
		return
	}
	chunk := float64(w.s.Chunk + sched.ResponseCost)
	part := float64(w.s.Rings*w.s.Depth + 1)
	for _, o := range w.tenant {
		if o == t || !k.backlog[o.id] || o.limit != nil {
			continue
		}
		bound := part*(chunk/float64(t.weight)+chunk/float64(o.weight)) + k.charges/256
		if !alone {
			bound += chunk / float64(min(t.weight, o.weight)) // the credit
		}
		lag := max(k.lag(w, t.id, o.id), k.lag(w, o.id, t.id))
		if !charged && !alone {
			continue // the scheduler has not been told yet: what it forgives is still what it was
		}
		w.r.Pairs++
		w.r.Lag = max(w.r.Lag, lag/bound)
		if lag > bound {
			k.failf("%s: tenants %d and %d (weights %d and %d): lag %.0f, bound %.0f", map[bool]string{true: "P1", false: "P2"}[alone],
				t.id, o.id, t.weight, o.weight, lag, bound)
		}
	}
}

// lag is the most that one tenant has gained on another in any interval that ends now.
func (k *checks) lag(w *World, one, other int) float64 {
	begin, end := k.lead(w, one, other)
	k.least[one][other] = min(k.least[one][other], begin)
	return end - k.least[one][other]
}

// touch looks whether a tenant is still backlogged.
func (k *checks) touch(w *World, t *tenant) {
	is := false
	for _, r := range k.ready {
		is = is || r[t.id] > 0
	}
	if is == k.backlog[t.id] {
		return
	}
	k.backlog[t.id] = is
	if k.hungry[t.id] = 0; is {
		k.hungry[t.id] = w.now
		k.begin(w, t.id)
	}
}

// begin makes a tenant's lags start from here.
func (k *checks) begin(w *World, id int) {
	for o := range k.used {
		k.least[id][o], _ = k.lead(w, id, o)
		k.least[o][id], _ = k.lead(w, o, id)
	}
}

// unpicked: the flow was blocked before it was charged, or its tenant parked until a time; 0: it was not.
func (k *checks) unpicked(w *World, c *conn, parked int64) {
	k.add(w, c.tenant, -k.held[c.id])
	k.bytes[c.ring][c.tenant.id] -= k.held[c.id]
	if i := k.open[c.id]; i != none {
		k.ledger[i].n = 0
		k.open[c.id] = none
	}
	k.held[c.id] = 0
	if parked > 0 {
		w.r.Parked++
		k.until[c.tenant.id] = max(k.until[c.tenant.id], parked)
		k.ready[c.ring][c.tenant.id]++ // which is why tenants with limits are left out of lags
	} else {
		w.r.Cold++
	}
}

// over: a request is answered, or its connection has gone.
func (k *checks) over(w *World, c *conn) { k.inside[c.tenant.id]-- }

// gone: a connection has gone before its request was charged, or between two charges.
func (k *checks) gone(w *World, c *conn) {
	if c.fresh {
		k.waits[c.tenant.id]--
	}
	if c.state == ready {
		k.ready[c.ring][c.tenant.id]--
	}
	k.over(w, c)
	k.touch(w, c.tenant)
}

func (k *checks) charged(w *World, c *conn, n int64) {
	if c.fresh {
		k.waits[c.tenant.id]--
	}
	k.flying[c.ring]++
}

// done: sent bytes have been taken; the rest comes back.
func (k *checks) done(w *World, c *conn, sent int64) {
	back := k.payload[c.id] - sent
	if back > 0 {
		w.r.Short++
		k.add(w, c.tenant, -back)
	}
	if i := k.open[c.id]; i != none {
		k.ledger[i].n -= back
		k.open[c.id] = none
	}
	k.bytes[c.ring][c.tenant.id] -= k.held[c.id]
	k.sentAll += sent
	k.cost += k.held[c.id] - k.payload[c.id]
	k.held[c.id], k.payload[c.id] = 0, 0
	k.flying[c.ring]--
	c.tenant.sent += sent
}

// slept: P5 without a rate. A ring that has nothing in flight sleeps only if nothing is ready.
func (k *checks) slept(w *World, r *ring, wake int64) {
	if k.flying[r.id] > 0 {
		w.r.Full++
		return
	}
	if w.rate > 0 || w.s.Policy != Production {
		if wake == math.MaxInt64 && w.s.Policy == Production {
			for _, t := range w.tenant {
				if k.ready[r.id][t.id] > 0 {
					k.failf("P5: ring %d sleeps for ever with %d ready flows of tenant %d", r.id, k.ready[r.id][t.id], t.id)
				}
			}
		}
		return
	}
	for _, t := range w.tenant {
		if t.limit == nil && k.ready[r.id][t.id] > 0 {
			k.failf("P5: ring %d sleeps until %d with %d ready flows of tenant %d", r.id, wake, k.ready[r.id][t.id], t.id)
		}
	}
}

// rateChanged: something was done to the world; what was owed to intervals across it is not owed any more.
func (k *checks) rateChanged(w *World) {
	k.steady = false
	k.unfair = true
}

// audit: P7, P8.
func (k *checks) audit(w *World) {
	var rings []*sched.Ring
	for _, r := range w.rings {
		rings = append(rings, r.prod)
	}
	if err := w.worker.Audit(rings); err != nil {
		k.failf("P7: %v", err)
	}
}

// quiet: nothing is under way any more.
func (k *checks) quiet(w *World) {
	if n := w.busy(); n > 0 {
		k.failf("%d requests are not over, and nothing will happen any more", n)
		return
	}
	if w.s.Policy != Production {
		return
	}
	k.audit(w)
	for i, r := range w.rings {
		if n := r.prod.Counters().Idle; n > 0 {
			k.failf("P6: %d idle passes of ring %d", n, i)
		}
	}
	for _, t := range w.tenant {
		got, queued := int64(0), int64(0)
		for _, r := range w.rings {
			st := r.prod.Stats(t.sched)
			got += st.Got
			queued += st.Queued
		}
		if requests, bytes := t.sched.Queued(); got != t.sent || queued != 0 || requests != 0 || bytes != 0 {
			k.failf("P8: tenant %d: %d bytes sent, counted %d; %d queued, %d requests and %d bytes at the end", t.id, t.sent, got, queued, requests, bytes)
		}
	}
	if used := w.worker.Used(); k.steady && w.s.Rate > 0 && used != k.sentAll+k.cost {
		k.failf("P8: charged less given back %d, sent %d and %d for responses", used, k.sentAll, k.cost)
	}
	if k.steady && w.s.Rate > 0 {
		k.conforms(w)
	}
}

// conforms: P4. For every interval, bytes <= burst + rate * its length. A leaky bucket that never held more than the burst says so for all of
// them at once: what it holds is the most that any interval that ends now has had beyond rate * its length.
func (k *checks) conforms(w *World) {
	slices.SortStableFunc(k.ledger, func(a, b charge) int { return int(min(max(a.at-b.at, -1), 1)) })
	w.r.Interval = max(w.r.Interval, worstInterval(k.ledger, w.s.Rate, w.worker.Burst(w.s.Rate)))
	w.r.Charges += uint64(len(k.ledger))
	if w.r.Interval > 1 {
		k.failf("P4: an interval had %.9f of burst + rate * length", w.r.Interval)
	}
}

// worstInterval returns the most by which an interval had beyond rate * its length, as a part of the burst. Exact: it counts in 1e-9 bytes.
func worstInterval(ledger []charge, rate, burst int64) float64 {
	level, last, worst := int64(0), int64(0), int64(0)
	for _, c := range ledger {
		if dt := c.at - last; dt > level/rate {
			level = 0
		} else {
			level -= dt * rate
		}
		last = c.at
		level += c.n * sec
		worst = max(worst, level)
	}
	if worst > burst*sec {
		return max(float64(worst)/float64(burst*sec), math.Nextafter(1, 2))
	}
	return float64(worst) / float64(burst*sec)
}
