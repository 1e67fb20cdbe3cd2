package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// A kind is one way to break a cluster.
type kind int

const (
	killed    kind = iota // SIGKILL, and started again at the same address
	untold                // nothing that the worker says arrives any more, and then SIGKILL: what it has metered and not acknowledged dies with it
	stopped               // SIGSTOP, and SIGCONT
	drained               // SIGTERM, and started again when it has ended
	flapping              // it leaves the ring and comes back, several times: named and not named by the policy file, or drained and started
	halved                // a tenant has half of its rate, and then the whole again
	apart                 // a black hole between a worker and all others
	mute                  // the same, of what it says alone
	deaf                  // of what it hears alone
	slow                  // all between it and the others is late
	cut                   // its connections with the others are reset, again and again
	noEtcd                // SIGKILL of etcd, and started again on its data; only with one
	compacted             // a black hole between a worker and etcd, whose history is compacted meanwhile; only with one
	numKinds
)

var kindNames = [numKinds]string{"kill -9", "kill -9 before it acknowledges", "SIGSTOP", "drain", "membership flapping", "rate halved", "partition", "mute", "deaf", "delay",
	"connections cut", "kill -9 of etcd", "cut off from etcd and compacted"}

func (k kind) String() string { return kindNames[k] }

// onWorker reports whether a kind is done to one of the workers.
func (k kind) onWorker() bool { return k != halved && k != noEtcd }

// ofEtcd reports whether a kind needs an etcd.
func (k kind) ofEtcd() bool { return k == noEtcd || k == compacted }

// fault is one of them.
type fault struct {
	Kind   kind          `json:"kind"`
	Worker int           `json:"worker"`
	Owner  bool          `json:"owner"`           // whoever owns the tenant's limit then, in place of Worker
	Tenant int           `json:"tenant"`          // whose rate, or whose owner
	After  time.Duration `json:"after"`           // from the beginning of its episode
	Hold   time.Duration `json:"hold"`            // until it is mended
	Late   time.Duration `json:"late,omitempty"`  // of slow: one way
	Times  int           `json:"times,omitempty"` // of flapping and cut
}

// An episode is faults that overlap, on different things; after it all is mended.
type episode []fault

const (
	shortestPause = 100 * time.Millisecond
	longestHole   = 3 * time.Second // of a network; a link that is silent for a second is given up
	mostAtOnce    = 3
	healTime      = ringConfirm + time.Second // after an episode: by then a second must begin in which what is due is delivered
	lookTime      = time.Second
)

// kinds are those that can be done here.
func (o *options) kinds() (out []kind) {
	for k := range numKinds {
		if (o.Etcd || !k.ofEtcd()) && (len(o.Only) == 0 || slices.Contains(o.Only, k.String())) {
			out = append(out, k)
		}
	}
	return out
}

// clash reports whether an episode may not have both kinds: what a policy is changed to must be able to arrive.
func clash(a, b kind) bool {
	return a == b && !a.onWorker() || a.ofEtcd() && b.ofEtcd() || a == halved && b.ofEtcd() || b == halved && a.ofEtcd()
}

// plan draws episodes with so many faults together. The kinds are dealt like cards, so that each comes up before one comes up twice more than another.
func (o *options) plan() (out []episode) {
	r := rand.New(rand.NewPCG(o.Seed, 0))
	kinds := o.kinds()
	var deck []kind
	for n := o.Faults; n > 0; {
		var e episode
		free := r.Perm(o.Workers)
		owner := true
		for range min(n, 1+r.IntN(mostAtOnce)) {
			if len(deck) == 0 {
				deck = slices.Clone(kinds)
				r.Shuffle(len(deck), func(i, k int) { deck[i], deck[k] = deck[k], deck[i] })
			}
			k := deck[0]
			if k.onWorker() && len(free) == 0 || slices.ContainsFunc(e, func(f fault) bool { return clash(f.Kind, k) }) {
				break // the next episode begins with it
			}
			deck = deck[1:]
			f := o.draw(r, k)
			if k.onWorker() {
				f.Worker, free = free[0], free[1:]
				if owner && r.IntN(2) == 0 {
					f.Owner, owner = true, false
				}
			}
			e = append(e, f)
			n--
		}
		out = append(out, e)
	}
	return out
}

// draw draws what a fault has beside its worker.
func (o *options) draw(r *rand.Rand, k kind) fault {
	between := func(least, most time.Duration) time.Duration { // as many short ones as long ones
		return time.Duration(float64(least) * math.Pow(float64(most)/float64(least), r.Float64()))
	}
	f := fault{Kind: k, Tenant: r.IntN(o.Tenants), After: time.Duration(r.Int64N(int64(500 * time.Millisecond))), Hold: time.Duration(r.Int64N(int64(time.Second)))}
	switch k {
	case stopped, compacted:
		f.Hold = between(shortestPause, o.Longest)
	case apart, mute, deaf:
		f.Hold = between(shortestPause, min(o.Longest, longestHole))
	case slow:
		f.Late = between(2*time.Millisecond, 150*time.Millisecond)
	case cut:
		f.Times = 1 + r.IntN(5)
	case flapping:
		f.Times = 2 + r.IntN(2)
	}
	return f
}

// aim gives the fault for the owner the owner, and whoever had it that one's worker.
func (e episode) aim(ownerOf func(tenant int) int) {
	for i := range e {
		if !e[i].Owner {
			continue
		}
		owner := ownerOf(e[i].Tenant)
		for k := range e {
			if k != i && e[k].Kind.onWorker() && e[k].Worker == owner {
				e[k].Worker = e[i].Worker
			}
		}
		e[i].Worker = owner
	}
}

func (f fault) String() string {
	if f.Owner {
		return fmt.Sprintf("%v of the owner", f.Kind)
	}
	return f.Kind.String()
}

// tell is a fault with all that can be told of it.
func (f fault) tell() string {
	var b strings.Builder
	b.WriteString(f.String())
	if f.Kind.onWorker() {
		fmt.Fprintf(&b, " (%s)", id(f.Worker))
	} else if f.Kind == halved {
		fmt.Fprintf(&b, " (%s)", tenantName(f.Tenant))
	}
	if f.Late > 0 {
		fmt.Fprintf(&b, " by %v", f.Late.Round(time.Millisecond))
	}
	if f.Times > 0 {
		fmt.Fprintf(&b, " %d times", f.Times)
	}
	fmt.Fprintf(&b, " for %v at %v", f.Hold.Round(time.Millisecond), f.After.Round(time.Millisecond))
	return b.String()
}
