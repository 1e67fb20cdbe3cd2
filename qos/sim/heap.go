package sim

// An event is something that happens at one moment of real time. It is small and has no pointers: the queue of a long run is
// sifted millions of times.
type event struct {
	at   int64  // ns of real time
	seq  uint32 // events of one moment happen in the order in which they were made
	kind kind
	ring uint8 // of the worker, for passes
	who  int32 // slot of the worker it happens to, or -1
	life int32 // incarnation it was meant for: one that has died since gets nothing; -1 whoever is there
	arg  int32 // index into the pool of its kind
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

// A queue is a 4-ary heap of events, earliest first.
type queue struct {
	events []event
	seq    uint32
}

func (q *queue) push(e event) {
	e.seq = q.seq
	q.seq++
	q.events = append(q.events, e)
	i := len(q.events) - 1
	for i > 0 {
		up := (i - 1) / 4
		if !q.events[i].before(&q.events[up]) {
			break
		}
		q.events[i], q.events[up] = q.events[up], q.events[i]
		i = up
	}
}

func (q *queue) pop() event {
	first := q.events[0]
	last := q.events[len(q.events)-1]
	q.events = q.events[:len(q.events)-1]
	if len(q.events) > 0 {
		q.sink(last)
	}
	return first
}

// sink puts e in the place of the first event and lets it sink to its own.
func (q *queue) sink(e event) {
	i := 0
	for {
		low := 4*i + 1
		if low >= len(q.events) {
			break
		}
		for c := low + 1; c < min(4*i+5, len(q.events)); c++ {
			if q.events[c].before(&q.events[low]) {
				low = c
			}
		}
		if !q.events[low].before(&e) {
			break
		}
		q.events[i] = q.events[low]
		i = low
	}
	q.events[i] = e
}

func (e *event) before(o *event) bool {
	return e.at < o.at || e.at == o.at && int32(e.seq-o.seq) < 0 // seq may wrap
}

// A pool holds messages on their way: an event names one by its index, and the slot is used again once it is taken. Nothing is
// allocated once the pool has grown to the most that were ever under way.
type pool[T any] struct {
	items []T
	free  []int32
}

func (p *pool[T]) put(v *T) int32 {
	if n := len(p.free); n > 0 {
		i := p.free[n-1]
		p.free = p.free[:n-1]
		p.items[i] = *v
		return i
	}
	p.items = append(p.items, *v)
	return int32(len(p.items) - 1)
}

// at returns an item that stays valid until the next put.
func (p *pool[T]) at(i int32) *T { return &p.items[i] }

func (p *pool[T]) drop(i int32) { p.free = append(p.free, i) }
