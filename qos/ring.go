package qos

import (
	"errors"
	"fmt"
	"slices"

	farm "github.com/dgryski/go-farm"
)

// Bounds of a Ring.
const (
	MaxMembers  = 16_384 // workers in one ring
	MaxWorkerID = 255    // bytes of a worker's id
	MaxVoters   = 7      // the first members by id confirm the ring's owners
)

// A Ring is one epoch of the consistent-hash ring: the members, and which of them owns which limit. It is immutable.
//
// All generations of one limit have one owner: only tenant and metric are hashed. Every worker that knows an epoch's members computes
// the same owner, for ever: the placement is part of the protocol, and a golden test pins it.
//
// An owner is chosen by highest random weight (Thaler and Ravishankar, 1998): of all members the one whose hash together with
// the key's is largest. Each member gets 1/N of the keys whatever the ids are, so max/mean is what chance gives N balls, not what
// it gives N arcs: 1.07 for 1,000 workers and 2,000 keys each. A join takes keys only for the newcomer, a leave moves only the
// leaver's. Points on a circle need some 2,000 of them per worker for the same evenness (32 MB at 1,000 workers), and
// bounded loads need everybody to know everybody's keys. The price is that a look-up costs about 1 ns per member, which is why callers keep the
// owner beside the key and ask again only when the epoch changes.
type Ring struct {
	epoch   uint64
	members []WorkerID // sorted, distinct
	seeds   []uint64   // hash of members[i]
	before  []Voting   // earlier rings that may still have a majority, newest first; see Tenure
}

// Errors of NewRing.
var (
	ErrRingEpoch    = errors.New("qos: ring epoch must be at least 1 and above those it replaces")
	ErrRingMember   = fmt.Errorf("qos: ring members need distinct ids of 1 to %d bytes", MaxWorkerID)
	ErrRingSize     = fmt.Errorf("qos: a ring has 1 to %d members", MaxMembers)
	ErrRingReplaces = fmt.Errorf("qos: a ring replaces at most %d unsettled rings of 1 to %d voters each", MaxReplaced, MaxVoters)
)

// NewRing returns the ring of one epoch. ids are the members' worker ids in any order. replaces are the earlier rings whose
// owners may still act, newest first (Ring.Replaced makes the list for the next ring); none only for the first ring there ever was.
func NewRing(epoch uint64, ids []WorkerID, replaces ...Voting) (*Ring, error) {
	if epoch == 0 {
		return nil, ErrRingEpoch
	}
	if len(ids) == 0 || len(ids) > MaxMembers {
		return nil, fmt.Errorf("%w: %d", ErrRingSize, len(ids))
	}
	r := &Ring{epoch: epoch, members: slices.Sorted(slices.Values(ids)), seeds: make([]uint64, len(ids))}
	for i, id := range r.members {
		if id == "" || len(id) > MaxWorkerID || i > 0 && id == r.members[i-1] {
			return nil, fmt.Errorf("%w: %q", ErrRingMember, id)
		}
		r.seeds[i] = farm.Fingerprint64([]byte(id))
	}
	if err := checkReplaced(epoch, replaces); err != nil {
		return nil, err
	}
	for _, v := range replaces {
		r.before = append(r.before, Voting{v.Epoch, slices.Sorted(slices.Values(v.Voters))})
	}
	return r, nil
}

// Epoch returns the ring's epoch, at least 1.
func (r *Ring) Epoch() uint64 { return r.epoch }

// Members returns the members' ids in order. The caller must not change them.
func (r *Ring) Members() []WorkerID { return r.members }

// Index returns the place of a worker in Members, or -1.
func (r *Ring) Index(id WorkerID) int {
	if i, ok := slices.BinarySearch(r.members, id); ok {
		return i
	}
	return -1
}

// Voters returns the members that confirm this ring's owners: the first MaxVoters by id.
func (r *Ring) Voters() []WorkerID { return r.members[:min(len(r.members), MaxVoters)] }

// Owner returns the index in Members of the owner of a place.
func (r *Ring) Owner(p Place) int {
	best, top := 0, uint64(0)
	for i, seed := range r.seeds {
		if w := weigh(uint64(p), seed); w > top {
			best, top = i, w
		}
	}
	return best
}

// A Place is where a limit stands on every ring.
type Place uint64

// PlaceOf returns the place of a limit. It hashes with farm.Fingerprint64, the function of that family that is promised never to
// change, and escapes its argument to do so: keep the place beside the limit.
func PlaceOf(l Limit) Place {
	key := append(make([]byte, 0, 64), l.Metric.String()...)
	key = append(key, 0) // no metric's name contains a zero, so no two limits make one key
	key = append(key, l.Tenant...)
	return Place(farm.Fingerprint64(key))
}

// weigh hashes a place and a member's seed: the finalizer of splitmix64 over both, a bijection for either, so that two members
// never tie.
func weigh(place, seed uint64) uint64 {
	x := place ^ seed
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// MaxReplaced bounds the unsettled rings that one ring may replace.
const MaxReplaced = 8

// A Voting is what must be known of a ring to see that it is over: its epoch and its voters.
type Voting struct {
	Epoch  uint64
	Voters []WorkerID // 1 to MaxVoters, sorted
}

// majority is how many voters make one.
func (v Voting) majority() int { return len(v.Voters)/2 + 1 }

// lost is how many voters must have gone on to a later epoch before the rest is no majority.
func (v Voting) lost() int { return len(v.Voters) - v.majority() + 1 }

func checkReplaced(epoch uint64, list []Voting) error {
	if len(list) > MaxReplaced {
		return fmt.Errorf("%w: %d", ErrRingReplaces, len(list))
	}
	for _, v := range list {
		if v.Epoch == 0 || v.Epoch >= epoch {
			return fmt.Errorf("%w: %d replaces %d", ErrRingEpoch, epoch, v.Epoch)
		}
		if len(v.Voters) == 0 || len(v.Voters) > MaxVoters {
			return fmt.Errorf("%w: epoch %d has %d voters", ErrRingReplaces, v.Epoch, len(v.Voters))
		}
		epoch = v.Epoch
	}
	return nil
}

// Replaces returns the epoch of the ring before this one, 0 for the first.
func (r *Ring) Replaces() uint64 {
	if len(r.before) == 0 {
		return 0
	}
	return r.before[0].Epoch
}

// Voting returns the ring's epoch and voters.
func (r *Ring) Voting() Voting { return Voting{r.epoch, r.Voters()} }

// Replaced returns what the next ring replaces: this ring and, unless it is known to be settled (Tenure.Open on any of its
// members), those it replaces itself. The list is cut at nothing: past MaxReplaced NewRing refuses, and whoever proposes waits
// for a ring to settle or forces it.
func (r *Ring) Replaced(settled bool) []Voting {
	list := []Voting{r.Voting()}
	if !settled {
		list = append(list, r.before...)
	}
	return list
}

// replaces reports whether epoch is one of those the ring replaces.
func (r *Ring) replaces(epoch uint64) bool {
	return slices.ContainsFunc(r.before, func(v Voting) bool { return v.Epoch == epoch })
}
