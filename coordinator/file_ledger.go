package coordinator

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/talon-worker/talon/policy"
	"github.com/talon-worker/talon/qos"
)

// ledger is what the workers and operators of one policy file must agree on beside its text. It lies next to the file as NAME.ledger.json.
type ledger struct {
	Book    Book                    `json:"book"`    // the policy, with generations
	History []Version               `json:"history"` // oldest first, at most KeptVersions
	Ring    Ring                    `json:"ring"`    // the newest seen
	Since   time.Time               `json:"since"`   // when that was first seen
	Forced  uint64                  `json:"forced"`
	Settled uint64                  `json:"settled,omitempty"` // the newest that a worker has seen to have replaced those before it
	Epochs  map[qos.WorkerID]uint64 `json:"epochs"`            // the newest of each worker id
}

// settleTime is after what time a ring is taken to have replaced those before it, if no worker has said so sooner (File.Settled). Rings that follow each
// other faster replace all of them, up to the bound of qos.
const settleTime = time.Minute

// maxLedger bounds it, in bytes.
const maxLedger = 64 << 20

// ledgerOf names the ledger of a file.
func ledgerOf(path string) string { return path + ".ledger.json" }

// withLedger lets do look at the ledger under its lock, and writes it back if do has changed it and not failed.
func (f *File) withLedger(do func(*ledger) (changed bool, err error)) error {
	unlock, err := lockFile(f.path + ".lock")
	if err != nil {
		return fmt.Errorf("%w: what the workers of this file must agree on is kept beside it, so its directory must be writable", err)
	}
	defer unlock()
	l, err := f.ledger()
	if err != nil {
		return err
	}
	changed, err := do(l)
	if err != nil || !changed {
		return err
	}
	text, err := json.MarshalIndent(l, "", " ")
	if err != nil {
		return err
	}
	return replaceFile(ledgerOf(f.path), text, 0o600)
}

// ledger reads it. It is replaced as a whole, so that may be done without the lock.
func (f *File) ledger() (*ledger, error) {
	name := ledgerOf(f.path)
	l := &ledger{Epochs: map[qos.WorkerID]uint64{}}
	text, err := readBounded(name, maxLedger)
	if err == nil {
		err = json.Unmarshal(text, l)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w; without it generations would go back: mend it, or stop all workers and remove it", name, err)
	}
	return l, nil
}

// enter carries out a change of the book.
func (l *ledger) enter(c Change, by string, now time.Time) {
	old := l.Book
	l.Book = old.Apply(c, old.Generation+1)
	l.History = append(l.History, versions(old, c, l.Book.Generation, by, now)...)
	l.History = slices.Delete(l.History, 0, max(len(l.History)-KeptVersions, 0))
}

// versions are what a change leaves in the history, by name.
func versions(old Book, c Change, generation uint64, by string, now time.Time) (out []Version) {
	now = now.UTC().Truncate(time.Second)
	for _, r := range c.Set {
		r.Generation = generation
		out = append(out, Version{Record: r, New: old.Find(r.Name) == nil, Time: now, By: by})
	}
	for _, name := range c.Remove {
		if r := old.Find(name); r != nil {
			out = append(out, Version{Record: Record{Name: name, Generation: generation, Text: r.Text}, Removed: true, Time: now, By: by})
		}
	}
	slices.SortFunc(out, func(a, b Version) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// ring takes in the peers of a policy file, and reports whether they are a newer ring.
func (l *ledger) ring(set *policy.Set, now time.Time) (bool, error) {
	members := make([]Member, len(set.Peers))
	for i, p := range set.Peers {
		members[i] = Member{ID: qos.WorkerID(p.ID), Addr: p.Addr}
	}
	slices.SortFunc(members, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	next := Ring{Epoch: set.RingEpoch, Members: members}
	switch old := l.Ring; {
	case len(members) == 0 && old.Epoch == 0:
		return false, nil
	case len(members) == 0:
		return false, fmt.Errorf("the peers are gone: the ring of epoch %d stays; a smaller ring needs a higher ring_epoch and at least one peer", old.Epoch)
	case next.Epoch < old.Epoch:
		return false, fmt.Errorf("ring_epoch %d: %d has been in force; raise it above", next.Epoch, old.Epoch)
	case next.Epoch == old.Epoch && !slices.Equal(next.IDs(), old.IDs()):
		return false, fmt.Errorf("ring_epoch %d: the peers have changed, and the epoch has not; raise it with every change of the peers", next.Epoch)
	case next.Epoch == old.Epoch:
		moved := !slices.Equal(next.Members, old.Members)
		l.Ring.Members = members
		return moved, nil
	case old.Epoch > 0:
		next.Replaces = []qos.Voting{voting(old.Epoch, old.IDs())}
		if now.Sub(l.Since) < settleTime && l.Forced < old.Epoch && l.Settled < old.Epoch {
			next.Replaces = append(next.Replaces, old.Replaces...)
		}
		if len(next.Replaces) > qos.MaxReplaced {
			return false, fmt.Errorf("ring_epoch %d: %d rings have followed each other within a minute; wait until this one has settled", next.Epoch, qos.MaxReplaced)
		}
	}
	l.Ring, l.Since = next, now
	return true, nil
}
