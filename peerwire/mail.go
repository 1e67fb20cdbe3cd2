package peerwire

import (
	"sync"

	"github.com/talon-worker/talon/qos"
)

// A batch is what one worker has for another at one time.
type batch struct {
	reports   []qos.UsageReport
	snapshots []qos.RateSnapshot
	redirects []qos.Redirect
	asks      []qos.Ask
	answers   []qos.Answer
	handOvers []qos.HandOver
}

func (b *batch) empty() bool { return b.messages() == 0 }

// messages is how many there are in a batch.
func (b *batch) messages() int {
	return len(b.reports) + len(b.snapshots) + len(b.redirects) + len(b.asks) + len(b.answers) + len(b.handOvers)
}

// reset empties a batch and keeps its room.
func (b *batch) reset() {
	b.reports, b.snapshots, b.redirects = b.reports[:0], b.snapshots[:0], b.redirects[:0]
	b.asks, b.answers, b.handOvers = b.asks[:0], b.answers[:0], b.handOvers[:0]
}

// A letter is a batch from a peer whose identity has been checked.
type letter struct {
	from  qos.WorkerID
	epoch uint64 // the incarnation that the connection's hello named
	batch *batch
	done  func() // called when it has been read: the sender's next may come
}

// stepMost is about how many messages one step takes in: a few milliseconds of work, so that however much comes from others, this worker's own views
// are looked after within their life.
const stepMost = 4096

// portion is how many of the letters, from the first, one step takes in.
func portion(letters []letter) int {
	sum := 0
	for i := range letters {
		if sum += letters[i].batch.messages(); sum > stepMost && i > 0 {
			return i
		}
	}
	return len(letters)
}

// A parcel is a batch on its way out. It is the core's until the next step.
type parcel struct {
	to    qos.WorkerID
	batch *batch
}

// presence says that a peer has become reachable, as which incarnation, or that it is no more (epoch 0).
type presence struct {
	peer  qos.WorkerID
	epoch uint64
}

// inputs is what has happened since the last step, in the order in which a step takes it in.
type inputs struct {
	policies []policyChange
	rings    []ringChange
	presence []presence
	letters  []letter
	force    uint64 // ring epoch that an operator has forced, 0 none
	flush    bool   // the worker shuts down
	queries  []chan<- Status
}

type policyChange struct {
	policies []qos.Policy // a whole set
	done     chan error   // has room for the verdict
}

type ringChange struct {
	ring Membership
	done chan error
}

func (in *inputs) reset() {
	clear(in.policies)
	clear(in.rings)
	clear(in.letters)
	clear(in.queries)
	in.force = 0
	in.policies, in.rings, in.presence, in.letters, in.queries = in.policies[:0], in.rings[:0], in.presence[:0], in.letters[:0], in.queries[:0]
}

// maxChanges bounds the policy sets, rings and questions that wait for the loop at one time: callers wait for theirs, so it is a number of callers.
const maxChanges = 64

// A mailbox is how anybody but the rings reaches the loop. Letters are bounded by their senders: each peer may have a few in it at one time.
type mailbox struct {
	mu   sync.Mutex // held for an append or a swap, never while anything is done
	in   *inputs
	gone bool          // the loop has ended
	kick chan struct{} // has room for one: there is mail
}

func newMailbox() *mailbox { return &mailbox{in: &inputs{}, kick: make(chan struct{}, 1)} }

// put adds to the inputs of the next step, unless the loop has ended or add finds no room.
func (m *mailbox) put(add func(*inputs) bool) bool {
	m.mu.Lock()
	ok := !m.gone && add(m.in)
	m.mu.Unlock()
	if ok {
		select {
		case m.kick <- struct{}{}:
		default: // it has been kicked already
		}
	}
	return ok
}

// take swaps what has come for an empty one.
func (m *mailbox) take(spare *inputs) *inputs {
	m.mu.Lock()
	defer m.mu.Unlock()
	in := m.in
	m.in = spare
	return in
}

// close ends the mailbox and returns what nobody will read.
func (m *mailbox) close() *inputs {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone = true
	in := m.in
	m.in = &inputs{}
	return in
}
