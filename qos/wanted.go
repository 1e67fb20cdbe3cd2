package qos

// wantedSlots is into how many parts the second of a wanted is cut.
const (
	wantedSlots = 10
	wantedSlot  = perSecond / wantedSlots
)

// A wanted is the use of one limit that the whole cluster asked for in the last second: admitted, refused and queued. It judges soft limits and
// bans. It forgets in steps of a tenth of a second and counts 0.9 to 1 second, so it never judges too early.
type wanted struct {
	slots [wantedSlots]int64
	sum   int64
	slot  int64 // number of the newest slot
}

// add counts n >= 0 units that were asked for in the span of ns before now. What was asked for more than a second ago does not count: a
// worker that comes back after a partition must not look like a flood.
func (w *wanted) add(n, span, now int64) {
	w.advance(now)
	if span > perSecond {
		n = mulDiv(n, perSecond, span)
	}
	n = min(n, MaxBurst-w.sum)
	w.slots[w.index(w.slot)] += n
	w.sum += n
}

// last returns the units of the last second.
func (w *wanted) last(now int64) int64 {
	w.advance(now)
	return w.sum
}

func (w *wanted) advance(now int64) {
	slot := now / wantedSlot
	if slot-w.slot >= wantedSlots {
		*w = wanted{slot: slot}
		return
	}
	for ; w.slot < slot; w.slot++ {
		i := w.index(w.slot + 1)
		w.sum -= w.slots[i]
		w.slots[i] = 0
	}
}

// asked is what is counted now.
func (w *wanted) asked(now int64) (a Asked) {
	w.advance(now)
	for i := range a {
		a[i] = w.slots[w.index(w.slot-int64(i))]
	}
	return a
}

// goOn counts from now on what another has counted until now.
func (w *wanted) goOn(a Asked, now int64) {
	*w = wanted{slot: now / wantedSlot}
	for i, n := range a {
		w.slots[w.index(w.slot-1-int64(i))] = n
		w.sum += n
	}
}

// sound reports whether a count is one.
func (a *Asked) sound() bool {
	left := int64(MaxBurst)
	for _, n := range a {
		if n < 0 || n > left {
			return false
		}
		left -= n
	}
	return true
}

func (w *wanted) index(slot int64) int64 { return (slot%wantedSlots + wantedSlots) % wantedSlots }
