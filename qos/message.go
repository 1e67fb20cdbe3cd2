package qos

import "cmp"

// WorkerID names a worker across its restarts.
type WorkerID string

// ReporterID is one cell of one incarnation of one worker. Totals are counted, acknowledged and reserved per ReporterID: a
// restarted worker, or a cell that was dropped and made again, starts from zero under a new one.
type ReporterID struct {
	Worker WorkerID
	Epoch  uint64 // worker_epoch: grows across restarts
	Cell   uint64 // grows each time the worker makes a cell for the limit
}

// OwnerEpoch is one ownership of a limit: the ring epoch at which it began, and the incarnation of the worker that holds it.
// It stays while a worker keeps the limit from one ring epoch to the next, and ends when the limit moves or the worker restarts.
type OwnerEpoch struct {
	Ring   uint64
	Worker uint64
}

// Mark is the place of a snapshot in the order of all snapshots of one limit: by ownership, then by version.
type Mark struct {
	Owner   OwnerEpoch
	Version uint64 // grows by each snapshot of the limit within one ownership; 0 is before all
}

// Compare orders marks; -1 means older.
func (m Mark) Compare(o Mark) int {
	if m.Owner == o.Owner { // nearly always
		return cmp.Compare(m.Version, o.Version)
	}
	return cmp.Or(cmp.Compare(m.Owner.Ring, o.Owner.Ring), cmp.Compare(m.Owner.Worker, o.Owner.Worker))
}

// Before is the newest mark older than m in the same ownership.
func (m Mark) Before() Mark {
	if m.Version > 0 {
		m.Version--
	}
	return m
}

// Total is cumulative use, in units of the metric, of one reporter since it began. Both words only grow, so a lost, doubled or
// late report cannot do harm: the larger one is the newer one.
type Total struct {
	Charged  int64
	Refunded int64 // never more than Charged
}

// Used is what was charged and not given back.
func (t Total) Used() int64 { return t.Charged - t.Refunded }

// UsageReport tells the owner of a limit what one worker has used. The totals carry the truth; the deltas and the sequence are
// for people, for logs and for the order in which retries are answered.
type UsageReport struct {
	Key       RateKey // the generation that the worker enforces now
	From      ReporterID
	RingEpoch uint64 // the ring by which the worker chose the owner

	Sequence  uint64 // grows with every report of this ReporterID that says something new; a retry repeats it
	IopsDelta int64  // use since Base where the metric counts requests, else 0
	ByteDelta int64  // use since Base where the metric counts bytes, else 0

	Total  Total // as of Stamp
	Base   Total // the newest total that any owner has acknowledged: where an owner that does not know the reporter starts
	Wanted int64 // cumulative: charged, plus finally refused; the use that was asked for

	Need   int64 // the next single charge that waits or is to be expected; 0 none
	Demand int64 // what the worker expects to charge until the answer to its next report, including what waits (EWMA of wanted)

	InForce Mark // the newest snapshot that the worker has put in force
	Dead    Mark // no ring of the worker can charge under a snapshot up to this one any more: superseded, expired or let go, and every ring quiescent since

	Stamp int64 // the sender's clock in ns when it took the totals; echoed, never compared with another machine's
	Final bool  // nothing follows: the worker has let the limit go
}

// RateSnapshot tells one reporter how far it may go. Acknowledged and Remaining are one message on purpose: together they are a
// ceiling on what the reporter may ever have used, and an acknowledgement alone frees nothing.
type RateSnapshot struct {
	Key       RateKey // the generation whose numbers it was computed with
	To        ReporterID
	RingEpoch uint64
	Mark      Mark // owner_epoch and version

	Acknowledged Total  // the reporter's newest total that the owner has applied
	AckSequence  uint64 // ack_sequence_for_receiver
	Remaining    int64  // at least 0: the reporter may use this much past Acknowledged.Used()
	Stamp        int64  // the Stamp of the newest report that it acknowledges: freshness counts from here
	ObservedAt   int64  // the owner's clock in ns: for people only

	Exhausted bool   // what is free does not cover the smallest need that waits
	Queued    bool   // the reporter's need keeps a place in the owner's queue; be silent, a snapshot comes when it is its turn
	Turn      int64  // with Queued or Exhausted: about how many ns until then
	Reporters int    // active reporters of the limit
	Newest    uint64 // the newest generation that the owner knows: above Key.Generation means fetch it
	Level     int64  // the owner's level, may be negative; for people and for estimates
	Soft      bool   // over soft_rate: listed as a violator
	BanLeft   int64  // ns for which the tenant is banned from now on; 0 none
}

// Ceiling is the largest total use at which the reporter must stop, in its own count.
func (s *RateSnapshot) Ceiling() int64 { return s.Acknowledged.Used() + s.Remaining }

// Refusal is why an owner did not take a message. Zero is success.
type Refusal uint8

const (
	Accepted Refusal = iota

	NotOwner       // another worker owns the limit in this ring, or this one may not act yet (unconfirmed, waiting for F or a hand-over)
	OtherRing      // the report was addressed by another ring epoch; the answer carries the one known here
	UnknownPolicy  // the owner has no policy of that limit, or only an older generation
	TableFull      // the owner's table of limits or of reporters is full
	OldEpoch       // a newer incarnation of the worker, or of its cell, has reported
	BadReport      // malformed: negative, overflowing or contradicting itself
	Contradiction  // known sequence with other content, or more given back than charged
	UnknownVersion // names a snapshot that this owner has never issued
	numRefusals
)

var refusalNames = [...]string{
	Accepted: "accepted", NotOwner: "not_owner", OtherRing: "other_ring", UnknownPolicy: "unknown_policy", TableFull: "table_full",
	OldEpoch: "old_epoch", BadReport: "bad_report", Contradiction: "contradiction", UnknownVersion: "unknown_version",
}

func (r Refusal) String() string {
	if int(r) < len(refusalNames) {
		return refusalNames[r]
	}
	return "refusal(?)"
}

// Redirect is the answer to a report that was not taken: the reporter keeps its totals and tries again at the owner that its ring,
// once it has learned RingEpoch, names.
type Redirect struct {
	Key       RateKey
	To        ReporterID
	Sequence  uint64
	RingEpoch uint64 // the newest that the refusing worker knows
	Newest    uint64 // the newest policy generation that it knows
	Reason    Refusal
}

// HandOver is all that an owner knows of one limit, for the owner of the next ring. It is a message of bounded size: a long one is
// cut into Parts, and the receiver acts when it has all of them.
type HandOver struct {
	Limit      Limit
	Generation uint64 // of the numbers below
	FromRing   uint64 // the ring in which the sender owned the limit
	ToRing     uint64 // the ring for which it is meant; any other is refused
	ToEpoch    uint64 // the incarnation of the worker for which it is meant
	Part       int    // 0 to Parts-1
	Parts      int

	Level     int64 // may be negative
	Remainder int64 // carried remainder of the level, in unit-nanoseconds (see Level)
	Orphans   int64 // reserved for incarnations that are gone
	Mark      Mark  // the newest snapshot issued: the next owner's are newer by their OwnerEpoch
	Wanted    Asked // what the cluster asked for in the last second
	SoftLeft  int64 // ns for which the tenant stays listed as a violator; 0 it is not
	BanLeft   int64 // ns for which it stays banned; 0 it is not
	Reporters []HandOverReporter
}

// Asked is units that were asked for, in tenths of a second before now, the newest first. The tenth that is not over is not told apart from the
// first: whoever takes it in counts all of it as a tenth older than it may be, so that nothing is counted for longer than a second.
type Asked [wantedSlots - 1]int64

// HandOverReporter is one reporter of a HandOver.
type HandOverReporter struct {
	From       ReporterID
	Generation uint64
	Sequence   uint64
	Stamp      int64
	Total      Total
	Lapsed     int64 // refunds that a full level did not take
	Wanted     int64
	Reserved   int64 // ceiling not named dead, less use known and what has been paid of it
	Mark       Mark  // the newest snapshot issued to it
	Expired    bool  // no snapshot of it can be in force
}

// Addressed is a report and the worker that it is for.
type Addressed struct {
	To     WorkerID
	Report UsageReport
}
