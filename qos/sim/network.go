package sim

import "github.com/talon-worker/talon/qos"

// NetworkSetup is how messages between workers travel. Times are ns.
type NetworkSetup struct {
	Base    int64 // shortest way
	Jitter  int64 // up to so much longer
	LossPM  int   // of 1,000 messages so many are lost
	DupPM   int   // ... arrive twice
	LatePM  int   // ... are overtaken: up to Late longer on the way
	Late    int64
	DupMost int // copies of a doubled message, at most
}

// A network is the links between the worker ids. A cut link loses what is sent while it is cut; what is under way arrives.
type network struct {
	NetworkSetup
	n    int
	cut  []bool // from*n + to; nil while nothing is
	cuts int
}

func (n *network) init(s NetworkSetup, workers int) { n.NetworkSetup, n.n = s, workers }

func (n *network) set(from, to int, down bool) {
	if n.cut == nil {
		n.cut = make([]bool, n.n*n.n)
	}
	at := from*n.n + to
	if n.cut[at] != down {
		n.cut[at] = down
		if down {
			n.cuts++
		} else {
			n.cuts--
		}
	}
}

func (n *network) heal() {
	n.cut, n.cuts = nil, 0
	n.LossPM, n.DupPM, n.LatePM = 0, 0, 0
}

// carries draws the fate of a message: how many copies arrive.
func (w *World) carries(from, to int32) int {
	n := &w.net
	if from == to {
		return 1
	}
	if n.cuts > 0 && n.cut[int(from)*n.n+int(to)] {
		w.result.Faults[Cut]++
		return 0
	}
	if n.LossPM > 0 && w.rnd.IntN(1000) < n.LossPM {
		w.result.Faults[Loss]++
		return 0
	}
	if n.DupPM > 0 && w.rnd.IntN(1000) < n.DupPM {
		w.result.Faults[Duplicate]++
		return 2 + w.rnd.IntN(max(n.DupMost, 1))
	}
	return 1
}

// travel draws how long a message is under way.
func (w *World) travel(from, to int32) int64 {
	n := &w.net
	if from == to {
		return 1
	}
	t := n.Base
	if n.Jitter > 0 {
		t += w.rnd.Int64N(n.Jitter)
	}
	if n.LatePM > 0 && w.rnd.IntN(1000) < n.LatePM {
		w.result.Faults[Reorder]++
		t += w.rnd.Int64N(n.Late)
	}
	return t
}

// send puts a message on its way from a worker to the one that now answers to an id.
func send[T any](w *World, k *worker, to qos.WorkerID, kind kind, box *pool[T], body *T, bytes int) {
	id, known := w.indexOf(to)
	if !known {
		w.fail("%s sends to %q, who was never there", k.id, to)
		return
	}
	post(w, k, w.workers[w.route[id]], kind, box, body, bytes)
}

// post puts a message on its way to one process: an answer goes back to who asked, even if its id has a newer incarnation by now.
func post[T any](w *World, k, to *worker, kind kind, box *pool[T], body *T, bytes int) {
	switch {
	case k.index == to.index:
	case kind == anAsk || kind == anAnswer:
		w.result.Votes++
		w.result.Bytes += int64(bytes)
	default:
		w.result.Messages++
		w.result.Bytes += int64(bytes)
	}
	for range w.carries(k.index, to.index) {
		at := w.now + w.travel(k.index, to.index)
		w.queue.push(at, kind, to.whoever(), box.put(body))
	}
}

// arrive hands a message to the state machine it is for, and sends what that answers. The message keeps its place until that is done: a pool that
// grows meanwhile leaves it where it was.
func (w *World) arrive(k *worker, e *event) {
	if k.lag > 0 && e.to.life != lagged { // a slow worker takes its time over everything, and its queue is bounded
		w.result.Faults[Slow]++
		if k.busy-w.now > 100e6 {
			w.lost(e)
			return
		}
		k.busy = max(k.busy, w.now) + w.rnd.Int64N(k.lag) + 1
		w.queue.push(k.busy, e.kind, receiver{k.slot, lagged}, e.arg)
		return
	}
	local := k.clock.read(w.now)
	switch e.kind {
	case aReport:
		w.reported(k, w.reports.at(e.arg), local)
		w.reports.drop(e.arg)
	case aSnapshot:
		w.snapshot(k, w.snapshots.at(e.arg), local)
		w.snapshots.drop(e.arg)
	case aRedirect:
		k.reporter.Redirected(w.redirects.at(e.arg), local)
		w.redirects.drop(e.arg)
		w.result.Redirects++
		w.control(k)
	case aHandOver:
		w.handed(k, w.handovers.at(e.arg), local)
		w.handovers.drop(e.arg)
	case anAsk:
		l := w.asks.at(e.arg)
		if a, ok := k.voter.Answer(local, l.body); ok {
			post(w, k, w.workers[l.from], anAnswer, &w.answers, &a, answerBytes)
		}
		w.asks.drop(e.arg)
	case anAnswer:
		k.tenure.Answered(local, *w.answers.at(e.arg))
		w.answers.drop(e.arg)
		w.mayAct(k, local)
		w.handAway(k)
		w.setTimer(k)
	}
}
