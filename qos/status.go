package qos

import "slices"

// LimitStatus is what an owner can say about one limit that it meters: for metrics, the list of violators, and people.
type LimitStatus struct {
	Key       RateKey
	Level     int64 // units left; negative is debt
	Burst     int64
	Reserved  int64 // promised to workers and not known to be used
	Expired   int64 // of it, under views that cannot be in force any more and that nobody has named dead: used, for all that is known
	Reporters int   // active
	Waiting   int   // of them, in line for a need
	Excess    int64 // estimate: the deepest debt since the meter was started, which is by how much reported use passed an ideal bucket
	Used      int64 // units of use applied since the meter was started
	Wanted    int64 // units asked for in the last second, in the whole cluster
	Exhausted bool
	Soft      bool  // over soft_rate: a violator
	BanLeft   int64 // ns
}

// Status appends the status of every limit that is metered here, sorted by limit.
func (o *Owner) Status(now int64, out []LimitStatus) []LimitStatus {
	from := len(out)
	for _, m := range o.ordered() {
		m.advance(now)
		m.judge(now)
		out = append(out, LimitStatus{
			Key: m.policy.Key(), Level: m.level.Now(), Burst: m.policy.Burst, Reserved: m.reserved, Expired: m.stale + m.orphans,
			Reporters: m.lines[byLease].len, Waiting: m.lines[byTurn].len, Excess: m.debt, Used: m.used, Wanted: m.asked.last(now),
			Exhausted: m.out(), Soft: m.soft, BanLeft: max(m.banned-now, 0),
		})
	}
	slices.SortFunc(out[from:], func(a, b LimitStatus) int { return compareLimits(a.Key.Limit(), b.Key.Limit()) })
	return out
}

// CellStatus is what a worker can say about one of its limits.
type CellStatus struct {
	Key     RateKey // generation 0: no policy
	Owner   WorkerID
	Total   Total
	Acked   Total // of it, acknowledged by an owner
	Refused int64 // cumulative
	Lapsed  int64 // cumulative refunds that came too late to count
	Room    int64 // what the view in force still admits; 0 without a fresh one
	Age     int64 // ns since the newest report that the view acknowledges was sent; -1 without a fresh one
	Trip    int64 // ns: smoothed time from a report to its answer
	Need    int64 // the largest charge that waits
	Waiting int64 // sum of what waits
	Queued  bool  // the owner keeps a place
}

// Status appends the status of every cell, in the order they were made.
func (r *Reporter) Status(now int64, out []CellStatus) []CellStatus {
	r.ledger.each(func(c *Cell) {
		v, rep := c.View(), &c.rep
		s := CellStatus{
			Key:   RateKey{Tenant: c.limit.Tenant, Metric: c.limit.Metric},
			Owner: r.ledger.ownerOf(c), Total: c.totals(), Acked: rep.acked, Refused: c.refused.Load(), Lapsed: c.lapsed.Load(),
			Age: -1, Trip: rep.trip, Queued: rep.queued,
		}
		s.Need, s.Waiting = c.waiting()
		if v.policy != nil {
			s.Key.Generation = v.policy.Generation
		}
		if v.Fresh(now) {
			s.Room, s.Age = max(v.ceiling-c.Used(), 0), now-(v.expires-int64(r.cfg.TTL))
		}
		out = append(out, s)
	})
	return out
}

func compareLimits(a, b Limit) int {
	switch {
	case a.Less(b):
		return -1
	case b.Less(a):
		return 1
	}
	return 0
}
