package qos

import (
	"math"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"pgregory.net/rapid"
)

// newCell returns the cell of goodPolicy changed by mend, with a view that admits room more units until expires.
func newTestCell(t testing.TB, room, expires int64, mend func(*Policy)) *Cell {
	t.Helper()
	l := must(NewLedger(DefaultConfig(), 2))
	must(NewReporter(l.cfg, l, "w", 1, 1)).SetRing(1, 10, func(Limit) WorkerID { return "o" }, 0)
	p := goodPolicy()
	if mend != nil {
		mend(&p)
	}
	check(t, l.SetPolicy(&p, 0))
	c := l.Cell(p.Limit())
	v := *c.View()
	v.ceiling, v.expires = c.Used()+room, expires
	c.ledger.publish(c, &v)
	return c
}

func TestAdmit(t *testing.T) {
	// R=1000/s over 10 members, B=100, b=20, bootstrap 4.
	for _, tt := range []struct {
		name    string
		room    int64
		expires int64
		mend    func(*Policy)
		view    func(*View)
		n, now  int64
		want    Outcome
		why     Reason
		used    int64
	}{
		{"inside the ceiling", 10, 100, nil, nil, 10, 99, Go, Granted, 10},
		{"past the ceiling by one", 10, 100, nil, nil, 11, 99, Wait, Exhausted, 0},
		{"nothing asked, nothing left", 0, 100, nil, nil, 0, 99, Go, Granted, 0},
		{"expired at the last moment", 10, 100, nil, nil, 10, 100, Wait, StaleView, 0},
		{"expired, allowance", 10, 100, nil, nil, 4, 100, Go, Granted, 4},
		{"expired, past the allowance", 10, 100, nil, nil, 5, 100, Wait, StaleView, 0},
		{"fresh and empty bars the allowance", 0, 100, nil, nil, 1, 99, Wait, Exhausted, 0},
		{"expired, but the owner keeps a place", 10, never, nil, func(v *View) { v.barred = 50 }, 1, 49, Wait, Exhausted, 0},
		{"the place is lost", 10, never, nil, func(v *View) { v.barred = 50 }, 1, 50, Go, Granted, 1},
		{"unacknowledged use counts against the bootstrap", 10, never, nil, func(v *View) { v.acked = -3 }, 2, 0, Wait, StaleView, 0},
		{"acknowledged use does not", 10, never, nil, func(v *View) { v.acked = -3 }, 1, 0, Go, Granted, 1},
		{"negative", 10, 100, nil, nil, -1, 0, Refuse, BadCharge, 0},
		{"larger than can ever be", 1000, 100, nil, nil, 121, 0, Refuse, TooLarge, 0},
		{"as large as can ever be", 1000, 100, nil, nil, 120, 0, Go, Granted, 120},
		{"disabled: counted", 0, never, func(p *Policy) { p.Enabled = false }, nil, 1e6, 0, Go, Unlimited, 1e6},
		{"off: counted", 0, never, func(p *Policy) { p.Mode = Off }, nil, 7, 0, Go, Unlimited, 7},
		{"shadow within", 10, 100, func(p *Policy) { p.Mode = Shadow }, nil, 10, 0, Go, Granted, 10},
		{"shadow beyond is not charged", 10, 100, func(p *Policy) { p.Mode = Shadow }, nil, 11, 0, Go, ShadowDenied, 0},
		{"reject waits while the owner has some", 0, 100, func(p *Policy) { p.OnLimit = Reject }, nil, 1, 0, Wait, Exhausted, 0},
		{"reject when it has none", 0, 100, func(p *Policy) { p.OnLimit = Reject }, func(v *View) { v.exhausted = true }, 1, 0, Refuse, Exhausted, 0},
		{"pace waits even then", 0, 100, nil, func(v *View) { v.exhausted = true }, 1, 0, Wait, Exhausted, 0},
		{"banned", 10, 100, func(p *Policy) { p.OnLimit, p.BanFor = Ban, time.Second }, func(v *View) { v.banned = 50 }, 1, 49, Refuse, Banned, 0},
		{"banned, and the limit is lifted", 10, 100, func(p *Policy) { p.OnLimit, p.BanFor, p.Enabled = Ban, time.Second, false }, func(v *View) { v.banned = 50 }, 1, 49, Go, Unlimited, 1},
		{"banned, and the limit is in shadow", 10, 100, func(p *Policy) { p.OnLimit, p.BanFor, p.Mode = Ban, time.Second, Shadow }, func(v *View) { v.banned = 50 }, 1, 49, Go, Granted, 1},
		{"ban is over", 10, 100, func(p *Policy) { p.OnLimit, p.BanFor = Ban, time.Second }, func(v *View) { v.banned = 50 }, 1, 50, Go, Granted, 1},
		{"ceiling at the end of the range", math.MaxInt64, 100, nil, nil, 100, 0, Go, Granted, 100},
	} {
		c := newTestCell(t, tt.room, tt.expires, tt.mend)
		if tt.view != nil {
			v := *c.View()
			tt.view(&v)
			c.ledger.publish(c, &v)
		}
		d := c.Admit(tt.n, tt.now)
		if d.Outcome != tt.want || d.Reason != tt.why || c.Used() != tt.used {
			t.Errorf("%s: got %v %v, used %d; want %v %v, used %d", tt.name, d.Outcome, d.Reason, c.Used(), tt.want, tt.why, tt.used)
		}
		if d.Outcome == Wait && d.Until <= tt.now {
			t.Errorf("%s: waits until %d at %d: would spin", tt.name, d.Until, tt.now)
		}
	}
}

func TestUnknownAndFull(t *testing.T) {
	cfg := DefaultConfig()
	cfg.MaxLimits = 1
	l := must(NewLedger(cfg, 1))
	p := goodPolicy()
	if d := l.Cell(p.Limit()).Admit(0, 0); d.Outcome != Wait || d.Reason != NoPolicy {
		t.Errorf("unknown: %+v", d)
	}
	check(t, l.SetPolicy(&p, 0))
	if l.Cell(p.Limit()).Admit(1, 0).Outcome != Go {
		t.Error("known: want go")
	}
	other := p
	other.Tenant = "u"
	if err := l.SetPolicy(&other, 0); err == nil {
		t.Error("full table took another limit")
	}
	if d := l.Cell(other.Limit()).Admit(0, 0); d.Outcome != Refuse || d.Reason != LimitsFull {
		t.Errorf("overflow: %+v, it must never be permissive", d)
	}
	l.DropPolicy(p.Limit(), 0)
	if d := l.Cell(p.Limit()).Admit(0, 0); d.Reason != NoPolicy {
		t.Errorf("dropped: %+v", d)
	}
	if err := l.SetPolicy(&p, 0); err == nil {
		t.Error("a dropped generation came back")
	}
	p.Generation++
	check(t, l.SetPolicy(&p, 0))
	if d := l.Cell(p.Limit()).Admit(4, 0); d.Reason != StaleView {
		t.Errorf("dropping and setting a policy re-armed the allowance: %+v", d)
	}
}

func TestDroppedLimitsMakeRoom(t *testing.T) {
	cfg := DefaultConfig()
	cfg.MaxLimits = 2
	l := must(NewLedger(cfg, 1))
	o := must(NewOwner(cfg, "o", 1))
	p := goodPolicy()
	set := func(tenant string, now int64) error {
		p.Tenant = tenant
		if err := o.SetPolicy(&p, now); err != nil {
			return err
		}
		return l.SetPolicy(&p, now)
	}
	check(t, set("a", 0))
	check(t, set("b", 0))
	if set("c", 0) == nil {
		t.Fatal("a third of two")
	}
	l.Cell(Limit{"b", ReadIOPS}).Admit(1, 0)
	for _, tenant := range []string{"a", "b"} {
		l.DropPolicy(Limit{tenant, ReadIOPS}, 0)
		o.DropPolicy(Limit{tenant, ReadIOPS})
	}
	check(t, set("c", 0)) // in the place of a: b has used something of its allowance, and has not told
	if l.known(Limit{"a", ReadIOPS}) != nil || l.known(Limit{"b", ReadIOPS}) == nil || l.count != 2 {
		t.Fatal("the wrong one was forgotten")
	}
	if l.Cell(Limit{"c", ReadIOPS}).Admit(1, 0).Outcome != Go {
		t.Fatal("c is closed")
	}
}

func TestNewGenerationStopsTheOld(t *testing.T) {
	c := newTestCell(t, 10, 1000, nil)
	p := goodPolicy()
	p.Generation = 2
	check(t, c.ledger.SetPolicy(&p, 10))
	if d := c.Admit(5, 11); d.Reason != StaleView {
		t.Errorf("spent what generation 1 was granted: %+v", d)
	}
	p.Generation = 1
	if err := c.ledger.SetPolicy(&p, 12); err == nil {
		t.Error("an older generation replaced a newer one")
	}
}

func TestRefund(t *testing.T) {
	for _, tt := range []struct {
		name                 string
		charged, reported, n int64
		used, lapsed         int64
	}{ // lapse = b - bootstrap = 16
		{"before it is reported: all of it", 50, 0, 50, 0, 0},
		{"after: as far as the lapse", 50, 50, 16, 34, 0},
		{"what is beyond is lost", 50, 50, 20, 34, 4},
		{"partly reported", 50, 30, 40, 14, 4},
		{"more than was charged", 10, 0, 11, 0, 1},
		{"nothing", 10, 0, 0, 10, 0},
		{"negative", 10, 0, -5, 10, 0},
	} {
		c := newTestCell(t, 100, 1000, nil)
		c.Admit(tt.charged, 0)
		c.reported.Store(tt.reported)
		c.Refund(tt.n)
		if got := c.totals(); c.Used() != tt.used || c.lapsed.Load() != tt.lapsed || got.Used() != tt.used || got.Charged != tt.charged {
			t.Errorf("%s: used %d lapsed %d totals %+v; want used %d lapsed %d", tt.name, c.Used(), c.lapsed.Load(), got, tt.used, tt.lapsed)
		}
	}
}

func TestAdmitBothOrNone(t *testing.T) {
	for _, tt := range []struct {
		name         string
		roomA, roomB int64
		want         Outcome
	}{
		{"both", 10, 10, Go}, {"first lacks", 0, 10, Wait}, {"second lacks", 10, 0, Wait}, {"neither", 0, 0, Wait},
	} {
		a, b := newTestCell(t, tt.roomA, 100, nil), newTestCell(t, tt.roomB, 100, nil)
		d := AdmitBoth(a, 3, b, 4, 0)
		wantA, wantB := int64(0), int64(0)
		if tt.want == Go {
			wantA, wantB = 3, 4
		}
		if d.Outcome != tt.want || a.Used() != wantA || b.Used() != wantB || a.refunded.Load() != 0 {
			t.Errorf("%s: %+v, used %d and %d", tt.name, d, a.Used(), b.Used())
		}
	}
}

// TestAllowanceIsReArmedByTimeAlone: R=1000 over 10 members refills 4 requests in 40 ms, whatever is acknowledged meanwhile.
func TestAllowanceIsReArmedByTimeAlone(t *testing.T) {
	c := newTestCell(t, 0, never, nil)
	admitted := int64(0)
	for now := int64(0); now < 400*ms; now += ms {
		v := *c.View()
		v.acked = c.Used() // an acknowledgement a millisecond
		c.ledger.publish(c, &v)
		for c.Admit(1, now).Outcome == Go {
			admitted++
		}
	}
	if want := int64(4 + 399*100/1000); admitted != want {
		t.Errorf("admitted %d, want %d", admitted, want)
	}
	// A new size of ring keeps what has been used up.
	c.ledger.setMembers(1, 400*ms)
	if d := c.Admit(2, 400*ms); d.Outcome == Go {
		t.Error("a new ring re-armed the allowance")
	}
}

// TestConcurrentChargesNeverPassTheCeiling races rings for the last units, with refunds and views in between.
func TestConcurrentChargesNeverPassTheCeiling(t *testing.T) {
	c := newTestCell(t, 1000, 1<<60, nil)
	var wg sync.WaitGroup
	for ring := range 4 {
		wg.Go(func() {
			for i := range 2000 {
				n := int64(i%3 + 1)
				c.ledger.Enter(ring % 2)
				if c.Admit(n, 0).Charged() && i%4 == 0 {
					c.Refund(n)
				}
				if used := c.Used(); used > 1000 || used < 0 {
					t.Errorf("used %d", used)
				}
				c.ledger.Leave(ring % 2)
			}
		})
	}
	wg.Wait()
	if got := c.totals(); got.Used() != c.Used() || !got.sound() || c.Used() < 990 {
		t.Errorf("totals %+v, used %d", got, c.Used())
	}
}

// TestCellIsLinearizable asks porcupine for an order of concurrent charges and refunds in which one counter gives the same answers.
func TestCellIsLinearizable(t *testing.T) {
	model := porcupine.Model{
		Init: func() any { return int64(0) },
		Step: func(state, in, out any) (bool, any) {
			used, n := state.(int64), in.(int64)
			if n < 0 {
				return true, used + n
			}
			if fits := used+n <= 5; fits != out.(bool) {
				return false, state
			} else if fits {
				return true, used + n
			}
			return true, used
		},
	}
	for round := range 200 {
		c := newTestCell(t, 5, 1<<60, nil)
		var clock, wg = newCounter(), sync.WaitGroup{}
		histories := make([][]porcupine.Operation, 4)
		for w := range histories {
			wg.Go(func() {
				for i := range 5 {
					n := int64((i+w+round)%3 + 1)
					op := porcupine.Operation{ClientId: w, Input: n, Call: clock()}
					went := c.Admit(n, 0).Charged()
					op.Output, op.Return = went, clock()
					histories[w] = append(histories[w], op)
					if went && i%2 == 0 {
						op = porcupine.Operation{ClientId: w, Input: -n, Call: clock()}
						c.Refund(n)
						op.Output, op.Return = true, clock()
						histories[w] = append(histories[w], op)
					}
				}
			})
		}
		wg.Wait()
		var all []porcupine.Operation
		for _, h := range histories {
			all = append(all, h...)
		}
		if porcupine.CheckOperationsTimeout(model, all, 10*time.Second) == porcupine.Illegal {
			t.Fatalf("round %d: no order explains %+v", round, all)
		}
	}
}

func newCounter() func() int64 {
	var mu sync.Mutex
	n := int64(0)
	return func() int64 { mu.Lock(); defer mu.Unlock(); n++; return n }
}

// TestGraceEndsWhenEveryRingHasPassed: a period that was asked for while a ring is in a pass ends only when that ring has left it.
func TestGraceEndsWhenEveryRingHasPassed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := must(NewLedger(DefaultConfig(), 3))
		inside, left := [3]bool{}, map[int]bool{}
		period := uint64(0)
		ask := func() {
			period = l.grace.next()
			clear(left)
			for i, in := range inside {
				if in {
					left[i] = true // has to leave first
				}
			}
		}
		ask()
		t.Repeat(map[string]func(*rapid.T){
			"pass": func(t *rapid.T) {
				i := rapid.IntRange(0, 2).Draw(t, "ring")
				if inside[i] = !inside[i]; inside[i] {
					l.Enter(i)
				} else {
					l.Leave(i)
					delete(left, i)
				}
			},
			"ask":  func(*rapid.T) { ask() },
			"step": func(*rapid.T) { l.step() },
			"": func(t *rapid.T) {
				if l.quiescent(period) && len(left) > 0 {
					t.Fatalf("period %d ended, rings %v have not left their pass", period, left)
				}
			},
		})
		for i, in := range inside {
			if in {
				l.Leave(i)
			}
		}
		if l.step(); !l.quiescent(period) {
			if l.step(); !l.quiescent(period) {
				t.Fatal("all rings are idle, and the period has not ended after two steps")
			}
		}
	})
}

func TestAdmitAllocatesNothing(t *testing.T) {
	a, b := newTestCell(t, 1<<50, 1<<60, nil), newTestCell(t, 1<<50, 1<<60, nil)
	stale := newTestCell(t, 0, never, nil)
	if n := testing.AllocsPerRun(1000, func() {
		a.ledger.Enter(0)
		a.Admit(2, 1)
		a.Refund(1)
		AdmitBoth(a, 1, b, 1, 1)
		stale.Admit(1, 1)
		stale.Await(0, 1, 1)
		stale.Refuse(1)
		a.ledger.Cell(a.limit)
		a.ledger.Leave(0)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAdmit(b *testing.B) {
	c := newTestCell(b, 1<<62, 1<<60, nil)
	for i := range b.N {
		c.Admit(1, int64(i))
	}
}

func BenchmarkAdmitContended(b *testing.B) {
	c := newTestCell(b, 1<<62, 1<<60, nil)
	b.RunParallel(func(pb *testing.PB) {
		for i := int64(0); pb.Next(); i++ {
			c.Admit(1, i)
		}
	})
}

func BenchmarkAdmitBoth(b *testing.B) {
	x, y := newTestCell(b, 1<<62, 1<<60, nil), newTestCell(b, 1<<62, 1<<60, nil)
	for i := range b.N {
		AdmitBoth(x, 1, y, 1, int64(i))
	}
}

func BenchmarkAdmitDenied(b *testing.B) {
	c := newTestCell(b, 0, 1<<60, nil)
	for i := range b.N {
		c.Admit(1, int64(i))
	}
}

func BenchmarkRefund(b *testing.B) {
	c := newTestCell(b, 1<<62, 1<<60, nil)
	c.Admit(100, 0)
	for range b.N {
		c.used.Add(1)
		c.Refund(1)
	}
}

func BenchmarkCellLookup(b *testing.B) {
	c := newTestCell(b, 0, 0, nil)
	for range b.N {
		c.ledger.Cell(c.limit)
	}
}
