package sim

import (
	"github.com/talon-worker/talon/qos"
)

// awaitPaid waits until no owner is in debt. An owner that starts after a crash counts all that nobody has acknowledged as used just now, views that
// were spent and allowances: up to 2*N*b + R*TTL. Liveness is owed from when that is paid.
func (w *World) awaitPaid() {
	from := w.now
	for w.err == nil && w.inDebt() {
		if w.now-from > w.longestDebt() {
			w.overdue()
			break
		}
		w.Until(w.now + 20e6)
	}
	w.result.Paying = max(w.result.Paying, w.now-from)
}

// longestDebt is how long 2*N*b + R*TTL take to be paid, and some.
func (w *World) longestDebt() int64 {
	longest := int64(2e9)
	for _, l := range w.limits {
		b := max(l.policy.LocalBurst, l.local)
		longest = max(longest, mul(3*int64(len(w.workers))*b, 1e9, l.policy.Rate)+w.toRecover(l))
	}
	return longest
}

// toRecover is how long a tenant under its limit takes from the last of the debt to a level at which nobody is refused: what it leaves of the rate fills it.
func (w *World) toRecover(l *limit) int64 {
	if !l.under() {
		return 0
	}
	return mul(w.paidAt(l)+mul(l.policy.Rate, int64(w.setup.Config.Advance), 1e9), 1e9, l.policy.Rate-l.demand.Rate)
}

// paidAt is the level from which on nothing is owed any more. Who wants all there is keeps the level at the advance. Who is under its limit is owed
// that nothing is refused, and an ideal bucket would refuse it too until it has a little: two needs for each worker and 20 ms of the rate. Where nothing waits
// it is as much as policy check wants of the burst, or three quarters of that burst: what is in hand at one worker is missing at another.
func (w *World) paidAt(l *limit) int64 {
	if !l.under() {
		return -mul(l.policy.Rate, int64(w.setup.Config.Advance), 1e9) - l.demand.Need
	}
	if cfg := &w.setup.Config; l.policy.OnLimit == qos.Reject {
		inHand := 3*int64(max(cfg.TTL/2, cfg.SyncMax)+cfg.Trip) - int64(cfg.Advance)
		return min(max(4*l.demand.Need*int64(len(w.ids)), mul(l.policy.Rate, max(inHand, 0), 1e9)), l.policy.Burst*3/4)
	}
	return min(max(2*l.demand.Need*int64(len(w.ids)), mul(l.policy.Rate, 20, 1000)), l.policy.Burst/2)
}

// under reports whether less is wanted than the limit allows, so that nothing may be refused.
func (l *limit) under() bool { return l.demand.Rate*10 <= l.policy.Rate*9 }

// inDebt reports whether some limit is below where liveness is owed now, and notes which have been above.
func (w *World) inDebt() (any bool) {
	for _, l := range w.limits {
		if w.stands(l) >= w.paidAt(l) {
			l.paid = true
		} else if l.setup.Sane {
			any = true
		}
	}
	return any
}

// stands is what an owner has of a limit now: its level, less what it keeps of views that nobody can name dead any more. A worker that died with a view
// in hand may have used all of it, so that is a debt like use that was told, and paid by the same refill: before it is, the contract lets nothing be
// granted. And now is not just after a report: where a burst is worth few reports each takes much of it, and it has filled again before the next.
func (w *World) stands(l *limit) int64 {
	i := w.limitOf(l.name)
	if k := w.workers[w.route[w.coord.owners[len(w.coord.owners)-1][i]]]; k.alive {
		w.status = k.owner.Status(k.clock.read(w.now), w.status[:0])
		for j := range w.status {
			if s := &w.status[j]; s.Key.Limit() == l.name {
				return s.Level - s.Expired
			}
		}
	}
	return l.level // nobody has used it there yet, or for so long that it is forgotten
}

// overdue finds a debt that has not been paid in time. Only of a limit that was off nobody knows how long it takes: what was used without a limit, and is
// reported when there is one again, is a debt of any size. And one that has been seen above is in no debt because it is below again: a burst that is worth three charges is
// taken and filled all the time.
func (w *World) overdue() {
	for _, l := range w.limits {
		if stands := w.stands(l); l.setup.Sane && !l.wasOff && !l.paid && stands < w.paidAt(l) {
			w.fail("%v: the owner is in debt %s after the faults, level %d, less what has expired %d", l.name, ms(w.now-w.healedAt), l.level, stands)
		}
	}
}

// giveUp lets everything that still waits from before go: whether what comes now is served in time is the question.
func (w *World) giveUp() {
	for _, k := range w.workers {
		if !k.alive {
			continue
		}
		for _, u := range k.life.uses {
			for r := range u.lanes {
				for l := &u.lanes[r]; l.waiting > 0; l.shift() {
					w.refuse(u, r, l.batches[l.head].n)
				}
			}
		}
	}
}

// dump tells how a limit stands with its owner and its users, for whoever reads a failed run.
func (w *World) dump(i int32) {
	l := w.limits[i]
	w.note("%v: ideal level %d, owner's %d, admitted %d", l.policy.Limit(), l.meter.Level(w.now), l.level, l.net())
	for _, k := range w.workers {
		if u := k.use(i); u != nil && k.alive {
			waiting := int64(0)
			for r := range u.lanes {
				waiting += u.lanes[r].waiting
			}
			w.note("  %s used %d ceiling %d fresh for %s waiting %d", k.id, u.cell.Used(), u.ceiling, ms(u.fresh-k.clock.read(w.now)), waiting)
		}
	}
}

func (w *World) beginMeasure() {
	w.giveUp()
	for _, l := range w.limits {
		stands := w.stands(l)
		l.owed = l.setup.Sane && stands >= w.paidAt(l)
		stands = min(stands, l.level-w.unheard(l)+w.ahead(l))            // what was used before and is told after is taken from what comes
		rate := l.policy.Rate - mul(l.policy.Rate, w.setup.DriftPM, 1e6) // by the slowest clock
		l.perfect = perfect{bucket: bucket{rate: rate, burst: l.policy.Burst, level: stands, at: w.now}, need: l.demand.Need, deadline: l.deadline}
		l.from = measured{at: w.now, offered: l.offered, charged: l.net(), refused: l.refused, level: l.level, debt: max(-stands, 0)}
	}
}

// unheard is what living workers have used and no owner has heard of yet.
func (w *World) unheard(l *limit) (units int64) {
	i := w.limitOf(l.name)
	for _, k := range w.workers {
		if u := k.use(i); u != nil && k.alive {
			units += u.charged - u.counted
		}
	}
	return units
}

// ahead is what is always used and not refilled, or not told, at both ends of a window: the advance, and a report on its way.
func (w *World) ahead(l *limit) int64 {
	cfg := &w.setup.Config
	return mul(l.policy.Rate, int64(cfg.Advance+cfg.SyncMax+cfg.Trip), 1e9)
}

// endMeasure holds what was delivered since against what was due: all that was wanted, or R, whichever is less; and no more than one could serve that knew
// everything at once. Where a burst holds two requests, and sixteen lanes send theirs at much the same time, it is full meanwhile, whoever keeps it (0.90 of
// R, and all of what could be served, in seed 96623 before a rule was changed).
func (w *World) endMeasure() {
	for _, l := range w.limits {
		if l.owed && w.setup.Measure > 0 && w.err == nil {
			w.measure(l)
		}
	}
}

func (w *World) measure(l *limit) {
	span := w.now - l.from.at
	due := min(l.offered-l.from.offered-w.justCome(l), mul(l.perfect.rate, span, 1e9)-l.from.debt)
	if l.policy.OnLimit == qos.Pace {
		l.perfect.upTo(w.now)
		due = min(due, l.perfect.served)
	}
	if l.policy.OnLimit == qos.Reject { // out of a debt it first puts some needs in each worker's hands: requests that are refused do not wait for them
		due -= min(max(l.level-max(l.from.level, 0), 0), 4*l.demand.Need*int64(len(w.ids)))
	}
	got := l.net() - l.from.charged
	if due <= 0 {
		return
	}
	part := float64(got+l.demand.Need) / float64(due) // the window may cut a request
	if w.result.Measured == 0 || part < w.result.Delivered {
		w.result.Delivered = part
	}
	w.result.Measured++
	if part < 0.97 {
		w.dump(w.limitOf(l.policy.Limit()))
		w.fail("%v: delivered %d of %d due in %s (%.3f), demand %v", l.policy.Limit(), got, due, ms(span), part, l.demand)
	}
	if over := l.refused - l.from.refused; l.under() && over > 0 {
		w.result.Refused += over
		w.fail("%v: refused %d to a tenant under its limit, demand %v", l.policy.Limit(), over, l.demand)
	}
}

// justCome is what waits and has come within the last few round trips: nobody is late with it.
func (w *World) justCome(l *limit) (units int64) {
	i := w.limitOf(l.policy.Limit())
	for _, k := range w.workers {
		u := k.use(i)
		if u == nil || !k.alive {
			continue
		}
		for r := range u.lanes {
			for _, b := range u.lanes[r].batches[u.lanes[r].head:] {
				if w.now-b.at < 6*int64(w.setup.Config.SyncMax) {
					units += b.n * u.need
				}
			}
		}
	}
	return units
}

// count adds what production code has counted itself.
func (w *World) count() {
	for _, l := range w.limits {
		w.result.Worst = max(w.result.Worst, l.ratio)
	}
	for _, k := range w.workers {
		if k.alive {
			w.countWorker(k)
		}
	}
}

func (w *World) countWorker(k *worker) {
	addStats(&w.result.Reporter, &k.reporter.Stats)
	addStats(&w.result.Owner, &k.owner.Stats)
}
