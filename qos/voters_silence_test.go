package qos

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// TestAMemberThatOwnsNothingAsksNobody: every member asks each voter when it learns of a ring, a few times more those that have not noted it, and then falls silent
// for good, however long nothing of its own is used, and after a change of the ring as well. One whose key is in use goes on.
func TestAMemberThatOwnsNothingAsksNobody(t *testing.T) {
	const n = 9
	e := newElectorate(n, 0, workers(n))
	all := func(int, int) bool { return true }
	asked := make([]int, n) // in each ring
	run := func(steps int, up func(from, to int) bool) {
		for range steps {
			for i := range e.workers {
				e.workers[i].onAsk = func() { asked[i]++ }
			}
			e.step(up)
		}
	}
	for i, w := range e.workers {
		w.uses = i == 4
	}
	without := func(gone int) func(from, to int) bool {
		return func(from, to int) bool { return from != gone && to != gone }
	}
	judge := func(what string, most int) {
		t.Helper()
		for i, n := range asked {
			if e.workers[i].uses != (n > most) || n < MaxVoters {
				t.Errorf("%s: worker %d asked %d times", what, i, n)
			}
			if next := e.workers[i].tenure.Next(false); next != math.MaxInt64 {
				t.Errorf("%s: worker %d asks again at %d, now is %d, though nothing of its own is used", what, i, next, e.now)
			}
		}
		clear(asked)
	}
	run(400, all)
	judge("the first ring", MaxVoters)
	e.propose(workers(n)[1:])
	for _, w := range e.workers[1:] {
		w.learn(e, e.rings[1])
	}
	asked[0] = MaxVoters // it is in that ring no more, and not told
	run(400, without(0))
	judge("the second, without the first voter of the one before", 2*MaxVoters)
}

// A voter that is out of reach is asked again, by a member that a majority has not noted; one more or less does not matter after that.
func TestASilentMemberIsNotedByAMajority(t *testing.T) {
	e := newElectorate(5, 0, workers(5))
	for _, w := range e.workers {
		w.uses = false
	}
	most := func(from, to int) bool { return from < 2 && to < 2 }
	for range 100 {
		e.step(most)
	}
	tenure := e.workers[0].tenure
	if next := tenure.Next(false); next > e.now+testConfirm/5 {
		t.Errorf("two of five have noted it, and it asks again at %d, now is %d", next, e.now)
	}
	if tenure.Ready(e.now) {
		t.Error("ready by the word of two of five")
	}
	for range 10 {
		e.step(func(from, to int) bool { return from < 3 && to < 3 })
	}
	if next := tenure.Next(false); next != math.MaxInt64 || !tenure.Ready(e.now) {
		t.Errorf("three of five have noted it, and it asks again at %d, now is %d", next, e.now)
	}
	tenure.Met("worker-1", e.workers[1].epoch)
	if got := tenure.Poll(e.now, false, nil); len(got) != 0 {
		t.Errorf("asks %q, which has noted it", got)
	}
	tenure.Met("worker-1", e.workers[1].epoch+100)
	if got := tenure.Poll(e.now, false, nil); !slices.Contains(got, "worker-1") || tenure.Ready(e.now) {
		t.Errorf("asks %q, and a voter that has noted it was started again", got)
	}
}

// A voter that was started again is asked at once, and once, even by a member that a majority has noted.
func TestARestartedVoterIsAskedAtOnce(t *testing.T) {
	e := newElectorate(5, 0, workers(5))
	for range 10 {
		e.workers[0].uses = false
		e.step(func(int, int) bool { return true })
	}
	tenure := e.workers[0].tenure
	tenure.Met("worker-1", e.workers[1].epoch+100)
	if got := tenure.Poll(e.now, false, nil); !slices.Equal(got, []WorkerID{"worker-1"}) || !tenure.Ready(e.now) {
		t.Errorf("asks %q, ready %v, want the one that has forgotten, and ready by the others", got, tenure.Ready(e.now))
	}
	if got := tenure.Poll(e.now+10*testConfirm, false, nil); len(got) != 0 {
		t.Errorf("asks %q again", got)
	}
}

// TestTheFirstKeyIsConfirmedWithinARoundTrip is the story of a silent owner: nothing of its own is used for an hour, then a report comes. It is refused, the owner asks at
// once, and the answers, half a round trip later, let it act on the report when it is sent again, with all that has been refilled meanwhile.
func TestTheFirstKeyIsConfirmedWithinARoundTrip(t *testing.T) {
	const trip = ms / 2
	b := newOwnerBench(t, nil)
	o := must(NewOwner(b.o.cfg, "worker-0", 1))
	check(t, o.SetPolicy(&b.p, b.now))
	confirm := int64(o.cfg.Confirm)
	ids := workers(3)
	var voters []*Voter
	for _, id := range ids {
		voters = append(voters, NewVoter(id, 1, b.now-2*confirm, confirm))
		voters[len(voters)-1].Learn(1)
	}
	tenure := NewTenure("worker-0", 1, confirm)
	tenure.Learn(ringOf(t, 1, ids))
	o.SetRing(1, 0, func(Limit) bool { return true }, b.now)
	asks := 0
	loop := func() {
		for _, id := range tenure.Poll(b.now, o.InUse(b.now), nil) {
			asks++
			a, _ := voters[slices.Index(ids, id)].Answer(b.now+trip/2, tenure.Ask(b.now))
			tenure.Answered(b.now+trip, a)
		}
		o.Confirm(tenure.Until())
		if tenure.Open(b.now) {
			o.Settle(b.now)
		}
	}
	for tenure.Next(false) < math.MaxInt64 {
		b.now = max(b.now, tenure.Next(false))
		loop()
	}
	if asks != 3 {
		t.Errorf("%d asks until it is silent, want one to each voter", asks)
	}
	b.now += 3600 * perSecond
	if loop(); asks != 3 || o.Acts(b.now) || o.InUse(b.now) {
		t.Errorf("after a silent hour: %d asks, acts %v, in use %v", asks, o.Acts(b.now), o.InUse(b.now))
	}
	u := b.report("worker-1", 5, 0, 1, 10)
	stranger := *u
	stranger.Key.Tenant = "nobody knows"
	if _, why := o.Apply(&stranger, b.now); why != NotOwner || o.InUse(b.now) {
		t.Errorf("a report for a limit without a policy: %v, in use %v", why, o.InUse(b.now))
	}
	if _, why := o.Apply(u, b.now); why != NotOwner || !o.InUse(b.now) {
		t.Fatalf("the first report: %v, in use %v, want it refused and the voters asked", why, o.InUse(b.now))
	}
	loop()
	b.now += trip
	if asks != 6 || !o.Acts(b.now) {
		t.Errorf("a round trip later: %d asks, acts %v", asks, o.Acts(b.now))
	}
	s, why := o.Apply(u, b.now)
	if why != Accepted || s.Level != b.p.Burst-5 {
		t.Errorf("the report again: %v, level %d, want all of the burst but 5", why, s.Level)
	}
	for range 40 { // used, it goes on asking: twice in F, and no more
		b.now += confirm / 10
		loop()
		o.Push(b.now, nil)
		u.Sequence, u.Stamp = u.Sequence+1, b.now
		if _, why := o.Apply(u, b.now); why != Accepted {
			t.Fatalf("in use: %v", why)
		}
	}
	if n := asks - 6; n != 3*8 {
		t.Errorf("%d asks in 4 F of use, want 24", n)
	}
	asks = 0
	for range 200 { // forgotten when nobody uses it: 4 F later it is silent again
		b.now += confirm / 10
		loop()
		o.Push(b.now, nil)
	}
	if o.InUse(b.now) || o.Acts(b.now) || asks > 3*2*6 {
		t.Errorf("nobody has used it for 20 F: in use %v, acts %v, %d asks", o.InUse(b.now), o.Acts(b.now), asks)
	}
}

// What is handed over wakes a silent owner with its first part, before the first report does.
func TestAHandOverWakesASilentOwner(t *testing.T) {
	b := newOwnerBench(t, nil)
	for i := range handOverPart + 1 {
		b.ask(WorkerID(fmt.Sprint("w", i)), 0, 0, 1)
	}
	b.o.SetRing(2, 1, func(Limit) bool { return false }, b.now)
	parts := b.o.Export(nil)
	o := must(NewOwner(b.o.cfg, "heir", 7))
	check(t, o.SetPolicy(&b.p, b.now))
	o.SetRing(2, 1, func(Limit) bool { return true }, b.now)
	if o.InUse(b.now) || len(parts) != 2 {
		t.Fatalf("in use %v before any of %d parts has come", o.InUse(b.now), len(parts))
	}
	parts[0].ToEpoch = 7
	if why := o.Import(&parts[0], b.now); why != Accepted || !o.InUse(b.now) {
		t.Errorf("the first part: %v, in use %v", why, o.InUse(b.now))
	}
	o.SetRing(3, 2, func(Limit) bool { return true }, b.now)
	if o.InUse(b.now) {
		t.Error("still in use, though the rest will never be taken in")
	}
}
