package qos

import "sync/atomic"

// cacheLine keeps words that different cores write from sharing one.
const cacheLine = 64

// A Cell is one limit on one worker: the view in force and what has been used. Rings charge it concurrently; they touch nothing but the
// atomics. Everything under "control loop" belongs to the Reporter.
//
// used is one word for all rings on purpose. A counter per ring, summed at the check, lets every ring find the last unit left:
// 1.28 times the bound in simulation.
type Cell struct {
	limit     Limit
	ledger    *Ledger
	id        uint64 // ReporterID.Cell
	view      atomic.Pointer[View]
	allowance atomic.Pointer[GCRA] // rule 9: kept as long as the cell, over all policies

	_    [cacheLine]byte
	used atomic.Int64  // charged less refunded, since the cell was made
	note atomic.Uint32 // quiet, active or noted
	next *Cell         // the rest of Ledger.noted; written by whoever moved note to noted
	_    [cacheLine]byte

	refunded atomic.Int64 // cumulative
	reported atomic.Int64 // used as of the newest report: refunds do not reach far below it
	lapsed   atomic.Int64 // cumulative refunds that came too late to count; for people
	refused  atomic.Int64 // cumulative units finally refused, or denied in shadow
	waits    []ringWait   // by ring

	rep reporting // control loop
}

// ringWait is what waits for a limit on one ring.
type ringWait struct {
	need    atomic.Int64 // the next charge; 0 nothing waits
	waiting atomic.Int64 // sum of all that waits
	_       [cacheLine - 16]byte
}

// States of Cell.note.
const (
	quiet  uint32 = iota // the reporter does not know of the cell: the next use tells it
	active               // the reporter looks after it
	noted                // in Ledger.noted, to be looked at soon
)

// Limit returns the limit that the cell is for.
func (c *Cell) Limit() Limit { return c.limit }

// View returns the view in force. A ring may use it until it leaves the pass, and must then read it again.
func (c *Cell) View() *View { return c.view.Load() }

// Used returns cumulative use, charged less refunded.
func (c *Cell) Used() int64 { return c.used.Load() }

// Admit charges n >= 0 units at now under the view in force, all or none.
func (c *Cell) Admit(n, now int64) Decision { return c.AdmitUnder(c.view.Load(), n, now) }

// AdmitUnder is Admit under a view that this ring has read earlier in the pass. now may then be the time at which the pass
// began, if the pass charges at most the policy's local burst divided by the number of rings.
func (c *Cell) AdmitUnder(v *View, n, now int64) Decision {
	if n < 0 || n > v.plain || !v.Fresh(now) {
		return c.admitSlowly(v, n, now)
	}
	for { // the usual case: one compare-and-swap under a fresh view
		used := c.used.Load()
		if used > v.ceiling-n {
			return c.admitSlowly(v, n, now)
		}
		if c.used.CompareAndSwap(used, used+n) {
			if c.note.Load() != active || used+n >= v.early {
				c.touch(used+n, v)
			}
			return Decision{Outcome: Go, Soft: v.soft}
		}
	}
}

// admitSlowly is AdmitUnder for all that is not the usual case.
func (c *Cell) admitSlowly(v *View, n, now int64) Decision {
	d, done := v.gate(n, now)
	if done {
		return d
	}
	if !v.policy.Limits() {
		c.touch(c.used.Add(n), v)
		d.Reason = Unlimited
		return d
	}
	why := c.charge(v, n, now)
	if why == Granted {
		return d
	}
	if v.policy.Mode == Shadow {
		c.refused.Add(n)
		d.Reason = ShadowDenied
		return d
	}
	return v.deny(why, now)
}

// charge takes n from the ceiling while the view is fresh, else from the allowance.
func (c *Cell) charge(v *View, n, now int64) Reason {
	if !v.Fresh(now) {
		return c.chargeAllowance(v, n, now)
	}
	for {
		used := c.used.Load()
		if used > v.ceiling-n {
			return Exhausted
		}
		if c.used.CompareAndSwap(used, used+n) {
			c.touch(used+n, v)
			return Granted
		}
	}
}

// chargeAllowance admits without a fresh view: at most min(spare - unacknowledged, allowance), so that the first request of a
// quiet tenant waits for no round trip. Only time refills the allowance; were it refilled by every acknowledgement, 100 workers
// with small bursts would admit 29 times the bound.
//
// A worker for whom the owner keeps a place does without, though its view grows old in the silence, and so does one that has just heard that
// nothing is left: else those who wait live on their allowances, which together refill at the rate, the level never recovers, and whoever has no
// allowance starves.
func (c *Cell) chargeAllowance(v *View, n, now int64) Reason {
	if now < v.barred {
		return Exhausted
	}
	allowance := c.allowance.Load()
	if n > v.spare || !allowance.Charge(n, now) {
		return StaleView
	}
	for {
		used := c.used.Load()
		if used-v.acked > v.spare-n {
			allowance.Refund(n, now)
			return StaleView
		}
		if c.used.CompareAndSwap(used, used+n) {
			c.touch(used+n, v)
			return Granted
		}
	}
}

// Refund gives back n >= 0 units of a charge that was not used after all, at most what was charged and only once. It does not matter
// under which view they were charged.
//
// Charges that are already reported come back only so far: the owner's level may have been full since, and would not have kept what
// it gets back late (cancelled work in bursts: 16 times the bound). What is beyond the view's lapse is lost to the limit.
func (c *Cell) Refund(n int64) {
	if n <= 0 {
		return
	}
	lapse := c.view.Load().lapse
	for {
		used := c.used.Load()
		back := max(min(n, used, used-(c.reported.Load()-lapse)), 0)
		if !c.used.CompareAndSwap(used, used-back) {
			continue
		}
		// used first: a report that falls between the two shows too much use, which the next one mends, never too little.
		c.refunded.Add(back)
		c.lapsed.Add(n - back)
		c.touch(used-back, c.view.Load())
		return
	}
}

// Refuse counts n units that were asked for and finally refused: wanted use, never charged.
func (c *Cell) Refuse(n int64) {
	if n > 0 {
		c.refused.Add(n)
		c.wake(quiet)
	}
}

// Await says what waits for this limit on one ring: the next single charge, and the sum of all that waits; 0, 0 when nothing does any
// more. The reporter asks the owner for it.
func (c *Cell) Await(ring int, need, waiting int64) {
	w := &c.waits[ring]
	was := w.need.Swap(max(need, 0))
	w.waiting.Store(max(waiting, need, 0))
	if need > was {
		c.wake(quiet)
		c.wake(active)
	}
}

// touch tells the reporter of use: the first after a silence, and use that should be reported early.
func (c *Cell) touch(used int64, v *View) {
	switch c.note.Load() {
	case quiet:
		c.wake(quiet)
	case active:
		if used >= v.early {
			c.wake(active)
		}
	}
}

// wake moves the cell into the ledger's list of noted cells, if it is in the given state. A Treiber stack with one consumer
// that takes all of it at once, which is what makes reuse of the links safe.
func (c *Cell) wake(from uint32) {
	if c.limit == (Limit{}) || !c.note.CompareAndSwap(from, noted) { // what stands in for limits without a cell has nothing to report
		return
	}
	for {
		head := c.ledger.noted.Load()
		c.next = head
		if c.ledger.noted.CompareAndSwap(head, c) {
			if f := c.ledger.urgent; head == nil && f != nil {
				f()
			}
			return
		}
	}
}

// totals reads cumulative use. refunded is read first: see Refund.
func (c *Cell) totals() Total {
	refunded := c.refunded.Load()
	return Total{Charged: c.used.Load() + refunded, Refunded: refunded}
}

// waiting returns the largest next charge and the sum of what waits over all rings.
func (c *Cell) waiting() (need, sum int64) {
	for i := range c.waits {
		need = max(need, c.waits[i].need.Load())
		sum += c.waits[i].waiting.Load()
	}
	return need, sum
}

// anyWaits reports whether anything waits.
func (c *Cell) anyWaits() bool {
	need, _ := c.waiting()
	return need > 0
}

// AdmitBoth charges n to a and m to b, both or neither: a request must not pay for one limit because another refused it. If either
// is denied the decision is that one's; if both go, that of a, soft if either is.
func AdmitBoth(a *Cell, n int64, b *Cell, m, now int64) Decision {
	va, vb := a.View(), b.View()
	if d, would := b.would(vb, m, now); !would {
		return d
	}
	da := a.AdmitUnder(va, n, now)
	if da.Outcome != Go {
		return da
	}
	db := b.AdmitUnder(vb, m, now)
	if db.Outcome != Go {
		if da.Charged() {
			a.Refund(n) // another ring took the last of b in between
		}
		return db
	}
	da.Soft = da.Soft || db.Soft
	return da
}

// would reports whether a charge of n would go, and the decision if not. It charges nothing.
func (c *Cell) would(v *View, n, now int64) (Decision, bool) {
	d, done := v.gate(n, now)
	if done || !v.policy.Limits() || v.policy.Mode == Shadow {
		return d, d.Outcome == Go
	}
	used := c.used.Load()
	if v.Fresh(now) {
		if used > v.ceiling-n {
			return v.deny(Exhausted, now), false
		}
	} else if now < v.barred {
		return v.deny(Exhausted, now), false
	} else if n > v.spare || used-v.acked > v.spare-n || c.allowance.Load().Level(now) < n {
		return v.deny(StaleView, now), false
	}
	return d, true
}
