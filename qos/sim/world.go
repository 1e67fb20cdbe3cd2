package sim

import (
	"fmt"

	"github.com/talon-worker/talon/qos"
)

// A World is one cluster in virtual time. Everything in it, production code included, is a function of its Setup: nothing reads a
// clock, waits, or ranges over a map in an order that matters.
type World struct {
	setup Setup
	now   int64 // ns of real time; no worker sees it
	queue queue
	rnd   dice
	hash  uint64

	workers []*worker // by slot; a zombie has a slot of its own
	lives   []*life   // every incarnation there ever was
	route   []int32   // slot to which messages for a worker id go, by index of the id
	limits  []*limit
	byName  map[qos.Limit]int32 // looked up, never ranged over
	ids     []qos.WorkerID
	index   map[qos.WorkerID]int32
	coord   coordinator
	fewest  int       // members that any ring ever had
	users   [][]int32 // for each worker id, the limits it uses
	net     network

	reports   pool[letter[qos.UsageReport]]
	snapshots pool[qos.RateSnapshot]
	redirects pool[qos.Redirect]
	handovers pool[qos.HandOver]
	asks      pool[letter[qos.Ask]]
	answers   pool[qos.Answer]
	refunds   pool[refund]
	deeds     pool[Deed]

	addressed []qos.Addressed
	pushed    []qos.RateSnapshot
	exported  []qos.HandOver
	asked     []qos.WorkerID
	status    []qos.LimitStatus

	healedAt int64 // when the faults ended; 0 while they last
	result   Result
	err      error
	say      func(string) // what happens, for scripts; nil is silence
	thorough bool         // charges that cannot go are tried all the same, and sums that are kept are checked: a test's twin
	plot     *Plot
}

// A letter is a message with its sender.
type letter[T any] struct {
	from int32 // slot
	use  *use  // what a report is about
	body T
}

type refund struct {
	use int32
	n   int64
}

// Setup is a whole run. FromSeed draws one; tests write their own.
type Setup struct {
	Seed    uint64
	Workers int
	Rings   int // data-plane rings of each worker
	Config  qos.Config
	Limits  []LimitSetup
	Network NetworkSetup
	Pass    int64 // ns between two passes of a ring
	DriftPM int64 // clocks are off by at most so many millionths, either way
	Spread  int64 // the coordinator's news reach a worker within so many ns
	Lag     int64 // an owner takes up to so many ns for each message
	Stall   int64 // a ring is stopped in mid-pass for up to so many ns ...
	StallP  int   // ... in so many of 1,000 passes
	Faults  []Timed
	Faulty  int64 // ns of faults
	Settle  int64 // ns after them before liveness is measured
	Measure int64 // ns of measuring
	Members []int // of the first ring; nil all workers
	Sparse  bool  // workers know only the policies that they use or own, as with many keys they may
}

// A Timed deed happens at a moment.
type Timed struct {
	At   int64
	Deed Deed
}

// New builds the cluster and everything that is going to happen to it.
func New(s Setup) (*World, error) {
	w := &World{
		setup: s, rnd: newDice(s.Seed, 0x7a110), hash: 14695981039346656037,
		byName: map[qos.Limit]int32{}, index: map[qos.WorkerID]int32{},
	}
	w.queue.init(s.Workers * (s.Rings + 4))
	w.net.init(s.Network, s.Workers)
	for i := range s.Workers {
		id := qos.WorkerID(fmt.Sprintf("w%d", i))
		w.ids = append(w.ids, id)
		w.index[id] = int32(i)
		w.route = append(w.route, int32(i))
		w.workers = append(w.workers, &worker{slot: int32(i), index: int32(i), id: id})
	}
	for i, l := range s.Limits {
		w.limits = append(w.limits, newLimit(l, s))
		w.byName[l.Policy.Limit()] = int32(i)
	}
	w.users = make([][]int32, s.Workers)
	for i, l := range w.limits {
		for k := range s.Workers {
			if user, _ := l.userOf(k, s.Workers); user >= 0 {
				w.users[k] = append(w.users[k], int32(i))
			}
		}
	}
	if err := w.coord.init(w, s); err != nil {
		return nil, err
	}
	for i := range s.Workers {
		if err := w.boot(int32(i), int32(i)); err != nil {
			return nil, err
		}
	}
	for i, l := range s.Limits {
		w.spread(int32(i), l.Demand)
	}
	for _, t := range s.Faults {
		w.queue.push(t.At, aDeed, theCluster, w.deeds.put(&t.Deed))
	}
	return w, nil
}

// few is up to how many names are found faster by looking at each than by hashing.
const few = 10

// limitOf is the index of a limit.
func (w *World) limitOf(l qos.Limit) int32 {
	if len(w.limits) <= few {
		for i := range w.limits {
			if w.limits[i].name == l {
				return int32(i)
			}
		}
	}
	return w.byName[l]
}

// indexOf is the index of a worker id.
func (w *World) indexOf(id qos.WorkerID) (int32, bool) {
	if len(w.ids) <= few {
		for i := range w.ids {
			if w.ids[i] == id {
				return int32(i), true
			}
		}
	}
	i, ok := w.index[id]
	return i, ok
}

// Run lets everything happen and returns the first violation, or nil.
func (w *World) Run() (Result, error) {
	s := &w.setup
	w.Until(s.Faulty)
	w.heal()
	w.Until(s.Faulty + s.Settle)
	w.awaitPaid()
	w.beginMeasure()
	w.Until(w.now + s.Measure)
	w.endMeasure()
	w.result.Hash = w.hash
	w.result.Virtual = w.now
	w.count()
	return w.result, w.err
}

// Until lets happen what happens before t.
func (w *World) Until(t int64) {
	for w.err == nil {
		e := w.queue.pop(t)
		if e == nil {
			break
		}
		w.now = e.at
		w.trace(uint64(e.at), uint64(e.kind)<<32|uint64(uint32(e.to.slot)))
		w.result.Events++
		if e.to.slot < 0 {
			w.toCluster(e)
			continue
		}
		switch k := w.workers[e.to.slot]; {
		case !k.alive || e.to.life >= 0 && e.to.life != k.nth:
			w.lost(e)
		case k.paused:
			k.held = append(k.held, *e)
		case e.kind == aPass: // two of three
			w.pass(k, int(e.arg))
		default:
			w.toWorker(k, e)
		}
	}
	w.now = max(w.now, t)
}

// trace folds what happens into the hash that two equal runs share.
func (w *World) trace(a, b uint64) {
	w.hash = (w.hash ^ a) * 1099511628211
	w.hash = (w.hash ^ b) * 1099511628211
}

func (w *World) toCluster(e *event) {
	if e.kind == aSample {
		w.sample()
		return
	}
	d := *w.deeds.at(e.arg)
	w.deeds.drop(e.arg)
	w.Do(d)
}

// toWorker hands an event to a worker that runs.
func (w *World) toWorker(k *worker, e *event) {
	switch e.kind {
	case aFinish:
		w.finish(k, int(e.arg))
	case aWake:
		if e.at == k.wakeAt {
			k.wakeAt = forever
			w.control(k)
		}
	case aRefund:
		r := *w.refunds.at(e.arg)
		w.refunds.drop(e.arg)
		w.giveBack(k, r)
	case aRead:
		w.read(k)
	default:
		w.arrive(k, e)
	}
}

// lost frees the message of an event whose receiver is no more.
func (w *World) lost(e *event) {
	switch e.kind {
	case aReport:
		w.reports.drop(e.arg)
	case aSnapshot:
		w.snapshots.drop(e.arg)
	case aRedirect:
		w.redirects.drop(e.arg)
	case aHandOver:
		w.handovers.drop(e.arg)
	case anAsk:
		w.asks.drop(e.arg)
	case anAnswer:
		w.answers.drop(e.arg)
	case aRefund:
		w.refunds.drop(e.arg) // the work died with the worker: it stays charged
	}
}

// fail records the first violation, with all that is needed to see it again.
func (w *World) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("at %s: %s", ms(w.now), fmt.Sprintf(format, args...))
	}
}

func ms(ns int64) string { return fmt.Sprintf("%.3f ms", float64(ns)/1e6) }

func (w *World) note(format string, args ...any) {
	if w.say != nil {
		w.say(fmt.Sprintf("%8.3f  ", float64(w.now)/1e6) + fmt.Sprintf(format, args...))
	}
}
