package origin

import (
	"bytes"
	"hash/maphash"
	"time"
)

// Defaults of NewFiles.
const (
	DefaultFiles    = 4096
	DefaultValidFor = time.Second
)

// State is what Files knows of a key.
type State uint8

const (
	Miss  State = iota // not open: open it, then Insert
	Stale              // open, last compared with the directory too long ago: as Miss
	Hit                // open and fresh
)

// A File is one version of one object, open. It is good for as long as its
// holder has a reference, whatever happens to the name. An operation in the ring is
// a holder until its completion is in: a descriptor closed under it may be another
// object's by then.
type File struct {
	FD   int
	Info Info
	Key  []byte // not to be changed

	// Waits says that a read cannot be told not to wait for the disk, as on FUSE. Then it
	// must not be tried on the ring's thread at all, and nothing but having read a range
	// says that it is in memory. It is known once ReadNow or Probe has asked.
	Waits bool

	// Head is room for the caller's bytes, such as a rendered response head. It is
	// empty when a version comes in, and keeps its capacity from file to file.
	Head []byte

	hash    uint64
	refs    int   // holders
	listed  bool  // Lookup can find it; otherwise the last Release ends it
	checked int64 // when the open that confirmed this version was asked for
	used    int64 // last Hit or Insert

	marks       marks // what of it was seen in the page cache
	missed      int64 // when a piece of it was last found absent
	noCachestat bool  // cachestat was refused for this file
	asked       bool  // the kernel has said whether it Waits

	next         *File // in its bucket, or in the free list
	older, newer *File // in the idle list: listed, and without holders
}

// Files are the open files of one ring: at most max descriptors, counting the
// replaced versions that responses still hold. It has one owner, the ring's
// thread, and no lock; now is that thread's clock in nanoseconds.
//
// A version is trusted for validFor after the open that found it was asked for;
// then the caller opens the key again and Inserts what it got. If that is the
// same version, the old descriptor stays, with all that is known about it. What
// is not there is not remembered.
//
// Only files without holders are in the idle list, so that eviction is one step,
// and a busy file costs its hits no list work. (A list of all files has to step
// over the held ones when it evicts, which with thousands of slow readers is a
// walk through most of the table.)
//
// Whatever method returns a closeFD wants it closed, off the ring's thread:
// Opener.CloseFile takes it as it is, -1 included.
type Files struct {
	Stats FilesStats

	max      int
	validFor int64
	seed     maphash.Seed // keys come from clients: they must not be able to fill one bucket
	buckets  []*File
	open     int   // descriptors held, listed or not; never above max
	free     *File // recycled, at most max
	idle     File  // head of the idle list: idle.older is the newest, idle.newer the oldest
}

// FilesStats counts since the start.
type FilesStats struct {
	Hits, Stales, Misses uint64
	Confirmed            uint64 // Inserts that found the version they had
	Replaced             uint64 // Inserts that found another version
	Evicted              uint64 // closed for room, age, or by Evict
	Full                 uint64 // Inserts refused: every descriptor in use
}

// NewFiles holds at most max files (below 1: DefaultFiles), each trusted for
// validFor (0 or less: DefaultValidFor).
func NewFiles(max int, validFor time.Duration) *Files {
	if max < 1 {
		max = DefaultFiles
	}
	if validFor <= 0 {
		validFor = DefaultValidFor
	}
	buckets := 1
	for buckets < max {
		buckets *= 2
	}
	f := &Files{
		max:      max,
		validFor: int64(validFor),
		seed:     maphash.MakeSeed(),
		buckets:  make([]*File, buckets),
	}
	f.idle.older, f.idle.newer = &f.idle, &f.idle
	return f
}

// Len is the number of descriptors held.
func (f *Files) Len() int { return f.open }

// Lookup returns the open file of a key, and a reference to it, on a Hit; nil
// otherwise.
func (f *Files) Lookup(key []byte, now int64) (*File, State) {
	file := f.find(maphash.Bytes(f.seed, key), key)
	if file == nil {
		f.Stats.Misses++
		return nil, Miss
	}
	if now-file.checked >= f.validFor {
		f.Stats.Stales++
		return nil, Stale
	}
	f.Stats.Hits++
	file.used = now
	f.hold(file)
	return file, Hit
}

// Insert takes fd, which an open of key asked for at the time asked has found
// with info, and returns the file to serve, with a reference. If a later open has
// been here first, that is the file returned; otherwise another version of the
// same key is replaced, and lives on until its last Release.
//
// A nil file means that all descriptors are held: answer "busy". fd has then
// come back as closeFD, as it does when the version was there already.
func (f *Files) Insert(key []byte, fd int, info Info, asked int64) (file *File, closeFD int) {
	hash := maphash.Bytes(f.seed, key)
	old := f.find(hash, key)
	if old != nil && (old.Info.Same(info) || asked < old.checked) {
		f.Stats.Confirmed++
		old.checked = max(old.checked, asked)
		old.used = max(old.used, asked)
		f.hold(old)
		return old, fd
	}
	closeFD, ok := f.makeRoom(old)
	if !ok {
		f.Stats.Full++
		return nil, fd
	}
	return f.add(hash, key, fd, info, asked), closeFD
}

// makeRoom ends or unlists old, and sees to it that one more descriptor fits.
func (f *Files) makeRoom(old *File) (closeFD int, ok bool) {
	if old != nil && old.refs == 0 {
		f.Stats.Replaced++
		return f.end(old), true
	}
	closeFD = -1
	if f.open == f.max {
		if closeFD = f.Evict(); closeFD < 0 {
			return -1, false
		}
	}
	if old != nil {
		f.Stats.Replaced++
		f.unlist(old)
	}
	return closeFD, true
}

func (f *Files) add(hash uint64, key []byte, fd int, info Info, asked int64) *File {
	file := f.free
	if file != nil {
		f.free = file.next
	} else {
		file = new(File)
	}
	file.FD, file.Info, file.hash = fd, info, hash
	file.Key = append(file.Key[:0], key...)
	file.Head = file.Head[:0]
	file.marks, file.noCachestat, file.asked, file.Waits = file.marks.sized(info.Size), false, false, false
	file.missed = asked - int64(ResidentFor)
	file.checked, file.used = asked, asked
	file.refs, file.listed = 1, true
	bucket := f.bucket(hash)
	file.next, *bucket = *bucket, file
	f.open++
	return file
}

// Release gives a reference back.
func (f *Files) Release(file *File) (closeFD int) {
	if file.refs == 0 {
		panic("origin: a file was released more often than it was held")
	}
	file.refs--
	switch {
	case file.refs > 0:
		return -1
	case file.listed:
		f.pushIdle(file)
		return -1
	}
	return f.recycle(file)
}

// Forget ends what is known of a key, after an open that found it gone.
func (f *Files) Forget(key []byte) (closeFD int) {
	file := f.find(maphash.Bytes(f.seed, key), key)
	if file == nil {
		return -1
	}
	if file.refs == 0 {
		return f.end(file)
	}
	f.unlist(file)
	return -1
}

// Evict ends the file that nobody has held for the longest, to give a descriptor
// back when the process has none left. It is -1 when all are held.
func (f *Files) Evict() (closeFD int) {
	oldest := f.idle.newer
	if oldest == &f.idle {
		return -1
	}
	f.Stats.Evicted++
	return f.end(oldest)
}

// EvictUnused is Evict for a file that was last looked up before the time given,
// and -1 when there is none. An open descriptor keeps a deleted file's blocks, so
// the owner calls this now and then until it is -1.
func (f *Files) EvictUnused(before int64) (closeFD int) {
	if oldest := f.idle.newer; oldest == &f.idle || oldest.used >= before {
		return -1
	}
	return f.Evict()
}

// Purge forgets everything. Files that are held end at their last Release; the
// descriptors of the others go to closeFD.
func (f *Files) Purge(closeFD func(fd int)) {
	for fd := f.Evict(); fd >= 0; fd = f.Evict() {
		closeFD(fd)
	}
	for i := range f.buckets {
		for f.buckets[i] != nil {
			f.unlist(f.buckets[i])
		}
	}
}

func (f *Files) bucket(hash uint64) **File { return &f.buckets[hash&uint64(len(f.buckets)-1)] }

func (f *Files) find(hash uint64, key []byte) *File {
	for file := *f.bucket(hash); file != nil; file = file.next {
		if file.hash == hash && bytes.Equal(file.Key, key) {
			return file
		}
	}
	return nil
}

func (f *Files) hold(file *File) {
	if file.refs == 0 {
		file.older.newer, file.newer.older = file.newer, file.older
	}
	file.refs++
}

func (f *Files) pushIdle(file *File) {
	head := &f.idle
	file.newer, file.older = head, head.older
	head.older.newer, head.older = file, file
}

// end closes the account of a listed file that nobody holds.
func (f *Files) end(file *File) (closeFD int) {
	file.older.newer, file.newer.older = file.newer, file.older
	f.unlist(file)
	return f.recycle(file)
}

func (f *Files) unlist(file *File) {
	link := f.bucket(file.hash)
	for *link != file {
		link = &(*link).next
	}
	*link = file.next
	file.next, file.listed = nil, false
}

func (f *Files) recycle(file *File) (closeFD int) {
	closeFD, file.FD = file.FD, -1
	file.older, file.newer = nil, nil
	file.next, f.free = f.free, file
	f.open--
	return closeFD
}
