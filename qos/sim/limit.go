package sim

import (
	"math"
	"slices"

	"github.com/talon-worker/talon/qos"
)

// LimitSetup is one limit, who wants how much of it, and how its policy changes.
type LimitSetup struct {
	Policy   qos.Policy
	Demand   Demand
	Users    []int  // indexes of the workers that have users of it; nil all
	Heal     Demand // what is wanted once the faults are over
	Deadline int64  // ns a request waits at most
	Queue    int64  // requests that wait on one worker at most
	RefundPM int    // of 1,000 charges so many are given back in part ...
	RefundIn int64  // ... within so many ns
	Pair     int    // index of an earlier limit that every request is charged to as well, or -1
	PairNeed int64
	Sane     bool // policy check has nothing to say: liveness is owed
}

// A limit is what the cluster as a whole has done with one limit, as nobody in it can know.
type limit struct {
	name     qos.Limit
	policy   qos.Policy // in force as of the coordinator
	setup    *LimitSetup
	deadline int64
	bound    int64
	refundPM int
	refundIn int64
	pair     int

	meter  *qos.Excess
	rate   int64 // as the meter has it: the largest while a change spreads, raised by the drift
	burst  int64
	local  int64  // largest b since the era began
	top    int64  // largest rate since the era began
	era    uint64 // of the meter, that active counts
	active int64  // incarnations that charged in it
	ratio  float64
	before *qos.Policy // the largest of those that some worker may still act upon; nil once all know the newest

	off    bool // one of those was: not limited
	wasOff bool // ever: what was used without a limit may be reported under one, and is a debt then

	offered, charged, refunded, refused int64 // units
	users                               int64 // incarnations that ever charged

	ideal    bucket // the bucket as one that knew everything would have it, since the ownership began
	valid    bool   // ideal can be compared with the owner's level
	untold   bool   // it began with use that had not been told, and some of it may still not be
	mark     qos.OwnerEpoch
	actor    int32  // incarnation of the worker that acts as owner, -1 none yet
	handed   int32  // incarnation that was handed the state, -1 none
	handedIn uint64 // ring in which
	known    int64  // sum of what the acting owner has applied of all incarnations' use
	level    int64  // its level, as last seen

	promised int64 // sum of the uses' parts: at least what may still be spent under views in force

	demand  Demand
	period  int // how often it has moved
	turn    int // how often it was changed: older moves are void
	newest  uint64
	from    measured
	paid    bool    // it has been above the last of its debts since the faults
	owed    bool    // liveness is measured: what it owed is paid
	perfect perfect // what of it could be served, while it is measured
}

// unknown is what a new incarnation's use counts as: nothing, while the owner's books can be compared.
func (l *limit) unknown() int64 {
	if l.valid {
		return 0
	}
	return -1
}

// userOf is a worker's place among those that use the limit, and their number.
func (l *limit) userOf(index, workers int) (user, n int) {
	if l.setup.Users == nil {
		return index, workers
	}
	return slices.Index(l.setup.Users, index), len(l.setup.Users)
}

// measured is what a limit had counted when the measuring began.
type measured struct{ at, offered, charged, refused, level, debt int64 }

func newLimit(l LimitSetup, s Setup) *limit {
	p := l.Policy
	lim := &limit{name: p.Limit(), policy: p, setup: &l, deadline: l.Deadline, bound: l.Queue, refundPM: l.RefundPM, refundIn: l.RefundIn, pair: l.Pair, actor: -1, handed: -1, demand: l.Demand}
	lim.rate = drifted(p.Rate, s.DriftPM)
	lim.burst, lim.local, lim.top = p.Burst, p.LocalBurst, p.Rate
	lim.meter = qos.NewExcess(0, lim.rate, p.Burst)
	lim.ideal = bucket{rate: lim.rate, burst: p.Burst, level: p.Burst}
	lim.valid = true
	return lim
}

// drifted is a rate as the fastest clock lets it be.
func drifted(rate, ppm int64) int64 { return rate + int64(math.Ceil(float64(rate)*float64(ppm)/1e6)) }

func (l *limit) net() int64 { return l.charged - l.refunded }

// allowed is the right side of the contract beyond B + R*(t-s): N*b + R*d.
func (l *limit) allowed(s *Setup) int64 {
	return l.active*l.local + int64(math.Ceil(float64(drifted(l.top, 2*s.DriftPM))*s.Config.TTL.Seconds()))
}

// tally is what the checks know of one incarnation's use of one limit.
type tally struct {
	charged, refunded int64
	backKnown         int64       // refunds that some owner has taken in
	last              *qos.Policy // that the worker knew
	usedKnown         int64       // net use known to the acting owner
	promised          int64       // room above that under the view in force, when it was last looked at
	free              int64       // charged when it was last charged without a limit
	counted           int64       // charges of it that some owner has applied
	owed              int64       // charges of it when the comparison with the ideal bucket began
	known             int64       // charges of it applied by the acting owner; -1 not heard of yet
	era               uint64      // of the meter, when it last charged
	ceiling           int64       // highest that a snapshot in force has named in this ownership
	ceilingBefore     int64       // the same of the ownership before
	owner             qos.OwnerEpoch
	fresh             int64 // local ns until which some view is fresh
	spare             float64
	spareAt           int64
	generation        uint64 // known to the worker; 0 none
}
