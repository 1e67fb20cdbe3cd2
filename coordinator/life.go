package coordinator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/talon-worker/talon/qos"
)

// lifeName is the file in the state directory that says which incarnation of which worker has used it last.
const lifeName = "worker.json"

// startBits are the low bits of a worker's epoch under etcd. The others are the revision with which it enlisted last; these count the processes that have
// begun since without the cluster. So every life has an epoch above those before it, and below that of any which enlists later: revisions only grow.
// What is left for revisions lasts 55 years at ten thousand writes a second.
const startBits = 20

// maxStarts is how many of those can follow each other.
const maxStarts = 1<<startBits - 1

// enlistedEpoch is the epoch of a worker that has enlisted with that revision.
func enlistedEpoch(revision int64) uint64 { return uint64(revision) << startBits }

// life is the newest incarnation that has used a state directory. It is on disk before that incarnation does anything under its epoch.
type life struct {
	Worker qos.WorkerID `json:"worker"` // "" in a directory that nobody has used
	Epoch  uint64       `json:"epoch"`
}

// errNoLife says that a state directory does not know the worker's last epoch.
var errNoLife = errors.New("no worker has enlisted from this directory yet")

// enlist is the life of a worker that has enlisted with a revision.
func (l life) enlist(id qos.WorkerID, revision int64) (life, error) {
	next := life{id, enlistedEpoch(revision)}
	if next.Epoch <= l.Epoch {
		return l, fmt.Errorf("etcd is at revision %d, and worker %s has enlisted at %d before: the cluster is another one, or was restored from a backup. "+
			"Policies and rings would go back; stop all workers, empty their state directories, then start them", revision, id, l.Epoch>>startBits)
	}
	return next, nil
}

// resume is the life of a worker that begins without the cluster.
func (l life) resume() (life, error) {
	l.Epoch++
	switch {
	case l.Worker == "":
		return life{}, errNoLife
	case l.Epoch&maxStarts == 0:
		return life{}, fmt.Errorf("the worker has started %d times since it enlisted last: it must enlist before it starts again", maxStarts)
	}
	return l, nil
}

// of reports that the directory is another worker's.
func (l life) of(id qos.WorkerID, dir string) error {
	if l.Worker != "" && l.Worker != id {
		return fmt.Errorf("state directory %s is worker %s's: give worker %s one of its own, or empty this one", dir, l.Worker, id)
	}
	return nil
}

func readLife(dir string) (l life, err error) {
	if dir == "" {
		return l, nil
	}
	name := filepath.Join(dir, lifeName)
	text, err := readBounded(name, 4096)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &l)
	}
	if err == nil && (l.Worker == "" || l.Epoch == 0) {
		err = errors.New("it names no worker or no epoch")
	}
	if err != nil {
		return life{}, fmt.Errorf("%s, the last epoch of the worker: %w; remove it, and start the worker while etcd answers", name, err)
	}
	return l, nil
}

func writeLife(dir string, l life) error {
	if dir == "" {
		return nil
	}
	return keepFile(filepath.Join(dir, lifeName), []byte(encode(l)))
}
