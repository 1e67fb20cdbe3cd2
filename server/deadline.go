package server

import "math"

// sweepEvery is the least time between two looks at the deadlines, in ns: a
// deadline passes at most this late.
const sweepEvery = 100e6

// passMost bounds the deadlines that pass in one turn: thousands of connections that
// came together and are silent end together, and closing one takes about 15 us.
const passMost = 16

// deadlines holds one deadline per slot, 0 for none. A deadline is set twice a
// request and passes hardly ever, so setting is one store and looking is a scan
// of 8 bytes a slot (16,384 slots: 10 us) at most ten times a second. A timing
// wheel or ordered list would pay on every request for what happens once in a
// connection's life.
type deadlines struct {
	at   []int64
	next int64 // no deadline passes before this, as far as is known
	last int64 // the last look began
	from int   // the slot at which it goes on in the next turn; 0: it is over
}

func newDeadlines(slots int) deadlines {
	return deadlines{at: make([]int64, slots), next: math.MaxInt64, last: -sweepEvery}
}

// set replaces the slot's deadline; at is in ns, 0 for none.
func (d *deadlines) set(slot uint32, at int64) {
	d.at[slot] = at
	if at != 0 && at < d.next {
		d.next = at
	}
}

// wake is the time of the next look.
func (d *deadlines) wake() int64 {
	if d.from > 0 {
		return d.last
	}
	if d.next == math.MaxInt64 {
		return math.MaxInt64
	}
	return max(d.next, d.last+sweepEvery)
}

// expired calls pass for the slots whose deadline is at or before now, after clearing
// it; for passMost of them, and for others in the next turns. It looks only when wake
// says so.
func (d *deadlines) expired(now int64, pass func(slot uint32)) {
	if now < d.wake() {
		return
	}
	if d.from == 0 {
		d.last, d.next = now, math.MaxInt64
	}
	passed := 0
	for slot := d.from; slot < len(d.at); slot++ {
		switch at := d.at[slot]; {
		case at == 0:
		case at <= now && passed == passMost:
			d.from = slot
			return
		case at <= now:
			passed++
			d.at[slot] = 0
			pass(uint32(slot))
		case at < d.next:
			d.next = at
		}
	}
	d.from = 0
}
