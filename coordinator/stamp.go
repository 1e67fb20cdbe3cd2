package coordinator

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"
)

// stamp tells one content of a file from another without reading it. The zero stamp is no file.
//
// Size and time of modification do not: an editor, rsync or touch may leave both as they were. The time of change, which nobody can set, moves all the same, but only
// with the ticks of its clock: what is written twice in one tick may have one stamp. So a stamp is trusted once it was old when the file was read (settled).
type stamp struct {
	dev, ino     uint64
	size         int64
	mtime, ctime int64 // ns, Unix time
}

// coarsest is the coarsest clock of a file system that workers may meet: FAT counts in two seconds.
const coarsest = 2 * time.Second

func stampOf(path string) (stamp, error) {
	var st unix.Stat_t
	for {
		switch err := unix.Stat(path, &st); {
		case err == unix.EINTR:
		case errors.Is(err, fs.ErrNotExist):
			return stamp{}, nil
		case err != nil:
			return stamp{}, fmt.Errorf("stat %s: %w", path, err)
		default:
			return stamp{dev: st.Dev, ino: st.Ino, size: st.Size, mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano()}, nil
		}
	}
}

// settled reports that whatever is written to the file from now on gives it another stamp. One from the future, of a clock that is ahead, never is.
func (s stamp) settled(now time.Time) bool {
	return max(s.mtime, s.ctime) < now.Add(-coarsest).UnixNano()
}

// seen is what File.step has read last.
type seen struct {
	file, ledger stamp
	at           time.Time // when reading began; zero: read again
}

// seenNow takes the stamps of a policy file and its ledger.
func seenNow(path string, now time.Time) (s seen, err error) {
	if s.file, err = stampOf(path); err == nil {
		s.ledger, err = stampOf(ledgerOf(path))
	}
	s.at = now
	return s, err
}

// same reports that reading again would bring nothing new. Everything is read once a minute all the same: a file server's clock may be behind.
func (s seen) same(now seen) bool {
	age := now.at.Sub(s.at)
	return !s.at.IsZero() && age >= 0 && age < fullRead && now.file == s.file && now.ledger == s.ledger && s.file.settled(s.at) && s.ledger.settled(s.at)
}
