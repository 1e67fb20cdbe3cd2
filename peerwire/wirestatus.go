package peerwire

import (
	"cmp"
	"slices"
	"time"

	"github.com/talon-worker/talon/qos"
)

// PeerStatus is what is known of one peer.
type PeerStatus struct {
	ID        qos.WorkerID
	Addr      string // that is dialed; empty for one that only calls
	Connected bool
	Dialed    bool      // by this worker
	Epoch     uint64    // its incarnation
	Ring      uint64    // the ring epoch it had when it connected
	Since     time.Time // of the connection
	FramesIn  uint64    // on this connection
	FramesOut uint64
	BytesIn   uint64
	BytesOut  uint64
	Fault     string // why it cannot be reached, in words; empty if it can
}

// status returns the peers by id, and the counters.
func (w *wire) status() ([]PeerStatus, WireCounters) {
	peers, c := w.look()
	slices.SortFunc(peers, func(a, b PeerStatus) int { return cmp.Compare(a.ID, b.ID) })
	return peers, c
}

// look copies what status shows, in any order.
func (w *wire) look() ([]PeerStatus, WireCounters) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.counters
	n := &w.counted
	c.Accepted, c.Dialed, c.DialErrors = n.accepted.Load(), n.dialed.Load(), n.dialErrors.Load()
	c.Paced = n.paced.Load()
	c.RefusedBusy, c.RefusedTLS, c.Refused, c.Duplicates = n.refusedBusy.Load(), n.refusedTLS.Load(), n.refused.Load(), n.duplicates.Load()
	c.BadFrames, c.Silent, c.Goodbyes, c.Lost, c.Unsent = n.badFrames.Load(), n.silent.Load(), n.goodbyes.Load(), n.lost.Load(), n.unsent.Load()
	var peers []PeerStatus
	for id, l := range w.links { // any order
		c.add(l)
		p := PeerStatus{
			ID: id, Connected: true, Dialed: l.dialed, Epoch: l.epoch, Ring: l.ring, Since: l.since,
			FramesIn: l.framesIn.Load(), FramesOut: l.framesOut.Load(), BytesIn: l.bytesIn.Load(), BytesOut: l.bytesOut.Load(),
		}
		if d := w.dialers[id]; d != nil {
			p.Addr = d.addr
		}
		peers = append(peers, p)
	}
	for id, d := range w.dialers { // any order
		if w.links[id] != nil {
			continue
		}
		p := PeerStatus{ID: id, Addr: d.addr}
		if d.fault != nil {
			p.Fault = d.fault.Error()
		}
		peers = append(peers, p)
	}
	return peers, c
}

// fold keeps a link's counts when it goes. Called with mu held, once a link.
func (w *wire) fold(l *link) { w.counters.add(l) }

func (c *WireCounters) add(l *link) {
	merged, dropped, handLost := l.out.counts()
	c.Merged += merged
	c.Dropped += dropped
	c.HandLost += handLost
	c.FramesIn += l.framesIn.Load()
	c.FramesOut += l.framesOut.Load()
	c.Rested += l.rested.Load()
	c.BytesIn += l.bytesIn.Load()
	c.BytesOut += l.bytesOut.Load()
}
