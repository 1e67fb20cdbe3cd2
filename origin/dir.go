package origin

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// MaxKey is the longest key in bytes, as in S3.
const MaxKey = 1024

const (
	openFlags = unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY

	// beneath: RESOLVE_BENEATH refuses magic links today, which openat2(2) does not
	// promise to keep, and asks callers to say so themselves.
	beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS

	resolveCached = 0x20 // RESOLVE_CACHED of linux/openat2.h

	// raceTries bounds how often Open repeats when the kernel could not decide
	// whether a ".." of a link stayed beneath the root (openat2(2), EAGAIN), or a
	// lease on the file was being broken.
	raceTries = 8
)

// Dir is a directory served as an origin. It is immutable; any thread may use
// it until Close.
type Dir struct {
	name string
	fd   int // O_PATH

	// noAtime says that O_NOATIME has never been refused. The first read of a new file
	// writes its access time (relatime), which starts a journal transaction on the ring
	// thread: 1 us more, 2-5 us at the 99th percentile (ext4, Zen 4), and a wait when
	// the journal is full. Only the owner of a file may switch it off.
	noAtime atomic.Bool
}

// OpenDir opens the directory at path and makes sure that this kernel, and this
// user, can open files beneath it the way a ring needs it.
func OpenDir(path string) (*Dir, error) {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, dirError(path, err)
	}
	d := &Dir{name: path, fd: fd}
	d.noAtime.Store(true)
	if err := d.probe(); err != nil {
		unix.Close(fd)
		return nil, dirError(path, err)
	}
	return d, nil
}

// probe looks "." up beneath the root, which takes search permission on it and
// every flag that Open and TryOpen use. From memory alone the kernel may well
// decline; it then knows the flag.
func (d *Dir) probe() error {
	for _, resolve := range []uint64{beneath, beneath | resolveCached} {
		how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: resolve}
		fd, err := unix.Openat2(d.fd, ".", &how)
		if err == nil {
			unix.Close(fd)
		} else if resolve == beneath || err != unix.EAGAIN {
			return err
		}
	}
	return nil
}

func dirError(path string, err error) error {
	remedy := "check the path and the disk"
	switch {
	case errors.Is(err, unix.ENOENT):
		remedy = "create it, or name the directory that holds the objects"
	case errors.Is(err, unix.ENOTDIR):
		remedy = "name the directory that holds the objects, not a file"
	case errors.Is(err, unix.EACCES):
		remedy = fmt.Sprintf("give uid %d search permission (x) on it and on every directory above it", os.Geteuid())
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EPERM):
		remedy = "opening beneath a root needs openat2(2) with RESOLVE_CACHED: Linux 5.12 or newer, allowed by the seccomp profile"
	}
	return fmt.Errorf("origin %s: %w (%s)", path, err, remedy)
}

// Close gives the directory's descriptor back. No open may be running.
func (d *Dir) Close() error { return unix.Close(d.fd) }

// String is the path that OpenDir was given.
func (d *Dir) String() string { return d.name }

// Scratch is the memory that one thread lends to the kernel for the length of a
// call. Its zero value is ready; it must not be shared.
type Scratch struct {
	path [MaxKey + 1]byte
	how  unix.OpenHow
	stat unix.Stat_t
}

// setPath copies key as a C string, and reports whether a file can have that name.
func (s *Scratch) setPath(key []byte) bool {
	if len(key) == 0 || len(key) > MaxKey {
		return false
	}
	start := 0
	for i, c := range key {
		s.path[i] = c
		if c == 0 {
			return false
		}
		if c == '/' {
			if !segment(key[start:i]) {
				return false
			}
			start = i + 1
		}
	}
	s.path[len(key)] = 0
	return segment(key[start:])
}

// segment refuses the names that do not name an entry of the directory they stand in.
func segment(b []byte) bool {
	switch len(b) {
	case 0:
		return false
	case 1:
		return b[0] != '.'
	case 2:
		return b[0] != '.' || b[1] != '.'
	}
	return true
}

// TryOpen opens the regular file named key if the kernel can find it without
// leaving its caches (openat2(2), RESOLVE_CACHED), and says ErrWouldBlock
// otherwise: then the Opener must be asked. It never waits. The caller owns fd.
//
// The kernel gives ErrWouldBlock for most refusals, too: a link that leaves the
// root, a file used as a directory, a directory closed to us. Only the plain
// "no such name" is remembered, and answered at once.
//
// An OPENAT2 operation in the ring was the other way. Alone in its submission it is
// slower (5.0 us against 4.1 for open, fstat and close), 32 together are faster
// (3.5 us); but it answers a turn later, would put a path-walking opcode on the
// ring's allow-list, goes to a kernel worker where this asks the Opener, and needs
// the same fstat afterwards. With Files in front, a ring opens a hot file once a
// second. (Medians of 9 runs in C, Linux 6.18, a loaded Zen 4 VM.)
func (d *Dir) TryOpen(s *Scratch, key []byte) (fd int, info Info, err error) {
	if !s.setPath(key) {
		return -1, Info{}, ErrNotExist
	}
	fd, errno := d.openCached(s)
	if errno != 0 {
		return -1, Info{}, openError(errno)
	}
	return admit(s, fd)
}

// openCached is one openat2 by RawSyscall, and a second one the first time that
// O_NOATIME is refused.
func (d *Dir) openCached(s *Scratch) (int, unix.Errno) {
	for {
		s.how = d.how(beneath | resolveCached)
		fd, _, errno := unix.RawSyscall6(unix.SYS_OPENAT2, uintptr(d.fd), uintptr(unsafe.Pointer(&s.path)),
			uintptr(unsafe.Pointer(&s.how)), unsafe.Sizeof(s.how), 0, 0)
		if errno != unix.EPERM || !d.denyNoAtime(s) {
			return int(fd), errno
		}
	}
}

// Open is TryOpen for goroutines that may wait. ErrWouldBlock is not among its errors.
func (d *Dir) Open(key []byte) (fd int, info Info, err error) {
	var s Scratch
	return d.open(&s, key)
}

func (d *Dir) open(s *Scratch, key []byte) (fd int, info Info, err error) {
	if !s.setPath(key) {
		return -1, Info{}, ErrNotExist
	}
	fd, errno := d.openWaiting(s)
	if errno != 0 {
		if err = openError(errno); err == ErrWouldBlock {
			err = ErrBusy
		}
		return -1, Info{}, err
	}
	return admit(s, fd)
}

func (d *Dir) openWaiting(s *Scratch) (int, unix.Errno) {
	for races := 0; ; {
		s.how = d.how(beneath)
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT2, uintptr(d.fd), uintptr(unsafe.Pointer(&s.path)),
			uintptr(unsafe.Pointer(&s.how)), unsafe.Sizeof(s.how), 0, 0)
		switch {
		case errno == unix.EINTR:
		case errno == unix.EAGAIN && races < raceTries:
			races++
		case errno == unix.EPERM && d.denyNoAtime(s):
		default:
			return int(fd), errno
		}
	}
}

func (d *Dir) how(resolve uint64) unix.OpenHow {
	how := unix.OpenHow{Flags: openFlags, Resolve: resolve}
	if d.noAtime.Load() {
		how.Flags |= unix.O_NOATIME
	}
	return how
}

// denyNoAtime reports whether the open that just failed had asked for O_NOATIME,
// which is then never asked for again: trees seldom have many owners.
func (d *Dir) denyNoAtime(s *Scratch) bool {
	d.noAtime.Store(false)
	return s.how.Flags&unix.O_NOATIME != 0
}

// admit turns an open descriptor into an object, or closes it. O_NONBLOCK kept a
// fifo from hanging us; on the descriptor of a regular file it would make the
// ring answer EAGAIN, instead of waiting, where a file system cannot do
// non-blocking reads.
func admit(s *Scratch, fd int) (int, Info, error) {
	info, err := fstat(fd, &s.stat)
	if err != nil {
		closeNow(fd)
		return -1, Info{}, err
	}
	unix.RawSyscall(unix.SYS_FCNTL, uintptr(fd), unix.F_SETFL, uintptr(s.how.Flags&unix.O_NOATIME))
	return fd, info, nil
}

// closeNow closes a descriptor that turned out to be none of ours: of a directory,
// a device or a fifo, which has no blocks to free.
func closeNow(fd int) {
	unix.RawSyscall(unix.SYS_CLOSE, uintptr(fd), 0, 0)
}
