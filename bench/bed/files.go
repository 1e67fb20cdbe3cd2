package bed

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// ParseSize reads 4K, 16M or 2G (powers of 1024), or plain bytes.
func ParseSize(s string) (int64, error) {
	unit := int64(1)
	digits := strings.TrimRight(s, "KMG")
	switch s[len(digits):] {
	case "":
	case "K":
		unit = 1 << 10
	case "M":
		unit = 1 << 20
	case "G":
		unit = 1 << 30
	default:
		digits = ""
	}
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || n <= 0 {
		return 0, fmt.Errorf("size %q: want a number with K, M or G behind it", s)
	}
	return n * unit, nil
}

// MakeFile writes size bytes of noise and puts them on the disk: only clean pages can be evicted.
func MakeFile(name string, size int64) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	noise := rand.NewChaCha8([32]byte{byte(size), byte(size >> 8), byte(size >> 16)})
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, io.LimitReader(noise, size), make([]byte, 1<<20))
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// Warm reads a file into the page cache.
func Warm(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, make([]byte, 1<<20))
	return err
}

// Evict drops a file's clean pages from the page cache, POSIX_FADV_DONTNEED (posix_fadvise(2)).
func Evict(f *os.File) error { return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED) }

// FreeSpace fails early, with advice, when dir cannot hold n bytes.
func FreeSpace(dir string, n int64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return err
	}
	if free := int64(st.Bavail) * st.Bsize; free < n+n/10 {
		return fmt.Errorf("%s: %d MiB free, %d MiB needed; choose another with --dir", dir, free>>20, n>>20)
	}
	return nil
}

// MakeAll makes and warms a file for each size, named after it, and returns the directory.
func MakeAll(dir string, sizes []string) error {
	total := int64(0)
	for _, s := range sizes {
		n, err := ParseSize(s)
		if err != nil {
			return err
		}
		total += n
	}
	if err := FreeSpace(dir, total); err != nil {
		return err
	}
	for _, s := range sizes {
		n, _ := ParseSize(s)
		name := filepath.Join(dir, s)
		if err := MakeFile(name, n); err != nil {
			return err
		}
		if err := Warm(name); err != nil {
			return err
		}
	}
	return nil
}
