package sched

import "testing"

const kib = 1 << 10

// rig is one worker whose rings are driven by hand.
type rig struct {
	*testing.T
	w   *Worker
	r   []*Ring
	now int64
}

func newRig(t *testing.T, c Config) *rig {
	t.Helper()
	if c.Chunk == 0 {
		c.Chunk = 256 * kib
	}
	c.Rings = max(c.Rings, 1)
	w, err := NewWorker(c)
	if err != nil {
		t.Fatal(err)
	}
	g := &rig{T: t, w: w, now: 1e9}
	for i := range c.Rings {
		g.r = append(g.r, w.Ring(i, 64))
	}
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

// start admits and pushes a response.
func (g *rig) start(t *Tenant, slot uint32, size int64) {
	g.Helper()
	if v := g.r[0].Admit(t, slot, size, g.now); v.Reason != Go {
		g.Fatalf("slot %d: %v", slot, v.Reason)
	}
	g.r[0].Push(slot, size, g.now)
}

func TestWeightsShareOneRing(t *testing.T) {
	for _, rate := range []int64{0} {
		g := newRig(t, Config{Rate: rate})
		a, b := g.tenant(TenantConfig{Weight: 1}), g.tenant(TenantConfig{Weight: 3})
		for slot := range uint32(10) {
			g.start(a, slot, 1<<40)
		}
		g.start(b, 10, 1<<40)
		got := map[*Tenant]int64{}
		for i := 0; i < 4000; {
			p, ok := g.r[0].Next(g.now)
			if !ok {
				g.now = max(g.r[0].Wake(), g.now+1)
				continue
			}
			i++
			n := g.r[0].Charge(p.Slot, p.Bytes, g.now)
			g.r[0].Done(p.Slot, n, 1<<40, g.now)
			got[p.Tenant] += n
		}
		if r := float64(got[b]) / float64(got[a]); r < 2.98 || r > 3.02 {
			t.Errorf("rate %d: %d to %d bytes, want 1 to 3", rate, got[a], got[b])
		}
	}
}
