package peerwire

import "github.com/talon-worker/talon/qos"

// Status is what a Node can say about itself, at one moment of its loop.
type Status struct {
	Worker  qos.WorkerID
	Epoch   uint64
	Running bool // the loop runs; without it only Worker, Epoch, Loop, Peers and Wire are filled in

	Ring    uint64         // epoch of the ring of owners
	Alone   bool           // no peers have been named: this worker owns everything
	Newest  uint64         // the highest ring epoch that any voter has answered with: above Ring, the coordinator has news for this worker
	Members []qos.WorkerID // of the ring; the caller must not change them
	Acts    bool           // this worker may act as owner: a majority of the ring's voters has confirmed, or, where nothing that it owns is in use and so nobody is asked, would
	Settled bool           // and may start limits that nobody has handed over

	Policies int               // in force
	Cells    []qos.CellStatus  // this worker's use of its limits
	Owned    []qos.LimitStatus // limits that are metered here
	Fenced   bool              // an owner knows of a newer incarnation of this worker: it must stop

	Reporter qos.ReporterStats
	Owner    qos.OwnerStats
	Counters Counters
	Loop     LoopCounters

	Peers []PeerStatus // by id
	Wire  WireCounters
}

// Counters count what a core did beside what its state machines count. They only grow.
type Counters struct {
	PolicyErrors uint64 // policies that found no room
	Forged       uint64 // messages in the name of another worker or incarnation than the one that sent them
	Strange      uint64 // snapshots and redirects from a worker that is not the limit's owner
	HandedOver   uint64 // parts of hand-overs sent
	HandLost     uint64 // parts for which their owner could not be reached in time, or no room was
}

// LoopCounters count what the loop did. They only grow.
type LoopCounters struct {
	Steps uint64 // turns
	Woken uint64 // times that a ring has ended the loop's sleep
}

func (c *core) status(now int64) Status {
	s := Status{
		Worker: c.self, Epoch: c.epoch, Running: true,
		Ring: aloneEpoch, Alone: c.ring == nil && !c.ringed, Members: []qos.WorkerID{c.self}, Acts: c.owner.Acts(now), Settled: true,
		Policies: len(c.policies) - c.dropped,
		Cells:    c.reporter.Status(now, nil), Owned: c.owner.Status(now, nil), Fenced: c.reporter.Fenced(),
		Reporter: c.reporter.Stats, Owner: c.owner.Stats, Counters: c.stats,
	}
	if c.ring != nil {
		s.Ring, s.Newest, s.Members, s.Settled = c.ring.Epoch(), c.tenure.Newest(), c.ring.Members(), c.tenure.Open(now)
		s.Acts = s.Acts || !c.owner.InUse(now) && c.tenure.Ready(now)
	}
	return s
}
