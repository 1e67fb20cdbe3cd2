package sched

import "testing"

// Without tenants, what became ready first is served first, and again behind what has become ready meanwhile; what is gone leaves no gap.
func TestFIFO(t *testing.T) {
	g := newRig(t, Config{Order: FIFO, Depth: 64})
	a, b := g.tenant(TenantConfig{}), g.tenant(TenantConfig{Weight: 100})
	for slot, x := range []*Tenant{a, b, b, a, b, a} {
		g.start(0, x, uint32(slot), 2*64*kib)
	}
	g.r[0].Drop(0, g.now)
	g.r[0].Block(4)
	served := func(slot uint32, rest int64) {
		t.Helper()
		if p := g.next(0); p.Slot != slot {
			t.Fatalf("slot %d is served, want %d", p.Slot, slot)
		}
		g.r[0].Charge(slot, 64*kib, g.now)
		g.r[0].Done(slot, 64*kib, rest, g.now)
	}
	served(1, 64*kib)
	served(2, 0)
	g.r[0].Unblock(4, g.now)
	served(3, 64*kib)
	served(5, 0)
	for _, slot := range []uint32{1, 4, 3} {
		served(slot, 0)
	}
	g.none(0)
}

// Fair on its ring by what was sent, not by what was tried, and blind to what a tenant gets on another.
func TestRingLocal(t *testing.T) {
	g := newRig(t, Config{Order: RingLocal, Rings: 2, Chunk: 64 * kib, Depth: 1})
	a, b := g.tenant(TenantConfig{}), g.tenant(TenantConfig{Weight: 3})
	got := map[*Tenant]int64{}
	g.start(0, a, 0, huge)
	g.start(0, b, 1, huge)
	g.start(1, a, 0, huge)
	tries := 0
	for range 4000 {
		p := g.next(0)
		sent := g.r[0].Charge(p.Slot, p.Bytes, g.now)
		if p.Tenant == a {
			if tries++; tries%2 == 0 {
				sent = 0
			}
		}
		got[p.Tenant] += sent
		g.r[0].Done(p.Slot, sent, huge, g.now)
		p = g.next(1)
		g.r[1].Done(p.Slot, g.r[1].Charge(p.Slot, p.Bytes, g.now), huge, g.now)
	}
	if ratio := float64(got[b]) / float64(got[a]); ratio < 2.9 || ratio > 3.1 {
		t.Errorf("weight 3 got %.2f times what weight 1 got, want 3", ratio)
	}
}

// Who has had nothing to send for a while is not owed that.
func TestRingLocalKeepsNoCredit(t *testing.T) {
	g := newRig(t, Config{Order: RingLocal, Chunk: 64 * kib})
	a, b := g.tenant(TenantConfig{}), g.tenant(TenantConfig{})
	g.start(0, a, 0, huge)
	picks := func(n int) (of map[*Tenant]int) {
		of = map[*Tenant]int{}
		for range n {
			p := g.next(0)
			of[p.Tenant]++
			g.r[0].Done(p.Slot, g.r[0].Charge(p.Slot, p.Bytes, g.now), huge, g.now)
		}
		return of
	}
	picks(100)
	g.start(0, b, 1, huge)
	if of := picks(20); of[b] < 9 || of[b] > 12 {
		t.Errorf("the newcomer has %d of 20 turns", of[b])
	}
}

// The rings take what a rate grants from one bucket.
func TestOtherOrdersKeepTheRate(t *testing.T) {
	for _, o := range []Order{RingLocal, FIFO} {
		const rate = 100e6
		g := newRig(t, Config{Order: o, Rings: 2, Rate: rate, Chunk: 64 * kib})
		a := g.tenant(TenantConfig{})
		g.start(0, a, 0, huge)
		g.start(1, a, 0, huge)
		sum := int64(0)
		for end := g.now + 1000*msec; g.now < end; g.now += msec / 10 {
			for ring := range 2 {
				for p, ok := g.r[ring].Next(g.now); ok; p, ok = g.r[ring].Next(g.now) {
					sent := g.r[ring].Charge(p.Slot, p.Bytes, g.now)
					g.r[ring].Done(p.Slot, sent, huge, g.now)
					sum += sent
				}
			}
		}
		if most := rate + g.w.Burst(rate); sum > most || sum < rate*98/100 {
			t.Errorf("order %d: %d bytes in a second, want %d and a burst, %d at most", o, sum, int64(rate), most)
		}
	}
}

func TestNoSuchOrder(t *testing.T) {
	for _, o := range []Order{-1, FIFO + 1} {
		if _, err := NewWorker(Config{Order: o, Rings: 1, Chunk: 64 * kib}); err == nil {
			t.Errorf("order %d is taken", o)
		}
	}
}
