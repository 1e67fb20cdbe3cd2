package coordinator

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/talon-worker/talon/qos"
)

// State is what a coordinator says at one time. It is immutable.
type State struct {
	Book   Book // what the policy was made of, for the copy on disk
	Ring   Ring
	Forced uint64 // the newest ring epoch that an operator has forced (talon ring force), 0 none

	Policy *Policy // of Book; not written to disk
}

// Ring is a proposed ring of owners. The zero Ring is none: every worker is alone.
type Ring struct {
	Epoch    uint64       `json:"epoch"`
	Members  []Member     `json:"members"`  // sorted by id
	Replaces []qos.Voting `json:"replaces"` // earlier rings whose owners may still act, newest first
}

// Member is one worker of a ring.
type Member struct {
	ID   qos.WorkerID `json:"id"`
	Addr string       `json:"addr"` // host:port of its peer port
}

// IDs are the members' ids.
func (r *Ring) IDs() []qos.WorkerID {
	ids := make([]qos.WorkerID, len(r.Members))
	for i := range r.Members {
		ids[i] = r.Members[i].ID
	}
	return ids
}

// after is the State to act upon when next has come and s was acted upon: of each part the newer one. What is older is never taken, whoever
// says it; stale says what was not.
func (s *State) after(next State) (State, []string) {
	var stale []string
	if next.Book.Generation < s.Book.Generation {
		stale = append(stale, "policy")
		next.Book, next.Policy = s.Book, s.Policy
	}
	if next.Book.Generation == s.Book.Generation && s.Policy != nil {
		next.Policy = s.Policy // the same value: whoever acts upon it sees that nothing is new
	}
	if next.Ring.Epoch < s.Ring.Epoch {
		stale = append(stale, "ring")
		next.Ring = s.Ring
	}
	next.Forced = max(next.Forced, s.Forced)
	return next, stale
}

// same reports whether there is nothing new in next for a worker that acts upon s.
func (s *State) same(next *State) bool {
	return s.Book.Generation == next.Book.Generation && s.Ring.Epoch == next.Ring.Epoch && s.Forced == next.Forced &&
		slices.Equal(s.Ring.Members, next.Ring.Members)
}

// A Source tells a worker what is in force, now and whenever it changes.
type Source interface {
	// Follow calls apply with the State as soon as there is one and after every change, never twice at a time, and failed with what is wrong
	// with the source meanwhile (nil: nothing any more). It returns when ctx ends.
	Follow(ctx context.Context, apply func(State), failed func(error))
	// Enlist makes the worker known and returns its epoch: above that of every process that had this id before.
	Enlist(ctx context.Context, self Member) (epoch uint64, err error)
	// Withdraw says that the worker has left for good.
	Withdraw(ctx context.Context) error
}

// A Store keeps the policy.
type Store interface {
	// Load reads the policy in force.
	Load(ctx context.Context) (Book, error)
	// Save carries out a change of what Load has returned, and returns the generation it got. ErrConflict: somebody was faster, nothing is changed.
	Save(ctx context.Context, old Book, c Change, by string) (uint64, error)
	// History returns the changes of a record, or of all records for "", newest first.
	History(ctx context.Context, name string) ([]Version, error)
}

// Version is one record as one change left it.
type Version struct {
	Record
	New     bool      `json:"new,omitempty"`     // there was none of that name before
	Removed bool      `json:"removed,omitempty"` // and there is none since; Text is what it was
	Time    time.Time `json:"time"`
	By      string    `json:"by"` // who changed it, as far as is known
}

// ErrAway is in every error of a Source that says nothing but that there is no answer: etcd cannot be reached, or the file cannot be read.
var ErrAway = errors.New("the coordinator does not answer")

// away marks an error with ErrAway.
type away struct{ error }

func (a away) Unwrap() error      { return a.error }
func (away) Is(target error) bool { return target == ErrAway }

// Errors of a Store.
var (
	ErrConflict = errors.New("the policy has changed since it was read; look at it again and repeat the change")
	ErrNoPolicy = errors.New("there is no policy yet; talon policy set FILE gives the first")
)

// KeptVersions is how many changes a store remembers.
const KeptVersions = 1000
