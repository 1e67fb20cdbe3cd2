package sim

import "math/bits"

// An event is something that happens at one moment of real time. It is small and has no pointers: the queue of a long run moves millions of them.
type event struct {
	at   int64  // ns of real time
	seq  uint32 // events of one moment happen in the order in which they were made
	kind kind
	ring uint8 // of the worker, for passes
	who  int32 // slot of the worker it happens to, or -1
	life int32 // incarnation it was meant for: one that has died since gets nothing; -1 whoever is there
	arg  int32 // index into the pool of its kind
	next int32 // the queue's: what follows in the same slot, -1 none
}

type kind uint8

const (
	aPass     kind = iota // a data-plane ring looks at its requests
	aFinish               // a ring that was stopped in mid-pass goes on
	aWake                 // the control loop's timer
	aReport               // messages arrive
	aSnapshot             //
	aRedirect             //
	aHandOver             //
	anAsk                 //
	anAnswer              //
	aRefund               // a short send gives back
	aRead                 // a worker reads the coordinator
	aDeed                 // something is done to the cluster
	aSample               // the plot takes a look
	numKinds
)

// A queue hands out events, earliest first, and those of one moment in the order in which they were pushed.
//
// It is a timing wheel (Varghese and Lauck, 1987) of slots that each span a short time, with a heap for what lies beyond its turn. Most events are due
// within milliseconds and find their slot empty, so that pushing and popping touch a few words; a heap alone, whose every pop sifts through all that is
// pending, took a quarter of a run.
type queue struct {
	shift uint // a slot spans 2^shift ns
	mask  int64
	turn  int64    // number of the slot (at >> shift) that the wheel stands at: nothing earlier is pending
	slots []int32  // first node of each, -1 none; nodes of a slot are in order
	some  []uint64 // a bit for each slot that is not empty
	words []uint64 // a bit for each word of some that is not zero
	near  int      // events on the wheel

	nodes []event // of the wheel
	free  int32   // first of the nodes not in use, -1 none
	far   heap
	seq   uint32
}

// wheelSpan is the time of one turn of the wheel, about 67 ms: retries, timers and most late messages are nearer.
const wheelSpan = 26

// init makes an empty queue for about so many pending events.
func (q *queue) init(pending int) {
	width := max(min(bits.Len(uint(pending))+3, 18), 11)
	*q = queue{shift: uint(wheelSpan - width), mask: 1<<width - 1, slots: make([]int32, 1<<width), some: make([]uint64, 1<<width/64), words: make([]uint64, max(1<<width/4096, 1)), free: -1}
	for i := range q.slots {
		q.slots[i] = -1
	}
}

func (q *queue) push(e event) {
	e.seq = q.seq
	q.seq++
	if e.at>>q.shift-q.turn > q.mask {
		q.far.push(e)
		return
	}
	q.place(e)
}

// place puts an event into its slot, behind all that are not later.
func (q *queue) place(e event) {
	n := q.free
	if n >= 0 {
		q.free = q.nodes[n].next
	} else {
		n = int32(len(q.nodes))
		q.nodes = append(q.nodes, event{})
	}
	q.near++
	i := max(e.at>>q.shift, q.turn) & q.mask
	first := q.slots[i]
	if first < 0 || e.at < q.nodes[first].at {
		e.next = first
		q.nodes[n] = e
		q.slots[i] = n
		q.some[i>>6] |= 1 << (i & 63)
		q.words[i>>12] |= 1 << (i >> 6 & 63)
		return
	}
	for {
		next := q.nodes[first].next
		if next < 0 || e.at < q.nodes[next].at {
			e.next = next
			q.nodes[n] = e
			q.nodes[first].next = n
			return
		}
		first = next
	}
}

// pop takes the earliest event if it is due before t.
func (q *queue) pop(t int64) (_ event, due bool) {
	if q.near == 0 {
		if len(q.far) == 0 || q.far[0].at >= t {
			return event{}, false
		}
		q.turn = q.far[0].at >> q.shift
		q.draw()
	}
	i := q.next()
	n := q.slots[i]
	at := &q.nodes[n]
	if at.at >= t {
		return event{}, false
	}
	q.slots[i] = at.next
	if at.next < 0 {
		if q.some[i>>6] &^= 1 << (i & 63); q.some[i>>6] == 0 {
			q.words[i>>12] &^= 1 << (i >> 6 & 63)
		}
	}
	e := *at
	at.next, q.free = q.free, n
	q.near--
	if turn := q.turn + (int64(i)-q.turn)&q.mask; turn != q.turn {
		q.turn = turn
		if len(q.far) > 0 {
			q.draw()
		}
	}
	return e, true
}

// draw takes onto the wheel what has come within its turn. It does so before anything later can be pushed for the same moment, so that order is kept.
func (q *queue) draw() {
	for len(q.far) > 0 && q.far[0].at>>q.shift-q.turn <= q.mask {
		q.place(q.far.pop())
	}
}

// next is the slot of the earliest event; the wheel must not be empty.
func (q *queue) next() int {
	i := int(q.turn & q.mask)
	if s := q.some[i>>6] >> (i & 63); s != 0 {
		return i + bits.TrailingZeros64(s)
	}
	w := (i>>6 + 1) & (len(q.some) - 1) // the word to go on with; the one of i comes last, for what is a whole turn away
	v := w >> 6
	if s := q.words[v] >> (w & 63); s != 0 {
		w += bits.TrailingZeros64(s)
		return w<<6 + bits.TrailingZeros64(q.some[w])
	}
	for {
		v = (v + 1) & (len(q.words) - 1)
		if s := q.words[v]; s != 0 {
			w = v<<6 + bits.TrailingZeros64(s)
			return w<<6 + bits.TrailingZeros64(q.some[w])
		}
	}
}

// A heap is a 4-ary heap of events, earliest first.
type heap []event

func (h *heap) push(e event) {
	*h = append(*h, e)
	s := *h
	i := len(s) - 1
	for i > 0 {
		up := (i - 1) / 4
		if !e.before(&s[up]) {
			break
		}
		s[i] = s[up]
		i = up
	}
	s[i] = e
}

func (h *heap) pop() event {
	s := *h
	first, last := s[0], s[len(s)-1]
	s = s[:len(s)-1]
	*h = s
	if len(s) == 0 {
		return first
	}
	i := 0
	for {
		low := 4*i + 1
		if low >= len(s) {
			break
		}
		for c := low + 1; c < min(low+4, len(s)); c++ {
			if s[c].before(&s[low]) {
				low = c
			}
		}
		if !s[low].before(&last) {
			break
		}
		s[i] = s[low]
		i = low
	}
	s[i] = last
	return first
}

func (e *event) before(o *event) bool {
	return e.at < o.at || e.at == o.at && int32(e.seq-o.seq) < 0 // seq may wrap
}
