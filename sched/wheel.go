package sched

import (
	"math"
	"math/bits"
)

const (
	tickBits = 16 // a tick is 65.5 us: what wakes are rounded up to, so that those of many tenants fall together
	nearBits = 10 // near: 1024 ticks, 67 ms
	nearSize = 1 << nearBits
	midBits  = 6 // mid: 64 blocks of 1024 ticks, 4.3 s; what is later is far
	midSize  = 1 << midBits

	never = math.MaxInt64
	none  = -1
)

// wheel is a timing wheel of seats, each at one time. It never wakes to move entries between its levels: that happens when it is looked at.
type wheel struct {
	node  []node // by seat
	head  [nearSize + midSize + 1]int32
	near  [nearSize / 64]uint64 // which slots are not empty
	mid   uint64
	tick  int64 // Invariant: every entry is at this tick or later
	count int

	least int64 // tick of the first entry, if known
	known bool
}

type node struct {
	tick       int64
	list       int32 // index in head; none: not in the wheel
	next, prev int32
}

const farList = nearSize + midSize

func (w *wheel) init() {
	for i := range w.head {
		w.head[i] = none
	}
	w.least, w.known = never, true
}

func (w *wheel) has(seat int32) bool { return w.node[seat].list != none }

// add files a seat that is not in the wheel for the time at (ns), rounded up to a tick that has not passed.
func (w *wheel) add(seat int32, at int64) {
	tick := int64(never >> tickBits)
	if at < never-1<<tickBits {
		tick = max((at+1<<tickBits-1)>>tickBits, w.tick)
	}
	w.node[seat].tick = tick
	w.link(seat)
	w.count++
	if w.known && tick < w.least {
		w.least = tick
	}
}

func (w *wheel) link(seat int32) {
	n := &w.node[seat]
	switch block := n.tick >> nearBits; {
	case n.tick-w.tick < nearSize:
		n.list = int32(n.tick & (nearSize - 1))
		w.near[n.list/64] |= 1 << (n.list % 64)
	case block-w.tick>>nearBits < midSize:
		slot := block & (midSize - 1)
		n.list = int32(nearSize + slot)
		w.mid |= 1 << slot
	default:
		n.list = farList
	}
	n.prev, n.next = none, w.head[n.list]
	if n.next != none {
		w.node[n.next].prev = seat
	}
	w.head[n.list] = seat
}

func (w *wheel) unlink(seat int32) {
	n := &w.node[seat]
	if n.next != none {
		w.node[n.next].prev = n.prev
	}
	if n.prev != none {
		w.node[n.prev].next = n.next
	} else if w.head[n.list] = n.next; n.next == none {
		switch {
		case n.list < nearSize:
			w.near[n.list/64] &^= 1 << (n.list % 64)
		case n.list < farList:
			w.mid &^= 1 << (n.list - nearSize)
		}
	}
	n.list = none
}

func (w *wheel) remove(seat int32) {
	if w.node[seat].tick == w.least {
		w.known = false
	}
	w.unlink(seat)
	if w.count--; w.count == 0 {
		w.least, w.known = never, true
	}
}

// expired takes out one seat whose time has come, or returns none.
func (w *wheel) expired(now int64) int32 {
	to := now >> tickBits
	for w.tick <= to {
		if w.count == 0 {
			w.tick = to + 1
			break
		}
		end := min(to, w.tick|(nearSize-1))
		if tick := w.firstNear(w.tick, end); tick <= end {
			w.tick = tick
			seat := w.head[tick&(nearSize-1)]
			w.remove(seat)
			return seat
		}
		w.tick = end + 1
		if w.tick&(nearSize-1) == 0 {
			w.cascade()
		}
	}
	return none
}

// firstNear returns the first tick from..to of one block that has entries, or to+1.
func (w *wheel) firstNear(from, to int64) int64 {
	for t := from; t <= to; {
		slot := t & (nearSize - 1)
		if rest := w.near[slot/64] >> (slot % 64); rest != 0 {
			return min(t+int64(bits.TrailingZeros64(rest)), to+1)
		}
		t += 64 - slot%64
	}
	return to + 1
}

// cascade moves what the block that begins at tick brings nearer.
func (w *wheel) cascade() {
	block := w.tick >> nearBits
	if block&(midSize-1) == 0 {
		w.move(farList)
	}
	w.move(int32(nearSize + block&(midSize-1)))
}

func (w *wheel) move(list int32) {
	for seat := w.head[list]; seat != none; {
		next := w.node[seat].next
		w.unlink(seat)
		w.link(seat)
		seat = next
	}
}

// wake returns the time of the first entry in ns, or never.
func (w *wheel) wake() int64 {
	if !w.known {
		w.least, w.known = w.first(), true
	}
	if w.least >= never>>tickBits {
		return never
	}
	return w.least << tickBits
}

func (w *wheel) first() int64 {
	first := int64(never)
	end := w.tick | (nearSize - 1)
	if t := w.firstNear(w.tick, end); t <= end {
		first = t
	} else if t := w.firstNear(end+1, w.tick+nearSize-1); t < w.tick+nearSize {
		first = t
	}
	if w.mid != 0 {
		block := w.tick>>nearBits + 1
		block += int64(bits.TrailingZeros64(bits.RotateLeft64(w.mid, -int(block&(midSize-1)))))
		if block<<nearBits < first {
			first = min(first, w.leastOf(int32(nearSize+block&(midSize-1))))
		}
	}
	if (w.tick>>nearBits|(midSize-1)+1)<<nearBits < first {
		first = min(first, w.leastOf(farList))
	}
	return first
}

func (w *wheel) leastOf(list int32) int64 {
	least := int64(never)
	for seat := w.head[list]; seat != none; seat = w.node[seat].next {
		least = min(least, w.node[seat].tick)
	}
	return least
}
