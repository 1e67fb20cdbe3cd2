package qos

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

const testConfirm = 1000 // F in the ticks of these tests

// An electorate is a cluster of voters and tenures with a coordinator that may or may not reach them. It knows real time; each worker
// has a clock of its own rate.
type electorate struct {
	now     int64
	ids     []WorkerID
	rings   []*Ring // as proposed, oldest first
	places  []Place
	workers []*elector // by slot: the first are one for each id, a zombie's successor has a slot of its own
	route   []int      // slot of the newest incarnation of each id
	wire    []letter
	epochs  uint64
	err     error
}

// An elector is one worker of it.
type elector struct {
	id     WorkerID
	rate   float64 // of its clock
	voter  *Voter
	tenure *Tenure
	since  []uint64 // for each place: see Tenure.MayAct
	epoch  uint64
	paused bool
	uses   bool     // something that it owns is in use, or may be
	onAsk  func()   // called for each voter asked
	leaves []letter // keys to be handed over when the ring before is seen off
}

type letter struct {
	at       int64
	from, to int
	ask      *Ask
	answer   *Answer
	handed   int // place handed over, -1 none
	since    uint64
}

func newElectorate(n int, places int, members []WorkerID) *electorate {
	e := &electorate{ids: workers(n)}
	for i := range places {
		e.places = append(e.places, Place(uint64(i)*0x9e3779b97f4a7c15))
	}
	first, err := NewRing(1, members)
	if err != nil {
		panic(err)
	}
	e.rings = []*Ring{first}
	for _, id := range e.ids {
		w := &elector{id: id, rate: 1, uses: true}
		e.route = append(e.route, len(e.workers))
		e.workers = append(e.workers, w)
		e.start(w)
		w.learn(e, first)
	}
	return e
}

func (w *elector) ask(now int64) *Ask {
	a := w.tenure.Ask(now)
	return &a
}

func (w *elector) clock(now int64) int64 { return int64(float64(now) * w.rate) }

// start makes a new incarnation of a worker.
func (e *electorate) start(w *elector) {
	e.epochs++
	w.epoch = e.epochs
	w.voter = NewVoter(w.id, w.epoch, w.clock(e.now), testConfirm)
	w.tenure = NewTenure(w.id, w.epoch, testConfirm)
	w.since = make([]uint64, len(e.places))
}

// learn takes in a ring and hands the keys that it acted for, and does no longer own, to their new owners.
func (w *elector) learn(e *electorate, r *Ring) {
	var acted []int
	for k, p := range e.places {
		if w.tenure.MayAct(w.clock(e.now), p, w.since[k]) {
			acted = append(acted, k)
		}
	}
	if !w.tenure.Learn(r) {
		return
	}
	w.voter.Learn(r.Epoch())
	w.leaves = nil
	for k, p := range e.places {
		owner := r.Members()[r.Owner(p)]
		if owner == w.id {
			continue
		}
		if slices.Contains(acted, k) {
			to := e.route[slices.Index(e.ids, owner)]
			w.leaves = append(w.leaves, letter{from: slices.Index(e.workers, w), to: to, handed: k, since: w.since[k]})
		}
		w.since[k] = 0 // handed over or discarded
	}
	w.handAway(e)
}

// handAway hands over what has moved away, once nobody can act in the ring before.
func (w *elector) handAway(e *electorate) {
	if len(w.leaves) == 0 || !w.tenure.SeenOff(w.tenure.Ring().Replaces()) {
		return
	}
	for _, l := range w.leaves {
		l.at = e.now
		e.wire = append(e.wire, l)
	}
	w.leaves = nil
}

// propose makes the next ring.
func (e *electorate) propose(members []WorkerID) bool {
	last := e.rings[len(e.rings)-1]
	settled := len(e.rings) == 1
	for _, w := range e.workers {
		settled = settled || w.tenure.Ring() == last && w.tenure.Open(w.clock(e.now))
	}
	next, err := NewRing(last.Epoch()+1, members, last.Replaced(settled)...)
	if err == nil {
		e.rings = append(e.rings, next)
	}
	return err == nil
}

// deliver handles one letter that has arrived.
func (e *electorate) deliver(l letter) {
	w := e.workers[l.to]
	now := w.clock(e.now)
	switch {
	case l.ask != nil:
		if a, ok := w.voter.Answer(now, *l.ask); ok {
			e.wire = append(e.wire, letter{at: e.now, from: l.to, to: l.from, answer: &a, handed: -1})
		}
	case l.answer != nil:
		w.tenure.Answered(now, *l.answer)
		w.handAway(e)
	default:
		if r := w.tenure.Ring(); r.Members()[r.Owner(e.places[l.handed])] == w.id {
			w.since[l.handed] = max(w.since[l.handed], l.since)
		}
	}
}

// act lets every worker use its rights, and finds two owners of one key.
func (e *electorate) act() {
	for k, p := range e.places {
		acting := 0
		for _, w := range e.workers {
			if !w.paused && w.tenure.MayAct(w.clock(e.now), p, w.since[k]) {
				w.since[k] = w.tenure.Ring().Epoch()
				acting++
			}
		}
		if acting > 1 && e.err == nil {
			e.err = fmt.Errorf("at %d: %d owners of key %d", e.now, acting, k)
		}
	}
}

func (e *electorate) poll() {
	for i, w := range e.workers {
		if w.paused {
			continue
		}
		now := w.clock(e.now)
		for _, id := range w.tenure.Poll(now, w.uses, nil) {
			if w.onAsk != nil {
				w.onAsk()
			}
			e.wire = append(e.wire, letter{at: e.now, from: i, to: e.route[slices.Index(e.ids, id)], ask: w.ask(now), handed: -1})
		}
	}
}

// step moves real time on by a quarter of F, with instant delivery along the links that are up.
func (e *electorate) step(up func(from, to int) bool) {
	e.now += testConfirm / 4
	e.act()
	e.poll()
	for len(e.wire) > 0 {
		l := e.wire[0]
		e.wire = e.wire[1:]
		if l.from == l.to || up(l.from, l.to) {
			e.deliver(l)
		}
	}
	e.act()
}

// served reports whether every key has an owner that acts.
func (e *electorate) served() bool {
	for k, p := range e.places {
		if !slices.ContainsFunc(e.workers, func(w *elector) bool { return !w.paused && w.tenure.MayAct(w.clock(e.now), p, w.since[k]) }) {
			return false
		}
	}
	return true
}

var elections = flag.Int("elections", 250, "seeds of random elections")

var everyPartition = flag.Bool("every-partition", false, "try each pair of partitions of three workers, half a minute")

// Every partition of three workers, one-way ones too: 64 shapes, then another of 64, with each worker hearing of the second ring before the first,
// between the two, or not before all is healed; for each way in which a ring of three can change.
func TestNeverTwoOwnersInAnyPartitionOfThree(t *testing.T) {
	changes := []struct{ from, to []int }{
		{[]int{0, 1, 2}, []int{0, 1}}, {[]int{0, 1, 2}, []int{1, 2}}, {[]int{0, 1}, []int{0, 1, 2}}, {[]int{1, 2}, []int{0, 1, 2}},
		{[]int{0, 1}, []int{1, 2}}, {[]int{0}, []int{2}}, {[]int{0, 1, 2}, []int{2}}, {[]int{0}, []int{0, 1, 2}},
	}
	stride := 101
	if *everyPartition {
		stride = 1
	}
	run := 0
	for _, c := range changes {
		for hears := range 27 {
			for shape := range 64 * 64 {
				if run++; run%stride != 0 {
					continue
				}
				if err := partitionOfThree(c.from, c.to, hears, shape%64, shape/64); err != nil {
					t.Fatalf("ring %v -> %v, hears %d, shapes %06b %06b: %v", c.from, c.to, hears, shape%64, shape/64, err)
				}
			}
		}
	}
}

func partitionOfThree(from, to []int, hears, first, second int) error {
	pick := func(ids []int) (members []WorkerID) {
		for _, i := range ids {
			members = append(members, workers(3)[i])
		}
		return members
	}
	link := func(shape int) func(from, to int) bool {
		return func(from, to int) bool {
			if to > from {
				to--
			}
			return shape>>(2*from+to)&1 == 1
		}
	}
	e := newElectorate(3, 6, pick(from))
	all := func(int, int) bool { return true }
	for range 10 { // the voters' first silence passes, and the owners act
		e.step(all)
	}
	if !e.served() {
		return fmt.Errorf("the first ring serves nobody")
	}
	e.propose(pick(to))
	for phase, shape := range []int{first, second} {
		for i, w := range e.workers {
			if hears/[]int{1, 3, 9}[i]%3 == phase {
				w.learn(e, e.rings[1])
			}
		}
		for range 7 {
			e.step(link(shape))
		}
	}
	for _, w := range e.workers {
		w.learn(e, e.rings[1])
	}
	for range 14 {
		e.step(all)
	}
	if e.err == nil && !e.served() {
		return fmt.Errorf("healed, yet a key has no owner")
	}
	return e.err
}

// Up to nine workers, several rings that follow each other at any pace, delays, loss, restarts, pauses, clocks that differ by 1 %, one-way partitions
// that change at random.
func TestNeverTwoOwnersInRandomElections(t *testing.T) {
	for seed := range *elections {
		if err := randomElection(uint64(seed)); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func randomElection(seed uint64) error {
	rnd := rand.New(rand.NewPCG(seed, 1))
	n := 2 + rnd.IntN(8)
	subset := func() []WorkerID {
		var ids []WorkerID
		for len(ids) == 0 {
			for _, id := range workers(n) {
				if rnd.IntN(3) > 0 {
					ids = append(ids, id)
				}
			}
		}
		return ids
	}
	e := newElectorate(n, 8, subset())
	zombies := rnd.IntN(3) == 0
	for _, w := range e.workers {
		w.rate = 1 + (rnd.Float64()-0.5)/50
	}
	down := make([]bool, n*n)
	loss := rnd.Float64() * 0.3
	delay := 1 + rnd.Int64N(testConfirm)
	heard := make([]int, n) // the newest ring that the coordinator has shown each worker: it never goes back
	for e.now < 30*testConfirm && e.err == nil {
		e.now += 1 + rnd.Int64N(testConfirm/10)
		if rnd.IntN(40) == 0 {
			e.propose(subset())
		}
		if rnd.IntN(30) == 0 {
			for i := range down {
				down[i] = rnd.IntN(3) == 0
			}
		}
		i := rnd.IntN(n)
		switch w := e.workers[e.route[i]]; rnd.IntN(40) {
		case 0:
			if zombies && len(e.workers) < 3*n { // the old one lives on, and gets the answers to what it asks
				e.route[i] = len(e.workers)
				w = &elector{id: w.id, rate: w.rate, uses: true}
				e.workers = append(e.workers, w)
			}
			e.start(w)
			w.learn(e, e.rings[heard[i]])
		case 6, 7:
			if w := e.workers[rnd.IntN(len(e.workers))]; !w.paused { // a zombie, perhaps, reads the coordinator
				w.learn(e, e.rings[heard[i]])
			}
		case 1:
			w.paused = !w.paused
		case 8, 9:
			w.uses = !w.uses // what it owns is used no more, or again
		case 2, 3, 4, 5: // it may skip some
			heard[i] += rnd.IntN(len(e.rings) - heard[i])
			if !w.paused {
				w.learn(e, e.rings[heard[i]])
			}
		}
		e.random(rnd, down, loss, delay)
	}
	if e.err != nil {
		return e.err
	}
	return e.heal()
}

// random delivers what has arrived, drops and delays what is new.
func (e *electorate) random(rnd *rand.Rand, down []bool, loss float64, delay int64) {
	e.act()
	e.poll()
	pending := e.wire
	e.wire = nil
	var later []letter
	for _, l := range pending {
		switch {
		case l.at > e.now || e.workers[l.to].paused && l.at < 0:
			later = append(later, l)
		case l.at == e.now: // new
			if l.from != l.to && (e.cut(down, l) || rnd.Float64() < loss) {
				continue
			}
			l.at += 1 + rnd.Int64N(delay)
			later = append(later, l)
		case e.workers[l.to].paused:
			later = append(later, l)
		default:
			e.deliver(l)
		}
	}
	for i := range e.wire {
		e.wire[i].at = e.now + 1 + rnd.Int64N(delay)
		if l := e.wire[i]; l.from != l.to && (e.cut(down, l) || rnd.Float64() < loss) {
			continue
		}
		later = append(later, e.wire[i])
	}
	e.wire = later
	e.act()
}

// cut reports whether the link between the machines of a letter is down.
func (e *electorate) cut(down []bool, l letter) bool {
	from, to := slices.Index(e.ids, e.workers[l.from].id), slices.Index(e.ids, e.workers[l.to].id)
	return down[from*len(e.ids)+to]
}

func (e *electorate) heal() error {
	e.wire = nil
	for slot, w := range e.workers {
		if e.route[slices.Index(e.ids, w.id)] != slot {
			w.paused = true // for ever
			continue
		}
		w.paused, w.uses = false, true
		w.learn(e, e.rings[len(e.rings)-1])
	}
	for range 20 {
		e.step(func(int, int) bool { return true })
	}
	if e.err == nil && !e.served() {
		return fmt.Errorf("healed, yet a key has no owner")
	}
	return e.err
}

func TestVoterNeverGoesBackAndIsSilentAfterAStart(t *testing.T) {
	v := NewVoter("a", 3, 0, testConfirm)
	v.Learn(5)
	if a, _ := v.Answer(testConfirm, Ask{}); a.Epoch != 0 {
		t.Error("named a ring within F of its start")
	}
	v.Learn(4)
	if a, ok := v.Answer(2*testConfirm, Ask{Epoch: 4, Stamp: 7}); !ok || a != (Answer{"a", 3, 0, 5, 7}) {
		t.Errorf("answered %+v, %v", a, ok)
	}
	if a, _ := NewVoter("a", 3, 0, testConfirm).Answer(2*testConfirm, Ask{}); a.Epoch != 0 {
		t.Error("named a ring without knowing one")
	}
	if _, ok := v.Answer(2*testConfirm, Ask{Worker: "b", Incarnation: 2}); !ok {
		t.Error("no answer to a worker's second incarnation")
	}
	if _, ok := v.Answer(2*testConfirm, Ask{Worker: "b", Incarnation: 1}); ok {
		t.Error("answered an incarnation that a newer one has followed")
	}
}

func TestConfirmationCountsFromTheAsking(t *testing.T) {
	tenure := NewTenure("worker-0", 1, testConfirm)
	tenure.Learn(ringOf(t, 2, workers(3)))
	for _, id := range workers(3) { // noted F ago
		tenure.Answered(950-allowance(testConfirm), Answer{Voter: id, VoterEpoch: 1, Incarnation: 1, Stamp: -2 * testConfirm})
	}
	for _, a := range []Answer{
		{"worker-0", 1, 1, 2, 100}, {"worker-1", 1, 1, 2, 900}, {"worker-2", 1, 1, 3, 900}, {"stranger", 1, 1, 2, 900},
		{"worker-0", 1, 1, 1, 940},  // older than its last word
		{"worker-0", 1, 1, 2, 5000}, // from the future
		{"worker-0", 1, 7, 2, 945},  // to another incarnation
		{"worker-0", 1, 1, 0, 945},  // silent
	} {
		tenure.Answered(950, a)
	}
	for _, tc := range []struct {
		now  int64
		want bool
	}{{950, true}, {1099, true}, {1100, false}} {
		if until := tenure.Until(); tc.want && until != 1100 {
			t.Errorf("confirmed until %d", until)
		}
		if got := tenure.Confirmed(tc.now); got != tc.want {
			t.Errorf("at %d confirmed %v", tc.now, got)
		}
	}
	if until := tenure.Until(); until >= 0 {
		t.Errorf("confirmed until %d, which is over", until)
	}
	if tenure.Newest() != 3 {
		t.Errorf("newest %d, a voter said 3", tenure.Newest())
	}
}

func TestPollAsksHalfOfFApartAndOnlyThoseThatMatter(t *testing.T) {
	tenure := NewTenure("worker-0", 1, testConfirm)
	old := ringOf(t, 1, letters("ab"))
	tenure.Learn(ringOf(t, 2, workers(2), old.Replaced(true)...))
	for _, step := range []struct {
		answers []Answer
		now     int64
		asks    int
		why     string
	}{
		{nil, 0, 4, "both rings' voters"},
		{nil, 199, 0, "not again before F/5"},
		{[]Answer{{"a", 1, 1, 2, 0}}, 200, 2, "ring 1 is over"},
		{[]Answer{{"worker-0", 1, 1, 2, 200}}, 399, 0, ""},
		{nil, 400, 1, "the one that has confirmed has F/2"},
		{[]Answer{{"worker-1", 1, 1, 1, 400}}, 600, 1, "the other knows an older ring"},
		{[]Answer{{"worker-1", 1, 1, 2, 600}, {"worker-0", 1, 1, 2, 200}}, 699, 0, ""},
		{nil, 700, 1, "F/2 after it was asked"},
		{[]Answer{{"worker-0", 1, 1, 2, 200}}, 900, 1, "an answer to what it was asked before"},
		{nil, 1100, 2, "both"},
	} {
		for _, a := range step.answers {
			tenure.Answered(step.now, a)
		}
		if next := tenure.Next(true); step.asks > 0 && next > step.now || step.asks == 0 && next <= step.now {
			t.Errorf("at %d: next at %d, %d are due", step.now, next, step.asks)
		}
		if got := tenure.Poll(step.now, true, nil); len(got) != step.asks {
			t.Errorf("at %d: asks %q, want %d: %s", step.now, got, step.asks, step.why)
		}
	}
}

// A ring change costs only the keys that move a wait.
func TestKeysThatStayDoNotWait(t *testing.T) {
	e := newElectorate(4, 40, workers(4))
	all := func(int, int) bool { return true }
	for range 10 {
		e.step(all)
	}
	e.propose(workers(3))
	for _, w := range e.workers {
		w.learn(e, e.rings[1])
		w.leaves = nil // what is handed over is lost
	}
	e.now += testConfirm / 4
	e.step(all)
	waiting := 0
	for k, p := range e.places {
		was, is := e.rings[0].Owner(p), e.rings[1].Owner(p)
		acts := e.workers[is].tenure.MayAct(e.now, p, e.workers[is].since[k])
		if acts != (was == is) {
			t.Errorf("key %d from %d to %d: acts %v", k, was, is, acts)
		}
		if !acts {
			waiting++
		}
	}
	if waiting == 0 || waiting > 20 {
		t.Errorf("%d of 40 keys wait", waiting)
	}
}

func TestForceOpensWhatDeadVotersKeepClosed(t *testing.T) {
	tenure := NewTenure("worker-0", 1, testConfirm)
	old := ringOf(t, 1, letters("abc"))
	next := ringOf(t, 2, workers(1), old.Replaced(true)...)
	tenure.Learn(next)
	tenure.Answered(10, Answer{"worker-0", 1, 1, 0, 10}) // noted
	now := int64(2 * testConfirm)
	tenure.Answered(now, Answer{"worker-0", 1, 1, 2, now})
	p := Place(1)
	if !tenure.Confirmed(now) || tenure.Open(now) || tenure.MayAct(now, p, 0) {
		t.Error("acts though nobody has seen ring 1 off")
	}
	if !tenure.MayAct(now, p, 1) {
		t.Error("does not act on what ring 1's owner handed over")
	}
	tenure.Force(now)
	if !tenure.Open(now) || !tenure.MayAct(now, p, 0) {
		t.Error("closed though forced")
	}
	if tenure.MayAct(now+testConfirm, p, 0) {
		t.Error("acts without its own ring's confirmation")
	}
}

func TestAnIncarnationWaitsForTheOneBefore(t *testing.T) {
	tenure := NewTenure("worker-0", 2, testConfirm)
	tenure.Learn(ringOf(t, 1, workers(3)))
	for _, id := range workers(2) {
		tenure.Answered(500, Answer{id, 1, 2, 1, 500})
	}
	if tenure.Open(500) || tenure.MayAct(500, ownedBy(tenure), 0) || tenure.Confirmed(500) {
		t.Error("acts while the incarnation before it may")
	}
	now := 500 + allowance(testConfirm)
	for _, id := range workers(2) {
		tenure.Answered(now, Answer{id, 1, 2, 1, now})
	}
	if !tenure.Open(now) || !tenure.MayAct(now, ownedBy(tenure), 0) {
		t.Error("still waits F after a majority has noted it")
	}
}

// TestAVoterThatWasStartedAgainCountsAnew: two incarnations of one worker live. The voters that have noted the newer are started again, out of its reach, and
// answer the older: it may act. When the newer reaches one of them again, what that one noted long ago must not let it act at once: the older still may.
func TestAVoterThatWasStartedAgainCountsAnew(t *testing.T) {
	e := newElectorate(3, 1, workers(3))
	all := func(int, int) bool { return true }
	for range 10 {
		e.step(all)
	}
	older := slices.Index(e.ids, e.rings[0].Members()[e.rings[0].Owner(e.places[0])])
	a, b := (older+1)%3, (older+2)%3
	w := &elector{id: e.ids[older], rate: 1, uses: true}
	newer := len(e.workers)
	e.workers, e.route[older] = append(e.workers, w), newer
	e.start(w)
	w.learn(e, e.rings[0])
	only := func(slots ...int) func(from, to int) bool { // what is between any two of these is up
		return func(from, to int) bool { return slices.Contains(slots, from) && slices.Contains(slots, to) }
	}
	acts := func(slot int) bool {
		return e.workers[slot].tenure.MayAct(e.now, e.places[0], e.workers[slot].since[0])
	}
	for range 10 {
		e.step(only(newer, a, b))
	}
	if acts(older) || !acts(newer) {
		t.Fatal("the newer incarnation has not taken over")
	}
	for _, voter := range []int{a, b} {
		e.start(e.workers[voter])
		e.workers[voter].learn(e, e.rings[0])
	}
	for range 12 {
		e.step(only(older, a, b))
	}
	if !acts(older) || acts(newer) {
		t.Fatal("the voters that have forgotten do not let the older act: not the schedule that this is about")
	}
	for range 12 {
		e.step(only(newer, a))
		if acts(older) && acts(newer) && e.err == nil {
			e.err = fmt.Errorf("at %d: both act", e.now)
		}
	}
	if e.err != nil {
		t.Fatal(e.err)
	}
	if !acts(newer) {
		t.Fatal("the newer waits for ever")
	}
}

// TestNothingIsHandedOverWhileASuccessorCouldAct: an owner learns of the next ring after a later incarnation of its worker has been noted by a majority, and
// before its own confirmation is over. Handed over at once, the key would have two owners: the new ring's by what it was handed, and the later
// incarnation in the old ring, whose voters have not learned of the new one.
func TestNothingIsHandedOverWhileASuccessorCouldAct(t *testing.T) {
	e := newElectorate(5, 1, workers(5))
	all := func(int, int) bool { return true }
	for range 10 {
		e.step(all)
	}
	older := slices.Index(e.ids, e.rings[0].Members()[e.rings[0].Owner(e.places[0])])
	heir := (older + 1) % 5
	w := &elector{id: e.ids[older], rate: 1, uses: true}
	newer := len(e.workers)
	e.workers, e.route[older] = append(e.workers, w), newer
	e.start(w)
	w.learn(e, e.rings[0])
	e.step(func(from, to int) bool { return from != older && to != older })
	if !e.workers[older].tenure.MayAct(e.now, e.places[0], e.workers[older].since[0]) {
		t.Fatal("the older incarnation may not act any more: not the schedule that this is about")
	}
	if !e.propose([]WorkerID{e.ids[heir]}) {
		t.Fatal("no second ring")
	}
	for _, slot := range []int{heir, older} {
		e.workers[slot].learn(e, e.rings[1])
	}
	for range 12 {
		e.step(all)
	}
	if e.err != nil {
		t.Fatal(e.err)
	}
	if !w.tenure.MayAct(e.now, e.places[0], w.since[0]) {
		t.Error("the later incarnation does not act in the ring that most still know")
	}
	for _, w := range e.workers {
		w.learn(e, e.rings[1])
	}
	for range 12 {
		e.step(all)
	}
	if e.err != nil || !e.served() {
		t.Errorf("when all have learned of the second ring: %v, served %v", e.err, e.served())
	}
}

// ownedBy finds a place that the worker owns.
func ownedBy(t *Tenure) Place {
	p := Place(1)
	for !t.owns(t.ring, p) {
		p += 0x9e3779b97f4a7c15
	}
	return p
}

// Rule 10 holds only while the coordinator shows no worker an older ring than before. This is what happens otherwise, so that nobody takes
// the promise for a formality: the voter that has forgotten ring 2 confirms ring 1 again.
func TestAVoterThatForgetsMakesTwoOwners(t *testing.T) {
	e := newElectorate(5, 1, workers(3))
	all := func(int, int) bool { return true }
	for range 10 {
		e.step(all)
	}
	owner := e.rings[0].Members()[e.rings[0].Owner(e.places[0])]
	forgets := slices.IndexFunc(workers(3), func(id WorkerID) bool { return id != owner })
	e.propose([]WorkerID{e.ids[forgets], e.ids[3], e.ids[4]})
	for _, w := range e.workers {
		if w.id != owner {
			w.learn(e, e.rings[1])
		}
	}
	for range 8 {
		e.step(func(from, to int) bool { return e.ids[from] != owner && e.ids[to] != owner })
	}
	if e.err != nil || !e.served() {
		t.Fatal("the second ring does not serve", e.err)
	}
	e.start(e.workers[forgets])
	e.workers[forgets].learn(e, e.rings[0])
	for range 8 {
		e.step(all)
	}
	if e.err == nil {
		t.Error("one owner only: the promise is not needed any more; say so in voters.go")
	}
}
