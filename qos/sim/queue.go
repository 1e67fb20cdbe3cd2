package sim

import "math/bits"

// An event is something that happens at one moment of real time. It is small and has no pointers: the queue of a long run moves millions of them.
type event struct {
	at   int64 // ns of real time
	to   receiver
	arg  int32 // index into the pool of its kind; of passes the ring
	next int32 // the queue's: what follows in the same slot, -1 none
	kind kind
}

// A receiver is whom an event is for.
type receiver struct {
	slot int32 // of the worker it happens to; -1 the cluster
	life int32 // incarnation it was meant for: one that has died since gets nothing; -1 whoever is there
}

// theCluster is what events happen to that happen to no worker.
var theCluster = receiver{-1, -1}

// whoever is a worker, in whatever incarnation.
func (k *worker) whoever() receiver { return receiver{k.slot, -1} }

// itself is a worker in its present incarnation.
func (k *worker) itself() receiver { return receiver{k.slot, k.nth} }

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
// pending, took a quarter of a run. Events are written where they stay until they have happened: copies of them took a tenth.
type queue struct {
	shift uint // a slot spans 2^shift ns
	mask  int64
	turn  int64    // number of the slot (at >> shift) that the wheel stands at: nothing earlier is pending
	slots []int32  // first node of each, -1 none; nodes of a slot are in order
	some  []uint64 // a bit for each slot that is not empty
	words []uint64 // a bit for each word of some that is not zero
	near  int      // events on the wheel

	nodes []event // all that are pending
	free  int32   // first of the nodes not in use, -1 none
	taken int32   // the node of the event that pop has returned last, -1 none
	far   heap
	seq   uint32
}

// wheelSpan is the time of one turn of the wheel, about 17 ms: retries, timers and most messages are nearer. Of longer ones the slots do not stay in the first cache.
const wheelSpan = 24

// init makes an empty queue for about so many pending events.
func (q *queue) init(pending int) {
	width := max(min(bits.Len(uint(pending))+3, 18), 10)
	*q = queue{shift: uint(wheelSpan - width), mask: 1<<width - 1, slots: make([]int32, 1<<width), some: make([]uint64, 1<<width/64), words: make([]uint64, max(1<<width/4096, 1)), free: -1, taken: -1}
	for i := range q.slots {
		q.slots[i] = -1
	}
}

// push lets an event happen at a moment.
func (q *queue) push(at int64, kind kind, to receiver, arg int32) {
	n := q.free
	if n >= 0 {
		q.free = q.nodes[n].next
	} else {
		n = int32(len(q.nodes))
		q.nodes = append(q.nodes, event{})
	}
	e := &q.nodes[n]
	e.at, e.to, e.arg, e.kind = at, to, arg, kind
	q.seq++
	if at>>q.shift-q.turn > q.mask {
		q.far.push(later{at: at, seq: q.seq, node: n})
		return
	}
	q.place(n)
}

// place puts a node into its slot, behind all that are not later.
func (q *queue) place(n int32) {
	e := &q.nodes[n]
	q.near++
	i := max(e.at>>q.shift, q.turn) & q.mask
	after := q.slots[i]
	if after < 0 || e.at < q.nodes[after].at {
		e.next = after
		q.slots[i] = n
		q.some[i>>6] |= 1 << (i & 63)
		q.words[i>>12] |= 1 << (i >> 6 & 63)
		return
	}
	for {
		before := &q.nodes[after]
		if after = before.next; after < 0 || e.at < q.nodes[after].at {
			e.next, before.next = after, n
			return
		}
	}
}

// pop takes the earliest event if it is due before t, else it returns nil. The event is the caller's until the next pop.
func (q *queue) pop(t int64) *event {
	if n := q.taken; n >= 0 {
		q.nodes[n].next, q.free, q.taken = q.free, n, -1
	}
	if q.near == 0 {
		if len(q.far) == 0 || q.far[0].at >= t {
			return nil
		}
		q.turn = q.far[0].at >> q.shift
		q.draw()
	}
	i := int(q.turn & q.mask)
	if s := q.some[i>>6] >> (i & 63); s != 0 {
		i += bits.TrailingZeros64(s)
	} else {
		i = q.next(i)
	}
	n := q.slots[i]
	e := &q.nodes[n]
	if e.at >= t {
		return nil
	}
	q.taken = n
	q.slots[i] = e.next
	if e.next < 0 {
		if q.some[i>>6] &^= 1 << (i & 63); q.some[i>>6] == 0 {
			q.words[i>>12] &^= 1 << (i >> 6 & 63)
		}
	}
	q.near--
	if turn := q.turn + (int64(i)-q.turn)&q.mask; turn != q.turn {
		q.turn = turn
		if len(q.far) > 0 {
			q.draw()
		}
	}
	return e
}

// draw takes onto the wheel what has come within its turn. It does so before anything later can be pushed for the same moment, so that order is kept.
func (q *queue) draw() {
	for len(q.far) > 0 && q.far[0].at>>q.shift-q.turn <= q.mask {
		q.place(q.far.pop())
	}
}

// next is the slot of the earliest event where slot i, and what comes after it in its word, are empty; the wheel is not.
func (q *queue) next(i int) int {
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

// A heap is a 4-ary heap of nodes, earliest first.
type heap []later

// later is a node of the queue whose time is not within the wheel's turn.
type later struct {
	at   int64
	seq  uint32 // events of one moment happen in the order in which they were pushed
	node int32
}

func (h *heap) push(e later) {
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

func (h *heap) pop() (node int32) {
	s := *h
	first, last := s[0].node, s[len(s)-1]
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

func (e *later) before(o *later) bool {
	return e.at < o.at || e.at == o.at && int32(e.seq-o.seq) < 0 // seq may wrap
}
