package origin

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

func openDir(t testing.TB, path string) *Dir {
	t.Helper()
	d, err := OpenDir(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t testing.TB, path, data string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, []byte(data), 0o644))
}

// tryOpenWarm is TryOpen of what Open has just found. Somebody else on this machine
// may have dropped the kernel's caches in between, but not every time.
func tryOpenWarm(d *Dir, s *Scratch, key []byte) (fd int, info Info, err error) {
	for range 5 {
		fd, info, err = d.TryOpen(s, key)
		if err != ErrWouldBlock {
			return fd, info, err
		}
		if fd, _, err := d.Open(key); err == nil {
			unix.Close(fd)
		}
	}
	return fd, info, err
}

// content reads the whole of an open descriptor and closes it.
func content(t testing.TB, fd int, info Info) string {
	t.Helper()
	defer unix.Close(fd)
	buf := make([]byte, info.Size)
	n, err := unix.Pread(fd, buf, 0)
	must(t, err)
	return string(buf[:n])
}

func TestOpenDirErrors(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/file", "x")
	for _, c := range []struct{ path, want string }{
		{dir + "/none", "create it"},
		{dir + "/file", "not a file"},
		{dir + "/file/below", "not a file"},
		{dir + "/none/below", "create it"},
		{"", "create it"},
	} {
		_, err := OpenDir(c.path)
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), c.path) {
			t.Errorf("OpenDir(%q) = %v; want the path and %q", c.path, err, c.want)
		}
	}
	if d := openDir(t, dir); d.String() != dir {
		t.Errorf("String() = %q, want the path given, %q", d, dir)
	}
}

func TestOpenDirAsNobody(t *testing.T) {
	dir := openToAll(t)
	for name, mode := range map[string]os.FileMode{"closed": 0o700, "listable": 0o744, "searchable": 0o711} {
		must(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		must(t, os.Chmod(filepath.Join(dir, name), mode))
	}
	must(t, os.Mkdir(dir+"/closed/below", 0o755))
	asNobody(t, "opendir", dir)
}

func openDirErrand(args []string) error {
	for _, name := range []string{"closed", "listable", "closed/below"} {
		_, err := OpenDir(filepath.Join(args[0], name))
		if !errors.Is(err, unix.EACCES) || !strings.Contains(err.Error(), "search permission") {
			return fmt.Errorf("OpenDir(%s) = %v, want a refusal that says what to permit", name, err)
		}
	}
	d, err := OpenDir(filepath.Join(args[0], "searchable")) // nobody lists an origin
	if err != nil {
		return err
	}
	return d.Close()
}

// TestKeys opens every key twice: by TryOpen after the Opener's way has filled the
// kernel's caches, and by Open.
func TestKeys(t *testing.T) {
	top := t.TempDir()
	root := filepath.Join(top, "root")
	long := strings.Repeat(strings.Repeat("d", 127)+"/", 7) + strings.Repeat("f", 128)
	write(t, top+"/secret", "secret")
	for _, name := range []string{
		"plain", "a/b/c", "...", "..a", "a..", ".a", "sp ace", "per%2fcent", "non\xff\xfeutf8", "new\nline",
		strings.Repeat("n", 255), long,
	} {
		write(t, filepath.Join(root, name), name)
	}
	for link, target := range map[string]string{
		"in":        "a/b/c",
		"a/b/up":    "../../plain",
		"out":       "../secret",
		"abs":       top + "/secret",
		"absin":     root + "/plain", // absolute: leaves the root by definition
		"outdir":    "..",
		"magic":     "/proc/self/exe",
		"loop":      "loop",
		"dangling":  "none",
		"indir":     "a",
		"outandin":  "../root/plain",
		"a/proc":    "/proc/self/root",
		"a/longest": strings.Repeat("x/", 2000),
	} {
		must(t, os.Symlink(target, filepath.Join(root, link)))
	}
	must(t, unix.Mkfifo(root+"/fifo", 0o644))
	listen, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	must(t, err)
	defer unix.Close(listen)
	must(t, unix.Bind(listen, &unix.SockaddrUnix{Name: root + "/socket"}))
	devices := unix.Mknod(root+"/null", unix.S_IFCHR|0o644, int(unix.Mkdev(1, 3))) == nil

	served := map[string]string{ // key -> content
		"plain": "plain", "a/b/c": "a/b/c", "...": "...", "..a": "..a", "a..": "a..", ".a": ".a",
		"sp ace": "sp ace", "per%2fcent": "per%2fcent", "non\xff\xfeutf8": "non\xff\xfeutf8", "new\nline": "new\nline",
		strings.Repeat("n", 255): strings.Repeat("n", 255), long: long,
		"in": "a/b/c", "a/b/up": "plain", "indir/b/c": "a/b/c",
	}
	missing := []string{
		"", "none", "plain/below", "none/below", "a", "a/b", "/plain", "a//b", "a/b/", "plain/", "/", "//",
		".", "..", "./plain", "a/./b/c", "a/../plain", "../secret", "a/../../secret", "a/b/..", "a/.",
		"plain\x00", "\x00", "plain\x00/x", strings.Repeat("n", 256), long + "x", strings.Repeat("a", MaxKey+1),
		"out", "abs", "absin", "outdir/secret", "magic", "loop", "dangling", "outandin", "a/proc/etc/passwd", "a/longest",
		"fifo", "socket",
	}
	if devices {
		missing = append(missing, "null")
	}
	if len(long) != MaxKey {
		t.Fatalf("the long key has %d bytes, want %d", len(long), MaxKey)
	}

	d := openDir(t, root)
	var s Scratch
	both := func(key string) (int, Info, error) {
		fd, info, err := d.Open([]byte(key))
		if err == nil {
			unix.Close(fd)
		}
		fd, cached, cachedErr := tryOpenWarm(d, &s, []byte(key))
		if cachedErr == ErrWouldBlock && err != nil {
			cachedErr = err // most refusals are not decided from memory
		}
		if cachedErr != err || cached != info {
			t.Errorf("key %.40q: TryOpen %v %v, Open %v %v", key, cached, cachedErr, info, err)
		}
		return fd, cached, cachedErr
	}
	for key, want := range served {
		fd, info, err := both(key)
		if err != nil {
			t.Errorf("key %.40q: %v", key, err)
			continue
		}
		if got := content(t, fd, info); got != want || info.Size != int64(len(want)) {
			t.Errorf("key %.40q: %d bytes %.40q", key, info.Size, got)
		}
	}
	for _, key := range missing {
		if fd, _, err := both(key); err != ErrNotExist || fd != -1 {
			t.Errorf("key %.40q: fd %d, %v; want ErrNotExist", key, fd, err)
		}
	}
}

// TestMagicLinks: links of /proc lead anywhere without a path, from beneath the
// root as well.
func TestMagicLinks(t *testing.T) {
	d := openDir(t, "/proc/self")
	var s Scratch
	for _, key := range []string{"exe", "fd/0", "root/etc/passwd", "cwd/doc.go"} {
		_, _, err := d.Open([]byte(key))
		fd, _, tryErr := d.TryOpen(&s, []byte(key))
		if err != ErrNotExist || fd >= 0 || tryErr != ErrNotExist && tryErr != ErrWouldBlock {
			t.Errorf("key %q: Open %v, TryOpen %d, %v; want ErrNotExist", key, err, fd, tryErr)
		}
	}
}

// TestLease: whoever holds a write lease is asked to give it up, and may take its
// time. That is nothing to wait for, on any thread.
func TestLease(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/f", "x")
	d := openDir(t, dir)
	var s Scratch
	holder, err := unix.Open(dir+"/f", unix.O_RDWR|unix.O_CLOEXEC, 0)
	must(t, err)
	defer unix.Close(holder)
	if _, err := unix.FcntlInt(uintptr(holder), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Skip("no leases here: ", err)
	}
	_, _, tryErr := d.TryOpen(&s, []byte("f"))
	_, _, err = d.Open([]byte("f"))
	if tryErr != ErrWouldBlock || err != ErrBusy {
		t.Errorf("leased: TryOpen %v, want ErrWouldBlock; Open %v, want ErrBusy", tryErr, err)
	}
	_, err = unix.FcntlInt(uintptr(holder), unix.F_SETLEASE, unix.F_UNLCK)
	must(t, err)
	fd, _, err := d.Open([]byte("f"))
	must(t, err)
	unix.Close(fd)
}

// TestRenamesNearby: any rename on the machine makes the kernel unsure of a ".."
// it is just walking; asking again settles it.
func TestRenamesNearby(t *testing.T) {
	root := t.TempDir()
	write(t, root+"/f", "x")
	write(t, root+"/a/b/moving", "x")
	must(t, os.Symlink("../../a/b/../../a/b/../../f", root+"/a/b/link"))
	d := openDir(t, root)
	stop := make(chan struct{})
	var renamer sync.WaitGroup
	renamer.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				os.Rename(root+"/a/b/moving", root+"/a/b/moved")
				os.Rename(root+"/a/b/moved", root+"/a/b/moving")
			}
		}
	})
	unsure := 0
	var s Scratch
	for range 5000 {
		fd, _, err := d.Open([]byte("a/b/link"))
		if err != nil {
			t.Errorf("Open: %v", err)
			break
		}
		unix.Close(fd)
		if fd, _, err := d.TryOpen(&s, []byte("a/b/link")); err == ErrWouldBlock {
			unsure++
		} else {
			unix.Close(fd)
		}
	}
	close(stop)
	renamer.Wait()
	t.Logf("the kernel was unsure %d times of 5000", unsure)
}

func TestOpenFlags(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/f", "x")
	d := openDir(t, dir)
	var s Scratch
	fd, _, err := d.TryOpen(&s, []byte("f"))
	must(t, err)
	defer unix.Close(fd)
	fl, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	must(t, err)
	fdfl, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
	must(t, err)
	if fl&unix.O_NONBLOCK != 0 || fl&unix.O_ACCMODE != unix.O_RDONLY || fdfl&unix.FD_CLOEXEC == 0 {
		t.Errorf("flags %#x, descriptor flags %#x: want read only, close on exec, and O_NONBLOCK cleared", fl, fdfl)
	}
	if fl&unix.O_NOATIME == 0 {
		t.Errorf("flags %#x: the owner's reads update access times", fl)
	}
}

func TestPermissionAsNobody(t *testing.T) {
	dir := openToAll(t)
	write(t, dir+"/secret", "x")
	must(t, os.Chmod(dir+"/secret", 0o600))
	write(t, dir+"/closed/f", "x")
	must(t, os.Chmod(dir+"/closed", 0o700))
	write(t, dir+"/public", "x")
	asNobody(t, "open", dir)
}

// openErrand: what may not be read is ErrPermission, and somebody else's readable
// file opens although O_NOATIME is for owners.
func openErrand(args []string) error {
	d, err := OpenDir(args[0])
	if err != nil {
		return err
	}
	var s Scratch
	for range 2 {
		for key, want := range map[string]error{"secret": ErrPermission, "closed/f": ErrPermission, "public": nil, "none": ErrNotExist} {
			fd, _, err := d.Open([]byte(key))
			if err != want {
				return fmt.Errorf("Open(%s) = %v, want %v", key, err, want)
			}
			unix.Close(fd)
			fd, _, err = tryOpenWarm(d, &s, []byte(key))
			if err != want && (want == nil || err != ErrWouldBlock) {
				return fmt.Errorf("TryOpen(%s) = %v, want %v", key, err, want)
			}
			unix.Close(fd)
		}
	}
	return nil
}

func TestBusyWithoutDescriptors(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/f", "x")
	d := openDir(t, dir)
	var s Scratch
	fd, _, err := d.Open([]byte("f"))
	must(t, err)
	unix.Close(fd)

	var old unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &old))
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1, Max: old.Max}))
	_, _, tryErr := d.TryOpen(&s, []byte("f"))
	_, _, err = d.Open([]byte("f"))
	must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &old))
	if tryErr != ErrBusy || err != ErrBusy {
		t.Errorf("without a free descriptor: TryOpen %v, Open %v; want ErrBusy", tryErr, err)
	}
}

func TestInfoTellsVersions(t *testing.T) {
	dir := t.TempDir()
	path := dir + "/f"
	d := openDir(t, dir)
	for _, c := range []struct {
		name   string
		change func()
		same   bool // through the descriptor that was opened before
	}{
		{"nothing", func() {}, true},
		{"renamed over", func() { write(t, dir+"/new", "other"); must(t, os.Rename(dir+"/new", path)) }, true},
		{"unlinked", func() { must(t, os.Remove(path)) }, true},
		{"permissions", func() { must(t, os.Chmod(path, 0o600)) }, true},
		{"truncated", func() { must(t, os.Truncate(path, 2)) }, false},
		{"appended", func() { appendTo(t, path, "y") }, false},
		{"overwritten in place", func() { overwrite(t, path, "THIS") }, false},
		{"touched", func() { must(t, os.Chtimes(path, past, past)) }, false},
	} {
		write(t, path, "once")
		must(t, os.Chtimes(path, longAgo, longAgo))
		fd, before, err := d.Open([]byte("f"))
		must(t, err)
		c.change()
		after, err := Stat(fd)
		must(t, err)
		unix.Close(fd)
		if before.Same(after) != c.same {
			t.Errorf("%s: before %+v, after %+v, want same = %v", c.name, before, after, c.same)
		}
		if c.name == "renamed over" {
			if fd, reopened, err := d.Open([]byte("f")); err != nil || reopened.Same(before) {
				t.Errorf("the renamed file is not seen: %+v, %v", reopened, err)
			} else {
				unix.Close(fd)
			}
		}
	}
	if _, err := Stat(-1); err != ErrIO {
		t.Errorf("Stat(-1) = %v, want ErrIO", err)
	}
}

// TestColdName: a name that nobody has looked up yet must not be looked up on the
// disk by TryOpen; once Open has, its absence is known.
func TestColdName(t *testing.T) {
	d := openDir(t, diskDir(t))
	var s Scratch
	for i := range 10 { // somebody else may drop the kernel's caches just then
		key := fmt.Appendf(nil, "never looked up %d", i)
		if _, _, err := d.TryOpen(&s, key); err != ErrWouldBlock {
			t.Fatalf("TryOpen of a name that is not in memory: %v, want ErrWouldBlock", err)
		}
		if _, _, err := d.Open(key); err != ErrNotExist {
			t.Fatalf("Open: %v, want ErrNotExist", err)
		}
		if _, _, err := d.TryOpen(&s, key); err == ErrNotExist {
			return
		}
	}
	t.Error("TryOpen does not know what Open has found out, ten times")
}

// TestDroppedName empties the kernel's caches of names, which everybody on the
// machine feels, so it runs only when asked to.
func TestDroppedName(t *testing.T) {
	if os.Getenv("TALON_LONG") == "" {
		t.Skip("drops the dentry cache of the whole machine: set TALON_LONG=1")
	}
	dir := diskDir(t)
	write(t, dir+"/deep/deeper/deepest/file", "found")
	d := openDir(t, dir)
	key := []byte("deep/deeper/deepest/file")
	var s Scratch
	err := error(nil)
	for range 20 { // somebody else's walk may bring the names back
		unix.Sync()
		must(t, os.WriteFile("/proc/sys/vm/drop_caches", []byte("2"), 0))
		var fd int
		if fd, _, err = d.TryOpen(&s, key); err == ErrWouldBlock {
			break
		}
		unix.Close(fd)
	}
	if err != ErrWouldBlock {
		t.Fatalf("TryOpen of a name that was dropped from memory: %v, want ErrWouldBlock", err)
	}
	fd, info, err := d.Open(key)
	must(t, err)
	if got := content(t, fd, info); got != "found" {
		t.Errorf("Open read %q", got)
	}
	fd, _, err = tryOpenWarm(d, &s, key)
	must(t, err)
	unix.Close(fd)
}

func TestTryOpenAllocatesNothing(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/a/f", "x")
	d := openDir(t, dir)
	var s Scratch
	key, none := []byte("a/f"), []byte("a/none")
	n := testing.AllocsPerRun(100, func() {
		fd, info, err := d.TryOpen(&s, key)
		again, statErr := Stat(fd)
		if err != nil || statErr != nil || again != info {
			t.Fatal(err, statErr)
		}
		closeNow(fd)
		if _, _, err := d.TryOpen(&s, none); err == nil {
			t.Fatal("opened what is not there")
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzSetPath: an accepted key is copied unchanged, and no clean-up of the path
// could make another name of it.
func FuzzSetPath(f *testing.F) {
	for _, seed := range []string{"", "a", "a/b", "/", "..", "a/../b", "a\x00", "a//b", "...", "a/"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, key []byte) {
		var s Scratch
		want := len(key) > 0 && len(key) <= MaxKey && bytes.IndexByte(key, 0) < 0 &&
			filepath.Clean("/"+string(key)) == "/"+string(key)
		if got := s.setPath(key); got != want {
			t.Fatalf("setPath(%q) = %v, want %v", key, got, want)
		}
		if want && (!bytes.Equal(s.path[:len(key)], key) || s.path[len(key)] != 0) {
			t.Fatalf("setPath(%q) wrote %q", key, s.path[:len(key)+1])
		}
	})
}

// FuzzOpen: whatever the key, what opens is a regular file beneath the root.
func FuzzOpen(f *testing.F) {
	top := f.TempDir()
	root := top + "/root"
	beneath := map[uint64]bool{}
	for _, name := range []string{"a", "d/b", "d/e/c"} {
		write(f, filepath.Join(root, name), name)
		var st unix.Stat_t
		must(f, unix.Stat(filepath.Join(root, name), &st))
		beneath[st.Ino] = true
	}
	write(f, top+"/secret", "secret")
	for link, target := range map[string]string{"up": "..", "d/s": "../../secret", "l": "d/e", "d/root": "/", "d/e/t": "../.."} {
		must(f, os.Symlink(target, filepath.Join(root, link)))
	}
	for _, seed := range []string{"a", "d/b", "l/c", "up/secret", "d/s", "d/root/etc/passwd", "d/e/t/a", "d/e/t/up/secret", "l/../../secret", "d//b"} {
		f.Add([]byte(seed))
	}
	d := openDir(f, root)
	f.Fuzz(func(t *testing.T, key []byte) {
		var s Scratch
		fd, info, err := d.Open(key)
		if err == nil {
			unix.Close(fd)
		}
		tried, _, tryErr := d.TryOpen(&s, key)
		if tryErr == nil {
			unix.Close(tried)
		}
		if (err == nil) != beneath[info.Ino] || tryErr != err && tryErr != ErrWouldBlock {
			t.Fatalf("key %q: inode %d, Open %v, TryOpen %v", key, info.Ino, err, tryErr)
		}
	})
}

func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	write(b, dir+"/bucket/prefix/object-0001", strings.Repeat("x", 4096))
	d := openDir(b, dir)
	var s Scratch
	key := []byte("bucket/prefix/object-0001")
	b.Run("TryOpen+close", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			fd, _, err := d.TryOpen(&s, key)
			if err != nil {
				b.Fatal(err)
			}
			closeNow(fd)
		}
	})
	b.Run("missing", func(b *testing.B) {
		none := []byte("bucket/prefix/object-none")
		for b.Loop() {
			if _, _, err := d.TryOpen(&s, none); err != ErrNotExist && err != ErrWouldBlock {
				b.Fatal(err)
			}
		}
	})
	b.Run("Open+close", func(b *testing.B) {
		for b.Loop() {
			fd, _, err := d.Open(key)
			if err != nil {
				b.Fatal(err)
			}
			unix.Close(fd)
		}
	})
	b.Run("os.Open+Stat+Close", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			f, err := os.Open(dir + "/bucket/prefix/object-0001")
			if err != nil {
				b.Fatal(err)
			}
			if _, err := f.Stat(); err != nil {
				b.Fatal(err)
			}
			f.Close()
		}
	})
	b.Run("Stat", func(b *testing.B) {
		fd, _, err := d.TryOpen(&s, key)
		must(b, err)
		defer closeNow(fd)
		for b.Loop() {
			if _, err := Stat(fd); err != nil {
				b.Fatal(err)
			}
		}
	})
}
