package sched

import "testing"

func TestAdmitBounds(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  TenantConfig
		size int64
		go_  int // admitted before the first refusal
		want Reason
	}{
		{"requests", TenantConfig{QueueRequests: 3}, 1000, 3, QueueRequests},
		{"bytes", TenantConfig{QueueBytes: 10_000}, 4000, 2, QueueBytes},
		{"bytes of one that is larger than the bound", TenantConfig{QueueBytes: 10_000}, 50_000, 1, QueueBytes},
		{"in flight", TenantConfig{MaxInflight: 2}, 1000, 2, Inflight},
		{"the first bound that is met", TenantConfig{MaxInflight: 5, QueueRequests: 4, QueueBytes: 100_000}, 1000, 4, QueueRequests},
		{"no bound", TenantConfig{}, 1 << 50, 40, Go},
	} {
		for _, rings := range []int{1, 2} {
			g := newRig(t, Config{Rings: rings})
			a := g.tenant(c.cfg)
			for i := range uint32(40) {
				v := g.r[int(i)%rings].Admit(a, i, c.size, g.now) // the bounds are the worker's, whatever the ring
				if want := Go; int(i) < c.go_ && v.Reason != want {
					t.Errorf("%s: request %d: %v", c.name, i, v.Reason)
				} else if int(i) >= c.go_ && v.Reason != c.want {
					t.Errorf("%s: request %d: %v, want %v", c.name, i, v.Reason, c.want)
				}
			}
			if n := int(g.r[0].Stats(a).Refused[c.want]); c.want != Go && rings == 1 && n != 40-c.go_ {
				t.Errorf("%s: %d refusals counted", c.name, n)
			}
			for i := range uint32(40) { // what ends, makes room
				g.r[int(i)%rings].Drop(i, g.now)
			}
			if v := g.r[0].Admit(a, 0, c.size, g.now); v.Reason != Go {
				t.Errorf("%s: %v after all have gone", c.name, v.Reason)
			}
			g.r[0].Drop(0, g.now)
		}
	}
}

// TestQueueEndsAtTheFirstDispatch: what is being sent is not queued any more, but still under way.
func TestQueueEndsAtTheFirstDispatch(t *testing.T) {
	g := newRig(t, Config{})
	a := g.tenant(TenantConfig{QueueRequests: 1, QueueBytes: mib, MaxInflight: 2})
	g.start(0, a, 0, mib)
	if v := g.r[0].Admit(a, 1, 1, g.now); v.Reason != QueueRequests {
		t.Error(v.Reason)
	}
	p := g.next(0)
	g.r[0].Charge(p.Slot, p.Bytes, g.now)
	g.r[0].Done(p.Slot, p.Bytes, mib/2, g.now)
	g.start(0, a, 1, mib)
	g.next(0)
	if v := g.r[0].Admit(a, 2, 1, g.now); v.Reason != Inflight {
		t.Error(v.Reason)
	}
	g.r[0].Done(0, 0, 0, g.now)
	g.r[0].Drop(1, g.now)
}

// TestPredictedWait: who would wait longer than the deadline hears so at once; the speed is that of the last time there was a queue.
func TestPredictedWait(t *testing.T) {
	g := newRig(t, Config{Chunk: 256 * kib})
	a := g.tenant(TenantConfig{})
	for slot := range uint32(20) {
		g.start(0, a, slot, huge)
	}
	if v := g.r[0].predict(g.r[0].seat(a)); v != 0 {
		t.Errorf("%d ns predicted of a speed that nobody knows", v)
	}
	for range 100 { // 272 KiB in 10 ms with the cost of a dispatch, so 20 turns are 200 ms
		g.serve(0)
		g.now += 10 * msec
	}
	a.Configure(TenantConfig{Weight: 1, Deadline: 100 * msec})
	v := g.r[0].Admit(a, 30, kib, g.now)
	if v.Reason != PredictedWait || v.Wait < 150*msec || v.Wait > 250*msec {
		t.Errorf("%v after %d ms, want predicted_wait after 200", v.Reason, v.Wait/msec)
	}
	for slot := range uint32(15) {
		g.r[0].Drop(slot, g.now)
	}
	g.start(0, a, 30, kib)
	if st := g.r[0].Stats(a); st.Refused[PredictedWait] != 1 || st.Queued != 1 {
		t.Errorf("%+v", st)
	}
	g.next(0)
	g.r[0].Park(a, g.now+200*msec) // its own limit counts, too
	if v := g.r[0].Admit(a, 31, kib, g.now); v.Reason != PredictedWait || v.Wait != 200*msec {
		t.Errorf("%v after %d ms", v.Reason, v.Wait/msec)
	}
}

func TestExpiredAtDequeue(t *testing.T) {
	g := newRig(t, Config{})
	a := g.tenant(TenantConfig{Deadline: 50 * msec, QueueRequests: 10})
	g.start(0, a, 0, mib)
	g.now += 20 * msec
	g.start(0, a, 1, mib)
	g.now += 31 * msec
	if p := g.next(0); p.Slot != 0 || p.Refuse != Expired || p.Wait != 51*msec {
		t.Errorf("%+v", p)
	}
	if p := g.next(0); p.Slot != 1 || p.Refuse != Go || p.Wait != 31*msec || !p.First {
		t.Errorf("%+v", p)
	}
	if requests, _ := a.Queued(); requests != 1 { // picked, not yet charged
		t.Errorf("%d queued", requests)
	}
	g.r[0].Charge(1, 100, g.now)
	g.r[0].Done(1, 100, mib, g.now)
	g.now += 1e9
	if p := g.next(0); p.Refuse != Go || p.First { // what has begun is never refused
		t.Errorf("%+v", p)
	}
	st := g.r[0].Stats(a)
	if st.Refused[Expired] != 1 || st.Started != 1 || st.Waited != 31*msec || st.WaitedMax != 31*msec || st.Queued != 0 || st.Got != 100 {
		t.Errorf("%+v", st)
	}
}

// TestExpiredWhileItsTenantSleeps: requests are refused when they are late, not when their tenant wakes; there is one wake-up for each.
func TestExpiredWhileItsTenantSleeps(t *testing.T) {
	g := newRig(t, Config{})
	a := g.tenant(TenantConfig{Deadline: 50 * msec})
	for slot := range uint32(3) {
		g.start(0, a, slot, mib)
		g.now += 10 * msec
	}
	first := g.now - 30*msec
	g.next(0)
	g.r[0].Park(a, g.now+10_000*msec)
	for slot := range uint32(3) {
		g.none(0)
		due := first + int64(slot)*10*msec + 50*msec
		g.now = g.r[0].Wake()
		if g.now <= due || g.now > due+2<<tickBits {
			t.Fatalf("wakes %d ns after request %d was due", g.now-due, slot)
		}
		if p := g.next(0); p.Slot != slot || p.Refuse != Expired {
			t.Errorf("%+v", p)
		}
	}
	g.none(0)
	if wake := g.r[0].Wake(); wake != never {
		t.Errorf("wakes at %d for nobody", wake)
	}
	if c := g.r[0].Counters(); c.Idle != 0 {
		t.Errorf("%d idle passes", c.Idle)
	}
}

// TestExpiredWhileItWaitsForV: the same for a tenant that has had more than its share.
func TestExpiredWhileItWaitsForV(t *testing.T) {
	g := newRig(t, Config{Rate: 1e6})
	a := g.tenant(TenantConfig{Deadline: 50 * msec})
	g.start(0, a, 0, huge)
	g.serve(0) // 256 KiB of 1 MB/s: a quarter of a second
	g.start(0, a, 1, mib)
	due := g.now + 50*msec
	for {
		if p, ok := g.r[0].Next(g.now); ok {
			if p.Slot != 1 || p.Refuse != Expired || g.now > due+2<<tickBits {
				t.Errorf("%+v, %d ns after it was due", p, g.now-due)
			}
			return
		}
		g.now = g.r[0].Wake()
	}
}

// TestBlockedRequestsAreNotLate: a request that waits for the disk before its first dispatch does not wake the ring when it is late: its turn will tell.
func TestBlockedRequestsAreNotLate(t *testing.T) {
	g := newRig(t, Config{})
	a := g.tenant(TenantConfig{Deadline: 50 * msec})
	g.start(0, a, 0, mib)
	g.next(0)
	g.r[0].Block(0)
	g.now += msec
	g.start(0, a, 2, mib)
	g.next(0)
	g.r[0].Park(a, g.now+1000*msec)
	wakes := 0
	for end := g.now + 900*msec; g.now < end && wakes < 10; wakes++ {
		if p, ok := g.r[0].Next(g.now); ok && p.Slot != 2 {
			t.Errorf("%+v", p)
		}
		g.now = max(min(g.r[0].Wake(), end), g.now)
	}
	if wakes > 4 {
		t.Errorf("%d passes for one late request", wakes)
	}
	g.r[0].Unblock(0, g.now)
	if p := g.next(0); p.Slot != 0 || p.Refuse != Expired {
		t.Errorf("%+v", p)
	}
}

func TestCoDel(t *testing.T) {
	const target = 20 * msec
	for _, c := range []struct {
		name string
		wait func(ms int64) int64 // of the request that is dequeued at ms
		shed func(ms int64) bool
	}{
		{"short waits", func(int64) int64 { return 19 * msec }, func(int64) bool { return false }},
		{"a burst that drains", func(ms int64) int64 { return max(90-ms, 0) * msec }, func(int64) bool { return false }},
		{"a standing queue", func(int64) int64 { return 45 * msec }, func(ms int64) bool { return ms >= 100 }},
		{"a standing queue below twice the target", func(int64) int64 { return 39 * msec }, func(int64) bool { return false }},
		{"one short wait in each interval", func(ms int64) int64 {
			if ms%50 == 0 {
				return 5 * msec
			}
			return 60 * msec
		}, func(int64) bool { return false }},
		{"one that goes away", func(ms int64) int64 {
			if ms >= 250 {
				return msec
			}
			return 60 * msec
		}, func(ms int64) bool { return ms >= 100 && ms < 250 }},
	} {
		var k codel
		for ms := int64(0); ms < 500; ms++ {
			if got, want := k.shed(c.wait(ms), target, 5e9+ms*msec), c.shed(ms); got != want {
				t.Errorf("%s: at %d ms shed %v, want %v", c.name, ms, got, want)
				break
			}
		}
	}
	var k codel
	for ms := range int64(150) {
		k.shed(60*msec, target, ms*msec)
	}
	if k.shed(60*msec, target, 10_000*msec) {
		t.Error("a queue of long ago sheds")
	}
}

// TestShedOnlyWhatTheLimitDidNotCause: the same standing queue, once because the ring is slow, once because the tenant's own limit is.
func TestShedOnlyWhatTheLimitDidNotCause(t *testing.T) {
	for _, parked := range []bool{false, true} {
		g := newRig(t, Config{})
		a := g.tenant(TenantConfig{Target: 20 * msec, Deadline: 2000 * msec})
		shed := 0
		for i := range 60 {
			slot := uint32(i % 30)
			g.r[0].Drop(slot, g.now)
			g.start(0, a, slot, kib)
			g.start(0, a, 30+slot, kib)
			if parked {
				g.next(0)
				g.r[0].Park(a, g.now+10*msec)
			}
			g.now += 10 * msec
			p, ok := g.r[0].Next(g.now + 1<<tickBits)
			if !ok {
				t.Fatal("nothing")
			}
			if p.Refuse == Shed {
				shed++
			} else {
				g.r[0].Done(p.Slot, p.Bytes, 0, g.now)
			}
			g.r[0].Drop(30+slot, g.now)
		}
		for slot := range uint32(30) {
			g.start(0, a, 30+slot, kib)
		}
		for range 25 { // a queue of 30 that moves by one in 10 ms
			if parked {
				if p, ok := g.r[0].Next(g.now); ok && p.Refuse == Go {
					g.r[0].Park(a, g.now+10*msec)
				}
			}
			g.now += 10*msec + 1<<tickBits
			if p, ok := g.r[0].Next(g.now); ok {
				if p.Refuse == Shed {
					shed++
				} else {
					g.r[0].Done(p.Slot, p.Bytes, 0, g.now)
				}
			}
		}
		if parked != (shed == 0) {
			t.Errorf("parked %v: %d shed", parked, shed)
		}
	}
}

func TestReasonsHaveNames(t *testing.T) {
	seen := map[string]bool{}
	for r := range Reasons {
		if name := r.String(); name == "" || seen[name] {
			t.Errorf("reason %d is called %q", r, name)
		} else {
			seen[name] = true
		}
	}
}
