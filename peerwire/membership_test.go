package peerwire

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/talon-worker/talon/qos"
)

// ringOf is a membership of these workers.
func ringOf(epoch uint64, ids ...qos.WorkerID) Membership {
	m := Membership{Epoch: epoch}
	for _, id := range ids {
		m.Members = append(m.Members, Member{ID: id})
	}
	return m
}

func manyOf(n int) Membership {
	m := Membership{Epoch: 5}
	for i := range n {
		m.Members = append(m.Members, Member{ID: qos.WorkerID(fmt.Sprint(i))})
	}
	return m
}

// give puts a ring to a bench's core.
func (b *bench) give(m Membership) error {
	done := make(chan error, 1)
	b.in.rings = append(b.in.rings, ringChange{m, done})
	b.step()
	return <-done
}

// TestRingsGoForward: what is newer is taken, what is the same is no error, and everything else is refused and changes nothing.
func TestRingsGoForward(t *testing.T) {
	b := newBench(t)
	for _, tt := range []struct {
		name string
		m    Membership
		err  error
		ring uint64 // in force afterwards
	}{
		{"the epoch that it has run alone under", ringOf(aloneEpoch, "w1", "w2"), ErrOldRing, aloneEpoch},
		{"a ring", ringOf(3, "w1", "w2"), nil, 3},
		{"the same again", ringOf(3, "w2", "w1"), nil, 3},
		{"other members under one epoch", ringOf(3, "w1", "w3"), ErrOldRing, 3},
		{"back", ringOf(2, "w1", "w2"), ErrOldRing, 3},
		{"on, without this worker", ringOf(4, "w2", "w3"), nil, 4},
		{"and with it", ringOf(9, "w1", "w2", "w3"), nil, 9},
	} {
		if err := b.give(tt.m); !errors.Is(err, tt.err) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.err)
		}
		if got := b.core.status(b.now).Ring; got != tt.ring {
			t.Errorf("%s: ring %d is in force, want %d", tt.name, got, tt.ring)
		}
	}
	if m := manyOf(maxPeers + 1); m.check() != nil {
		t.Errorf("as many as may be: %v", m.check())
	}
	for name, m := range map[string]Membership{
		"nobody":            ringOf(5),
		"epoch 0":           ringOf(0, "w1"),
		"twice the same":    ringOf(5, "w1", "w1"),
		"too many":          manyOf(maxPeers + 2),
		"no name":           ringOf(5, ""),
		"a long name":       ringOf(5, qos.WorkerID(make([]byte, maxWorkerID+1))),
		"not UTF-8":         ringOf(5, "\xff"),
		"replaces a later":  {Epoch: 5, Members: []Member{{ID: "w1"}}, Replaces: []qos.Voting{{Epoch: 6, Voters: []qos.WorkerID{"w1"}}}},
		"replaces nobody's": {Epoch: 5, Members: []Member{{ID: "w1"}}, Replaces: []qos.Voting{{Epoch: 4}}},
	} {
		if m.check() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestAloneTakesNothingAlong: what a worker has metered alone does not go on in a ring, not even one that replaces an epoch of the same number.
func TestAloneTakesNothingAlong(t *testing.T) {
	p := iops(1000, 100)
	b := newBench(t, p)
	b.run(100 * ms)
	b.cell(p).Await(0, 1, 1)
	b.run(5 * ms)
	if len(b.core.status(b.now).Owned) != 1 {
		t.Fatal("nothing is metered alone")
	}
	m := ringOf(2, "w1")
	m.Replaces = []qos.Voting{{Epoch: aloneEpoch, Voters: []qos.WorkerID{"w1", "w2", "w3"}}}
	check(t, b.give(m))
	if s := b.core.status(b.now); len(s.Owned) != 0 || len(b.core.leaving) != 0 {
		t.Errorf("%+v goes on, %d are handed over", s.Owned, len(b.core.leaving))
	}
}

// TestRingOfOneVotes: a ring that the file names acts when it has confirmed itself, F after the start, and keeps confirming.
func TestRingOfOneVotes(t *testing.T) {
	p := iops(1000, 100)
	b := &bench{t: t, now: 1000 * ms, core: freshCore(1000 * ms)}
	check(t, b.give(ringOf(1, "w1")))
	check(t, b.set(p))
	if s := b.core.status(b.now); s.Acts || s.Alone {
		t.Fatalf("%+v: want a ring that does not act yet", s)
	}
	b.run(2 * int64(qos.DefaultConfig().Confirm))
	if s := b.core.status(b.now); !s.Acts || !s.Settled {
		t.Fatalf("%+v: want a ring that acts", s)
	}
	b.cell(p).Await(0, 1, 1)
	b.run(5 * ms)
	if d := b.cell(p).Admit(1, b.now); d.Outcome != qos.Go {
		t.Errorf("%+v, want go", d)
	}
	b.cell(p).Await(0, 0, 0)
	b.run(10_000 * ms) // the meter is forgotten, and 4 F later nobody is asked any more
	steps := b.steps
	b.run(10_000 * ms)
	if n := b.steps - steps; n > 0 || !b.core.status(b.now).Acts {
		t.Errorf("%d steps in 10 idle seconds, acts %v; want none, and ready", n, b.core.status(b.now).Acts)
	}
}

// TestSilentUntilTheFirstKey is the story of three workers whose tenant is idle: once the voters have noted everybody, not a frame goes between them. Then a worker that is not
// the owner gets its first request above the allowance. The owner is confirmed a round trip after the report, and the report's second try is granted.
func TestSilentUntilTheFirstKey(t *testing.T) {
	p := iops(1000, 100)
	f := newFakeNet(t, 3, 1, p)
	for range 4000 {
		f.pass(ms, idle, 1)
	}
	frames := f.frames
	for range 4000 {
		f.pass(ms, idle, 1)
	}
	if n := f.frames - frames; n > 0 {
		t.Errorf("%d frames in four seconds in which nothing is used", n)
	}
	owner := f.byID[f.cores[0].core.ownerOf(f.cores[0].core.ring, p.Limit())]
	user := f.cores[(slices.Index(f.cores, owner)+1)%3]
	if owner.core.owner.Acts(f.now) || !owner.core.status(f.now).Acts || !owner.core.status(f.now).Settled {
		t.Fatalf("an idle owner is confirmed, or does not look ready: %+v", owner.core.status(f.now))
	}
	user.queued = 50
	asked, acts, served := int64(0), int64(0), int64(0)
	for from := f.now; f.now < from+50*ms && served == 0; {
		f.pass(ms/20, idle, 1)
		if asked == 0 && owner.core.uses {
			asked = f.now
		}
		if acts == 0 && owner.core.owner.Acts(f.now) {
			acts = f.now
		}
		if user.queued == 0 {
			served = f.now - from
		}
	}
	trip := 2 * (2*f.delay + int64(rest) + ms/4) // both ways, and both loops may be at rest
	if asked == 0 || acts == 0 || acts-asked > trip {
		t.Errorf("asked at %d, acts at %d: want it within a round trip of %d", asked, acts, trip)
	}
	if served == 0 || served > 15*ms {
		t.Errorf("all that waited was served after %d ns, want it within the second try of the report", served)
	}
	f.judge()
}

// A voter that was started again is asked when it can be reached, by those too that have been silent for long: else their first key would wait F.
func TestSilentMembersAreNotedByARestartedVoter(t *testing.T) {
	f := newFakeNet(t, 3, 1, iops(1000, 100))
	for range 3000 {
		f.pass(ms, idle, 1)
	}
	for _, k := range f.cores[:2] { // most voters
		f.boot(k)
		check(t, f.ring(k, 1, f.cores))
	}
	silent := f.cores[2].core
	f.meetAll()
	if silent.status(f.now).Acts {
		t.Error("looks ready, though most voters have forgotten it")
	}
	frames := f.frames
	for range 3000 {
		f.pass(ms, idle, 1)
	}
	if s := silent.status(f.now); !s.Acts || silent.asksAt != math.MaxInt64 || f.frames == frames {
		t.Errorf("%d frames, acts %v, asks again at %d", f.frames-frames, s.Acts, silent.asksAt)
	}
}

func freshCore(now int64) *core {
	cfg := Config{Worker: "w1", Epoch: 1, Limits: qos.DefaultConfig(), Ledger: must(qos.NewLedger(qos.DefaultConfig(), 2))}
	if err := cfg.mend(); err != nil {
		panic(err)
	}
	return must(newCore(&cfg, now))
}

// moved prepares a limit that w1 has metered and that moves to w2 with the next ring.
func moved(t *testing.T) (f *fakeNet, w1, w2 *fakeNode, next Membership) {
	p := iops(1000, 100)
	f = newFakeNet(t, 2, 1, p)
	for _, k := range f.cores { // whoever owns it is w1 to us
		if k.core.ownerOf(k.core.ring, p.Limit()) == k.id {
			w1 = k
		} else {
			w2 = k
		}
	}
	for range 8000 {
		f.pass(ms/8, func(int) float64 { return 0.4 }, 1)
	}
	if len(w1.core.status(f.now).Owned) != 1 {
		t.Fatal("nothing is metered")
	}
	next = ringOf(2, w2.id)
	next.Replaces = f.past
	return f, w1, w2, next
}

// handOvers are the hand-overs on their way to a node.
func (f *fakeNet) handOvers(to *fakeNode) (all []qos.HandOver) {
	for _, x := range f.wire {
		var b batch
		if x.to == to && must2(decode(x.frame, &b)) {
			all = append(all, b.handOvers...)
		}
	}
	return all
}

func must2(_ *hello, _ string, err error) bool { return err == nil }

func (f *fakeNet) giveRing(k *fakeNode, m Membership) {
	f.t.Helper()
	done := make(chan error, 1)
	k.in.rings = append(k.in.rings, ringChange{m, done})
	f.turn(k)
	check(f.t, <-done)
}

func idle(int) float64 { return 0 }

// TestHandOver tells what becomes of a limit that moves.
func TestHandOver(t *testing.T) {
	metered := func(k *fakeNode) bool { return len(k.core.status(k.now).Owned) == 1 }

	t.Run("the new owner knows the ring", func(t *testing.T) {
		f, w1, w2, next := moved(t)
		level := w1.core.owner.Status(f.now, nil)[0].Level
		f.giveRing(w2, next)
		f.giveRing(w1, next)
		f.pass(ms, idle, 1)
		if got := w2.core.owner.Status(f.now, nil); len(got) != 1 || got[0].Level < level-100 {
			t.Errorf("%+v, handed over with level %d", got, level)
		}
		if w1.core.stats.HandedOver != 1 || metered(w1) {
			t.Errorf("%+v", w1.core.stats)
		}
	})
	t.Run("it learns the ring later", func(t *testing.T) {
		f, w1, w2, next := moved(t)
		f.giveRing(w1, next)
		f.pass(ms, idle, 1)
		f.pass(50*ms, idle, 1)
		if len(w2.core.tooEarly) != 1 || metered(w2) {
			t.Fatalf("%d parts kept, want one", len(w2.core.tooEarly))
		}
		f.giveRing(w2, next)
		if !metered(w2) || len(w2.core.tooEarly) != 0 {
			t.Error("what was kept is not taken in with the ring")
		}
	})
	t.Run("it is reached later", func(t *testing.T) {
		f, w1, w2, next := moved(t)
		w1.in.presence = []presence{{peer: w2.id}}
		f.turn(w1)
		f.giveRing(w2, next)
		f.giveRing(w1, next)
		if len(w1.core.leaving) != 1 {
			t.Fatalf("%d parts kept, want one", len(w1.core.leaving))
		}
		f.now += 100 * ms
		w1.in.presence = []presence{{w2.id, w2.epoch}}
		f.turn(w1)
		if h := f.handOvers(w2); len(h) != 1 || h[0].ToEpoch != w2.epoch || w1.core.stats.HandLost != 0 {
			t.Errorf("%+v on the way, %+v", h, w1.core.stats)
		}
	})
	t.Run("it is reached when somebody may have started afresh", func(t *testing.T) {
		f, w1, w2, next := moved(t)
		w1.in.presence = []presence{{peer: w2.id}}
		f.turn(w1)
		f.giveRing(w1, next)
		f.now += int64(f.limits.Confirm)
		w1.in.presence = []presence{{w2.id, w2.epoch + 1}}
		f.turn(w1)
		if h := f.handOvers(w2); len(h) != 0 || w1.core.stats.HandLost != 1 || len(w1.core.leaving) != 0 {
			t.Errorf("%+v on the way, %+v", h, w1.core.stats)
		}
	})
	t.Run("it comes from a worker that did not own it", func(t *testing.T) {
		f, w1, w2, next := moved(t)
		f.giveRing(w1, next)
		h := f.handOvers(w2)
		f.giveRing(w2, next)
		w2.in.letters = []letter{{from: "w9", epoch: 1, batch: &batch{handOvers: h}}}
		f.turn(w2)
		if metered(w2) || w2.core.stats.Forged != 1 {
			t.Errorf("taken from a stranger: %+v", w2.core.stats)
		}
	})
	t.Run("more of them than may be kept", func(t *testing.T) {
		f, w1, w2, next := moved(t)
		f.giveRing(w1, next)
		h := f.handOvers(w2)
		h[0].Reporters = make([]qos.HandOverReporter, 255)
		for range maxTooEarly/256 + 5 {
			w2.in.letters = append(w2.in.letters, letter{from: w1.id, epoch: 1, batch: &batch{handOvers: h}})
		}
		f.turn(w2)
		if len(w2.core.tooEarly) != maxTooEarly/256 || w2.core.stats.HandLost != 5 {
			t.Errorf("%d kept, %d lost", len(w2.core.tooEarly), w2.core.stats.HandLost)
		}
	})
}

// TestAloneHearsNobody: a worker without a ring answers nothing, whatever ring epoch a message names.
func TestAloneHearsNobody(t *testing.T) {
	p := iops(1000, 100)
	b := newBench(t, p)
	b.now += int64(time.Second)
	u := qos.UsageReport{
		Key: p.Key(), From: qos.ReporterID{Worker: "w2", Epoch: 1, Cell: 1}, RingEpoch: aloneEpoch, Sequence: 1, IopsDelta: 5,
		Total: qos.Total{Charged: 5}, Wanted: 5, Stamp: 1,
	}
	ended := 0
	b.in.letters = []letter{{from: "w2", epoch: 1, batch: &batch{reports: []qos.UsageReport{u}}, done: func() { ended++ }}}
	out := b.step()
	if len(out.parcels) != 0 || len(b.core.status(b.now).Owned) != 0 || ended != 1 {
		t.Errorf("%d parcels, %+v, given back %d times", len(out.parcels), b.core.status(b.now).Owned, ended)
	}
}

// A worker that will be given a ring owns nothing until it has one: however much is asked for, it admits its allowance and no more. Taken for alone, it would let
// through the whole rate, beside every other worker that has just started.
func TestRingedOwnsNothingBeforeItsRing(t *testing.T) {
	p := egress(1e8, 1e7)
	b := newBench(t)
	b.core = freshCore(b.now)
	b.core.ringed = true
	check(t, b.set(p))
	greedy := func(d int64) {
		for end := b.now + d; b.now < end; b.now += ms / 4 {
			for b.cell(p).Admit(10_000, b.now).Charged() {
			}
			b.cell(p).Await(0, 10_000, 10_000)
			b.loop()
		}
	}
	greedy(2000 * ms)
	cfg := qos.DefaultConfig()
	if used, most := b.cell(p).Used(), int64(cfg.BootstrapBytes); used > most || used == 0 {
		t.Errorf("%d bytes were admitted in 2 s without a ring, at most %d may be", used, most)
	}
	if s := b.core.status(b.now); s.Acts || s.Alone || len(s.Owned) > 0 {
		t.Errorf("acts %v, alone %v, owns %d", s.Acts, s.Alone, len(s.Owned))
	}
	done := make(chan error, 1)
	b.in.rings = append(b.in.rings, ringChange{ringOf(5, "w1"), done})
	b.step()
	check(t, <-done)
	greedy(3000 * ms)
	if used := b.cell(p).Used(); used < 1e8 {
		t.Errorf("%d bytes in 3 s as the only member of a ring, at 100 MB/s", used)
	}
}

// The voters of the ring before are dead: nothing starts until an operator says so, of this very ring.
func TestForcedRingActs(t *testing.T) {
	b := newBench(t)
	b.core = freshCore(b.now)
	b.core.ringed = true
	ring := ringOf(5, "w1")
	ring.Replaces = []qos.Voting{{Epoch: 4, Voters: []qos.WorkerID{"w8", "w9"}}}
	done := make(chan error, 1)
	b.in.rings = append(b.in.rings, ringChange{ring, done})
	b.step()
	check(t, <-done)
	for _, step := range []struct {
		force   uint64
		settled bool
	}{{0, false}, {4, false}, {6, false}, {5, true}} {
		b.in.force = step.force
		b.step()
		b.run(3000 * ms)
		if s := b.core.status(b.now); s.Settled != step.settled {
			t.Errorf("after forcing %d: settled %v, want %v", step.force, s.Settled, step.settled)
		}
	}
}
