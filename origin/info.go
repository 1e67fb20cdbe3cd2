package origin

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Info is what fstat(2) said of an open regular file: its length and enough to
// tell whether it is still the version that a response began with.
//
// The change time is left out on purpose. It moves when the last name of a file
// goes away, so comparing it would break every running download of an object
// that is replaced by rename, which is how objects are to be replaced.
type Info struct {
	Size      int64 // bytes
	ModTimeNs int64 // nanoseconds since 1970
	Dev, Ino  uint64
}

// Same reports whether b describes the same version of the same file as a.
func (a Info) Same(b Info) bool { return a == b }

// Stat asks for the Info of an open descriptor. It does not wait on a local file
// system, and is meant for ring threads. Anything but a regular file is ErrIO.
func Stat(fd int) (Info, error) {
	var st unix.Stat_t
	return fstat(fd, &st)
}

// statTries bounds how often a call is made again that a signal has ended, as those of
// the Go scheduler do on FUSE: its server hears of the signal and may answer EINTR.
const statTries = 100

func fstat(fd int, st *unix.Stat_t) (Info, error) {
	errno := unix.EINTR
	for range statTries {
		if _, _, errno = unix.RawSyscall(unix.SYS_FSTAT, uintptr(fd), uintptr(unsafe.Pointer(st)), 0); errno != unix.EINTR {
			break
		}
	}
	if errno != 0 {
		return Info{}, ErrIO
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return Info{}, ErrNotExist
	}
	return Info{
		Size:      st.Size,
		ModTimeNs: st.Mtim.Sec*1e9 + st.Mtim.Nsec,
		Dev:       uint64(st.Dev),
		Ino:       st.Ino,
	}, nil
}
