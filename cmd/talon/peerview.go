package main

import (
	"errors"
	"time"

	"github.com/talon-worker/talon/admin"
	"github.com/talon-worker/talon/coordinator"
	"github.com/talon-worker/talon/peerwire"
	"github.com/talon-worker/talon/qos"
)

// peerState is this worker's place among the others, for the admin port.
func (w *worker) peerState() admin.Peers {
	s := w.limiter.node.Status()
	return w.peersOf(&s)
}

func (w *worker) peersOf(s *peerwire.Status) admin.Peers {
	p := admin.Peers{Worker: string(s.Worker), Epoch: s.Epoch, Coordinator: w.conf.coordinator, Ring: s.Ring, Acts: s.Acts, Settled: s.Settled, Wire: adminWire(s)}
	p.Enlisted = w.cluster.enlisted()
	if err := w.tenancy.stale(); err != nil {
		p.Trouble, p.Away = err.Error(), errors.Is(err, coordinator.ErrAway)
	}
	for _, id := range s.Members {
		p.Members = append(p.Members, string(id))
	}
	for i := range s.Peers {
		one := &s.Peers[i]
		peer := admin.Peer{
			ID: string(one.ID), Addr: one.Addr, Connected: one.Connected, Dialed: one.Dialed, Epoch: one.Epoch, Ring: one.Ring,
			FramesIn: one.FramesIn, FramesOut: one.FramesOut, BytesIn: one.BytesIn, BytesOut: one.BytesOut, Fault: one.Fault,
		}
		if one.Connected {
			peer.Since = &one.Since
		}
		p.Peers = append(p.Peers, peer)
	}
	return p
}

func adminWire(s *peerwire.Status) admin.Wire {
	c := &s.Wire
	return admin.Wire{
		FramesIn: c.FramesIn, FramesOut: c.FramesOut, BytesIn: c.BytesIn, BytesOut: c.BytesOut, Merged: c.Merged, Paced: c.Paced, Rested: c.Rested,
		Links: map[string]uint64{
			"accepted": c.Accepted, "dialed": c.Dialed, "dial_error": c.DialErrors, "refused_busy": c.RefusedBusy, "refused_tls": c.RefusedTLS, "refused": c.Refused,
			"duplicate": c.Duplicates, "bad_frame": c.BadFrames, "silent": c.Silent, "goodbye": c.Goodbyes, "lost": c.Lost,
		},
		Lost: map[string]uint64{
			"no_link": c.Unsent, "no_room": c.Dropped, "hand_over": c.HandLost + s.Counters.HandLost, "forged": s.Counters.Forged, "not_the_owner": s.Counters.Strange,
		},
	}
}

// keyState are the limits that this worker meters, each with the bound of its excess: N x b + R x d.
func (w *worker) keyState() []admin.Key {
	s := w.limiter.node.Status()
	return keysOf(&s, w.tenancy.now.Load(), w.limits().TTL)
}

// keysOf shows what an owner says of its limits. ttl is the d of the bound.
func keysOf(s *peerwire.Status, p *inForce, ttl time.Duration) (keys []admin.Key) {
	bounds := map[qos.Limit]int64{}
	for i := range p.limits {
		l := &p.limits[i]
		if l.Limits() {
			bounds[l.Limit()] = int64(len(s.Members))*l.LocalBurst + int64(float64(l.Rate)*ttl.Seconds())
		}
	}
	for i := range s.Owned {
		o := &s.Owned[i]
		keys = append(keys, admin.Key{
			Tenant: o.Key.Tenant, Metric: o.Key.Metric.String(), Generation: o.Key.Generation, Level: o.Level, Burst: o.Burst, Reserved: o.Reserved,
			Expired: o.Expired, Reporters: o.Reporters, Waiting: o.Waiting, Used: o.Used, Wanted: o.Wanted, Excess: o.Excess, Bound: bounds[o.Key.Limit()],
		})
	}
	return keys
}
