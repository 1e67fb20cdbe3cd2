package sim

import (
	"fmt"

	"github.com/talon-worker/talon/sched"
)

// Result is what a run, or many, came to.
type Result struct {
	Hash      uint64
	Events    uint64
	Decisions uint64
	Responses uint64
	Resets    uint64
	Left      uint64
	Expiries  uint64
	Stalls    uint64
	Idle      uint64
	Verdicts  [sched.Reasons]uint64

	Pairs    uint64  // pairs of tenants whose lag was looked at, summed over dispatches
	Lag      float64 // worst, as a part of its bound
	Hunger   float64 // longest that a backlogged tenant waited, as a part of its bound
	Interval float64 // worst of any interval, as a part of burst + rate * length
	Charges  uint64  // in those intervals
	Parked   uint64
	Short    uint64
	Cold     uint64
	Full     uint64 // times that a ring had as much in flight as it may
}

// Add sums runs up.
func (r *Result) Add(o *Result) {
	r.Hash ^= o.Hash
	r.Events += o.Events
	r.Decisions += o.Decisions
	r.Responses += o.Responses
	r.Resets += o.Resets
	r.Left += o.Left
	r.Expiries += o.Expiries
	r.Stalls += o.Stalls
	r.Idle += o.Idle
	for i := range r.Verdicts {
		r.Verdicts[i] += o.Verdicts[i]
	}
	r.Pairs += o.Pairs
	r.Lag, r.Hunger, r.Interval = max(r.Lag, o.Lag), max(r.Hunger, o.Hunger), max(r.Interval, o.Interval)
	r.Charges += o.Charges
	r.Parked += o.Parked
	r.Short += o.Short
	r.Cold += o.Cold
	r.Full += o.Full
}

// Table shows it to people.
func (r *Result) Table() string {
	s := fmt.Sprintf("decisions %d, responses %d, events %d, trace %016x\n", r.Decisions, r.Responses, r.Events, r.Hash)
	for why, n := range r.Verdicts {
		s += fmt.Sprintf("%s %d, ", sched.Reason(why), n)
	}
	s += fmt.Sprintf("short %d, cold %d, reset %d, left %d, parked %d, expiries %d, stalls %d, ring full %d\n", r.Short, r.Cold, r.Resets, r.Left, r.Parked, r.Expiries, r.Stalls, r.Full)
	s += fmt.Sprintf("lag %.3f of its bound over %d looks at a pair, hunger %.3f, any interval %.4f of burst + rate*t over %d charges, idle passes %d",
		r.Lag, r.Pairs, r.Hunger, r.Interval, r.Charges, r.Idle)
	return s
}
