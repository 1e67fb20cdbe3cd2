package qos

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// A bench is one worker whose reports and snapshots the test writes itself.
type repBench struct {
	t    *testing.T
	l    *Ledger
	r    *Reporter
	c    *Cell
	now  int64
	sent []UsageReport // of the last poll
	v    uint64
}

func newRepBench(t *testing.T, mend func(*Config)) *repBench {
	cfg := DefaultConfig()
	if mend != nil {
		mend(&cfg)
	}
	b := &repBench{t: t, l: must(NewLedger(cfg, 2)), now: 1000 * ms}
	b.r = must(NewReporter(cfg, b.l, "w", 7, 1))
	b.r.SetRing(3, 10, func(Limit) WorkerID { return "o" }, b.now)
	p := goodPolicy()
	check(t, b.l.SetPolicy(&p, b.now))
	b.c = b.l.Cell(p.Limit())
	return b
}

// poll moves time by dt and polls.
func (b *repBench) poll(dt int64) []UsageReport {
	b.now += dt
	b.sent = nil
	for _, a := range b.r.Poll(b.now, nil) {
		if !a.Report.sound() {
			b.t.Fatalf("unsound report %+v", a.Report)
		}
		b.sent = append(b.sent, a.Report)
	}
	return b.sent
}

// one polls and wants exactly one report.
func (b *repBench) one(dt int64, what string) UsageReport {
	b.t.Helper()
	if got := b.poll(dt); len(got) != 1 {
		b.t.Fatalf("%s: %d reports, want one", what, len(got))
	}
	return b.sent[0]
}

func (b *repBench) none(dt int64, what string) {
	b.t.Helper()
	if got := b.poll(dt); len(got) != 0 {
		b.t.Fatalf("%s: %+v, want silence", what, got)
	}
}

// answer is the snapshot that acknowledges u with so much remaining.
func (b *repBench) answer(u UsageReport, remaining int64) RateSnapshot {
	b.v++
	return RateSnapshot{
		Key: u.Key, To: u.From, RingEpoch: u.RingEpoch, Mark: Mark{Owner: OwnerEpoch{Ring: 3, Worker: 1}, Version: b.v},
		Acknowledged: u.Total, AckSequence: u.Sequence, Remaining: remaining, Stamp: u.Stamp, Newest: u.Key.Generation,
	}
}

func (b *repBench) apply(s RateSnapshot, want Verdict, what string) {
	b.t.Helper()
	if got := b.r.Apply(&s, b.now); got != want {
		b.t.Fatalf("%s: verdict %d, want %d", what, got, want)
	}
}

func TestReportCarriesTotalsOverABase(t *testing.T) {
	b := newRepBench(t, nil)
	b.none(ms, "nothing used")
	b.c.Admit(3, b.now)
	u := b.one(0, "first use is reported at once")
	if u.Total.Charged != 3 || u.Base != (Total{}) || u.IopsDelta != 3 || u.ByteDelta != 0 || u.Wanted != 3 || u.Sequence != 1 || u.RingEpoch != 3 || u.From != (ReporterID{"w", 7, b.c.id}) {
		t.Fatalf("report %+v", u)
	}
	b.now += ms
	b.apply(b.answer(u, 10), InForce, "answer")
	b.c.Admit(5, b.now)
	b.c.Refund(2)
	b.c.Refuse(4)
	u = b.one(7*ms, "at its interval")
	if u.Total != (Total{Charged: 8, Refunded: 2}) || u.Base != (Total{Charged: 3}) || u.IopsDelta != 3 || u.Wanted != 12 || u.Sequence != 2 || u.InForce.Version != 1 {
		t.Fatalf("report %+v", u)
	}
}

func TestUnansweredReportIsRepeatedNotRenumbered(t *testing.T) {
	b := newRepBench(t, nil)
	b.c.Admit(3, b.now)
	first := b.one(0, "first")
	b.none(ms, "an answer may still come")
	again := b.one(5*ms, "retry")
	if again.Sequence != 1 || again.Total != first.Total || again.Stamp == first.Stamp {
		t.Fatalf("retry %+v of %+v", again, first)
	}
	b.c.Admit(1, b.now)
	merged := b.one(12*ms, "retry with more")
	if merged.Sequence != 2 || merged.Total.Charged != 4 || merged.Base != (Total{}) {
		t.Fatalf("merged %+v", merged)
	}
	// The answer to the first one acknowledges 3 of 4, and the rest is told again.
	b.apply(b.answer(first, 0), Taken, "answer to the first")
	u := b.one(20*ms, "still owed")
	if u.Base.Charged != 3 || u.Total.Charged != 4 || u.IopsDelta != 1 {
		t.Fatalf("owed %+v", u)
	}
	for i := range 50 {
		if len(b.poll(20*ms)) == 0 && i > 2 {
			t.Fatal("gave up on an unanswered report")
		}
	}
}

func TestSnapshotsAreJudged(t *testing.T) {
	b := newRepBench(t, nil)
	b.c.Admit(3, b.now)
	u := b.one(0, "first")
	b.now += 2 * ms
	good := b.answer(u, 10)
	for name, mend := range map[string]func(*RateSnapshot){
		"other worker":      func(s *RateSnapshot) { s.To.Worker = "x" },
		"other incarnation": func(s *RateSnapshot) { s.To.Epoch-- },
		"other cell":        func(s *RateSnapshot) { s.To.Cell++ },
		"other ring":        func(s *RateSnapshot) { s.RingEpoch++ },
		"unknown limit":     func(s *RateSnapshot) { s.Key.Tenant = "x" },
	} {
		s := good
		mend(&s)
		b.apply(s, Foreign, name)
	}
	for name, mend := range map[string]func(*RateSnapshot){
		"acknowledges the future": func(s *RateSnapshot) { s.Acknowledged.Charged++ },
		"negative acknowledgment": func(s *RateSnapshot) { s.Acknowledged.Charged = -1 },
		"refund of nothing":       func(s *RateSnapshot) { s.Acknowledged.Refunded = 4 },
		"negative remaining":      func(s *RateSnapshot) { s.Remaining = -1 },
		"absurd remaining":        func(s *RateSnapshot) { s.Remaining = math.MaxInt64 },
		"stamp of the future":     func(s *RateSnapshot) { s.Stamp++ },
	} {
		s := good
		mend(&s)
		b.apply(s, Bad, name)
	}
	if b.c.View().Fresh(b.now) {
		t.Fatal("a refused snapshot came in force")
	}
	b.apply(good, InForce, "good")
	b.apply(good, Older, "its copy")
	old := good
	old.Mark.Version = 0
	old.Remaining = 1000
	b.apply(old, Older, "an older one with more in it")
	newer := b.answer(u, 10)
	newer.Mark.Owner.Ring--
	b.apply(newer, Older, "an older ownership")
	if c := b.c.View().Ceiling(); c != 13 {
		t.Fatalf("ceiling %d, want 13", c)
	}
}

// TestFreshnessCountsFromTheReport: a snapshot that took a whole TTL is not fresh, however new it looks.
func TestFreshnessCountsFromTheReport(t *testing.T) {
	b := newRepBench(t, nil)
	b.c.Admit(3, b.now)
	u := b.one(0, "first")
	s := b.answer(u, 10)
	b.now += 19 * ms
	b.apply(s, InForce, "19 ms after the report")
	if v := b.c.View(); !v.Fresh(b.now) || v.Fresh(u.Stamp+20*ms) {
		t.Fatalf("expires at %d, want 20 ms after the report's stamp", v.Expires()-u.Stamp)
	}
	b.now += ms
	b.apply(b.answer(u, 10), Taken, "20 ms after the report")
	if d := b.c.Admit(5, b.now); d.Reason != StaleView {
		t.Fatalf("spent a snapshot that was old when it came: %+v", d)
	}
}

// TestCeilingSubtractsWhatTheOwnerDidNotKnow: use after the acknowledged report stays subtracted.
func TestCeilingSubtractsWhatTheOwnerDidNotKnow(t *testing.T) {
	b := newRepBench(t, nil)
	b.c.Admit(3, b.now)
	u := b.one(0, "first")
	b.c.Admit(1, b.now)
	b.apply(b.answer(u, 10), InForce, "answer")
	if n := b.c.View().Ceiling() - b.c.Used(); n != 9 {
		t.Fatalf("room %d, want 10 less the 1 that is on its way", n)
	}
}

func TestDeadIsNamedWhenRingsHavePassed(t *testing.T) {
	b := newRepBench(t, nil)
	b.c.Admit(3, b.now)
	b.apply(b.answer(b.one(0, "first"), 10), InForce, "answer")
	b.l.Enter(1) // a ring is stopped in mid-pass and may hold the view
	b.none(19*ms, "in use")
	for range 5 {
		for _, u := range b.poll(10 * ms) {
			if u.Dead != (Mark{}) {
				t.Fatalf("named %+v dead while a ring may hold it", u.Dead)
			}
		}
	}
	b.l.Leave(1)
	b.poll(ms)
	u := b.one(10*ms, "given back")
	if u.Dead.Version != 1 || u.InForce != (Mark{}) || u.Demand != 0 || u.Need != 0 {
		t.Fatalf("report %+v, want version 1 dead and nothing asked", u)
	}
	b.apply(b.answer(u, 0), Taken, "answer")
	b.poll(30 * ms)
	if b.none(30*ms, "all told"); b.r.Next() != math.MaxInt64 {
		t.Fatal("not silent")
	}
	if b.c.Admit(1, b.now); !b.r.Urgent() || len(b.poll(0)) != 1 {
		t.Fatal("use after the silence is not reported")
	}
}

func TestSupersededIsNamedWhenRingsHavePassed(t *testing.T) {
	b := newRepBench(t, nil)
	b.c.Admit(3, b.now)
	b.apply(b.answer(b.one(0, "first"), 10), InForce, "answer 1")
	b.c.Admit(1, b.now)
	u := b.one(10*ms, "second")
	b.l.Enter(0)
	b.apply(b.answer(u, 5), InForce, "answer 2")
	b.c.Admit(1, b.now)
	if u = b.one(10*ms, "third"); u.InForce.Version != 2 || u.Dead.Version >= 1 {
		t.Fatalf("in force %d, dead %d with a ring in its pass", u.InForce.Version, u.Dead.Version)
	}
	b.l.Leave(0)
	b.apply(b.answer(u, 5), InForce, "answer 3")
	b.c.Admit(1, b.now)
	if u = b.one(10*ms, "fourth"); u.InForce.Version != 3 || u.Dead.Version != 2 {
		t.Fatalf("in force %d, dead %d", u.InForce.Version, u.Dead.Version)
	}
}

func TestQueuedReporterIsSilent(t *testing.T) {
	b := newRepBench(t, nil)
	b.c.Await(0, 5, 5)
	u := b.one(0, "asks")
	if u.Need != 5 || u.Demand < 5 {
		t.Fatalf("report %+v", u)
	}
	s := b.answer(u, 0)
	s.Queued = true
	b.apply(s, InForce, "has a place")
	sent := 0
	for range 100 {
		sent += len(b.poll(ms))
	}
	if sent != 0 {
		t.Fatalf("%d reports in 100 ms though it waits for its turn", sent)
	}
	if len(b.poll(30*ms)) != 1 {
		t.Fatal("lease is not kept alive")
	}
	// Its turn comes by push, too old to use: it asks for a fresh one at once, and is not giving anything back.
	b.apply(b.answer(u, 5), Taken, "push")
	if u = b.one(3*ms, "asks for a fresh one"); u.Need != 5 || u.Dead.Version > 1 { // version 2 is the push
		t.Fatalf("report %+v", u)
	}
}

// TestQueuedWorkerDoesNotHelpItself: the view grows old in the silence, and the allowance stays closed all the same, until asking again
// should have brought an answer.
func TestQueuedWorkerDoesNotHelpItself(t *testing.T) {
	b := newRepBench(t, nil)
	b.c.Await(0, 1, 1)
	s := b.answer(b.one(0, "asks"), 0)
	s.Queued = true
	b.apply(s, InForce, "has a place")
	for range 140 {
		b.poll(ms)
		if d := b.c.Admit(1, b.now); d.Outcome == Go {
			t.Fatalf("helped itself after %d ms", (b.now-s.Stamp)/ms)
		}
	}
	b.poll(10 * ms)
	if d := b.c.Admit(1, b.now); d.Outcome != Go {
		t.Fatalf("nobody answers any more: %+v, want the allowance", d)
	}
}

// TestExhaustedWorkerDoesNotHelpItself: the owner has nothing left, and says until when. Until then the allowance is closed, also where the word came with a
// view too old to use: else all who hear it spend their allowances at once, each time their turn comes, and the level stays in debt.
func TestExhaustedWorkerDoesNotHelpItself(t *testing.T) {
	const ttl, lease = 20, 250
	for _, tt := range []struct {
		what        string
		age         int64 // ms of the report that is answered
		turn        int64 // ms
		first, last int64 // ms after the snapshot: closed from the former to the latter
	}{
		{"for as long as the word is fresh", 1, 0, 0, ttl},
		{"until the turn", 1, 70, 0, 70},
		{"though the view came too late", 60, 0, 0, ttl},
		{"not for ever", 60, 9000, 0, lease},
	} {
		b := newRepBench(t, nil)
		b.c.Await(0, 1, 1)
		u := b.one(0, "asks")
		b.now += tt.age * ms
		s := b.answer(u, 0)
		s.Exhausted, s.Turn = true, tt.turn*ms
		b.r.Apply(&s, b.now)
		for at := tt.first; at < tt.last; at++ {
			if d := b.c.Admit(1, b.now); d.Outcome == Go {
				t.Fatalf("%s: helped itself %d ms after it heard that nothing is left", tt.what, at)
			}
			b.poll(ms)
		}
		if d := b.c.Admit(1, b.now); d.Outcome != Go {
			t.Errorf("%s: %+v after %d ms, want the allowance", tt.what, d, tt.last)
		}
	}
	// It is over when the owner has enough again.
	b := newRepBench(t, nil)
	b.c.Await(0, 1, 1)
	u := b.one(0, "asks")
	s := b.answer(u, 0)
	s.Exhausted, s.Turn = true, 200*ms
	b.apply(s, InForce, "nothing left")
	b.now += 40 * ms
	b.apply(b.answer(u, 0), Taken, "enough again")
	if d := b.c.Admit(1, b.now); d.Outcome != Go {
		t.Errorf("%+v, want the allowance", d)
	}
}

// TestUnusedTurnIsGivenBackAtOnce: its turn comes by push, too old to use, when nothing waits any more. What the owner keeps for it is kept from the others in
// line: it says so at once, not when it would have asked again.
func TestUnusedTurnIsGivenBackAtOnce(t *testing.T) {
	b := newRepBench(t, nil)
	b.c.Await(0, 5, 5)
	asked := b.one(0, "asks")
	s := b.answer(asked, 0)
	s.Queued = true
	b.apply(s, InForce, "has a place")
	b.none(40*ms, "waits for its turn")
	b.c.Await(0, 0, 0) // given up
	push := b.answer(asked, 5)
	b.apply(push, Taken, "push")
	for range 6 {
		if got := b.poll(ms); len(got) == 1 {
			if u := got[0]; u.Dead != push.Mark || u.Need != 0 {
				t.Fatalf("report %+v does not give back %v", u, push.Mark)
			}
			return
		}
	}
	t.Fatal("kept for 6 ms what nobody wants")
}

// TestAcknowledgementsReArmNothing: answers that carry nothing do not refill the allowance, however many come.
func TestAcknowledgementsReArmNothing(t *testing.T) {
	b := newRepBench(t, nil)
	admitted := 0
	for range 20 { // in 20 ms a tenth of 1000/s refills 2
		for b.c.Admit(1, b.now).Outcome == Go {
			admitted++
		}
		for _, u := range b.poll(ms) {
			b.apply(b.answer(u, 0), Taken, "acknowledged")
		}
	}
	if admitted > 6 {
		t.Fatalf("admitted %d, want 4 and the refill of 2", admitted)
	}
}

// Where a limit has run out each view is used up at once, and each round trip would bring a report. It goes once in the shortest interval, or in a quarter
// of the advance: what peers hear does not grow with what is asked for.
func TestEarlyReportsKeepThePace(t *testing.T) {
	for _, tt := range []struct{ shortest, advance, gap time.Duration }{
		{2 * time.Millisecond, 8 * time.Millisecond, 2 * time.Millisecond},
		{5 * time.Millisecond, 8 * time.Millisecond, 2 * time.Millisecond},
		{5 * time.Millisecond, 20 * time.Millisecond, 5 * time.Millisecond},
		{2 * time.Millisecond, 0, time.Millisecond / 2},
	} {
		b := newRepBench(t, func(c *Config) { c.SyncMin, c.Advance = tt.shortest, tt.advance })
		b.c.Admit(1, b.now)
		b.apply(b.answer(b.one(0, "first"), 2), InForce, "answer")
		sent := 0
		for range 10 * 1000 {
			for b.c.Admit(1, b.now).Outcome == Go {
			}
			b.c.Await(0, 1, 5)
			for _, u := range b.poll(ms / 10) {
				sent++
				b.apply(b.answer(u, 2), InForce, "answer") // in no time
			}
		}
		if most := int(time.Second / tt.gap); sent > most*21/20 || sent < most*4/5 {
			t.Errorf("interval %v, advance %v: %d reports in a second, want about one in each %v, %d", tt.shortest, tt.advance, sent, tt.gap, most)
		}
	}
}

func TestEarlyReportOncePerView(t *testing.T) {
	b := newRepBench(t, func(c *Config) { c.ReportIops = 10 })
	b.c.Admit(1, b.now)
	b.apply(b.answer(b.one(0, "first"), 100), InForce, "answer") // a quarter of the room, 25, is more than 10
	b.poll(2 * ms)
	b.c.Admit(24, b.now)
	b.none(ms, "24 of 25")
	b.c.Admit(1, b.now)
	b.one(0, "25: early")
	b.c.Admit(20, b.now)
	b.none(ms, "the answer will bring more")
}

func TestBudgetMergesReports(t *testing.T) {
	b := newRepBench(t, func(c *Config) { c.Budget = 2 })
	var cells []*Cell
	for i := range 5 {
		p := goodPolicy()
		p.Tenant = fmt.Sprint("t", i)
		check(t, b.l.SetPolicy(&p, b.now))
		cells = append(cells, b.l.Cell(p.Limit()))
		cells[i].Admit(1, b.now)
	}
	if got := b.poll(0); len(got) != 2 {
		t.Fatalf("%d reports, budget 2", len(got))
	}
	cells[4].Admit(2, b.now)
	seen := map[string]int64{}
	for _, u := range b.sent {
		seen[u.Key.Tenant] = u.Total.Charged
	}
	for range 2 {
		for _, u := range b.poll(2 * ms) {
			seen[u.Key.Tenant] = u.Total.Charged
		}
	}
	if len(seen) != 5 || seen["t4"] != 3 && seen["t4"] != 1 {
		t.Fatalf("after three windows: %v", seen)
	}
}

// TestBudgetIsShared: three limits with news at every window share a budget of one report. Each is told in its turn: none waits for more than its round.
func TestBudgetIsShared(t *testing.T) {
	b := newRepBench(t, func(c *Config) { c.Budget = 1 })
	var cells []*Cell
	for i := range 3 {
		p := goodPolicy()
		p.Tenant = fmt.Sprint("t", i)
		check(t, b.l.SetPolicy(&p, b.now))
		cells = append(cells, b.l.Cell(p.Limit()))
	}
	told, silent := map[string]int{}, map[string]int{}
	for range 300 {
		for _, c := range cells {
			c.Await(0, 1, 1)
			c.Refuse(1)
		}
		for _, u := range b.poll(b.r.cfg.SyncMin.Nanoseconds()) {
			told[u.Key.Tenant]++
			silent[u.Key.Tenant] = 0
			b.apply(b.answer(u, 0), Taken, "told")
		}
		for i := range cells {
			name := fmt.Sprint("t", i)
			if silent[name]++; silent[name] > 10 {
				t.Fatalf("%s has been held back for %d windows: %v", name, silent[name], told)
			}
		}
	}
}

func TestReportsAreSortedByOwner(t *testing.T) {
	b := newRepBench(t, nil)
	b.r.SetRing(4, 3, func(l Limit) WorkerID { return WorkerID("o" + l.Tenant[len(l.Tenant)-1:]) }, b.now)
	for i := range 9 {
		p := goodPolicy()
		p.Tenant = fmt.Sprint("t", i, i%3)
		check(t, b.l.SetPolicy(&p, b.now))
		b.l.Cell(p.Limit()).Admit(1, b.now)
	}
	out := b.r.Poll(b.now, nil)
	if len(out) != 9 {
		t.Fatalf("%d reports", len(out))
	}
	for i, a := range out {
		if want := WorkerID(fmt.Sprint("o", i/3)); a.To != want {
			t.Fatalf("report %d is for %s, want %s", i, a.To, want)
		}
	}
}

func TestRedirectedReportIsTriedAgain(t *testing.T) {
	b := newRepBench(t, nil)
	b.c.Admit(3, b.now)
	u := b.one(0, "first")
	b.r.Redirected(&Redirect{Key: u.Key, To: u.From, Sequence: u.Sequence, RingEpoch: 4, Reason: OtherRing}, b.now)
	b.none(ms, "not at once")
	b.r.SetRing(4, 10, func(Limit) WorkerID { return "p" }, b.now)
	b.c.Admit(1, b.now)
	out := b.r.Poll(b.now+5*ms, nil)
	if len(out) != 1 || out[0].To != "p" || out[0].Report.RingEpoch != 4 || out[0].Report.Total.Charged != 4 || out[0].Report.Base != (Total{}) {
		t.Fatalf("after the ring changed: %+v", out)
	}
}

func TestFencedReporterSaysSo(t *testing.T) {
	b := newRepBench(t, nil)
	b.c.Admit(3, b.now)
	u := b.one(0, "first")
	if b.r.Fenced() {
		t.Fatal("fenced by nobody")
	}
	b.r.Redirected(&Redirect{Key: u.Key, To: u.From, Sequence: u.Sequence, Reason: OldEpoch}, b.now)
	if !b.r.Fenced() {
		t.Fatal("does not know that a newer incarnation lives")
	}
	b.none(50*ms, "no storm")
}

func TestFlushTellsEverythingAndEnds(t *testing.T) {
	b := newRepBench(t, nil)
	b.c.Admit(3, b.now)
	b.apply(b.answer(b.one(0, "first"), 10), InForce, "answer")
	b.c.Admit(2, b.now)
	b.r.Flush(b.now)
	if d := b.c.Admit(1, b.now); d.Outcome == Go {
		t.Fatal("admitted while shutting down")
	}
	var last UsageReport
	for range 100 {
		if b.r.Done() {
			break
		}
		for _, u := range b.poll(ms) {
			last = u
			b.apply(b.answer(u, 0), Taken, "answer")
		}
	}
	if !b.r.Done() || !last.Final || last.Total.Charged != 5 || last.Dead.Version < 1 {
		t.Fatalf("done %v, last report %+v", b.r.Done(), last)
	}
}

func TestPollAllocatesLittle(t *testing.T) {
	b := newRepBench(t, nil)
	out := make([]Addressed, 0, 16)
	b.c.Admit(1, b.now)
	if n := testing.AllocsPerRun(200, func() {
		b.now += 5 * ms
		b.c.Admit(1, b.now)
		out = b.r.Poll(b.now, out[:0])
	}); n > 1 { // a view that has expired is replaced
		t.Errorf("%v allocations a poll", n)
	}
}

func BenchmarkReport(b *testing.B) {
	cfg := DefaultConfig()
	cfg.Budget = 1 << 30
	l := must(NewLedger(cfg, 2))
	r := must(NewReporter(cfg, l, "w", 7, 1))
	r.SetRing(3, 10, func(Limit) WorkerID { return "o" }, 0)
	p := goodPolicy()
	check(b, l.SetPolicy(&p, 0))
	c := l.Cell(p.Limit())
	var out []Addressed
	s := RateSnapshot{Key: p.Key(), RingEpoch: 3, Mark: Mark{Owner: OwnerEpoch{3, 1}}, Remaining: 1 << 40}
	b.ReportAllocs()
	for i := range b.N {
		now := int64(i+1) * 5 * ms
		c.Admit(1, now)
		out = r.Poll(now, out[:0])
		for _, a := range out {
			s.To, s.Acknowledged, s.AckSequence, s.Stamp = a.Report.From, a.Report.Total, a.Report.Sequence, a.Report.Stamp
			s.Mark.Version++
			r.Apply(&s, now+ms)
		}
	}
}

// TestUrgentIsTold: whenever Urgent becomes true the loop's waker is called, once, by whoever made it so; and never for a worker that sets none.
func TestUrgentIsTold(t *testing.T) {
	b := newRepBench(t, nil)
	b.c.Admit(1, b.now) // none is set
	b.poll(0)
	calls := 0
	b.l.OnUrgent(func() {
		if calls++; !b.r.Urgent() {
			t.Error("called while nothing is urgent")
		}
	})
	told := func(want int, what string) {
		t.Helper()
		if calls != want || b.r.Urgent() != (want > 0) {
			t.Fatalf("%s: called %d times, urgent %v", what, calls, b.r.Urgent())
		}
		calls = 0
		b.poll(ms)
	}
	told(0, "nothing")
	b.c.Await(0, 5, 5)
	told(1, "a need")
	b.c.Await(0, 5, 5)
	told(0, "the same need")
	p := goodPolicy()
	p.Tenant = "other"
	check(t, b.l.SetPolicy(&p, b.now))
	b.c.Await(1, 6, 6)
	b.l.Cell(p.Limit()).Refuse(1)
	told(1, "two cells, before the loop has looked")
}
