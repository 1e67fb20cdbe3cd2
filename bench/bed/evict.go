package bed

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// KeepCold evicts a file now and then every so often until stop is called, which returns the first
// error. A fast server reads a file faster than a benchmark ends: without this it would be warm soon.
func KeepCold(name string, every time.Duration) (stop func() error, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	if err := Evict(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("evict %s: %w", name, err)
	}
	quit, done := make(chan struct{}), make(chan error, 1)
	go func() { done <- evictUntil(f, every, quit) }()
	return func() error { close(quit); return <-done }, nil
}

func evictUntil(f *os.File, every time.Duration, quit <-chan struct{}) error {
	defer f.Close()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-quit:
			return nil
		case <-tick.C:
			if err := Evict(f); err != nil {
				return fmt.Errorf("evict %s: %w", f.Name(), err)
			}
		}
	}
}

// DiskReads is the number of bytes that processes have had read from disks (proc_pid_io(5)).
func DiskReads(pids []int) (int64, error) {
	total := int64(0)
	for _, pid := range pids {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/io")
		if err != nil {
			return 0, err
		}
		n, err := readBytes(b)
		if err != nil {
			return 0, fmt.Errorf("/proc/%d/io: %w", pid, err)
		}
		total += n
	}
	return total, nil
}

func readBytes(io []byte) (int64, error) {
	for line := range bytes.Lines(io) {
		if v, ok := bytes.CutPrefix(line, []byte("read_bytes: ")); ok {
			return strconv.ParseInt(string(bytes.TrimSpace(v)), 10, 64)
		}
	}
	return 0, fmt.Errorf("no read_bytes in %q", io)
}
