package sim

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/talon-worker/talon/qos"
)

// A Fault is a class of things that went wrong in a run; the coverage table counts each.
type Fault uint8

const (
	Loss Fault = iota
	Duplicate
	Reorder
	Cut
	OneWay
	Partition
	Paused
	Stall
	Drift
	Crashed
	OwnerCrash
	Zombies
	Move
	CoordCut
	PolicyChange
	DemandMove
	Refund
	Slow
	Stopped
	numFaults
)

var faultNames = [...]string{
	Loss: "message lost", Duplicate: "message doubled", Reorder: "message overtaken", Cut: "message into a cut link", OneWay: "one-way partition",
	Partition: "full partition", Paused: "worker stopped (SIGSTOP)", Stall: "ring stopped in mid-pass", Drift: "clock off its rate",
	Crashed: "worker crashed", OwnerCrash: "owner crashed", Zombies: "two incarnations of a worker", Move: "ring changed", CoordCut: "coordinator out of reach",
	PolicyChange: "policy changed", DemandMove: "demand moved", Refund: "charge given back", Slow: "message to a slow worker", Stopped: "worker shut down",
}

func (f Fault) String() string { return faultNames[f] }

// A Branch is a rule's path that a run must be seen to take, beside those that production code counts itself.
type Branch uint8

const (
	Unlimited Branch = iota
	Allowance
	ColdStart
	HandOver
	Exhausted
	Queued
	Dropped
	Flushed
	Woken
	numBranches
)

var branchNames = [...]string{
	Unlimited: "rule 12: counted, not limited", Allowance: "rule 9: charged without a fresh view", ColdStart: "rule 11: new owner starts exhausted",
	HandOver: "rule 11: state handed over", Exhausted: "rule 13: exhausted snapshot", Queued: "rule 5: a place kept in the queue",
	Dropped: "rule 12: policy removed", Flushed: "rule 16: flushed and acknowledged",
	Woken: "rule 10: silent owner asks its voters again",
}

func (b Branch) String() string { return branchNames[b] }

// Result is what one run, or several added up, came to.
type Result struct {
	Runs     int
	Hash     uint64 // of everything that happened; of several runs the sum: two versions of the code that behave alike have the same
	Virtual  int64  // ns
	Events   int64
	Messages int64 // between workers, about limits
	Votes    int64 // asks and answers between them: by owner, however many limits it has in use
	Bytes    int64 // of both
	Reports  int64
	Pushes   int64
	Exports  int64
	Imports  int64

	Redirects int64
	Faults    [numFaults]int64
	Branches  [numBranches]int64
	Refusals  [16]int64 // by qos.Refusal
	Verdicts  [8]int64  // by qos.Verdict
	Reporter  qos.ReporterStats
	Owner     qos.OwnerStats
	Worst     float64 // excess as a part of what is allowed

	Paying    int64   // ns: longest time that owners took to pay their debts after the faults
	Measured  int     // limits whose liveness was owed
	Delivered float64 // lowest, of what was due
	Refused   int64   // units refused to tenants under their limit after the faults
}

// Add folds another run in.
func (r *Result) Add(o *Result) {
	r.Runs += max(o.Runs, 1)
	r.Hash += o.Hash
	r.Virtual += o.Virtual
	r.Events += o.Events
	r.Messages += o.Messages
	r.Votes += o.Votes
	r.Bytes += o.Bytes
	r.Reports += o.Reports
	r.Pushes += o.Pushes
	r.Exports += o.Exports
	r.Imports += o.Imports
	r.Redirects += o.Redirects
	addAll(r.Faults[:], o.Faults[:])
	addAll(r.Branches[:], o.Branches[:])
	addAll(r.Refusals[:], o.Refusals[:])
	addAll(r.Verdicts[:], o.Verdicts[:])
	addStats(&r.Reporter, &o.Reporter)
	addStats(&r.Owner, &o.Owner)
	r.Worst = max(r.Worst, o.Worst)
	if o.Measured > 0 && (r.Measured == 0 || o.Delivered < r.Delivered) {
		r.Delivered = o.Delivered
	}
	r.Measured += o.Measured
	r.Paying = max(r.Paying, o.Paying)
	r.Refused += o.Refused
}

// A Count is how often something came up.
type Count struct {
	Group, Name string
	N           int64
	Owed        bool // a run of many seeds has to have seen it
}

// Counts lists everything that was counted, in order.
func (r *Result) Counts() (all []Count) {
	for f := range numFaults {
		all = append(all, Count{"faults", f.String(), r.Faults[f], true})
	}
	for b := range numBranches {
		all = append(all, Count{"rules", b.String(), r.Branches[b], true})
	}
	all = append(all, counters("reporters", r.Reporter)...)
	all = append(all, counters("owners", r.Owner)...)
	for i := range int(qos.UnknownVersion) + 1 { // beyond these, only liars and full tables get them: see the fuzz tests
		owed := slices.Contains([]qos.Refusal{qos.Accepted, qos.NotOwner, qos.OtherRing, qos.UnknownPolicy, qos.OldEpoch}, qos.Refusal(i))
		all = append(all, Count{"what owners answered", qos.Refusal(i).String(), r.Refusals[i], owed})
	}
	return all
}

// counters lists those that production code keeps itself, whatever they are called.
func counters(group string, of any) (all []Count) {
	for v, i := reflect.ValueOf(of), 0; i < v.NumField(); i++ {
		if name := v.Type().Field(i).Name; v.Field(i).Kind() == reflect.Uint64 {
			all = append(all, Count{group, name, int64(v.Field(i).Uint()), name != "Bad"}) // Bad is for liars
		}
	}
	return all
}

// enough is from how many seeds on the coverage is held against what is due: with fewer, the luck of the draw decides.
const enough = 1000

// due is how often each thing that is owed has to come up in so many seeds: 1,000 times in 10,000.
func due(runs int) int64 { return int64(runs) / 10 }

// Holes lists what came up less often than is due for the number of seeds: what is not tried is not proved.
func (r *Result) Holes() (holes []string) {
	if r.Runs < enough {
		return nil
	}
	for _, c := range r.Counts() {
		if c.Owed && c.N < due(r.Runs) {
			holes = append(holes, fmt.Sprintf("%s: %s: only %d times, due %d", c.Group, c.Name, c.N, due(r.Runs)))
		}
	}
	return holes
}

func addAll(to, from []int64) {
	for i := range to {
		to[i] += from[i]
	}
}

// Table prints what was covered, a line each.
func (r *Result) Table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d runs, %.1f virtual seconds, %d events, %d messages, %d asks and answers, sum of trace hashes %016x\n", r.Runs, float64(r.Virtual)/1e9, r.Events, r.Messages, r.Votes, r.Hash)
	fmt.Fprintf(&b, "worst excess %.3f of N*b + R*d; least delivered %.3f of what was due, over %d limits; debts paid within %s\n", r.Worst, r.Delivered, r.Measured, ms(r.Paying))
	group := ""
	for _, c := range r.Counts() {
		if c.Group != group {
			group = c.Group
			b.WriteString(group + "\n")
		}
		short := ""
		if c.Owed && r.Runs >= enough && c.N < due(r.Runs) {
			short = fmt.Sprintf("  less than %d", due(r.Runs))
		}
		fmt.Fprintf(&b, "  %-44s %12d%s\n", c.Name, c.N, short)
	}
	return b.String()
}

// addStats adds the counters of production code, whatever they are called.
func addStats(to, from any) {
	t, f := reflect.ValueOf(to).Elem(), reflect.ValueOf(from).Elem()
	for i := range t.NumField() {
		switch t.Field(i).Kind() {
		case reflect.Uint64:
			t.Field(i).SetUint(t.Field(i).Uint() + f.Field(i).Uint())
		case reflect.Array:
			for j := range t.Field(i).Len() {
				t.Field(i).Index(j).SetUint(t.Field(i).Index(j).Uint() + f.Field(i).Index(j).Uint())
			}
		}
	}
}
