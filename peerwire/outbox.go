package peerwire

import (
	"sync"

	"github.com/talon-worker/talon/qos"
)

// Bounds of an outbox: what a peer that reads slowly can make this worker keep for it.
const (
	maxQueued  = 8 << 10  // reports, and as many snapshots: one for each limit. More are dropped; they come again
	maxAnswers = 1024     // redirects, and voters' answers
	maxHanded  = 64 << 10 // limits and reporters in hand-overs; what is more is lost, and starts exhausted
)

// An outbox is what waits for one connection's writer. The loop adds and never waits: a report takes the place of the one before it of the same limit,
// for its totals hold all that the other said, and so does a snapshot. So a peer that reads slowly gets fewer messages and none that is out of date.
type outbox struct {
	mu     sync.Mutex // held for copies in memory, never for a write
	batch  *batch
	places map[place]int
	handed int           // weight of the hand-overs in batch
	ended  bool          // nothing more is taken
	ready  chan struct{} // has room for one

	merged, dropped, handLost uint64
}

// A place is where in a batch a report or a snapshot is that a newer one replaces. Cell is 0 for reports: they are this worker's own.
type place struct {
	limit qos.Limit
	cell  uint64
}

func newOutbox() *outbox {
	return &outbox{batch: &batch{}, places: map[place]int{}, ready: make(chan struct{}, 1)}
}

// add takes in a copy of a batch.
func (o *outbox) add(b *batch) {
	o.mu.Lock()
	if o.ended {
		o.mu.Unlock()
		return
	}
	for i := range b.reports {
		keep(o, &o.batch.reports, place{limit: b.reports[i].Key.Limit()}, &b.reports[i])
	}
	for i := range b.snapshots {
		s := &b.snapshots[i]
		keep(o, &o.batch.snapshots, place{s.Key.Limit(), s.To.Cell}, s)
	}
	o.dropped += appendUpTo(&o.batch.redirects, b.redirects, maxAnswers)
	o.dropped += appendUpTo(&o.batch.answers, b.answers, maxAnswers)
	for i := range b.handOvers {
		n := weight(&b.handOvers[i])
		if o.handed+n > maxHanded {
			o.handLost++
			continue
		}
		o.handed += n
		o.batch.handOvers = append(o.batch.handOvers, b.handOvers[i])
	}
	if n := len(b.asks); n > 0 { // the newest question is the one worth an answer
		o.batch.asks = append(o.batch.asks[:0], b.asks[n-1])
	}
	o.mu.Unlock()
	o.signal()
}

// keep puts a message where an older one of its place is, or at the end.
func keep[T any](o *outbox, list *[]T, at place, m *T) {
	if i, ok := o.places[at]; ok {
		(*list)[i] = *m
		o.merged++
		return
	}
	if len(*list) >= maxQueued {
		o.dropped++
		return
	}
	o.places[at] = len(*list)
	*list = append(*list, *m)
}

// appendUpTo appends as much as there is room for, and returns how many were left out.
func appendUpTo[T any](list *[]T, more []T, most int) (left uint64) {
	n := min(len(more), most-len(*list))
	*list = append(*list, more[:n]...)
	return uint64(len(more) - n)
}

// weight is what a part of a hand-over counts for: its limit and its reporters.
func weight(h *qos.HandOver) int { return 1 + len(h.Reporters) }

func (o *outbox) signal() {
	select {
	case o.ready <- struct{}{}:
	default:
	}
}

// take swaps what waits for an empty batch, and says whether this was the last.
func (o *outbox) take(spare *batch) (b *batch, last bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	b, o.batch = o.batch, spare
	clear(o.places)
	o.handed = 0
	return b, o.ended
}

// end lets what waits be the last.
func (o *outbox) end() {
	o.mu.Lock()
	o.ended = true
	o.mu.Unlock()
	o.signal()
}

func (o *outbox) counts() (merged, dropped, handLost uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.merged, o.dropped, o.handLost
}
