package peerwire

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/talon-worker/talon/qos"
)

// load keeps one ring of every worker wanting a limit until the function that it returns is called.
func (c *cluster) load(ring int, limit qos.Limit, size int64) (stop func()) {
	var wg sync.WaitGroup
	var done atomic.Bool
	for _, w := range c.workers {
		if w.stop != nil {
			wg.Go(func() { w.charge(ring, limit, size, 1<<60, &done) })
		}
	}
	return sync.OnceFunc(func() {
		done.Store(true)
		wg.Wait()
	})
}

// more waits until the cluster has been given so much more of a limit.
func (c *cluster) more(limit qos.Limit, n int64, what string) {
	c.t.Helper()
	j := c.judges[limit]
	total := func() int64 {
		j.mu.Lock()
		defer j.mu.Unlock()
		return j.total
	}
	from := total()
	until(c.t, what, func() bool { return total() >= from+n })
}

// TestClusterShares runs real nodes over TCP: all of them want more of two limits than there is, one of them most of all. Each gets what it wants in the
// end, and together they never pass the bound.
func TestClusterShares(t *testing.T) {
	bytes, requests := egress(64<<20, 4<<20), iops(20_000, 2000)
	c := newCluster(t, 3, nil, bytes, requests)
	var wg sync.WaitGroup
	var stop atomic.Bool
	for i, w := range c.workers {
		wg.Go(func() { w.charge(0, bytes.Limit(), 64<<10, 8<<20<<i, &stop) })
		wg.Go(func() { w.charge(1, requests.Limit(), 1, 1000<<i, &stop) })
	}
	wg.Wait()
	c.judge()
	for _, w := range c.workers {
		s := w.node.Status()
		if len(s.Peers) != 2 || !s.Peers[0].Connected || !s.Peers[1].Connected || !s.Acts {
			t.Errorf("%v: %+v", w.id, s.Peers)
		}
		if s.Counters.Forged+s.Counters.Strange > 0 || s.Wire.BadFrames+s.Wire.Dropped > 0 {
			t.Errorf("%v: %+v %+v", w.id, s.Counters, s.Wire)
		}
	}
}

// TestEightNodes is the same with every pair of eight dialing each other at the same time: in the end each pair has one connection, the same on both sides,
// and it is the one that the lower id has dialed or the only one there was.
func TestEightNodes(t *testing.T) {
	p := egress(256<<20, 16<<20)
	c := newCluster(t, 8, nil, p)
	stop := c.load(0, p.Limit(), 64<<10)
	c.more(p.Limit(), 64<<20, "eight workers use 64 MiB")
	stop()
	until(t, "one link for each pair", func() bool {
		dialed, links := 0, 0
		for _, w := range c.workers {
			for _, s := range w.node.Status().Peers {
				if s.Connected {
					links++
				}
				if s.Connected && s.Dialed {
					dialed++
				}
			}
		}
		return links == 8*7 && dialed == 8*7/2
	})
	c.judge()
}

// TestPartition cuts one worker off: it stops using what others own when its view is too old, what it owns itself goes on nowhere, for it is no majority;
// the others go on with what they own. Healed, everybody is served again, and the bound holds over all of it.
func TestPartition(t *testing.T) {
	var all []qos.Policy
	for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
		p := egress(32<<20, 2<<20)
		p.Tenant = name
		all = append(all, p)
	}
	c := newCluster(t, 3, nil, all...)
	lonely := c.workers[2]
	var far, near *qos.Policy // owned by others, and by the one that is cut off
	for i := range all {
		if c.ownerOf(all[i].Limit()) == lonely {
			near = &all[i]
		} else {
			far = &all[i]
		}
	}
	if near == nil || far == nil {
		t.Fatal("the tenants' names do not spread over the workers: choose others")
	}
	stopFar, stopNear := c.load(0, far.Limit(), 16<<10), c.load(1, near.Limit(), 16<<10)
	c.more(far.Limit(), 4<<20, "use before the partition")
	c.more(near.Limit(), 4<<20, "use before the partition")

	lonely.cut(true)
	until(t, "the lonely worker acts no more", func() bool { return !lonely.node.Status().Acts })
	cell := lonely.node.cfg.Ledger.Cell(far.Limit())
	until(t, "its view grows old", func() bool { return !cell.View().Fresh(Boottime()) })
	c.more(far.Limit(), 4<<20, "the others go on")

	lonely.cut(false)
	until(t, "the lonely worker acts again", func() bool { return lonely.node.Status().Acts })
	c.more(far.Limit(), 4<<20, "use after the partition")
	c.more(near.Limit(), 4<<20, "use after the partition of what the lonely worker owns")
	before := cell.Used()
	until(t, "the lonely worker is served again", func() bool { return cell.Used() > before })
	stopFar()
	stopNear()
	c.judge()
}

// TestOwnerRestarts stops the owner of a limit and starts its next incarnation: the limit starts exhausted after F, and the reports that were kept are
// counted by the new one.
func TestOwnerRestarts(t *testing.T) {
	p := egress(64<<20, 4<<20)
	c := newCluster(t, 3, nil, p)
	owner := c.ownerOf(p.Limit())
	var wg sync.WaitGroup
	var done atomic.Bool
	for _, w := range c.workers {
		if w != owner {
			wg.Go(func() { w.charge(0, p.Limit(), 64<<10, 1<<60, &done) })
		}
	}
	c.more(p.Limit(), 8<<20, "use before")
	owner.stop()
	owner.boot()
	c.more(p.Limit(), 8<<20, "use after the owner has come back as another incarnation")
	done.Store(true)
	wg.Wait()
	c.judge()
	for _, w := range c.workers {
		for _, peer := range w.node.Status().Peers {
			if peer.ID == owner.id && peer.Epoch != 2 {
				t.Errorf("%v is connected with incarnation %d", w.id, peer.Epoch)
			}
		}
	}
}

// TestRingGrows adds a worker to a ring in use: what moves to it is handed over, and it goes on from there without a wait for F.
func TestRingGrows(t *testing.T) {
	var all []qos.Policy
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		p := egress(8<<20, 1<<20)
		p.Tenant = name
		all = append(all, p)
	}
	limits := testLimits()
	limits.Confirm = time.Second // what is handed over is worth something for so long, and this machine may be busy
	c := newClusterWith(t, limits, 3, nil, all...)
	var stops []func()
	for i := range all {
		stops = append(stops, c.load(i%2, all[i].Limit(), 16<<10))
	}
	for i := range all {
		c.more(all[i].Limit(), 1<<20, "use in the ring of three")
	}
	w := c.add()
	c.ring.Epoch = 2
	r1 := must(qos.NewRing(1, []qos.WorkerID{"w1", "w2", "w3"}))
	c.ring.Replaces = []qos.Voting{r1.Voting()} // as a coordinator that knows it says to a newcomer
	w.boot()
	until(t, "the newcomer is connected", func() bool {
		s := w.node.Status()
		return len(s.Peers) == 3 && s.Peers[0].Connected && s.Peers[1].Connected && s.Peers[2].Connected
	})
	for _, w := range c.workers {
		until(t, "all act", func() bool { return w.epoch == 1 && (w.id == "w4" || w.node.Status().Acts) })
		check(t, w.node.SetRing(w.ring()))
	}
	moved := 0
	for i := range all {
		if c.ownerOf(all[i].Limit()) == w {
			moved++
		}
		c.more(all[i].Limit(), 1<<20, "use in the ring of four")
	}
	for _, stop := range stops {
		stop()
	}
	c.judge()
	sent, metered := uint64(0), len(w.node.Status().Owned)
	for _, w := range c.workers {
		s := w.node.Status()
		sent += s.Counters.HandedOver
		if s.Counters.HandLost > 0 || s.Counters.Forged > 0 {
			t.Errorf("%v: %+v", w.id, s.Counters)
		}
	}
	if moved == 0 || sent < uint64(moved) || metered < moved {
		t.Errorf("%d limits have moved, %d parts were handed over, %d are metered", moved, sent, metered)
	}
}

// TestLastUseIsTold stops a worker in order: all that it has used is acknowledged before it goes, and its owner has it.
func TestLastUseIsTold(t *testing.T) {
	p := egress(64<<20, 4<<20)
	c := newCluster(t, 3, func(c *Config) { c.Patience = 10 * time.Second }, p)
	owner := c.ownerOf(p.Limit())
	var w *worker
	for _, w = range c.workers {
		if w != owner {
			break
		}
	}
	var stop atomic.Bool
	used := w.charge(0, p.Limit(), 64<<10, 4<<20, &stop)
	w.stop()
	s := owner.node.Status()
	if len(s.Owned) != 1 || s.Owned[0].Used != used || s.Owned[0].Reserved != 0 {
		t.Errorf("used %d, the owner knows %+v", used, s.Owned)
	}
	until(t, "a goodbye", func() bool { return owner.node.Status().Wire.Goodbyes == 1 })
	c.judge()
}

// TestSlowNetwork makes every byte wait: the round trip is longer than a snapshot may live, so nothing arrives in time to be used, and nothing but the
// allowance goes; back at speed all is well.
func TestSlowNetwork(t *testing.T) {
	p := egress(64<<20, 4<<20)
	c := newCluster(t, 3, nil, p)
	stop := c.load(0, p.Limit(), 16<<10)
	c.more(p.Limit(), 8<<20, "use before")
	for _, x := range c.proxies {
		x.delay.Store(int64(40 * time.Millisecond))
	}
	owner := c.ownerOf(p.Limit())
	for _, w := range c.workers {
		if w != owner {
			late := w.node.Status().Reporter.Late
			until(t, "snapshots come too late", func() bool { return w.node.Status().Reporter.Late > late })
		}
	}
	for _, x := range c.proxies {
		x.delay.Store(0)
	}
	for _, w := range c.workers {
		cell := w.node.cfg.Ledger.Cell(p.Limit())
		until(t, "a fresh view", func() bool { return cell.View().Fresh(Boottime()) })
	}
	c.more(p.Limit(), 8<<20, "use after")
	stop()
	c.judge()
}

// TestFrozenPeer freezes the way to and from one worker, as a stopped process does: its links die of silence, and heal.
func TestFrozenPeer(t *testing.T) {
	p := egress(64<<20, 4<<20)
	c := newCluster(t, 3, nil, p)
	stop := c.load(0, p.Limit(), 16<<10)
	c.more(p.Limit(), 8<<20, "use before")
	for _, x := range c.proxies {
		x.frozen.Store(true)
	}
	for _, w := range c.workers {
		until(t, "links die of silence", func() bool { return w.node.Status().Wire.Silent > 0 })
	}
	for _, x := range c.proxies {
		x.frozen.Store(false)
	}
	c.more(p.Limit(), 8<<20, "use after")
	stop()
	c.judge()
}
