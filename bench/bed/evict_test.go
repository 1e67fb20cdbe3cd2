package bed

import (
	"os"
	"path/filepath"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// resident counts the pages of a file in the page cache, by mincore(2).
func resident(t *testing.T, name string, size int) int {
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(m)
	vec := make([]byte, size/os.Getpagesize())
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&m[0])), uintptr(size), uintptr(unsafe.Pointer(&vec[0]))); errno != 0 {
		t.Fatal(errno)
	}
	n := 0
	for _, v := range vec {
		n += int(v & 1)
	}
	return n
}

func TestKeepColdEvicts(t *testing.T) {
	const size = 1 << 20
	name := filepath.Join(t.TempDir(), "f")
	if err := MakeFile(name, size); err != nil {
		t.Fatal(err)
	}
	if err := Warm(name); err != nil {
		t.Fatal(err)
	}
	if resident(t, name, size) == 0 {
		t.Fatal("not warm after Warm")
	}
	stop, err := KeepCold(name, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	left := resident(t, name, size)
	if err := stop(); err != nil {
		t.Error(err)
	}
	var st unix.Statfs_t
	if unix.Statfs(name, &st) == nil && st.Type == unix.TMPFS_MAGIC {
		t.Skip("tmpfs has no disk to evict to")
	}
	if left > 0 {
		t.Errorf("%d pages stayed", left)
	}
}

func TestKeepColdGoesOn(t *testing.T) {
	const size = 1 << 20
	name := filepath.Join(t.TempDir(), "f")
	if err := MakeFile(name, size); err != nil {
		t.Fatal(err)
	}
	var st unix.Statfs_t
	if unix.Statfs(name, &st) == nil && st.Type == unix.TMPFS_MAGIC {
		t.Skip("tmpfs has no disk to evict to")
	}
	stop, err := KeepCold(name, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if err := Warm(name); err != nil {
		t.Fatal(err)
	}
	for range 5000 {
		if resident(t, name, size) == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Error("warmed pages were never evicted")
}

func TestReadBytes(t *testing.T) {
	if n, err := readBytes([]byte("rchar: 9\nread_bytes: 4096\nwrite_bytes: 0\n")); n != 4096 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, err := readBytes([]byte("rchar: 9\n")); err == nil {
		t.Error("no error without the line")
	}
	if _, err := DiskReads([]int{1 << 30}); err == nil {
		t.Error("no error for a process that does not exist")
	}
}
