package qos

import "math"

// A View is what a worker knows of one limit at one moment: the policy, and the last snapshot turned into a ceiling. It is immutable;
// the control loop swaps a new one into the Cell, and a ring that still holds the old one is known by its pass (Ledger.Enter).
//
// A View does not refill. Between snapshots time only ages it: the owner grants a little of the refill to come instead
// (Config.Advance), because refill guessed on every worker is refill counted N times.
type View struct {
	policy *Policy // nil: unknown, nothing is admitted
	mark   Mark    // the snapshot it came from; zero before the first

	plain   int64 // the largest charge that needs no look at the policy while the view is fresh; -1 none
	ceiling int64 // the largest used that this view admits, while fresh
	expires int64 // ns: at or after it the view is not fresh; stamp of the acknowledged report + TTL, or math.MinInt64
	acked   int64 // used that an owner has acknowledged
	spare   int64 // bootstrap: what may be unacknowledged without a fresh view
	lapse   int64 // how far refunds may take used below what has been reported: local burst less spare
	early   int64 // used at which a report should go before its time

	barred    int64 // ns: until then the worker must not help itself from the allowance: the owner keeps a place for it, or has nothing left
	turn      int64 // ns: about when the owner will have something for this worker
	pause     int64 // ns: how long a request that meets an empty view waits when nothing better is known
	banned    int64 // ns: until when the tenant is banned
	exhausted bool  // the owner has nothing left for anybody, so reject means reject
	soft      bool
	full      bool // the worker's table of limits is full: this is nobody's view
}

const never = math.MinInt64 // an expiry before all time

// Fresh reports whether the view's ceiling may be used at now.
func (v *View) Fresh(now int64) bool { return now < v.expires }

// Ceiling returns the largest total use that the view admits while it is fresh.
func (v *View) Ceiling() int64 { return v.ceiling }

// Room returns the largest charge that may go at now where used has been charged: more is denied, and leaves no trace.
func (v *View) Room(used, now int64) int64 {
	switch p := v.policy; {
	case p == nil:
		return 0
	case !p.Limits() || p.Mode == Shadow:
		return math.MaxInt64
	case v.Fresh(now):
		return v.ceiling - used
	case now < v.barred:
		return 0
	}
	return v.spare
}

// Exhausted reports whether the owner has nothing left for anybody: reject means reject.
func (v *View) Exhausted() bool { return v.exhausted }

// Mark returns the snapshot that the view came from.
func (v *View) Mark() Mark { return v.mark }

// Expires returns the time from which the view is not fresh.
func (v *View) Expires() int64 { return v.expires }

// Policy returns the policy version in force here, nil if unknown. The caller must not change it.
func (v *View) Policy() *Policy { return v.policy }

// plainUpTo is the value of View.plain: a limit in force and nobody banned.
func (v *View) plainUpTo() int64 {
	if p := v.policy; p != nil && p.Limits() && v.banned == 0 {
		return p.Largest()
	}
	return -1
}

// gate decides everything that does not depend on what is left. done is false when a charge has to be tried.
func (v *View) gate(n, now int64) (d Decision, done bool) {
	p := v.policy
	switch {
	case n < 0:
		return Decision{Outcome: Refuse, Reason: BadCharge, Until: now}, true
	case v.full:
		return Decision{Outcome: Refuse, Reason: LimitsFull, Until: now + v.pause}, true
	case p == nil:
		return Decision{Outcome: Wait, Reason: NoPolicy, Until: now + v.pause}, true
	case now < v.banned && p.OnLimit == Ban && p.Enabled && p.Mode == Enforce:
		return Decision{Outcome: Refuse, Reason: Banned, Until: v.banned, Soft: v.soft, Close: p.BanMode == BanClose}, true
	case p.Enabled && p.Mode == Enforce && n > p.Largest():
		return Decision{Outcome: Refuse, Reason: TooLarge, Until: now, Soft: v.soft}, true
	}
	return Decision{Outcome: Go, Soft: v.soft}, false
}

// deny is the decision for a charge that found nothing left, for reason Exhausted or StaleView. What is stale is waited for even
// where the policy rejects: a tenant under its limit must not be refused because its worker has been quiet.
func (v *View) deny(why Reason, now int64) Decision {
	d := Decision{Outcome: Wait, Reason: why, Until: max(v.turn, now+v.pause), Soft: v.soft}
	if why == Exhausted && v.exhausted && v.policy.OnLimit != Pace {
		d.Outcome = Refuse
	}
	return d
}
