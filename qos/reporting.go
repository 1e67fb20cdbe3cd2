package qos

// reporting is the control side of a Cell.
type reporting struct {
	policy *Policy // newest known, nil when dropped
	newest uint64  // its generation, kept over a drop

	index int   // in Reporter.due, -1 while quiet
	due   int64 // when to consider the cell

	heldBack int64 // since when a report waits for budget; 0 none does

	owner     WorkerID
	ownerRing uint64  // the ring epoch for which owner was looked up
	budget    *budget // of that owner; nil until a report is due to it

	sequence  uint64
	acked     Total // newest acknowledged: the base of reports
	sent      Total // never less than acked; both words only grow
	sentMore  said  // what else the newest report said
	sentAt    int64
	nextAt    int64 // when the next report goes if the answer is in
	earlyFrom int64 // when one may go that is not due: Config.earlyGap after the newest report, spread as its interval is
	retryAt   int64 // when it is sent again if no answer comes
	open      bool  // the newest report is not answered
	tries     int   // how often it was sent

	seen    Mark   // newest snapshot received: nothing older is taken
	late    bool   // and it was too old to be put in force
	dead    Mark   // nothing up to here can be charged under
	told    Mark   // dead, as far as an owner has acknowledged it
	held    Mark   // newest snapshot with something in it, or after one that may have had: above told, there is something to give back
	leaves  bool   // the newest report gave all back and asked for nothing: there is nothing in its answers
	missed  bool   // one may have been issued since held and been lost: an answer that was not waited for, or the turn
	swapped uint64 // the grace period after which the view before the one in force is out of use
	earlyAt Mark   // the view for which an early report went

	interval int64 // ns between reports while in use
	trip     int64 // ns: smoothed time from a report to the answer
	wanted   int64 // cumulative, as of the last report
	rate     int64 // EWMA of wanted, units per second
	sampled  int64 // when rate was updated
	calm     int64 // Reporter.calm, as of the newest snapshot
	queued   bool  // the owner keeps a place: silent unless there is use to tell
}

// said is what a report says beyond totals; equal totals and equal said make a retry.
type said struct {
	wanted, need int64
	dead         Mark // when no view is in force: what is given back
	final        bool
}

// holds reports whether the owner may have something reserved for this worker.
func (rep *reporting) holds() bool { return rep.held.Compare(rep.told) > 0 }

// A Cell stands in the reporter's timeline by when it is due; of those that wait for budget the one that has waited longest comes first. By id alone,
// a hot limit would take all the budget of its owner, for ever.
func (c *Cell) order() (int64, uint64) {
	if c.rep.heldBack > 0 {
		return c.rep.due, uint64(c.rep.heldBack)
	}
	return c.rep.due, 1<<63 | c.id
}
func (c *Cell) place() *int { return &c.rep.index }
