package sched

import (
	"math"
	"slices"
	"sync"
	"testing"
)

const (
	kib  = int64(1 << 10)
	mib  = int64(1 << 20)
	msec = int64(1e6)
	huge = int64(1 << 40)
)

// rig is one worker whose rings are driven by hand.
type rig struct {
	*testing.T
	w    *Worker
	r    []*Ring
	now  int64
	took int64 // bytes of the last serve
	woke []int
}

func newRig(t *testing.T, c Config) *rig {
	t.Helper()
	if c.Chunk == 0 {
		c.Chunk = 256 * kib
	}
	c.Rings = max(c.Rings, 1)
	g := &rig{T: t, now: 1e9}
	c.Wake = func(ring int) { g.woke = append(g.woke, ring) }
	w, err := NewWorker(c)
	if err != nil {
		t.Fatal(err)
	}
	g.w = w
	for i := range c.Rings {
		g.r = append(g.r, w.Ring(i, 64))
	}
	t.Cleanup(func() {
		if err := w.Audit(g.r); err != nil {
			t.Error(err)
		}
	})
	return g
}

func (g *rig) tenant(c TenantConfig) *Tenant {
	g.Helper()
	c.Weight = max(c.Weight, 1)
	t, err := g.w.NewTenant(c)
	if err != nil {
		g.Fatal(err)
	}
	return t
}

// start admits and pushes a response on a ring.
func (g *rig) start(ring int, t *Tenant, slot uint32, size int64) {
	g.Helper()
	if v := g.r[ring].Admit(t, slot, size, g.now); v.Reason != Go {
		g.Fatalf("slot %d: %v", slot, v.Reason)
	}
	g.r[ring].Push(slot, size, g.now)
}

// next wants a pick.
func (g *rig) next(ring int) Pick {
	g.Helper()
	p, ok := g.r[ring].Next(g.now)
	if !ok {
		g.Fatalf("nothing to dispatch at %d, wake at %d", g.now, g.r[ring].Wake())
	}
	return p
}

// none wants nothing to dispatch.
func (g *rig) none(ring int) {
	g.Helper()
	if p, ok := g.r[ring].Next(g.now); ok {
		g.Fatalf("picked %+v, want nothing", p)
	}
}

// await sleeps until there is a pick.
func (g *rig) await(ring int) Pick {
	g.Helper()
	for range 100_000 {
		if p, ok := g.r[ring].Next(g.now); ok {
			return p
		}
		wake := g.r[ring].Wake()
		if wake == never {
			g.Fatal("the ring sleeps for ever")
		}
		g.now = max(wake, g.now)
	}
	g.Fatal("the ring wakes again and again for nothing")
	return Pick{}
}

// serve dispatches what is next, all of it, with more to come, and sleeps when it has to. It returns whom it served.
func (g *rig) serve(ring int) *Tenant {
	g.Helper()
	p := g.await(ring)
	g.took = g.r[ring].Charge(p.Slot, p.Bytes, g.now)
	g.r[ring].Done(p.Slot, g.took, huge, g.now)
	return p.Tenant
}

// lead serves n times on a ring, and returns the most by which a tenant was ahead of the other meanwhile, and at the end, in chunks.
func (g *rig) lead(ring int, t *Tenant, n int) (most, end float64) {
	g.Helper()
	for range n {
		if g.serve(ring) == t {
			end += float64(g.took) / float64(g.w.cfg.Chunk)
		} else {
			end -= float64(g.took) / float64(g.w.cfg.Chunk)
		}
		most = max(most, end)
	}
	return most, end
}

// shares serves n times on a ring and returns how often each tenant was.
func (g *rig) shares(ring, n int) map[*Tenant]int {
	g.Helper()
	got := map[*Tenant]int{}
	for range n {
		got[g.serve(ring)]++
	}
	return got
}

func near(got, want, part float64) bool { return math.Abs(got-want) <= part*want }

func TestWeightsShareOneRing(t *testing.T) {
	for _, rate := range []int64{0, 1e9} {
		g := newRig(t, Config{Rate: rate})
		a, b := g.tenant(TenantConfig{Weight: 1}), g.tenant(TenantConfig{Weight: 3})
		for slot := range uint32(10) {
			g.start(0, a, slot, huge)
		}
		g.start(0, b, 10, huge)
		got := map[*Tenant]int64{}
		for range 4000 {
			x := g.serve(0)
			got[x] += g.took
		}
		if !near(float64(got[b])/float64(got[a]), 3, 0.01) {
			t.Errorf("rate %d: %d to %d bytes, want 1 to 3", rate, got[a], got[b])
		}
	}
}

func TestResponsesOfOneTenantTakeTurns(t *testing.T) {
	for _, rate := range []int64{0, 1e9} {
		g := newRig(t, Config{Rate: rate})
		a := g.tenant(TenantConfig{})
		for slot := range uint32(4) {
			g.start(0, a, slot, huge)
		}
		var order []uint32
		for range 8 {
			p := g.await(0)
			g.r[0].Done(p.Slot, g.r[0].Charge(p.Slot, p.Bytes, g.now), huge, g.now)
			order = append(order, p.Slot)
		}
		if want := []uint32{0, 1, 2, 3, 0, 1, 2, 3}; !slices.Equal(order, want) {
			t.Errorf("rate %d: order %v, want %v", rate, order, want)
		}
	}
}

// TestPiecesWhileVBinds: a ring that has time to spare cuts chunks in four, for what comes meanwhile waits for one; one that has none does not, nor without a rate.
func TestPiecesWhileVBinds(t *testing.T) {
	for _, c := range []struct {
		name             string
		rate, cost, want int64 // ns that a chunk takes
		chunk            int64
	}{
		{"no rate", 0, 100_000, 512 * kib, 512 * kib},
		{"a rate that binds", 1e9, 100_000, 128 * kib, 512 * kib},
		{"a rate that the ring cannot carry", 20e9, 100_000, 512 * kib, 512 * kib},
		{"nothing is cut to less than 64 KiB", 1e9, 20_000, 64 * kib, 128 * kib},
	} {
		g := newRig(t, Config{Rate: c.rate, Chunk: c.chunk})
		a, b := g.tenant(TenantConfig{}), g.tenant(TenantConfig{Weight: 3})
		g.start(0, a, 0, huge)
		g.start(0, b, 1, huge)
		for end := g.now + 100*msec; g.now < end; {
			g.serve(0)
			g.now += c.cost * g.took / c.chunk
			if g.now > end-50*msec && g.took != c.want {
				t.Fatalf("%s: %d bytes at a time, want %d", c.name, g.took, c.want)
			}
		}
	}
}

// TestSharedVirtualTime: what a tenant gets on one ring counts on the others. A has two rings to itself but for B on the first; with a rate they share it
// by weight all the same.
func TestSharedVirtualTime(t *testing.T) {
	g := newRig(t, Config{Rings: 2, Rate: 1e9})
	a, b := g.tenant(TenantConfig{}), g.tenant(TenantConfig{})
	g.start(0, a, 0, huge)
	g.start(1, a, 0, huge)
	g.start(0, b, 1, huge)
	got := map[*Tenant]int{}
	for steps := 0; g.now < 2e9; steps++ {
		if n := got[a] + got[b]; n > 40_000 || steps > 100_000 {
			t.Fatalf("%d pieces and %d steps until %d: more than the rate allows", n, steps, g.now)
		}
		wake := int64(never)
		for i, r := range slices.Backward(g.r) { // the ring that a has to itself first
			for {
				p, ok := r.Next(g.now)
				if !ok || got[a]+got[b] > 40_000 {
					break
				}
				r.Done(p.Slot, r.Charge(p.Slot, p.Bytes, g.now), huge, g.now)
				got[p.Tenant]++
			}
			wake = min(wake, g.r[i].Wake())
		}
		g.now = max(wake, g.now+1)
	}
	if !near(float64(got[a]), float64(got[b]), 0.02) {
		t.Errorf("%d and %d chunks, want as many", got[a], got[b])
	}
}

// TestFreeRingsKeepFramesOfTheirOwn: rings that have gone on for unlike times do not make a tenant that comes to both starve on either.
func TestFreeRingsKeepFramesOfTheirOwn(t *testing.T) {
	g := newRig(t, Config{Rings: 2})
	a, b, c := g.tenant(TenantConfig{}), g.tenant(TenantConfig{}), g.tenant(TenantConfig{})
	g.start(0, a, 0, huge)
	g.start(1, b, 0, huge)
	for range 10_000 {
		g.serve(0)
	}
	g.start(0, c, 1, huge)
	g.start(1, c, 1, huge)
	for ring, other := range []*Tenant{a, b} {
		if got := g.shares(ring, 100); got[c] < 45 || got[other] < 45 {
			t.Errorf("ring %d: %d of 100 chunks for who came, %d for who was there", ring, got[c], got[other])
		}
	}
}

// TestWhatIsServedElsewhereStarvesNobody: free mode. A has a ring to itself and shares another; when it has lost the first, it has its share of the other
// within a few chunks.
func TestWhatIsServedElsewhereStarvesNobody(t *testing.T) {
	g := newRig(t, Config{Rings: 2})
	a, b := g.tenant(TenantConfig{}), g.tenant(TenantConfig{})
	g.start(0, a, 0, huge)
	g.start(1, a, 0, huge)
	g.start(1, b, 1, huge)
	for range 1000 {
		g.serve(0)
		g.serve(1)
		g.serve(0)
	}
	g.r[0].Drop(0, g.now)
	if got := g.shares(1, 60); got[a] < 20 {
		t.Errorf("%d of 60 chunks, want nearly half", got[a])
	}
}

// TestReturningEarnsNothing: who has been idle, throttled or read slowly comes back with at most a chunk of credit; so does who had nothing left to send, though
// its last response was still in flight.
func TestReturningEarnsNothing(t *testing.T) {
	for _, rate := range []int64{0, 1e9} {
		for name, rest := range map[string]func(*rig, *Tenant){
			"idle":        func(g *rig, b *Tenant) { g.r[0].Drop(1, g.now) },
			"slow reader": func(g *rig, b *Tenant) { g.r[0].Block(1) },
			"throttled":   func(g *rig, b *Tenant) { g.r[0].Park(b, g.now+900*msec) },
			"all in flight": func(g *rig, b *Tenant) {
				g.r[0].Drop(1, g.now)
				g.start(0, b, 2, kib)
				for g.await(0).Tenant != b {
					g.r[0].Done(0, 256*kib, huge, g.now)
				}
				g.r[0].Charge(2, kib, g.now)
			},
		} {
			g := newRig(t, Config{Rate: rate})
			a, b := g.tenant(TenantConfig{}), g.tenant(TenantConfig{})
			g.start(0, a, 0, huge)
			g.start(0, b, 1, huge)
			g.shares(0, 100)
			rest(g, b)
			for range 1000 {
				if g.serve(0) != a {
					t.Fatalf("%s: served while it rested", name)
				}
				g.now += msec / 10
			}
			switch name {
			case "idle", "all in flight":
				g.start(0, b, 1, huge)
			case "slow reader":
				g.r[0].Unblock(1, g.now)
			case "throttled":
				g.r[0].WakeTenant(b, g.now)
			}
			most, _ := g.lead(0, b, 200)
			if most > 3 {
				t.Errorf("rate %d, %s: %.2f chunks more than the other when it came back", rate, name, most)
			}
			if most <= 0 {
				t.Errorf("rate %d, %s: it did not come first", rate, name)
			}
		}
	}
}

// TestPassedOverEarnsNothing: whose part of a ring is in flight is passed over for others, and has no claim on what these get meanwhile.
func TestPassedOverEarnsNothing(t *testing.T) {
	g := newRig(t, Config{Depth: 2})
	a, b := g.tenant(TenantConfig{}), g.tenant(TenantConfig{})
	g.start(0, a, 0, 5*kib)
	g.r[0].Charge(g.next(0).Slot, 5*kib, g.now)
	g.start(0, a, 1, huge)
	g.start(0, b, 2, huge)
	for range 100 {
		if g.serve(0) != b {
			t.Fatal("not passed over")
		}
	}
	g.r[0].Done(0, 5*kib, 0, g.now)
	ahead, most := 0, 0
	for range 20 {
		if g.serve(0) == a {
			ahead++
		} else {
			ahead--
		}
		most = max(most, ahead)
	}
	if most > 2 || ahead < 0 {
		t.Errorf("%d chunks more than the other at most, %d at the end; want at most 2, and none less", most, ahead)
	}
}

// TestRingBoundEarnsNothing: a tenant that a slow ring keeps from its share does not collect it. When it moves it gets what a clamp leaves it and no more.
func TestRingBoundEarnsNothing(t *testing.T) {
	g := newRig(t, Config{Rings: 2, Rate: 1e9, Depth: 1})
	a, b := g.tenant(TenantConfig{}), g.tenant(TenantConfig{})
	g.start(0, a, 0, huge)
	g.start(0, a, 1, huge)
	g.start(1, b, 0, huge)
	g.start(1, b, 1, huge)
	for end := g.now + 1e9; g.now < end; { // ring 1 is served once in 20 ms
		slow := g.now + 20*msec
		for g.now < slow {
			g.serve(0)
		}
		if p, ok := g.r[1].Next(g.now); ok {
			g.r[1].Done(p.Slot, g.r[1].Charge(p.Slot, p.Bytes, g.now), huge, g.now)
		}
	}
	g.start(0, b, 2, huge)
	g.start(0, b, 3, huge)
	most, _ := g.lead(0, b, 800)
	if lag := float64(2*1 + 1); most > lag+3 {
		t.Errorf("%.2f chunks more than the other, %.0f may be left", most, lag)
	}
}

// A ring that slept while heavy tenants came on another knows a clock that is a thousand times too fast. Whoever comes to it then starts where V really is, and
// not where it would be.
func TestNewcomersStartWhereTheClockIs(t *testing.T) {
	g := newRig(t, Config{Rings: 2, Rate: 1e9})
	light, heavy, late := g.tenant(TenantConfig{Weight: 1}), g.tenant(TenantConfig{Weight: 1000}), g.tenant(TenantConfig{Weight: 1000})
	g.start(1, light, 0, mib)
	g.next(1) // at the pace of a weight of 1
	g.start(0, heavy, 0, mib)
	g.now += msec / 10
	g.start(1, late, 1, mib)
	g.r[0].turn(g.now)
	g.r[1].turn(g.now)
	if vt, v := late.vt.Load(), g.r[0].virtual(); vt > v {
		t.Errorf("the newcomer's time is %d, V is %d", vt, v)
	}
}

// TestWeightsShareWhatRingsCanCarry: a rate that a ring cannot carry moves V away from everybody. Shares are by weight nevertheless, to a chunk, and who comes then
// has its share from the first chunk on.
func TestWeightsShareWhatRingsCanCarry(t *testing.T) {
	g := newRig(t, Config{Rate: 1e10})
	slow := func(n int) map[*Tenant]int { // a chunk in a millisecond, 2.6 % of the rate
		got := map[*Tenant]int{}
		for range n {
			got[g.serve(0)]++
			g.now += msec
		}
		return got
	}
	light, middle, heavy := g.tenant(TenantConfig{Weight: 1}), g.tenant(TenantConfig{Weight: 30}), g.tenant(TenantConfig{Weight: 1000})
	g.start(0, light, 0, huge)
	g.start(0, middle, 1, huge)
	g.start(0, heavy, 2, huge)
	got := slow(4 * 1031)
	for tenant, want := range map[*Tenant]int{light: 4, middle: 120, heavy: 4000} {
		if n := got[tenant]; n < want-2 || n > want+2 {
			t.Errorf("weight %d: %d chunks, want %d", tenant.cfg.Load().Weight, n, want)
		}
	}
	late := g.tenant(TenantConfig{Weight: 1000})
	g.start(0, late, 3, huge)
	if got := slow(20); got[late] < 9 || got[late] > 12 {
		t.Errorf("%d of the first 20 chunks for who came, want half", got[late])
	}
}

// TestNewcomersStartWhereTheServiceIs: V may be a light tenant's chunk, a thousand of a heavy one's, beyond those who are ready. Who comes then is served among
// them, and not when all of them have come as far as V.
func TestNewcomersStartWhereTheServiceIs(t *testing.T) {
	g := newRig(t, Config{Rate: 1e10})
	light, heavy, late := g.tenant(TenantConfig{Weight: 1}), g.tenant(TenantConfig{Weight: 1000}), g.tenant(TenantConfig{Weight: 1000})
	g.start(0, light, 0, huge)
	g.serve(0)
	g.start(0, heavy, 1, huge)
	slow := func(n int) map[*Tenant]int {
		got := map[*Tenant]int{}
		for range n {
			got[g.serve(0)]++
			g.now += msec
		}
		return got
	}
	if got := slow(5); got[heavy] != 5 || g.r[0].virtual()-heavy.vt.Load() < 50*heavy.cfg.Load().chunk {
		t.Fatalf("%d chunks of the heavy one, V is %d beyond it", got[heavy], g.r[0].virtual()-heavy.vt.Load())
	}
	g.start(0, late, 2, huge)
	if got := slow(20); got[late] < 9 || got[late] > 12 {
		t.Errorf("%d of the first 20 chunks for who came, want half", got[late])
	}
}

// TestTheBucketGoesToTheEarliestDeadline: where the bucket has too little for two rings, neither chance nor who asks first says which of them gets it.
func TestTheBucketGoesToTheEarliestDeadline(t *testing.T) {
	g := newRig(t, Config{Rings: 2, Rate: 1e9})
	early, late := g.tenant(TenantConfig{}), g.tenant(TenantConfig{})
	g.start(0, late, 0, huge)
	g.start(1, early, 0, huge)
	v := g.w.cur.v
	early.vt.Store(v - 8*early.cfg.Load().chunk)
	late.vt.Store(v - 3*late.cfg.Load().chunk)
	g.w.bucket.spent.Add(g.w.Burst(1e9)) // nothing is left
	g.none(1)
	got := map[*Tenant]int{}
	for range 4 { // as long as early stays the earlier
		g.now = g.r[1].Wake() + 1
		for _, ring := range []int{0, 1} { // who is late always asks first
			if p, ok := g.r[ring].Next(g.now); ok {
				g.r[ring].Done(p.Slot, g.r[ring].Charge(p.Slot, p.Bytes, g.now), huge, g.now)
				got[p.Tenant]++
			}
		}
		g.none(1)
	}
	if got[early] != 4 || got[late] != 0 {
		t.Errorf("%d chunks for who is early, %d for who is late; want 4 and none", got[early], got[late])
	}
	g.r[1].Drop(0, g.now) // nobody waits before it any more
	g.r[1].Next(g.now)
	g.r[1].Wake()
	begin := g.now
	if g.serve(0); g.now-begin > 300_000 {
		t.Errorf("who is late waits %d us for a claim that is gone", (g.now-begin)/1000)
	}
}

// TestWhoComesTogetherIsSpread: tenants that come at one moment do not have their turns at one moment for good.
func TestWhoComesTogetherIsSpread(t *testing.T) {
	const n = 60
	g := newRig(t, Config{Rate: 1e9, Chunk: 64 * kib}) // the burst has room for all of them
	for slot := range uint32(n) {
		g.start(0, g.tenant(TenantConfig{}), slot, huge)
	}
	began := g.now
	if got := g.shares(0, n); len(got) != n || g.now != began {
		t.Fatalf("%d tenants had the first %d turns, in %d us", len(got), n, (g.now-began)/1000)
	}
	g.serve(0)
	first := g.now
	got := g.shares(0, n/2)
	if took := g.now - first; took < 3*msec/2 || len(got) != n/2 {
		t.Errorf("%d tenants had the next %d turns in %d us; want half of a round, 2000", len(got), n/2, took/1000)
	}
}

// TestABurstThatHasJustBegunSaysLittle: what a tenant of great weight needs is not all of it because it happens to have work when a plan is made.
func TestABurstThatHasJustBegunSaysLittle(t *testing.T) {
	g := newRig(t, Config{Rate: 1e9})
	a, b := g.tenant(TenantConfig{}), g.tenant(TenantConfig{Weight: 100})
	g.start(0, a, 0, huge)
	g.start(0, b, 1, kib)
	for g.now < 1e9+80*msec { // b rests, and is not forgotten yet
		p := g.await(0)
		next := huge
		if p.Tenant == b {
			next = 0
		}
		g.r[0].Done(p.Slot, g.r[0].Charge(p.Slot, p.Bytes, g.now), next, g.now)
	}
	if b.part > partOne/50 {
		t.Fatalf("idle, it needs %d/%d of its weight", b.part, partOne)
	}
	g.now = g.w.cur.due - msec/10
	g.start(0, b, 1, huge)
	g.now = g.w.cur.due
	g.r[0].turn(g.now)
	if b.part > partOne/50 {
		t.Errorf("after 0.1 ms of work it needs %d/%d of its weight", b.part, partOne)
	}
	g.now = g.w.cur.due
	g.r[0].turn(g.now)
	if b.part < partOne*4/10 {
		t.Errorf("after 10 ms of work it needs %d/%d of its weight", b.part, partOne)
	}
}

// TestVDoesNotCrawlForLong: where V has been slowed down to follow what could carry next to nothing, and then rings wait for it, it is half as fast as the rate
// within a tenth of a second.
func TestVDoesNotCrawlForLong(t *testing.T) {
	w, err := NewWorker(Config{Rings: 1, Rate: 1e9, Chunk: 256 * kib})
	if err != nil {
		t.Fatal(err)
	}
	w.boost = boostLeast
	plans := 0
	for ; w.boost < boostOne*48/100; plans++ {
		w.adjust(mib, mib*9/10, mib, period, false, 1<<16) // they sleep half of the time, as somebody who is behind uses most of the rate
	}
	if plans > 10 {
		t.Errorf("%d plans of 10 ms", plans)
	}
}

// TestDebtStays: overshoot is repaid, also over a rest.
func TestDebtStays(t *testing.T) {
	g := newRig(t, Config{Rate: 1e8, Rings: 4})
	a, b := g.tenant(TenantConfig{}), g.tenant(TenantConfig{})
	g.start(0, b, 0, huge)
	g.serve(0)
	for ring := range 4 { // all rings at one moment: a chunk on each
		g.start(ring, a, 1, huge)
	}
	debt := int64(0)
	for ring := range 4 {
		if p, ok := g.r[ring].Next(g.now); ok {
			g.r[ring].Charge(p.Slot, p.Bytes, g.now)
			if p.Tenant == a {
				debt++
			}
		}
	}
	v := g.r[0].virtual()
	before := a.vt.Load() - v
	for ring := range 4 {
		g.r[ring].Drop(1, g.now)
		if f := &g.r[ring].flows[1]; f.state == flowFlying {
			g.r[ring].Done(1, f.payload, 0, g.now)
		}
	}
	g.now += msec
	g.start(0, a, 1, huge)
	if after := a.vt.Load() - v; before < a.cfg.Load().chunk || after != before {
		t.Errorf("it was %d ahead, after a rest %d", before, after)
	}
}

func TestShortSendsGiveBack(t *testing.T) {
	for _, rate := range []int64{0, 1e9} {
		g := newRig(t, Config{Rate: rate})
		a, b := g.tenant(TenantConfig{}), g.tenant(TenantConfig{})
		g.start(0, a, 0, huge)
		g.start(0, b, 1, huge)
		got := map[*Tenant]int64{}
		for i := 0; got[a]+got[b] < 400*mib; i++ {
			p, ok := g.r[0].Next(g.now)
			if !ok {
				g.now = max(g.r[0].Wake(), g.now)
				continue
			}
			n := g.r[0].Charge(p.Slot, p.Bytes, g.now)
			if p.Tenant == a { // takes 10 KB at a time, and is at once ready for more
				n = min(n, 10_000)
			}
			g.r[0].Done(p.Slot, n, huge, g.now)
			got[p.Tenant] += n
		}
		if !near(float64(got[a]), float64(got[b]), 0.02) {
			t.Errorf("rate %d: %d and %d bytes, want as many: what was not sent is not charged", rate, got[a], got[b])
		}
		if used := g.w.Used(); rate > 0 && used != got[a]+got[b]+2*ResponseCost {
			t.Errorf("charged %d, sent %d", used, got[a]+got[b])
		}
		if pending := g.w.bucket.pending.Load(); pending != 0 {
			t.Errorf("%d bytes still reserved", pending)
		}
	}
}

// TestEstimateFollowsTheSocket: what is reserved is 1.25 times what the socket takes, at least 64 KiB, at most a chunk, never more than is left.
func TestEstimateFollowsTheSocket(t *testing.T) {
	g := newRig(t, Config{Chunk: mib})
	a := g.tenant(TenantConfig{})
	g.start(0, a, 0, huge)
	takes := func(most int64) (picked int64) {
		for range 40 {
			p := g.next(0)
			picked = p.Bytes
			g.r[0].Charge(0, picked, g.now)
			g.r[0].Done(0, min(picked, most), huge, g.now)
		}
		return picked
	}
	for _, c := range []struct{ takes, least, most int64 }{
		{137_000, 160_000, 180_000}, {1000, LeastEstimate, LeastEstimate}, {huge, mib, mib}, {300_000, 350_000, 380_000},
	} {
		if picked := takes(c.takes); picked < c.least || picked > c.most {
			t.Errorf("a socket that takes %d: %d reserved, want %d to %d", c.takes, picked, c.least, c.most)
		}
	}
	p := g.next(0)
	g.r[0].Done(p.Slot, p.Bytes, 700, g.now)
	if p := g.next(0); p.Bytes != 700 {
		t.Errorf("%d reserved of 700 that are left", p.Bytes)
	}
}

func TestDepthCountsBytes(t *testing.T) {
	g := newRig(t, Config{Chunk: 64 * kib, Depth: 2})
	a := g.tenant(TenantConfig{})
	for slot := range uint32(60) {
		g.start(0, a, slot, 4*kib-ResponseCost)
	}
	for range 32 { // 128 KiB in pieces of 4 KiB
		p := g.next(0)
		g.r[0].Charge(p.Slot, p.Bytes, g.now)
	}
	g.none(0)
	if wake := g.r[0].Wake(); wake != never {
		t.Errorf("it would wake at %d: only a Done makes room", wake)
	}
	g.r[0].Done(3, 4*kib-ResponseCost, 0, g.now)
	g.next(0)
}

// TestOneTenantLeavesDepthToOthers: the last chunk of the depth is for others, if there are any.
func TestOneTenantLeavesDepthToOthers(t *testing.T) {
	g := newRig(t, Config{Chunk: 64 * kib, Depth: 3})
	a, b := g.tenant(TenantConfig{Weight: 1000}), g.tenant(TenantConfig{})
	g.start(0, b, 10, huge)
	g.serve(0) // so that a is before it for a thousand chunks
	for slot := range uint32(4) {
		g.start(0, a, slot, 60*kib)
	}
	got := map[*Tenant]int{}
	for range 3 {
		p := g.next(0)
		g.r[0].Charge(p.Slot, p.Bytes, g.now)
		got[p.Tenant]++
	}
	if got[a] != 2 || got[b] != 1 {
		t.Errorf("%d and %d chunks in flight, want 2 and 1", got[a], got[b])
	}
	g.none(0)
}

// TestParkKeepsPlace: the response that found too little is first when its tenant wakes, nothing of it stays reserved, and the ring sleeps until then.
func TestParkKeepsPlace(t *testing.T) {
	for _, rate := range []int64{0, 1e9} {
		g := newRig(t, Config{Rate: rate})
		a := g.tenant(TenantConfig{})
		for slot := range uint32(3) {
			g.start(0, a, slot, mib)
		}
		p := g.next(0)
		until := g.now + 300*msec
		g.r[0].Park(a, until)
		if vt, pending := a.vt.Load(), g.w.bucket.pending.Load(); g.r[0].flying != 0 || pending != 0 || rate == 0 && vt != 0 {
			t.Errorf("rate %d: flying %d, reserved %d, vt %d after parking", rate, g.r[0].flying, pending, vt)
		}
		g.none(0)
		wake := g.r[0].Wake()
		if wake < until || wake > until+1<<tickBits {
			t.Errorf("rate %d: wake %d ns after the time to wake", rate, wake-until)
		}
		if g.now = until - 1; true {
			g.none(0)
		}
		g.now = wake
		if again := g.next(0); again.Slot != p.Slot || !again.First {
			t.Errorf("rate %d: %+v after parking, before %+v", rate, again, p)
		}
		if st := g.r[0].Stats(a); st.Throttled < 300*msec {
			t.Errorf("throttled for %d ns", st.Throttled)
		}
	}
}

func TestWakeTenantEndsASleep(t *testing.T) {
	g := newRig(t, Config{})
	a := g.tenant(TenantConfig{})
	g.start(0, a, 0, mib)
	g.next(0)
	g.r[0].Park(a, never)
	g.none(0)
	if wake := g.r[0].Wake(); wake != never {
		t.Errorf("wake at %d", wake)
	}
	g.start(0, a, 1, mib)
	g.none(0) // who comes meanwhile sleeps, too
	g.r[0].WakeTenant(a, g.now)
	if p := g.next(0); p.Slot != 0 {
		t.Errorf("slot %d first", p.Slot)
	}
}

// TestDropEndsAnything: whatever a flow was doing, nothing of it is left, and its slot serves the next request.
func TestDropEndsAnything(t *testing.T) {
	for _, rate := range []int64{0, 1e9} {
		for name, get := range map[string]func(*rig){
			"queued":  func(g *rig) {},
			"ready":   func(g *rig) { g.r[0].Push(0, mib, g.now) },
			"picked":  func(g *rig) { g.r[0].Push(0, mib, g.now); g.next(0) },
			"blocked": func(g *rig) { g.r[0].Push(0, mib, g.now); g.next(0); g.r[0].Block(0) },
			"flying": func(g *rig) {
				g.r[0].Push(0, mib, g.now)
				g.r[0].Charge(g.next(0).Slot, 100*kib, g.now)
			},
			"parked": func(g *rig) { g.r[0].Push(0, mib, g.now); p := g.next(0); g.r[0].Park(p.Tenant, g.now+msec) },
		} {
			g := newRig(t, Config{Rate: rate})
			a := g.tenant(TenantConfig{QueueRequests: 5, QueueBytes: mib, MaxInflight: 5})
			if v := g.r[0].Admit(a, 0, mib, g.now); v.Reason != Go {
				t.Fatal(v)
			}
			get(g)
			g.r[0].Drop(0, g.now)
			if name == "flying" {
				if g.r[0].flying == 0 {
					t.Error("what is in flight is not charged any more")
				}
				g.r[0].Done(0, 60*kib, huge, g.now)
				if used := g.w.Used(); rate > 0 && used != 60*kib+ResponseCost {
					t.Errorf("%d charged of %d sent", used, 60*kib)
				}
			} else if used := g.w.Used(); used != 0 {
				t.Errorf("%s: %d stays charged", name, used)
			}
			requests, bytes := a.Queued()
			if requests != 0 || bytes != 0 || a.inflight.Load() != 0 || g.r[0].flying != 0 || a.live.Load() != 0 || g.r[0].Stats(a).Queued != 0 {
				t.Errorf("rate %d, %s: %d requests, %d bytes, %d under way, %d in flight, %d live", rate, name, requests, bytes, a.inflight.Load(), g.r[0].flying, a.live.Load())
			}
			g.now += 100 * msec
			g.none(0)
			g.start(0, a, 0, mib)
			g.next(0)
		}
	}
}

// TestDroppedInFlightWithoutDone: a slot that is used again before its Done keeps what it was charged.
func TestDroppedInFlightWithoutDone(t *testing.T) {
	g := newRig(t, Config{Rate: 1e9})
	a := g.tenant(TenantConfig{})
	g.start(0, a, 0, mib)
	g.r[0].Charge(g.next(0).Slot, 100*kib, g.now)
	g.r[0].Drop(0, g.now)
	g.start(0, a, 0, mib)
	if used := g.w.Used(); used != 100*kib+ResponseCost || g.r[0].flying != 0 {
		t.Errorf("%d charged, %d in flight", used, g.r[0].flying)
	}
}

// TestChargeMayGrow: a response that turned out larger than its Push said is charged in full, or told how much it may send.
func TestChargeMayGrow(t *testing.T) {
	g := newRig(t, Config{Rate: 1e6})
	a := g.tenant(TenantConfig{})
	g.start(0, a, 0, 1000)
	g.next(0)
	if n := g.r[0].Charge(0, 16*kib, g.now); n != 16*kib {
		t.Errorf("%d of 16 KiB", n)
	}
	g.r[0].Done(0, 16*kib, 0, g.now)
	if used := g.w.Used(); used != 16*kib+ResponseCost {
		t.Errorf("%d charged", used)
	}
	g.w.bucket.spent.Add(g.w.Burst(1e6)) // nothing is left
	g.start(0, a, 0, 0)
	g.await(0)
	if n := g.r[0].Charge(0, 16*kib, g.now); n != 0 {
		t.Errorf("%d bytes of a bucket that has none", n)
	}
	g.r[0].Done(0, 0, 0, g.now)
}

// TestFasterClockWakesSleepers: a ring whose tenant waits for V is woken when V becomes so much faster that it would sleep too long.
func TestFasterClockWakesSleepers(t *testing.T) {
	g := newRig(t, Config{Rings: 2, Rate: 1e8})
	a, b := g.tenant(TenantConfig{}), g.tenant(TenantConfig{Weight: 1000})
	g.start(0, a, 0, huge)
	g.start(1, b, 0, huge)
	g.serve(0)
	g.serve(1)
	g.serve(1)
	g.none(0)
	wake := g.r[0].Wake()
	if len(g.r[0].waiting) != 1 || wake <= g.now {
		t.Fatalf("tenant a does not wait, wake %d", wake-g.now)
	}
	g.woke = nil
	g.now += 100_000
	if err := g.w.SetRate(1e11, g.now); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(g.woke, 0) {
		t.Fatalf("woke %v, want ring 0, which sleeps until %d", g.woke, wake)
	}
	before := g.r[0].wheel.wake()
	g.r[0].Next(g.now)
	if after := g.r[0].wheel.wake(); len(g.r[0].waiting) > 0 && after >= before {
		t.Errorf("it still waits until %d", after)
	}
}

// TestRateComesAndGoes: what is under way goes on in every mode.
func TestRateComesAndGoes(t *testing.T) {
	g := newRig(t, Config{})
	a := g.tenant(TenantConfig{})
	g.start(0, a, 0, huge)
	g.shares(0, 50)
	b := g.tenant(TenantConfig{Weight: 2}) // solo -> free
	g.start(0, b, 1, huge)
	for i, rate := range []int64{0, 1e9, 5e8, 0, 1e9} {
		if err := g.w.SetRate(rate, g.now); err != nil {
			t.Fatal(err)
		}
		p := g.await(0)
		g.r[0].Charge(p.Slot, p.Bytes, g.now) // in flight while the rate changes
		g.w.SetRate(rate*2, g.now)
		g.r[0].Next(g.now)
		g.w.SetRate(rate, g.now)
		g.r[0].Done(p.Slot, p.Bytes, huge, g.now)
		if f := &g.r[0].flows[1-p.Slot]; f.state == flowPicked {
			g.r[0].Done(1-p.Slot, f.payload, huge, g.now)
		}
		if got := g.shares(0, 600); !near(float64(got[b])/float64(got[a]), 2, 0.05) {
			t.Errorf("step %d, rate %d: %d to %d chunks, want 1 to 2", i, rate, got[a], got[b])
		}
	}
	if g.w.SetRate(-1, g.now) == nil || g.w.SetRate(MaxRate+1, g.now) == nil {
		t.Error("a rate out of range is taken")
	}
}

// TestAnyCallMayHearOfANewMode: whichever call is the first after virtual times have got another meaning, each tenant stands in one place, and everything
// that was under way goes on.
func TestAnyCallMayHearOfANewMode(t *testing.T) {
	calls := map[string]func(r *Ring, now int64, a, b, parked *Tenant){
		"Admit":      func(r *Ring, now int64, a, b, parked *Tenant) { r.Admit(b, 20, kib, now); r.Drop(20, now) },
		"Push":       func(r *Ring, now int64, a, b, parked *Tenant) { r.Push(5, kib, now) },
		"Charge":     func(r *Ring, now int64, a, b, parked *Tenant) { r.Charge(1, kib, now) },
		"Done":       func(r *Ring, now int64, a, b, parked *Tenant) { r.Done(0, kib, kib, now) },
		"Block":      func(r *Ring, now int64, a, b, parked *Tenant) { r.Block(1); r.Unblock(1, now) },
		"Unblock":    func(r *Ring, now int64, a, b, parked *Tenant) { r.Unblock(4, now) },
		"Park":       func(r *Ring, now int64, a, b, parked *Tenant) { r.Park(a, now+msec) },
		"WakeTenant": func(r *Ring, now int64, a, b, parked *Tenant) { r.WakeTenant(parked, now) },
		"Drop":       func(r *Ring, now int64, a, b, parked *Tenant) { r.Drop(2, now) },
		"Drop of the last that kept a parked tenant": func(r *Ring, now int64, a, b, parked *Tenant) { r.Drop(6, now); r.Drop(7, now) },
		"Next": func(r *Ring, now int64, a, b, parked *Tenant) {
			if p, ok := r.Next(now); ok {
				r.Drop(p.Slot, now)
			}
		},
	}
	for name, call := range calls {
		for _, rates := range [][2]int64{{0, 1e9}, {1e9, 0}} {
			g := newRig(t, Config{Rate: rates[0]})
			r := g.r[0]
			a, b, parked := g.tenant(TenantConfig{}), g.tenant(TenantConfig{Weight: 2}), g.tenant(TenantConfig{})
			g.start(0, parked, 6, huge)
			r.Charge(g.await(0).Slot, kib, g.now) // in flight
			g.start(0, parked, 7, huge)
			for g.await(0).Slot != 7 {
			}
			r.Park(parked, g.now+5*msec)
			g.start(0, a, 0, huge)
			r.Charge(g.await(0).Slot, kib, g.now)
			g.start(0, a, 2, huge)
			g.start(0, a, 4, huge)
			r.Block(4)
			r.Admit(b, 5, kib, g.now)
			g.start(0, b, 1, huge)
			for g.await(0).Slot != 1 {
			}
			if err := g.w.SetRate(rates[1], g.now); err != nil {
				t.Fatal(err)
			}
			call(r, g.now, a, b, parked)
			if err := g.w.Audit(g.r); err != nil {
				t.Errorf("%s, rates %v: %v", name, rates, err)
				continue
			}
			for slot := range uint32(8) { // all that is left is served
				if r.flows[slot].state == flowPicked {
					r.Charge(slot, kib, g.now)
				}
				if r.flows[slot].state == flowFlying {
					r.Done(slot, kib, huge, g.now)
				}
			}
			g.now += 10 * msec // nobody is parked any more
			served := map[uint32]bool{}
			for range 200 {
				p := g.await(0)
				r.Done(p.Slot, r.Charge(p.Slot, p.Bytes, g.now), huge, g.now)
				served[p.Slot] = true
			}
			for slot := range uint32(8) {
				if state := r.flows[slot].state; state == flowReady && !served[slot] {
					t.Errorf("%s, rates %v: slot %d was ready and not served", name, rates, slot)
				}
			}
		}
	}
}

func TestWeightChangesLive(t *testing.T) {
	for _, rate := range []int64{0, 1e9} {
		g := newRig(t, Config{Rate: rate})
		a, b := g.tenant(TenantConfig{}), g.tenant(TenantConfig{})
		g.start(0, a, 0, huge)
		g.start(0, b, 1, huge)
		g.shares(0, 200)
		if err := b.Configure(TenantConfig{Weight: 4}); err != nil {
			t.Fatal(err)
		}
		g.shares(0, 100)
		if got := g.shares(0, 1000); !near(float64(got[b])/float64(got[a]), 4, 0.03) {
			t.Errorf("rate %d: %d to %d chunks, want 1 to 4", rate, got[a], got[b])
		}
		if b.Configure(TenantConfig{}) == nil {
			t.Error("weight 0 is taken")
		}
	}
}

func TestRemovedTenantsLeaveRoom(t *testing.T) {
	g := newRig(t, Config{Rate: 1e9})
	for i := range 3 * 64 {
		a := g.tenant(TenantConfig{Weight: 1 + i})
		g.start(0, a, 0, 1000)
		p := g.next(0)
		g.r[0].Done(p.Slot, p.Bytes, 0, g.now)
		g.w.Remove(a)
		g.now += 200 * msec
	}
	if n := len(g.r[0].seats); n > 16 {
		t.Errorf("%d seats for one tenant at a time", n)
	}
}

func TestConfigIsChecked(t *testing.T) {
	good := Config{Rings: 1, Chunk: 256 * kib}
	for name, spoil := range map[string]func(*Config){
		"rings": func(c *Config) { c.Rings = 0 }, "rate": func(c *Config) { c.Rate = -1 }, "more rate": func(c *Config) { c.Rate = MaxRate + 1 },
		"chunk": func(c *Config) { c.Chunk = LeastEstimate - 1 }, "more chunk": func(c *Config) { c.Chunk = MaxChunk + 1 }, "depth": func(c *Config) { c.Depth = -1 },
	} {
		c := good
		spoil(&c)
		if _, err := NewWorker(c); err == nil {
			t.Errorf("%s: %+v is taken", name, c)
		}
	}
	w, err := NewWorker(good)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []TenantConfig{{}, {Weight: MaxWeight + 1}, {Weight: 1, Deadline: -1}, {Weight: 1, Target: -1}, {Weight: 1, QueueRequests: -1}, {Weight: 1, QueueBytes: -1}, {Weight: 1, MaxInflight: -1}} {
		if _, err := w.NewTenant(c); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

// TestRingsRunAtOnce is for the race detector: rings on goroutines of their own, with tenants and rates that change meanwhile.
func TestRingsRunAtOnce(t *testing.T) {
	const rings = 4
	w, err := NewWorker(Config{Rings: rings, Rate: 5e9, Chunk: 64 * kib, Wake: func(int) {}})
	if err != nil {
		t.Fatal(err)
	}
	var tenants []*Tenant
	for i := range 6 {
		a, err := w.NewTenant(TenantConfig{Weight: 1 + i, QueueRequests: 100, QueueBytes: mib, MaxInflight: 50, Deadline: 50 * msec, Target: 5 * msec})
		if err != nil {
			t.Fatal(err)
		}
		tenants = append(tenants, a)
	}
	var all []*Ring
	var wg sync.WaitGroup
	for i := range rings {
		r := w.Ring(i, 32)
		all = append(all, r)
		wg.Go(func() {
			busy := make([]bool, 32)
			now := int64(1e9)
			for step := range 20_000 {
				now += 5_000
				slot := uint32((step*7 + i) % 32)
				a := tenants[(step*5+i)%len(tenants)]
				if !busy[slot] && r.Admit(a, slot, 8*kib, now).Reason == Go {
					busy[slot] = true
					r.Push(slot, 8*kib, now)
				}
				for range 2 {
					p, ok := r.Next(now)
					if !ok {
						r.Wake()
						break
					}
					switch {
					case p.Refuse != Go:
						busy[p.Slot] = false
					case step%50 == 0:
						r.Park(p.Tenant, now+msec)
					default:
						n := r.Charge(p.Slot, p.Bytes, now)
						r.Done(p.Slot, n/2, 0, now)
						busy[p.Slot] = false
					}
				}
			}
			for slot := range busy {
				r.Drop(uint32(slot), now)
			}
		})
	}
	for i := range 50 {
		w.SetRate(int64(i%3)*3e9, int64(1e9)+int64(i)*msec)
		tenants[i%6].Configure(TenantConfig{Weight: 1 + i, QueueRequests: 100, QueueBytes: mib, MaxInflight: 50})
	}
	wg.Wait()
	if err := w.Audit(all); err != nil {
		t.Error(err)
	}
	for _, a := range tenants {
		if requests, bytes := a.Queued(); requests != 0 || bytes != 0 || a.live.Load() != 0 || a.inflight.Load() != 0 {
			t.Errorf("%d requests, %d bytes, %d live, %d under way at the end", requests, bytes, a.live.Load(), a.inflight.Load())
		}
	}
}

// TestRingsWithoutASharedClockAskInTurn: keys of rings that share no clock cannot be compared, so that the bucket goes to who asks first, however little another
// ring that waits for it has done.
func TestRingsWithoutASharedClockAskInTurn(t *testing.T) {
	for _, order := range []Order{RingLocal, FIFO} {
		g := newRig(t, Config{Rings: 2, Rate: 1e9, Order: order})
		g.start(0, g.tenant(TenantConfig{}), 0, huge)
		for range 8 { // its key is far ahead of the other ring's
			g.serve(0)
		}
		g.start(1, g.tenant(TenantConfig{}), 0, huge)
		g.w.bucket.spent.Add(g.w.Burst(1e9)) // nothing is left
		g.none(1)
		for g.now = g.r[1].Wake() + 1; ; g.now += 1000 { // there is enough for one of them, and the ring that has done much asks first
			if _, ok := g.r[0].Next(g.now); ok {
				break
			}
			if _, ok := g.r[1].Next(g.now); ok {
				t.Errorf("%v: the ring that waits comes before who asks first", order)
				break
			}
		}
	}
}
