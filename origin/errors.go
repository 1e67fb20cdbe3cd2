package origin

import (
	"errors"

	"golang.org/x/sys/unix"
)

// What a request can meet. They are compared with ==, never wrapped: a ring
// thread formats no text.
var (
	// ErrNotExist: no regular file of that name beneath the root. Missing names,
	// directories, devices, fifos, sockets, links that leave the root and keys that
	// no file can have are told apart by nobody outside.
	ErrNotExist = errors.New("origin: no such object")
	// ErrPermission: the file exists, or could, but this process may not read it.
	ErrPermission = errors.New("origin: object is not readable")
	// ErrBusy: no descriptor, no memory, or the Opener's queue is full. Worth trying again.
	ErrBusy = errors.New("origin: out of descriptors, memory or openers")
	// ErrIO: the disk or the file system failed.
	ErrIO = errors.New("origin: input/output error")
	// ErrWouldBlock: the answer is not in memory. TryOpen: ask the Opener.
	// ReadNow: read in the ring.
	ErrWouldBlock = errors.New("origin: would block")
	// ErrUnsupported: the file system knows no RWF_NOWAIT; read in the ring.
	ErrUnsupported = errors.New("origin: file system cannot read without waiting")
)

// openError is the errno table of openat2(2). EAGAIN is RESOLVE_CACHED's "not in
// memory", a rename that raced with a "..", or a lease being broken; EINTR needs a
// file system that waits.
func openError(errno unix.Errno) error {
	switch errno {
	case unix.ENOENT, unix.ENOTDIR, unix.EISDIR, unix.ELOOP, unix.EXDEV, unix.ENAMETOOLONG,
		unix.ENXIO, unix.ENODEV, unix.EINVAL, unix.EILSEQ:
		return ErrNotExist
	case unix.EACCES, unix.EPERM:
		return ErrPermission
	case unix.EMFILE, unix.ENFILE, unix.ENOMEM:
		return ErrBusy
	case unix.EAGAIN, unix.EINTR:
		return ErrWouldBlock
	}
	return ErrIO
}
