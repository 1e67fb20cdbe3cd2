package qos

import (
	"testing"
	"time"
)

func TestOwnerStatus(t *testing.T) {
	b := newOwnerBench(t, func(p *Policy) { p.SoftRate, p.OnLimit, p.BanFor = 50, Ban, time.Second })
	other := b.p
	other.Tenant = "a"
	check(t, b.o.SetPolicy(&other, 0))
	b.ask("w", 0, 5, 5)
	b.ask("w", 130, 0, 0) // 30 deep in debt
	b.now += 50 * ms
	u := *b.report("w", 0, 0, 0, 0)
	u.Key.Tenant, u.Base = "a", u.Total
	if _, why := b.o.Apply(u.measured(), b.now); why != Accepted {
		t.Fatal(why)
	}
	got := b.o.Status(b.now, nil)
	if len(got) != 2 || got[0].Key.Tenant != "a" || got[1].Key.Tenant != "t" {
		t.Fatalf("%+v: want both, sorted", got)
	}
	s := got[1]
	if s.Level != 20 || s.Excess != 30 || s.Used != 130 || s.Wanted != 130 || !s.Soft || s.Reporters != 1 || s.Burst != 100 {
		t.Fatalf("%+v", s)
	}
}

// What is kept of views that have expired is told apart from what may still be used, whether its worker lives or not: it is a debt until it is named dead or paid.
func TestOwnerStatusTellsWhatHasExpired(t *testing.T) {
	b := newOwnerBench(t, nil)
	status := func() LimitStatus { return b.o.Status(b.now, nil)[0] }
	b.ask("other", 90, 0, 0) // the level must not be full: then it pays
	held := b.ask("w", 0, 5, 5).Remaining
	if s := status(); held == 0 || s.Reserved != held || s.Expired != 0 {
		t.Fatalf("%d in force: %+v", held, s)
	}
	b.now += 30 * ms
	if s := status(); s.Reserved != held || s.Expired != held {
		t.Fatalf("%d expired: %+v", held, s)
	}
	again := *b.report("w", 0, 0, 0, 0)
	again.From.Epoch, again.Sequence = again.From.Epoch+1, 1
	b.apply(&again)
	if s := status(); s.Reserved != held || s.Expired != held {
		t.Fatalf("%d of an incarnation that is gone: %+v", held, s)
	}
}

func TestReporterStatus(t *testing.T) {
	b := newRepBench(t, nil)
	b.c.Admit(3, b.now)
	u := b.one(0, "first")
	b.now += 2 * ms
	b.apply(b.answer(u, 10), InForce, "answer")
	b.c.Admit(4, b.now)
	b.c.Refuse(7)
	b.c.Await(1, 2, 6)
	got := b.r.Status(b.now+ms, nil)
	want := CellStatus{
		Key: RateKey{"t", ReadIOPS, 1}, Owner: "o", Total: Total{Charged: 7}, Acked: Total{Charged: 3}, Refused: 7,
		Room: 6, Age: 3 * ms, Trip: ms + ms/8, Need: 2, Waiting: 6,
	}
	if len(got) != 1 || got[0] != want {
		t.Fatalf("%+v\nwant %+v", got, want)
	}
	if s := b.r.Status(b.now+20*ms, nil)[0]; s.Room != 0 || s.Age != -1 {
		t.Fatalf("expired: %+v", s)
	}
}
