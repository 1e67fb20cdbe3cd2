package origin

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// dropPages takes a file's pages out of the page cache. The kernel spares pages
// that are in use for a moment, so it is asked until they are gone.
func dropPages(t testing.TB, fd int) {
	t.Helper()
	must(t, unix.Fsync(fd))
	for range 100 {
		must(t, unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED))
		var st unix.Cachestat_t
		if err := unix.Cachestat(uint(fd), &unix.CachestatRange{}, &st, 0); err != nil || st.Cache == 0 {
			return
		}
	}
	t.Skip("this file system does not drop pages")
}

// pattern differs at every offset that a test could mistake for another.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i ^ i>>8 ^ i>>16)
	}
	return b
}

// openPattern is a file of n pattern bytes, warm, open for reading.
func openPattern(t testing.TB, n int) (fd int, info Info) {
	t.Helper()
	dir := diskDir(t)
	must(t, os.WriteFile(dir+"/f", pattern(n), 0o644))
	fd, info, err := openDir(t, dir).Open([]byte("f"))
	must(t, err)
	t.Cleanup(func() { unix.Close(fd) })
	return fd, info
}

// diskDir is a temporary directory on a file system whose pages can be dropped.
func diskDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	var st unix.Statfs_t
	must(t, unix.Statfs(dir, &st))
	if st.Type == unix.TMPFS_MAGIC {
		t.Skip("the temporary directory is a tmpfs, which has no disk; set TMPDIR")
	}
	return dir
}

func TestReadNow(t *testing.T) {
	const size = 64 << 10
	fd, _ := openPattern(t, size)
	want := pattern(size)
	for _, c := range []struct{ off, n, got int }{
		{0, 4096, 4096}, {1, 100, 100}, {size - 10, 100, 10}, {size, 100, 0}, {size + 5000, 1, 0}, {5, 0, 0}, {0, size, size},
	} {
		p := make([]byte, c.n)
		n, err := ReadNow(fd, p, int64(c.off))
		if err != nil || n != c.got || !bytes.Equal(p[:n], want[min(c.off, size):min(c.off, size)+n]) {
			t.Errorf("%d bytes from %d on: %d, %v; want %d", c.n, c.off, n, err, c.got)
		}
	}
	if _, err := ReadNow(-1, make([]byte, 1), 0); err != ErrIO {
		t.Errorf("descriptor -1: %v, want ErrIO", err)
	}
}

// TestReadNowCold: asking starts a read ahead, which may be over by the time the
// kernel looks, on a machine that takes the processor away just then; not each
// time in a thousand places.
func TestReadNowCold(t *testing.T) {
	const size = 8 << 20
	fd, _ := openPattern(t, size)
	p := make([]byte, 4096)
	for range 10 {
		dropPages(t, fd)
		for off := int64(0); off < size; off += 80 << 10 {
			n, err := ReadNow(fd, p, off)
			if err == ErrWouldBlock && n == 0 {
				return
			}
			must(t, err)
		}
	}
	t.Error("a thousand cold reads, and none would have blocked")
}

func TestReadNowUnsupported(t *testing.T) {
	for _, name := range []string{"/proc/version", "/sys/kernel/mm/transparent_hugepage/enabled"} {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		defer f.Close()
		if _, err := ReadNow(int(f.Fd()), make([]byte, 16), 0); err != ErrUnsupported {
			t.Errorf("%s: %v, want ErrUnsupported", name, err)
		}
		return
	}
	t.Skip("no file here that knows no RWF_NOWAIT")
}

// socketPair is a non-blocking sender and its receiver.
func socketPair(t testing.TB) (send, recv int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK, 0)
	must(t, err)
	t.Cleanup(func() { unix.Close(fds[0]); unix.Close(fds[1]) })
	return fds[0], fds[1]
}

func TestSendFile(t *testing.T) {
	const size = 1 << 20
	fd, _ := openPattern(t, size)
	want := pattern(size)
	send, recv := socketPair(t)

	buf := make([]byte, size)
	var got []byte
	full := false
	for off := 1000; off < size; {
		n, errno := SendFile(send, fd, int64(off), 100_000)
		if n > 100_000 || errno != 0 && (errno != unix.EAGAIN || n != 0) {
			t.Fatalf("sendfile at %d: %d, %v", off, n, errno)
		}
		if errno == unix.EAGAIN {
			full = true
		}
		off += n
		if errno == unix.EAGAIN || off == size {
			r, err := unix.Read(recv, buf)
			must(t, err)
			got = append(got, buf[:r]...)
		}
	}
	for len(got) < size-1000 {
		r, err := unix.Read(recv, buf)
		must(t, err)
		got = append(got, buf[:r]...)
	}
	if !full || !bytes.Equal(got, want[1000:]) {
		t.Errorf("%d bytes arrived, equal %v; the socket was full once: %v", len(got), bytes.Equal(got, want[1000:]), full)
	}
	if n, errno := SendFile(send, fd, size, 10); n != 0 || errno != 0 {
		t.Errorf("at the end of the file: %d, %v; want 0 and no error", n, errno)
	}
	if n, errno := SendFile(send, -1, 0, 10); n != 0 || errno != unix.EBADF {
		t.Errorf("no file: %d, %v", n, errno)
	}
}

func TestSendFileOfAShrunkenFile(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/f", strings.Repeat("x", 9000))
	fd, info, err := openDir(t, dir).Open([]byte("f"))
	must(t, err)
	defer unix.Close(fd)
	must(t, os.Truncate(dir+"/f", 6000))
	send, _ := socketPair(t)
	if n, errno := SendFile(send, fd, 4000, 5000); n != 2000 || errno != 0 {
		t.Errorf("first: %d, %v; want the 2000 that are left", n, errno)
	}
	if n, errno := SendFile(send, fd, 6000, 3000); n != 0 || errno != 0 {
		t.Errorf("then: %d, %v; want 0", n, errno)
	}
	if after, err := Stat(fd); err != nil || after.Same(info) {
		t.Errorf("Stat %+v, %v: the change is not seen", after, err)
	}
}

func TestTransferAllocatesNothing(t *testing.T) {
	fd, _ := openPattern(t, 8192)
	send, recv := socketPair(t)
	p := make([]byte, 4096)
	if n := testing.AllocsPerRun(100, func() {
		n, err := ReadNow(fd, p, 0)
		sent, errno := SendFile(send, fd, 0, 4096)
		if n != 4096 || err != nil || sent != 4096 || errno != 0 {
			t.Fatal(n, err, sent, errno)
		}
		unix.Read(recv, p)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkReadNow(b *testing.B) {
	fd, _ := openPattern(b, 64<<10)
	for name, size := range map[string]int{"1": 1, "4KiB": 4096, "16KiB": 16384} {
		b.Run(name, func(b *testing.B) {
			p := make([]byte, size)
			for b.Loop() {
				if n, err := ReadNow(fd, p, 4096); n != size {
					b.Fatal(n, err)
				}
			}
		})
	}
}
