package coordinator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/talon-worker/talon/policy"
	"github.com/talon-worker/talon/qos"
)

// File is a policy file with a list of peers, for the workers of one machine or one rack. All of them are given the same file; what they must agree on
// beside it (generations, worker epochs, the ring before) is kept in a ledger next to it, under a lock. The file detects no failures: a dead
// owner's limits stay closed until whoever edits the peers raises ring_epoch.
//
// It is a Source and a Store. Its methods may be called from any goroutine; Follow runs once.
type File struct {
	path string
	now  func() time.Time
	said State // Follow's: what it has last applied
	seen seen  // and from what
}

// OpenFile returns the coordinator of a policy file. It need not exist yet: then there is no policy, and everything is closed.
func OpenFile(path string) *File { return &File{path: path, now: time.Now} }

// Follow is of Source. It looks when something happens to the file, and every few seconds all the same: not every file system tells. What looks
// unchanged is not read again (seen).
func (f *File) Follow(ctx context.Context, apply func(State), failed func(error)) {
	look := make(chan struct{}, 1)
	poke := func() {
		select {
		case look <- struct{}{}:
		default:
		}
	}
	if w, err := Watch(f.path, poke, failed); err != nil {
		failed(fmt.Errorf("%w; it is looked at every %v", err, fileEvery))
	} else {
		defer w.Close()
	}
	again := time.NewTicker(fileEvery)
	defer again.Stop()
	last := error(nil)
	for {
		if err := f.step(apply); (err == nil) != (last == nil) || err != nil && err.Error() != last.Error() {
			failed(err)
			last = err
		}
		select {
		case <-ctx.Done():
			return
		case <-look:
		case <-again.C:
		}
	}
}

// fileEvery is how often a file is looked at unasked.
const fileEvery = 2 * time.Second

// step reads the file, unless it is as it was when it was read last and was good, and applies what is new.
func (f *File) step(apply func(State)) error {
	now, err := seenNow(f.path, f.now())
	if err == nil && f.seen.same(now) {
		return nil
	}
	f.seen = seen{} // until this has been read, and is good: whether it is may depend on the clock
	if err := f.take(apply); err != nil {
		return err
	}
	if err == nil {
		f.seen = now
	}
	return nil
}

// take reads the file and applies what is new. A file that is refused keeps nobody from what the others have taken in meanwhile.
func (f *File) take(apply func(State)) error {
	next, refused := f.read()
	if errors.Is(refused, fs.ErrNotExist) {
		return away{fmt.Errorf("%s: there is no such file: nothing is served until there is", f.path)}
	}
	if next.Policy == nil {
		return refused
	}
	next, stale := f.said.after(next)
	if len(stale) > 0 {
		return fmt.Errorf("%s: older than what is in force (%s): not taken", f.path, strings.Join(stale, ", "))
	}
	if f.said.Policy != nil && f.said.same(&next) {
		return refused
	}
	f.said = next
	apply(next)
	return refused
}

// read enters what the file spells into the ledger, if it is new, and returns the State that the ledger has then. If the file is refused that is what was
// there before, with the error: what the workers of a file have agreed on is in force on all of them, also on one that starts just then. Without
// a file, or if there has never been a good one, the State is zero.
//
// The text is read under the lock: a worker that had read it before, and entered it after another had entered a newer one, would turn that back.
//
// The lock is taken only if there is something to enter. A worker that is stopped while it holds it would keep the owner of a limit from a policy that the
// others have: until it went on they would spend nothing of the one and be granted nothing of the other.
func (f *File) read() (s State, err error) {
	var refused error
	look := func(l *ledger) (changed bool, _ error) {
		changed, refused = f.enter(l)
		s = State{Book: l.Book, Ring: l.Ring, Forced: l.Forced}
		return changed, nil
	}
	l, err := f.ledger()
	if err == nil {
		if changed, _ := look(l); changed || refused != nil {
			err = f.withLedger(look)
		}
	}
	switch {
	case err != nil:
		return State{}, err
	case errors.Is(refused, fs.ErrNotExist), refused != nil && s.Book.Generation == 0:
		return State{}, refused
	}
	if s.Policy, err = s.Book.Resolve(); err != nil {
		return State{}, err
	}
	return s, refused
}

// enter takes what the file spells into the ledger: all of it or nothing.
func (f *File) enter(l *ledger) (changed bool, err error) {
	text, err := readBounded(f.path, policy.MaxFile)
	if err != nil {
		return false, err
	}
	records, set, err := Split(f.path, text)
	if err != nil {
		return false, err
	}
	if changed, err = l.ring(set, f.now()); err != nil {
		return false, fmt.Errorf("%s: %w", f.path, err)
	}
	if c := l.Book.ChangeTo(records, true); !c.Empty() {
		l.enter(c, "edited", f.now())
		changed = true
	}
	return changed, nil
}

// Settled takes note that the ring of that epoch has replaced all before it, as one of its members has seen: the ring after it need not name them.
func (f *File) Settled(epoch uint64) error {
	return f.withLedger(func(l *ledger) (changed bool, err error) {
		if epoch != l.Ring.Epoch || l.Settled >= epoch {
			return false, nil
		}
		l.Settled = epoch
		return true, nil
	})
}

// Enlist is of Source: the epoch is counted in the ledger.
func (f *File) Enlist(_ context.Context, self Member) (epoch uint64, err error) {
	err = f.withLedger(func(l *ledger) (bool, error) {
		l.Epochs[self.ID]++
		epoch = l.Epochs[self.ID]
		return true, nil
	})
	return epoch, err
}

// Withdraw is of Source. Who the peers are is for the file to say.
func (f *File) Withdraw(context.Context) error { return nil }

// Load is of Store.
func (f *File) Load(context.Context) (Book, error) {
	s, err := f.read()
	if errors.Is(err, fs.ErrNotExist) {
		return Book{}, ErrNoPolicy
	}
	return s.Book, err
}

// Save is of Store: it writes the file anew. Comments between records are lost, those inside stay.
func (f *File) Save(_ context.Context, old Book, c Change, by string) (generation uint64, err error) {
	err = f.withLedger(func(l *ledger) (bool, error) {
		text, err := readBounded(f.path, policy.MaxFile)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		var now []Record
		if err == nil {
			if now, _, err = Split(f.path, text); err != nil {
				return false, err
			}
		}
		// What is in the file counts, whether a worker has seen it yet or not.
		if l.Book.Generation != old.Generation {
			return false, ErrConflict
		}
		if drift := l.Book.ChangeTo(now, true); !drift.Empty() {
			return false, ErrConflict
		}
		next := l.Book.Apply(c, l.Book.Generation+1)
		if _, err := next.Resolve(); err != nil {
			return false, err
		}
		out, err := next.rewrite(text)
		if err != nil {
			return false, err
		}
		if _, _, err := Split(f.path, out); err != nil { // what nobody could read back, as a file without any tenant, is not written
			return false, fmt.Errorf("the policy would be none, and was not changed: %w", err)
		}
		if err := replaceFile(f.path, out, f.mode()); err != nil {
			return false, err
		}
		l.enter(c, by, f.now())
		generation = l.Book.Generation
		return true, nil
	})
	return generation, err
}

// mode is that of the file, or what a new one gets: it holds hashes of secrets.
func (f *File) mode() fs.FileMode {
	if info, err := os.Stat(f.path); err == nil {
		return info.Mode().Perm()
	}
	return 0o640
}

// History is of Store.
func (f *File) History(_ context.Context, name string) (versions []Version, err error) {
	err = f.withLedger(func(l *ledger) (bool, error) {
		for _, v := range slices.Backward(l.History) {
			if name == "" || v.Name == name {
				versions = append(versions, v)
			}
		}
		return false, nil
	})
	return versions, err
}

// Force records that an operator takes it on himself that the rings before the present one are over. It returns the present epoch.
func (f *File) Force(context.Context) (epoch uint64, err error) {
	err = f.withLedger(func(l *ledger) (bool, error) {
		if l.Ring.Epoch == 0 {
			return false, errors.New("there is no ring: the file names no peers")
		}
		l.Forced, epoch = l.Ring.Epoch, l.Ring.Epoch
		return true, nil
	})
	return epoch, err
}

// Ring returns the ring that the file proposes, and the newest that was forced.
func (f *File) Ring(context.Context) (Ring, uint64, error) {
	s, err := f.read()
	return s.Ring, s.Forced, err
}

// voting is what later rings must know of a member list.
func voting(epoch uint64, ids []qos.WorkerID) qos.Voting {
	return qos.Voting{Epoch: epoch, Voters: ids[:min(len(ids), qos.MaxVoters)]}
}
