package peerwire

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/talon-worker/talon/qos"
)

// start runs a node until the test ends.
func start(t *testing.T, mend func(*Config)) *Node {
	t.Helper()
	cfg := Config{Worker: "w1", Epoch: 1, Limits: qos.DefaultConfig(), Ledger: must(qos.NewLedger(qos.DefaultConfig(), 2))}
	if mend != nil {
		mend(&cfg)
	}
	n := must(New(cfg))
	run(t, n)
	return n
}

// run runs a node until the test ends, or until stop is called, and wants no error.
func run(t *testing.T, n *Node) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	for !n.Status().Running {
		runtime.Gosched()
	}
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func TestConfigIsChecked(t *testing.T) {
	good := Config{Worker: "w1", Epoch: 1, Limits: qos.DefaultConfig(), Ledger: must(qos.NewLedger(qos.DefaultConfig(), 1))}
	for name, spoil := range map[string]func(*Config){
		"no worker":         func(c *Config) { c.Worker = "" },
		"a long worker":     func(c *Config) { c.Worker = qos.WorkerID(make([]byte, maxWorkerID+1)) },
		"no epoch":          func(c *Config) { c.Epoch = 0 },
		"no ledger":         func(c *Config) { c.Ledger = nil },
		"no limits":         func(c *Config) { c.Limits = qos.Config{} },
		"negative patience": func(c *Config) { c.Patience = -1 },
	} {
		bad := good
		spoil(&bad)
		if _, err := New(bad); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := New(good); err != nil {
		t.Error(err)
	}
}

// TestRingsAreServed runs the real loop beside rings that charge as fast as they can: what goes never passes the bucket in any interval, and the rings
// that wait are woken.
func TestRingsAreServed(t *testing.T) {
	const rings = 2
	p := egress(64<<20, 1<<20)
	var changed atomic.Int64
	n := start(t, func(c *Config) {
		c.Changed = func() { changed.Add(1) }
	})
	check(t, n.SetPolicies([]qos.Policy{p}))
	var mu sync.Mutex
	excess, total := qos.NewExcess(Boottime(), p.Rate, p.Burst), int64(0)
	var wg sync.WaitGroup
	for ring := range rings {
		wg.Go(func() {
			cell, ledger := n.cfg.Ledger.Cell(p.Limit()), n.cfg.Ledger
			for mine := 0; mine < 100; {
				ledger.Enter(ring)
				mu.Lock() // the meter wants admissions in the order of their times
				now := Boottime()
				d := cell.Admit(64<<10, now)
				if d.Charged() {
					mine++
					total += 64 << 10
					if e := excess.Admit(now, 64<<10); e > 0 {
						t.Errorf("excess %d", e)
						mine = 100
					}
				}
				mu.Unlock()
				ledger.Leave(ring)
				if d.Charged() {
					cell.Await(ring, 0, 0)
				} else {
					cell.Await(ring, 64<<10, 64<<10)
					runtime.Gosched()
				}
			}
			cell.Await(ring, 0, 0)
		})
	}
	wg.Wait()
	s := n.Status()
	if s.Cells[0].Total.Used() != total || !s.Alone || !s.Acts || s.Ring != aloneEpoch || changed.Load() == 0 {
		t.Errorf("status %+v, used %d, %d changes", s, total, changed.Load())
	}
}

// TestIdleLoopSleeps: a worker without use turns only when somebody asks it something.
func TestIdleLoopSleeps(t *testing.T) {
	n := start(t, nil)
	check(t, n.SetPolicies([]qos.Policy{iops(100, 10)}))
	first := n.Status().Loop
	time.Sleep(50 * time.Millisecond) // a loop that polls would have turned often; one that sleeps has not
	if got := n.Status().Loop; got.Steps > first.Steps+2 || got.Woken != first.Woken {
		t.Errorf("%+v, then %+v: want the one step of the question", first, got)
	}
}

// TestRingWakesTheLoop: the first use after a silence ends the loop's sleep, and nothing else would for an hour.
func TestRingWakesTheLoop(t *testing.T) {
	p := iops(1000, 100)
	n := start(t, nil)
	check(t, n.SetPolicies([]qos.Policy{p}))
	cell := n.cfg.Ledger.Cell(p.Limit())
	for cell.Await(0, 1, 1); !cell.Admit(1, Boottime()).Charged(); {
		runtime.Gosched()
	}
	cell.Await(0, 0, 0)
	if s := n.Status().Loop; s.Woken == 0 {
		t.Errorf("%+v: want the loop woken by the ring", s)
	}
}

// TestBeforeRun: what is set before Run is what Run begins with.
func TestBeforeRun(t *testing.T) {
	n := must(New(Config{Worker: "w1", Epoch: 3, Limits: qos.DefaultConfig(), Ledger: must(qos.NewLedger(qos.DefaultConfig(), 1))}))
	check(t, n.SetPolicies([]qos.Policy{iops(100, 10), egress(1e6, 1e6)}))
	check(t, n.SetPolicies([]qos.Policy{egress(1e6, 1e6)}))
	if s := n.Status(); s.Running || s.Worker != "w1" || s.Epoch != 3 {
		t.Errorf("before Run: %+v", s)
	}
	if err := n.SetPolicies([]qos.Policy{{}}); err == nil {
		t.Error("a policy without anything is taken")
	}
	stop := run(t, n)
	if s := n.Status(); !s.Running || s.Policies != 1 {
		t.Errorf("running with %d policies, want the last set's one", s.Policies)
	}
	if err := n.Run(context.Background()); err == nil {
		t.Error("runs twice")
	}
	stop()
	if err := n.SetPolicies(nil); !errors.Is(err, ErrEnded) {
		t.Errorf("after the end: %v, want ErrEnded", err)
	}
	if s := n.Status(); s.Running {
		t.Error("a node that has ended says that it runs")
	}
}

// TestChangesAreBounded: so many callers may wait for a loop that does not come, and no more.
func TestChangesAreBounded(t *testing.T) {
	n := must(New(Config{Worker: "w1", Epoch: 1, Limits: qos.DefaultConfig(), Ledger: must(qos.NewLedger(qos.DefaultConfig(), 1))}))
	for range maxChanges {
		check(t, n.SetPolicies(nil))
	}
	if err := n.SetPolicies(nil); !errors.Is(err, ErrBusy) {
		t.Errorf("%v, want ErrBusy", err)
	}
	run(t, n)
	n.Status()
	check(t, n.SetPolicies(nil))
}

// TestEverybodyAtOnce lets the race detector look at all that may happen at one time.
func TestEverybodyAtOnce(t *testing.T) {
	n := start(t, nil)
	first := iops(1e6, 1e5)
	limit := first.Limit()
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for g := range 50 {
				switch i {
				case 0:
					p := iops(1e6, 1e5)
					p.Generation = uint64(g + 1)
					check(t, n.SetPolicies([]qos.Policy{p}))
				case 1:
					n.Status()
				default:
					n.cfg.Ledger.Enter(i - 2)
					n.cfg.Ledger.Cell(limit).Admit(1, Boottime())
					n.cfg.Ledger.Cell(limit).Await(i-2, 1, 1)
					n.cfg.Ledger.Leave(i - 2)
				}
			}
			if i >= 2 {
				n.cfg.Ledger.Cell(limit).Await(i-2, 0, 0)
			}
		})
	}
	wg.Wait()
}

// BenchmarkStir is what waking the loop costs a ring while it is awake, which is nearly always on a busy worker.
func BenchmarkStir(b *testing.B) {
	n := must(New(Config{Worker: "w1", Epoch: 1, Limits: qos.DefaultConfig(), Ledger: must(qos.NewLedger(qos.DefaultConfig(), 1))}))
	b.ReportAllocs()
	for b.Loop() {
		n.stir()
	}
}

// TestPortion: a turn takes in whole letters in their order, so many that it ends soon, and always one.
func TestPortion(t *testing.T) {
	of := func(sizes ...int) (all []letter) {
		for _, n := range sizes {
			all = append(all, letter{batch: &batch{asks: make([]qos.Ask, n)}})
		}
		return all
	}
	for _, tt := range []struct {
		letters []letter
		want    int
	}{
		{of(), 0},
		{of(1, 2, 3), 3},
		{of(stepMost, 1), 1},
		{of(stepMost-1, 1, 1), 2},
		{of(2*stepMost, 1), 1},
		{of(1, 2*stepMost), 1},
	} {
		if got := portion(tt.letters); got != tt.want {
			t.Errorf("%d letters: %d, want %d", len(tt.letters), got, tt.want)
		}
	}
}

// TestFenced: when the owner of a limit says that a newer incarnation of this worker is at work, Run ends with ErrFenced. The owner is a peer of the
// test's own, which speaks the protocol with its bare hands.
func TestFenced(t *testing.T) {
	limits := testLimits()
	ln := must(net.Listen("tcp", "127.0.0.1:0"))
	n := must(New(Config{Worker: "w1", Epoch: 7, Limits: limits, Ledger: must(qos.NewLedger(limits, 1)), Listener: ln}))
	far := iops(1000, 100)
	for i := 0; ; i++ {
		r := must(qos.NewRing(1, []qos.WorkerID{"w1", "w2"}))
		if far.Tenant = fmt.Sprint(i); r.Owner(qos.PlaceOf(far.Limit())) == 1 {
			break
		}
	}
	check(t, n.SetPolicies([]qos.Policy{far}))
	check(t, n.SetRing(ringOf(1, "w1", "w2")))
	ended := make(chan error, 1)
	go func() { ended <- n.Run(context.Background()) }()

	conn, err := net.Dial("tcp", ln.Addr().String())
	check(t, err)
	defer conn.Close()
	conn.Write(appendHello(nil, &hello{version: 1, oldest: 1, worker: "w2", to: "w1", epoch: 1, limits: sharedOf(&limits)}))
	in := bufio.NewReader(conn)
	h, err := readHello(in)
	check(t, err)
	if h.worker != "w1" || h.epoch != 7 || h.limits != sharedOf(&limits) {
		t.Errorf("hello %+v", h)
	}
	until(t, "the policy is in force", func() bool { return n.Status().Policies == 1 })
	n.cfg.Ledger.Cell(far.Limit()).Await(0, 1, 1)
	for fenced := false; !fenced; {
		frame, _, err := readFrame(in, nil, maxFrame)
		check(t, err)
		var b batch
		if _, _, err := decode(frame, &b); err != nil {
			t.Fatal(err)
		}
		for _, u := range b.reports {
			d := qos.Redirect{Key: u.Key, To: u.From, Sequence: u.Sequence, RingEpoch: 1, Reason: qos.OldEpoch}
			conn.Write(sent(&batch{redirects: []qos.Redirect{d}}))
			fenced = true
		}
	}
	if err := <-ended; !errors.Is(err, ErrFenced) {
		t.Errorf("Run: %v, want ErrFenced", err)
	}
}

// TestNothingIsSleptOver: a ring that notes something after the loop has looked and before it sleeps does not wake it, for it is not asleep; so the loop
// looks once more when it is.
func TestNothingIsSleptOver(t *testing.T) {
	p := iops(1000, 100)
	n := must(New(Config{Worker: "w1", Epoch: 1, Limits: qos.DefaultConfig(), Ledger: must(qos.NewLedger(qos.DefaultConfig(), 1))}))
	done := make(chan error, 1)
	n.core.step(Boottime(), &inputs{policies: []policyChange{{[]qos.Policy{p}, done}}})
	check(t, <-done)
	n.cfg.Ledger.Cell(p.Limit()).Await(0, 1, 1)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	n.sleep(timer, nil, false, int64(time.Hour)) // or the test takes an hour
	if n.woken.Load() != 0 || n.asleep.Load() {
		t.Errorf("woken %d times, asleep %v", n.woken.Load(), n.asleep.Load())
	}
}

// TestBusyLoopIsNotWoken: after a turn that a ring has asked for the loop rests, and rings that ask meanwhile pay nothing for it.
func TestBusyLoopIsNotWoken(t *testing.T) {
	n := must(New(Config{Worker: "w1", Epoch: 1, Limits: qos.DefaultConfig(), Ledger: must(qos.NewLedger(qos.DefaultConfig(), 1))}))
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	n.wake <- struct{}{} // as a ring would that found it asleep
	n.sleep(timer, nil, true, int64(time.Hour))
	if n.woken.Load() != 0 {
		t.Error("woken out of its rest")
	}
	n.stir()
	if len(n.wake) != 1 {
		t.Error("a ring has woken a loop that is awake")
	}
}
