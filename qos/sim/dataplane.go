package sim

import (
	"github.com/talon-worker/talon/qos"
)

// A ring is one data-plane thread: it looks at its requests once per pass, as an io_uring loop looks at its completions.
type ring struct {
	stopped bool  // in mid-pass, views in hand
	entered int64 // local time that the pass has read
	early   bool  // a pass before its time is already on its way
}

// A use is one limit on one worker incarnation: requests that arrive, wait and are charged, and what the checks know of it.
type use struct {
	limit int32
	life  *life
	cell  *qos.Cell
	place qos.Limit
	pair  *use  // charged together with it, or nil
	need  int64 // units a request
	rate  int64 // requests per 1,000 s that arrive on this worker
	lanes []lane
	tally
}

// A lane is a use on one ring.
type lane struct {
	since   int64     // real time up to which arrivals are counted
	acc     int64     // of a request, in 1e12ths
	waiting int64     // requests
	batches []batch   // oldest first
	head    int       // first batch still there
	told    int64     // what the last Await said
	view    *qos.View // in the hands of a stopped ring
}

// A batch is the requests of one pass.
type batch struct {
	at int64 // real time of arrival
	n  int64
}

// pass lets a ring admit what has arrived.
func (w *World) pass(k *worker, r int) {
	s, g := &w.setup, &k.rings[r]
	if g.stopped {
		return // finish goes on
	}
	early := g.early
	g.early = false
	local := k.clock.read(w.now)
	if s.StallP > 0 && w.healedAt == 0 && w.rnd.IntN(1000) < s.StallP {
		w.stop(k, r, local)
		return
	}
	inside := false
	for _, u := range k.life.uses {
		l := &u.lanes[r]
		if u.rate > 0 || l.waiting > 0 {
			w.gather(u, r)
		} else {
			l.since = w.now
		}
		if l.waiting > 0 || l.told > 0 {
			if !inside { // with nothing to serve no view is read
				k.ledger.Enter(r)
				inside = true
			}
			w.serve(k, u, r, u.cell.View(), local, forever)
		}
	}
	if inside {
		k.ledger.Leave(r)
	}
	if !early {
		next := w.now + s.Pass - s.Pass/8 + w.rnd.Int64N(s.Pass/4+1)
		w.queue.push(next, aPass, k.itself(), int32(r))
	}
	if k.reporter.Urgent() {
		w.control(k)
	}
}

// stop halts a ring between reading its views and charging: the kernel has given its core to somebody else.
func (w *World) stop(k *worker, r int, local int64) {
	w.result.Faults[Stall]++
	g := &k.rings[r]
	g.stopped, g.entered = true, local
	k.ledger.Enter(r)
	for _, u := range k.life.uses {
		u.lanes[r].view = u.cell.View()
	}
	at := w.now + 1 + w.rnd.Int64N(w.setup.Stall)
	w.queue.push(at, aFinish, k.itself(), int32(r))
}

// finish lets a stopped ring charge under the views and the time it holds, within what one pass may: b divided by the rings.
func (w *World) finish(k *worker, r int) {
	s, g := &w.setup, &k.rings[r]
	for _, u := range k.life.uses {
		w.gather(u, r)
		l := &u.lanes[r]
		budget := int64(0)
		if p := l.view.Policy(); p != nil {
			budget = p.LocalBurst / int64(s.Rings)
		}
		w.serve(k, u, r, l.view, g.entered, budget)
		l.view = nil
	}
	g.stopped = false
	k.ledger.Leave(r)
	w.queue.push(w.now+s.Pass, aPass, k.itself(), int32(r))
	w.control(k)
}

// retry lets the rings ask again for what waits, now that there is a new view.
func (w *World) retry(k *worker, u *use) {
	for r := range k.rings {
		if g := &k.rings[r]; u.lanes[r].waiting > 0 && !g.early && !g.stopped {
			g.early = true
			w.queue.push(w.now+2_000, aPass, k.itself(), int32(r))
		}
	}
}

// gather takes in the requests that have arrived since the last pass and gives up those that have waited too long.
func (w *World) gather(u *use, r int) {
	l, lim := &u.lanes[r], w.limits[u.limit]
	since := l.since
	l.since = w.now
	if u.rate > 0 {
		come := (w.now - since) * u.rate
		switch len(u.lanes) { // divisions by what is known are cheap
		case 1:
		case 2:
			come /= 2
		case 3:
			come /= 3
		default:
			come /= int64(len(u.lanes))
		}
		if l.acc += come; l.acc >= 1e12 {
			n := l.acc / 1e12
			l.acc -= n * 1e12
			w.arriveRequests(u, r, n)
		}
	}
	for l.waiting > 0 && w.now-l.batches[l.head].at > lim.deadline {
		w.refuse(u, r, l.batches[l.head].n)
		l.shift()
	}
}

func (w *World) arriveRequests(u *use, r int, n int64) {
	l, lim := &u.lanes[r], w.limits[u.limit]
	lim.offered += n * u.need
	if lim.owed {
		lim.perfect.arrive(w.now, n)
	}
	if over := l.waiting + n - lim.bound/int64(len(u.lanes)); over > 0 {
		over = min(over, n)
		w.refuse(u, r, over) // the tenant queue is full
		n -= over
	}
	if n > 0 {
		l.batches = append(l.batches, batch{w.now, n})
		l.waiting += n
	}
}

func (w *World) refuse(u *use, r int, n int64) {
	u.cell.Refuse(n * u.need)
	w.limits[u.limit].refused += n * u.need
}

func (l *lane) shift() {
	l.waiting -= l.batches[l.head].n
	if l.head++; l.head == len(l.batches) {
		l.batches, l.head = l.batches[:0], 0
	} else if l.head >= 64 && 2*l.head >= len(l.batches) {
		l.batches = append(l.batches[:0], l.batches[l.head:]...)
		l.head = 0
	}
}

// take removes n requests from the front.
func (l *lane) take(n int64) {
	for n > 0 {
		b := &l.batches[l.head]
		if b.n > n {
			b.n -= n
			l.waiting -= n
			return
		}
		n -= b.n
		l.shift()
	}
}

// serve admits what waits on a lane, in order, until the limit says wait, and tells the worker what waits then. What cannot go is not tried: see futile.
func (w *World) serve(k *worker, u *use, r int, v *qos.View, local, budget int64) {
	l := &u.lanes[r]
	if hopeless, waits := w.futile(u, v, local); l.waiting > 0 && (hopeless >= u.need || !waits) {
		w.charge(k, u, r, v, local, budget, hopeless, waits)
	}
	if wait := l.waiting * u.need; wait != l.told {
		need := min(u.need, wait)
		u.cell.Await(r, need, wait)
		if u.pair != nil {
			u.pair.cell.Await(r, min(u.pair.need, l.waiting*u.pair.need), l.waiting*u.pair.need)
		}
		l.told = wait
	}
}

// charge tries many requests at once, then half of them, and so on: the same end as one by one, sooner.
func (w *World) charge(k *worker, u *use, r int, v *qos.View, local, budget, hopeless int64, waits bool) {
	l := &u.lanes[r]
	step, burst := l.waiting, w.limits[u.limit].burst
	if left := v.Ceiling() - u.cell.Used(); v.Fresh(local) && left < step*u.need { // no more than this can go at once
		if step = 1; left >= 2*u.need {
			step = left / u.need
		}
	}
	if hopeless < u.need {
		step = 1
	}
	for step > 0 && l.waiting > 0 {
		n := min(step, l.waiting)
		if n*u.need > burst {
			n = max(burst/u.need, 1)
		}
		if n*u.need > budget || n*u.need > hopeless && (n > 1 || waits) {
			step = n / 2
			continue
		}
		switch outcome, why := admit(u, v, n, local); outcome {
		case qos.Go:
			l.take(n)
			budget -= n * u.need
			step = max(min(step, l.waiting/2), min(l.waiting, 1))
			w.admitted(k, u, n*u.need, local, why, budget < forever/2)
			if u.pair != nil {
				w.admitted(k, u.pair, n*u.pair.need, local, why, false)
			}
			hopeless, waits = w.futile(u, v, local)
		case qos.Refuse:
			if n > 1 {
				step = n / 2
				continue
			}
			if !w.thorough {
				n = l.waiting // all alike: a refusal changes nothing for the next
			}
			w.refuse(u, r, n)
			l.take(n)
		default:
			step = n / 2
		}
	}
}

// futile is the largest charge that may go now. waits says that a request that is denied for being larger is told to wait, not refused: then none need be
// tried, and most charges tried were in vain.
func (w *World) futile(u *use, v *qos.View, local int64) (most int64, waits bool) {
	p := v.Policy()
	switch {
	case w.thorough || u.pair != nil:
		return forever, false
	case p == nil:
		return 0, false
	}
	return v.Room(u.cell.Used(), local), u.need <= p.Largest() && (p.OnLimit == qos.Pace || p.OnLimit == qos.Reject && !v.Exhausted())
}

func admit(u *use, v *qos.View, n, local int64) (qos.Outcome, qos.Reason) {
	if u.pair != nil {
		d := qos.AdmitBoth(u.cell, n*u.need, u.pair.cell, n*u.pair.need, local)
		return d.Outcome, d.Reason
	}
	d := u.cell.AdmitUnder(v, n*u.need, local)
	return d.Outcome, d.Reason
}

// admitted books a charge with everybody who checks it, and draws whether a part of it comes back.
func (w *World) admitted(k *worker, u *use, n, local int64, why qos.Reason, held bool) {
	w.checkAdmitted(k, u, n, local, why, held)
	lim := w.limits[u.limit]
	if lim.refundPM > 0 && w.healedAt == 0 && w.rnd.IntN(1000) < lim.refundPM {
		w.result.Faults[Refund]++
		back := refund{n: 1 + w.rnd.Int64N(n)}
		for i, o := range k.life.uses {
			if o == u {
				back.use = int32(i)
			}
		}
		at := w.now + 1 + w.rnd.Int64N(lim.refundIn)
		w.queue.push(at, aRefund, k.itself(), w.refunds.put(&back))
	}
}

// giveBack is a send that fell short.
func (w *World) giveBack(k *worker, r refund) {
	u := k.life.uses[r.use]
	u.cell.Refund(r.n)
	w.checkRefunded(u, r.n)
	if k.reporter.Urgent() {
		w.control(k)
	}
}
