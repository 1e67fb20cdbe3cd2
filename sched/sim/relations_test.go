package sim

import (
	"math"
	"testing"

	"github.com/talon-worker/talon/sched"
)

// TestReachUnused: what tenants of great weight leave unused, others get, and what they ask for they get at once.
func TestReachUnused(t *testing.T) {
	for _, c := range []struct {
		name   string
		weight int
		conn   ConnSetup
	}{
		{"rare requests of great weight", 1000, ConnSetup{Count: 1, Ring: -1, Least: 64 * kib, Most: 64 * kib, Think: 40 * msec, Buffer: 4 * mib}},
		{"a steady tenth of its share", 100, ConnSetup{Count: 4, Ring: -1, Least: mib, Most: mib, Think: 15 * msec, Buffer: 4 * mib}},
		{"slow readers", 20, ConnSetup{Count: 3, Ring: -1, Least: 1 << 40, Most: 1 << 40, Buffer: 256 * kib, Drain: 20e6}},
		{"bound to a slow ring", 20, ConnSetup{Count: 2, Ring: 3, Least: 1 << 40, Most: 1 << 40, Buffer: 4 * mib}},
	} {
		ratio, goodput := 1.0, 1.0
		for seed := uint64(1); seed <= 3; seed++ {
			s := crowd(seed)
			s.Tenants = append(s.Tenants, TenantSetup{Config: sched.TenantConfig{Weight: c.weight}, Conns: []ConnSetup{c.conn}})
			a, b := watch(t, s).shares(first(9), 1000, 300, 3000)
			ratio, goodput = min(ratio, a), min(goodput, b)
		}
		t.Logf("%s: goodput %.4f, min/max of the others' shares %.4f", c.name, goodput, ratio)
		if goodput < 0.985 || ratio < 0.995 {
			t.Errorf("%s: goodput %.4f, shares %.4f; 0.985 and 0.995 wanted", c.name, goodput, ratio)
		}
	}
}

// TestRingsTooSlow: a rate that the rings cannot carry binds nobody. Shares are still by weight, as exactly as whole chunks can be.
func TestRingsTooSlow(t *testing.T) {
	for _, rings := range []int{1, 4} {
		s := Setup{Seed: 1, Rings: rings, Rate: int64(rings) * 800e6, Chunk: 64 * kib, Depth: 4, Speed: 400e6, Latency: 2 * usec, Turn: 4, For: 3 * sec}
		for _, weight := range []int{1, 2, 30, 1000} {
			x := TenantSetup{Config: sched.TenantConfig{Weight: weight}}
			for r := range rings {
				x.Conns = append(x.Conns, ConnSetup{Count: 2, Ring: r, Least: 1 << 40, Most: 1 << 40, Buffer: 4 * mib})
			}
			s.Tenants = append(s.Tenants, x)
		}
		o := watch(t, s)
		ratio, _ := o.shares(first(4), 2000, 500, 2500)
		all := 0.0
		for i := range 4 {
			all += o.got(i, 500, 2500)
		}
		want := 1 - 2/(2*float64(rings)*400e6/1033/float64(s.Chunk)) // who has the least weight has few chunks in 2 s
		t.Logf("%d rings: min/max of weighted shares %.3f (%.3f wanted), %.3f of what they can carry", rings, ratio, want, all/2/float64(rings)/400e6)
		if ratio < want || all/2/float64(rings)/400e6 < 0.98 {
			t.Errorf("want %.3f and 0.98", want)
		}
	}
}

// TestRelations: P11. What must not matter does not.
func TestRelations(t *testing.T) {
	base := func() Setup {
		s := crowd(5)
		s.For = sec
		return s
	}
	of := func(s Setup) (shares []float64, hash uint64) {
		o := watch(t, s)
		for i := range 9 {
			shares = append(shares, o.got(i, 100, 1000))
		}
		return shares, o.r.Hash
	}
	want, hash := of(base())
	same := func(name string, got []float64, part float64) {
		for i := range want {
			if math.Abs(got[i]-want[i]) > part*want[i] {
				t.Errorf("%s: tenant %d got %.0f, before %.0f", name, i, got[i], want[i])
			}
		}
	}
	got, again := of(base())
	if same("the same again", got, 0); again != hash {
		t.Errorf("equal setups: traces %016x and %016x", hash, again)
	}
	s := base()
	s.Seed++
	if _, other := of(s); other == hash {
		t.Error("another seed has the same trace")
	}
	s = base()
	for i := range s.Tenants {
		s.Tenants[i].Config.Weight *= 7
	}
	got, _ = of(s)
	same("all weights times 7", got, 0.01)

	s = base()
	s.Tenants[0].Conns = []ConnSetup{s.Tenants[0].Conns[0], s.Tenants[0].Conns[0]}
	s.Tenants[0].Conns[0].Count, s.Tenants[0].Conns[1].Count = 12, 500
	s.Tenants[0].Conns[1].Ring = 2 // nearly all on one ring
	got, _ = of(s)
	same("connections on other rings", got, 0.01)

	s = base()
	idle := s.Tenants[1]
	idle.Conns = nil
	s.Tenants = append(s.Tenants, idle, idle)
	got, _ = of(s)
	same("idle tenants", got, 0.01)
}

// TestFaults: P12. A ring that stalls, a clock that jumps and a limit that changes leave shares as they were.
func TestFaults(t *testing.T) {
	s := crowd(2)
	for i := range 10 {
		at := int64(100+50*i) * msec
		s.Deeds = append(s.Deeds, Deed{At: at, What: Stall, Ring: i, N: 50 * msec}, Deed{At: at + 7*msec, What: Jump, N: 13 * msec},
			Deed{At: at + 11*msec, What: SetRate, N: 1e9}, Deed{At: at + 19*msec, What: SetRate, N: 3125e6})
	}
	o := watch(t, s)
	ratio, goodput := o.shares(first(9), 1000, 800, 2900)
	t.Logf("after the faults: min/max of shares %.4f, goodput %.4f", ratio, goodput)
	if ratio < 0.995 || goodput < 0.99 {
		t.Error("want 0.995 and 0.99")
	}
}

// TestIntervalCheckCanTell: the check of P4 finds a byte too much.
func TestIntervalCheckCanTell(t *testing.T) {
	ledger := []charge{{0, 50}, {10, 30}, {sec, 1100}, {sec, 20}}
	if w := worstInterval(ledger, 1000, 1120); w != 1 {
		t.Errorf("burst 1120: %v", w)
	}
	if w := worstInterval(ledger, 1000, 1119); w <= 1 {
		t.Errorf("burst 1119: %v", w)
	}
}
