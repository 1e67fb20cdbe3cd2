package sched

import (
	"fmt"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// loop measures f. The CPU's own time is what counts where others use the machine, too.
func loop(b *testing.B, f func()) {
	b.ReportAllocs()
	begin := cpu(b)
	for b.Loop() {
		f()
	}
	b.ReportMetric(float64(cpu(b)-begin)/float64(b.N), "cpu-ns/op")
}

func cpu(b *testing.B) int64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// cycle is a request from Admit to Done on a worker made ready for it.
func cycle(b testing.TB, rate int64, tenants, conns int, c TenantConfig) func() {
	w, err := NewWorker(Config{Rings: 1, Rate: rate, Chunk: 256 * kib})
	if err != nil {
		b.Fatal(err)
	}
	var all []*Tenant
	for range tenants {
		c.Weight = 1
		a, err := w.NewTenant(c)
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, a)
	}
	r := w.Ring(0, conns)
	now, slot, turn := int64(1e9), uint32(0), 0
	for i := range uint32(conns / 2) { // half of the connections wait for their turns
		r.Admit(all[int(i)%tenants], i*2, kib, now)
		r.Push(i*2, kib, now)
	}
	free := []uint32{}
	for i := range uint32(conns / 2) {
		free = append(free, i*2+1)
	}
	return func() {
		now += 2000
		slot, turn = free[0], turn+1
		copy(free, free[1:])
		if r.Admit(all[turn%tenants], slot, kib, now).Reason != Go {
			b.Fatal("refused")
		}
		r.Push(slot, kib, now)
		p, ok := r.Next(now)
		for ; !ok; p, ok = r.Next(now) {
			now = max(r.Wake(), now)
		}
		if p.Refuse == Go {
			r.Charge(p.Slot, p.Bytes, now)
			r.Done(p.Slot, p.Bytes, 0, now)
		}
		free[len(free)-1] = p.Slot
	}
}

// chunks is a Next, Charge and Done of responses without end.
func chunks(b testing.TB, rate int64, tenants int) func() {
	w, err := NewWorker(Config{Rings: 1, Rate: rate, Chunk: 256 * kib})
	if err != nil {
		b.Fatal(err)
	}
	var all []*Tenant
	for i := range tenants {
		a, err := w.NewTenant(TenantConfig{Weight: 1 + i%10})
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, a)
	}
	r := w.Ring(0, 2*tenants)
	now := int64(1e9)
	for i := range uint32(2 * tenants) {
		r.Admit(all[int(i)%tenants], i, huge, now)
		r.Push(i, huge, now)
	}
	return func() {
		now += 1000
		p, ok := r.Next(now)
		for ; !ok; p, ok = r.Next(now) {
			now = max(r.Wake(), now)
		}
		n := r.Charge(p.Slot, p.Bytes, now)
		r.Done(p.Slot, n*9/10, huge, now)
	}
}

var every = TenantConfig{QueueRequests: 1024, QueueBytes: 64 * mib, MaxInflight: 1024, Deadline: 2e9, Target: 20 * msec}

var cycles = []struct {
	name  string
	rate  int64
	n     int
	conns int
	c     TenantConfig
}{
	{name: "one tenant", n: 1, conns: 64},
	{name: "one tenant, all bounds", n: 1, conns: 64, c: every},
	{name: "2 tenants", n: 2, conns: 64, c: every},
	{name: "100 tenants", n: 100, conns: 400, c: every},
	{name: "one tenant, a rate", rate: 1e10, n: 1, conns: 64},
	{name: "2 tenants, a rate", rate: 1e10, n: 2, conns: 64, c: every},
	{name: "100 tenants, a rate", rate: 1e10, n: 100, conns: 400, c: every},
}

// BenchmarkRequest: Admit, Push, Next, Charge, Done of a small response.
func BenchmarkRequest(b *testing.B) {
	for _, c := range cycles {
		b.Run(c.name, func(b *testing.B) {
			loop(b, cycle(b, c.rate, c.n, c.conns, c.c))
		})
	}
}

// BenchmarkChunk: Next, Charge, Done of a chunk, with a short send, and what waiting for V costs in between.
func BenchmarkChunk(b *testing.B) {
	for _, rate := range []int64{0, 5e10} {
		for _, n := range []int{1, 2, 16, 256, 4096} {
			b.Run(fmt.Sprintf("rate %g, %d tenants", float64(rate), n), func(b *testing.B) {
				loop(b, chunks(b, rate, n))
			})
		}
	}
}

// BenchmarkRings: chunks of one tenant on rings that run at once.
func BenchmarkRings(b *testing.B) {
	for _, rate := range []int64{0, MaxRate} {
		b.Run(fmt.Sprintf("rate %g", float64(rate)), func(b *testing.B) {
			w, err := NewWorker(Config{Rings: 64, Rate: rate, Chunk: 256 * kib})
			if err != nil {
				b.Fatal(err)
			}
			a, _ := w.NewTenant(TenantConfig{Weight: 1})
			w.NewTenant(TenantConfig{Weight: 1})
			var next atomic.Int64
			b.RunParallel(func(pb *testing.PB) {
				r := w.Ring(int(next.Add(1)-1), 4)
				now := int64(1e9)
				r.Admit(a, 0, huge, now)
				r.Push(0, huge, now)
				for pb.Next() {
					now += 1_000_000
					if p, ok := r.Next(now); ok {
						r.Charge(p.Slot, p.Bytes, now)
						r.Done(p.Slot, p.Bytes, huge, now)
					}
				}
			})
		})
	}
}

// BenchmarkRefusal: a request that finds its tenant's queue full.
func BenchmarkRefusal(b *testing.B) {
	w, _ := NewWorker(Config{Rings: 1, Chunk: 256 * kib})
	a, _ := w.NewTenant(TenantConfig{Weight: 1, QueueRequests: 1})
	r := w.Ring(0, 4)
	r.Admit(a, 0, kib, 1e9)
	loop(b, func() { r.Admit(a, 1, kib, 1e9) })
}

// TestNothingAllocates: neither a request nor a chunk, nor a plan, nor waiting, parking and dropping.
func TestNothingAllocates(t *testing.T) {
	check := func(name string, f func()) {
		for range 100 {
			f()
		}
		if n := testing.AllocsPerRun(5000, f); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	for _, c := range cycles {
		check("request, "+c.name, cycle(t, c.rate, c.n, c.conns, c.c))
	}
	for _, rate := range []int64{0, 1e9} {
		check("chunk", chunks(t, rate, 20))
		g := newRig(t, Config{Rate: rate})
		a, b := g.tenant(every), g.tenant(every)
		g.start(0, b, 1, huge)
		check("a sparse tenant", func() {
			g.now += 150 * msec // longer than it is remembered: it joins anew each time
			g.start(0, a, 0, kib)
			p := g.next(0)
			if p.Refuse == Go {
				g.r[0].Park(p.Tenant, g.now+10*msec)
			}
			g.now = g.r[0].Wake()
			g.r[0].Next(g.now)
			g.r[0].Drop(0, g.now)
			if g.r[0].flows[1].state == flowFree {
				g.start(0, b, 1, huge)
			}
		})
	}
}
