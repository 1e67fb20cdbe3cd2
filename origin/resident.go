package origin

import (
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ChunkSize is the unit in which page-cache residency is remembered.
const ChunkSize = 256 << 10

// ResidentFor is how long a range that was seen in the page cache is believed to
// be there. Eviction in between costs one wait for the disk.
const ResidentFor = time.Second

// ResidentWhileMissing is ResidentFor for a file of which something was found
// absent within the last ResidentFor: somebody evicts it, or it does not fit, and
// what was there a second ago need not be.
const ResidentWhileMissing = 10 * time.Millisecond

const (
	markPage = ChunkSize / 64 // bytes behind one bit of a mark

	// maxMarks bounds what is remembered of one file: 256 chunks, 6 KiB, enough for
	// a file of 64 MiB. Larger files share the marks among their chunks, the last
	// one asked about staying: a stream needs one, and what random reads lose is
	// a cachestat of 0.4-2 us before a sendfile of some 30.
	maxMarks = 256
)

// Residency is what is known of a range's presence in the page cache.
type Residency uint8

const (
	// Unknown: this file system cannot tell; read all of it in the ring, then Mark.
	Unknown Residency = iota
	// Absent: sending it now would wait for the disk; let the ring fetch it, then Mark.
	Absent
	// Resident: it was all there within ResidentFor.
	Resident
)

// mark remembers that pages of one chunk were seen resident.
type mark struct {
	chunk int64
	seen  int64  // when the oldest of them was
	pages uint64 // one bit for each markPage bytes
}

// marks is a table of a power of two of marks, at most maxMarks, direct mapped.
type marks []mark

// sized is room for a file of size bytes, empty, in m's memory if that suffices.
func (m marks) sized(size int64) marks {
	n := 1
	for n < maxMarks && int64(n)*ChunkSize < size {
		n *= 2
	}
	if n > cap(m) {
		return make(marks, n)
	}
	m = m[:n]
	clear(m)
	return m
}

func (m marks) of(chunk int64) *mark { return &m[chunk&int64(len(m)-1)] }

// covered reports whether all of [off, end) was seen at since or later.
func (m marks) covered(off, end, since int64) bool {
	for chunk := off / ChunkSize; chunk*ChunkSize < end; chunk++ {
		k, pages := m.of(chunk), pagesOf(chunk, off, end)
		if k.chunk != chunk || k.pages&pages != pages || k.seen < since {
			return false
		}
	}
	return true
}

// add remembers that the kernel was asked, and had [off, end). A mark that is
// still good, seen at since or later, keeps its age: the pages it had were not
// looked at again.
func (m marks) add(off, end, now, since int64) {
	for chunk := off / ChunkSize; chunk*ChunkSize < end; chunk++ {
		k, pages := m.of(chunk), pagesOf(chunk, off, end)
		if k.chunk == chunk && k.seen >= since {
			k.pages |= pages
		} else {
			*k = mark{chunk, now, pages}
		}
	}
}

// set is add for a range that must count from now on: a mark that had other
// pages loses them.
func (m marks) set(off, end, now int64) {
	for chunk := off / ChunkSize; chunk*ChunkSize < end; chunk++ {
		*m.of(chunk) = mark{chunk, now, pagesOf(chunk, off, end)}
	}
}

// pagesOf are the bits of the pages of chunk that [off, end) touches.
func pagesOf(chunk, off, end int64) uint64 {
	start := chunk * ChunkSize
	first := max(off-start, 0) / markPage
	last := (min(end-start, ChunkSize) - 1) / markPage
	return ^uint64(0) << first & (^uint64(0) >> (63 - last))
}

// Probe says whether n bytes from off on, one turn of a response, can be sent
// without waiting for the disk. What lies beyond the end of the file has nothing to wait for. It may be
// asked before every turn: within ResidentFor of an answer it costs no system
// call, and on a file that is being evicted within ResidentWhileMissing.
func (f *File) Probe(off, n, now int64) Residency {
	end, since := min(off+n, f.Info.Size), f.believedSince(now)
	if off >= end || f.marks.covered(off, end, since) {
		return Resident
	}
	r := f.ask(off, end)
	switch r {
	case Resident:
		f.marks.add(off, end, now, since)
	case Absent:
		f.missed = now
	}
	return r
}

// believedSince is the age limit of a mark.
func (f *File) believedSince(now int64) int64 {
	if now-f.missed < int64(ResidentFor) {
		return now - int64(ResidentWhileMissing) + 1
	}
	return now - int64(ResidentFor) + 1
}

// Mark says that n bytes from off on have just been fetched: they are Resident
// for a while, even where the kernel would not say so (a hole of tmpfs, a file on
// persistent memory). Whoever fetched them should send them without asking again, or
// it might be fetching for ever.
func (f *File) Mark(off, n, now int64) {
	if end := min(off+n, f.Info.Size); off < end {
		f.marks.set(off, end, now)
	}
}

// ask asks the kernel. cachestat(2) counts pages that are still being read, so
// the last byte is also touched: reads ahead end there. Of a file that waits, nothing
// tells such a page from one that is there.
func (f *File) ask(off, end int64) Residency {
	if !f.asked {
		f.touch(end - 1)
	}
	if f.Waits {
		return Unknown
	}
	if f.noCachestat {
		return f.touchEnds(off, end)
	}
	pages, errno := cachestat(f.FD, off, end-off)
	switch errno {
	case 0:
		if pages < pageCount(off, end) {
			return Absent
		}
		if r := f.touch(end - 1); r != Unknown {
			return r
		}
		return Resident
	case unix.EPERM, unix.ENOSYS: // not our file, or before Linux 6.5: once and for all
		f.noCachestat = true
		return f.touchEnds(off, end)
	}
	return Unknown
}

// touchEnds guesses from the last byte, which a read ahead brings in last, and
// the first.
func (f *File) touchEnds(off, end int64) Residency {
	if r := f.touch(end - 1); r != Resident {
		return r
	}
	return f.touch(off)
}

// touch reads one byte if it is there.
func (f *File) touch(off int64) Residency {
	var b [1]byte
	switch _, err := f.ReadNow(b[:], off); err {
	case nil:
		return Resident
	case ErrWouldBlock:
		return Absent
	}
	return Unknown
}

var pageSize = int64(os.Getpagesize())

func pageCount(off, end int64) uint64 { return uint64((end-1)/pageSize - off/pageSize + 1) }

// cachestat counts the pages of a range that are in the page cache; n > 0.
func cachestat(fd int, off, n int64) (uint64, unix.Errno) {
	r := unix.CachestatRange{Off: uint64(off), Len: uint64(n)}
	var st unix.Cachestat_t
	_, _, errno := unix.RawSyscall6(unix.SYS_CACHESTAT, uintptr(fd), uintptr(unsafe.Pointer(&r)),
		uintptr(unsafe.Pointer(&st)), 0, 0, 0)
	return st.Cache, errno
}
