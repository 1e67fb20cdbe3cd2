package coordinator

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// copyName is the file in the state directory that holds the last good State.
const copyName = "coordinator.json"

// maxCopy bounds it, in bytes.
const maxCopy = 64 << 20

// readCopy returns the State that was kept in dir; a zero one if there is none. A copy that cannot be read is an error: to go on without it could mean going
// back to an older ring.
func readCopy(dir string) (State, error) {
	var s State
	if dir == "" {
		return s, nil
	}
	name := filepath.Join(dir, copyName)
	text, err := readBounded(name, maxCopy)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err == nil {
		s.Policy, err = s.Book.Resolve()
	}
	if err != nil {
		return State{}, fmt.Errorf("%s, the copy of the last policy and ring: %w; if it cannot be mended, remove it", name, err)
	}
	return s, nil
}

// writeCopy keeps a State in dir.
func writeCopy(dir string, s State) error {
	if dir == "" {
		return nil
	}
	s.Policy = nil
	text, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	return keepFile(filepath.Join(dir, copyName), text)
}

// keepFile puts a file of the state directory in the place of the one before. If that fails, on a full disk for example, the one before is removed: a worker
// that began with it would go back.
func keepFile(name string, text []byte) error {
	err := replaceFile(name, text, 0o600)
	if err == nil {
		return nil
	}
	if rerr := os.Remove(name); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
		return fmt.Errorf("%w; and what is there is out of date and cannot be removed: %w", err, rerr)
	}
	return fmt.Errorf("%w; until that is mended this worker cannot start while etcd is away", err)
}

// readBounded reads a file of at most so many bytes. It counts what it reads: a file's size is not the end of one that grows, and 0 for a device.
func readBounded(name string, most int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(text)) > most {
		return nil, fmt.Errorf("%s has more than %d bytes: is it the right file?", name, most)
	}
	return text, err
}

// replaceFile puts a file in the place of another in one step, on the disk before it has the name. What reads meanwhile sees the one or the other.
func replaceFile(name string, text []byte, mode fs.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone already if all went well
	_, err = f.Write(text)
	if err == nil {
		err = f.Chmod(mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	return err
}

// lockFile takes the lock of a file, which it makes, and returns how to give it back. It waits for whoever has it.
func lockFile(name string) (unlock func(), err error) { return flock(name, unix.LOCK_EX) }

// lockDir takes a state directory for this process. Two that shared one would have the same epochs, and the slower would write an older copy over a newer.
func lockDir(dir string) (unlock func(), err error) {
	unlock, err = flock(filepath.Join(dir, "lock"), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fmt.Errorf("state directory %s is in use by another process: give every worker one of its own", dir)
	}
	return unlock, err
}

func flock(name string, how int) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		if err = unix.Flock(int(f.Fd()), how); err != unix.EINTR {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return func() { f.Close() }, nil // the lock goes with the descriptor
}
