package server

// queue is a first-in first-out queue of slots in which every slot stands at
// most once, so its capacity is the number of slots and it never grows. A slot
// is not removed when its connection leaves the state it was queued for: whoever
// pops asks for the state.
type queue struct {
	ring []uint32 // len is a power of two
	in   []bool   // by slot
	head uint32
	tail uint32 // Invariant: tail-head slots are queued, each with in[slot] set
}

func newQueue(slots int) queue {
	size := 1
	for size < slots {
		size <<= 1
	}
	return queue{ring: make([]uint32, size), in: make([]bool, slots)}
}

func (q *queue) len() int { return int(q.tail - q.head) }

// push appends the slot, or leaves it where it stands already.
func (q *queue) push(slot uint32) {
	if q.in[slot] {
		return
	}
	q.in[slot] = true
	q.ring[q.tail&uint32(len(q.ring)-1)] = slot
	q.tail++
}

// pop takes the slot that has waited longest. The queue must not be empty.
func (q *queue) pop() uint32 {
	slot := q.ring[q.head&uint32(len(q.ring)-1)]
	q.head++
	q.in[slot] = false
	return slot
}
