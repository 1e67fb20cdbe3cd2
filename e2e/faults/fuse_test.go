package faults

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fuse is a file system in this process: a flat directory of files in memory whose
// reads can be made slow or failing. It speaks just enough of the protocol of
// linux/fuse.h to be read from.
type fuse struct {
	dir    string
	dev    int // /dev/fuse
	files  []*fuseFile
	direct bool // no page cache of its own: for the image behind a loop device
	reads  atomic.Int64
	slow   atomic.Int64 // reads that a fault delays now
	over   sync.WaitGroup

	fault atomic.Pointer[readFault]

	forget bool         // the kernel may not keep attributes, and every third question for them is answered EINTR
	asked  atomic.Int64 // such questions
}

type fuseFile struct {
	name string
	body []byte
}

// readFault is what happens to reads; nil is nothing.
type readFault struct {
	hang  chan struct{} // reads wait until it is closed
	delay time.Duration
	errno unix.Errno
}

const (
	fuseRoot  = 1    // FUSE_ROOT_ID; file i has node i+2
	fuseForSo = 3600 // seconds that the kernel may keep names and attributes
)

// mountFuse mounts files; reads work as long as the test lasts.
func mountFuse(t *testing.T, direct bool, files ...*fuseFile) *fuse {
	t.Helper()
	return (&fuse{files: files, direct: direct}).mount(t)
}

func (f *fuse) mount(t *testing.T) *fuse {
	t.Helper()
	asRoot(t, "mounts a FUSE file system")
	dev, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("needs FUSE in the kernel: /dev/fuse: %v", err)
	}
	f.dir, f.dev = tree(t), dev
	options := fmt.Sprintf("fd=%d,rootmode=40755,user_id=0,group_id=0,allow_other,max_read=131072", dev)
	if err := unix.Mount("talon-faults", f.dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_RDONLY, options); err != nil {
		_ = unix.Close(dev)
		t.Skipf("needs FUSE: mount: %v", err)
	}
	f.over.Go(f.serve)
	letGo := f.abortWhenKilled(t)
	t.Cleanup(func() {
		f.fault.Store(nil)
		f.unmount(t)
		f.over.Wait()
		_ = unix.Close(dev)
		letGo()
	})
	return f
}

// abortWhenKilled ends the connection to the kernel when this process is killed. The
// kernel would unmount what is on the file system first, and wait for reads that nobody
// answers any more.
func (f *fuse) abortWhenKilled(t *testing.T) (letGo func()) {
	t.Helper()
	const control = "/sys/fs/fuse/connections"
	var st unix.Stat_t
	check(t, unix.Stat(f.dir, &st))
	abort := fmt.Sprintf("%s/%d/abort", control, unix.Minor(st.Dev))
	if _, err := os.Stat(abort); err != nil { // these mounts are ours alone
		check(t, unix.Mount("none", control, "fusectl", 0, ""))
	}
	return startKeeper(t, abort, "1")
}

// unmount waits for those who still read.
func (f *fuse) unmount(t *testing.T) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		err := unix.Unmount(f.dir, 0)
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Errorf("unmount %s: %v", f.dir, err)
			_ = unix.Unmount(f.dir, unix.MNT_DETACH)
			_ = unix.Close(f.dev) // ends all who wait
			return
		}
	}
}

// serve reads requests until the file system is unmounted.
func (f *fuse) serve() {
	for {
		buf := make([]byte, 256<<10)
		n, err := unix.Read(f.dev, buf)
		if errors.Is(err, unix.EINTR) || errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ENOENT) {
			continue
		}
		if err != nil || n < inHeader {
			return
		}
		op := binary.LittleEndian.Uint32(buf[4:])
		if op == opRead { // it may take long
			f.over.Go(func() { f.handle(op, buf[:n]) })
		} else {
			f.handle(op, buf[:n])
		}
	}
}

// Of linux/fuse.h: the sizes of the two headers, and what is asked for.
const (
	inHeader  = 40
	outHeader = 16

	opLookup      = 1
	opForget      = 2
	opGetattr     = 3
	opOpen        = 14
	opRead        = 15
	opStatfs      = 17
	opRelease     = 18
	opInit        = 26
	opOpendir     = 27
	opReaddir     = 28
	opReleasedir  = 29
	opInterrupt   = 36
	opDestroy     = 38
	opBatchForget = 42

	asyncRead = 1 << 0
	directIO  = 1 << 0
	keepCache = 1 << 1
)

func (f *fuse) handle(op uint32, in []byte) {
	le := binary.LittleEndian
	node, body := le.Uint64(in[16:]), in[inHeader:]
	var out []byte
	var errno unix.Errno
	switch op {
	case opForget, opBatchForget, opInterrupt:
		return // no answer is expected
	case opInit:
		out = make([]byte, 64)
		le.PutUint32(out, 7)
		le.PutUint32(out[4:], 31)
		le.PutUint32(out[8:], 128<<10) // read ahead
		le.PutUint32(out[12:], asyncRead)
		le.PutUint16(out[16:], 64) // requests in the background
		le.PutUint16(out[18:], 48)
		le.PutUint32(out[20:], 4096)
		le.PutUint32(out[24:], 1)
	case opLookup:
		name := string(body[:len(body)-1])
		id := f.node(name)
		if id == 0 {
			errno = unix.ENOENT
			break
		}
		out = make([]byte, 40, 128)
		le.PutUint64(out, id)
		le.PutUint64(out[16:], fuseForSo)
		le.PutUint64(out[24:], f.attrFor())
		out = f.appendAttr(out, id)
	case opGetattr:
		if n := f.asked.Add(1); f.forget && n%3 == 0 {
			errno = unix.EINTR
			break
		}
		out = make([]byte, 16, 104)
		le.PutUint64(out, f.attrFor())
		out = f.appendAttr(out, node)
	case opOpen, opOpendir:
		out = make([]byte, 16)
		le.PutUint32(out[8:], keepCache)
		if f.direct && op == opOpen {
			le.PutUint32(out[8:], directIO)
		}
	case opRead:
		out, errno = f.read(node, int64(le.Uint64(body[8:])), int64(le.Uint32(body[16:])))
	case opStatfs:
		out = make([]byte, 80)
	case opReaddir, opRelease, opReleasedir, opDestroy:
	default:
		errno = unix.ENOSYS
	}
	reply := make([]byte, outHeader, outHeader+len(out))
	if errno != 0 {
		out = nil
	}
	le.PutUint32(reply, uint32(outHeader+len(out)))
	le.PutUint32(reply[4:], uint32(-int32(errno)))
	copy(reply[8:], in[8:16])                       // whose answer it is
	_, _ = unix.Write(f.dev, append(reply, out...)) // it fails for who has given up waiting
}

func (f *fuse) attrFor() uint64 {
	if f.forget {
		return 0
	}
	return fuseForSo
}

func (f *fuse) node(name string) uint64 {
	for i, file := range f.files {
		if file.name == name {
			return uint64(i) + fuseRoot + 1
		}
	}
	return 0
}

// appendAttr appends a struct fuse_attr.
func (f *fuse) appendAttr(out []byte, node uint64) []byte {
	mode, size := uint32(unix.S_IFDIR|0o755), 0
	if node != fuseRoot {
		mode, size = unix.S_IFREG|0o644, len(f.files[node-fuseRoot-1].body)
	}
	a := make([]byte, 88)
	le := binary.LittleEndian
	le.PutUint64(a, node)
	le.PutUint64(a[8:], uint64(size))
	le.PutUint64(a[16:], uint64(size+511)/512)
	for _, at := range []int{24, 32, 40} { // access, modification, change
		le.PutUint64(a[at:], 1e9)
	}
	le.PutUint32(a[60:], mode)
	le.PutUint32(a[64:], 1)
	le.PutUint32(a[80:], 4096)
	return append(out, a...)
}

func (f *fuse) read(node uint64, off, n int64) ([]byte, unix.Errno) {
	f.reads.Add(1)
	file := f.files[node-fuseRoot-1]
	size := int64(len(file.body))
	off, end := min(off, size), min(off+n, size)
	if x := f.fault.Load(); x != nil {
		f.slow.Add(1)
		if x.hang != nil {
			<-x.hang
		}
		time.Sleep(x.delay)
		f.slow.Add(-1)
		if x.errno != 0 {
			return nil, x.errno
		}
	}
	return file.body[off:end], 0
}

// evict drops what the kernel has of a file in memory.
func evict(t *testing.T, path string) {
	t.Helper()
	file, err := os.Open(path)
	check(t, err)
	defer func() { _ = file.Close() }()
	check(t, unix.Fadvise(int(file.Fd()), 0, 0, unix.FADV_DONTNEED))
}
