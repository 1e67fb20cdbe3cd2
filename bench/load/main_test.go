package load

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain ends with leak checks: every run must close what it opened and end what it started.
func TestMain(m *testing.M) {
	before := openFDs()
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if after := openFDs(); after > before && code == 0 {
		fmt.Fprintf(os.Stderr, "%d file descriptors open at the end, %d at the start\n", after, before)
		code = 1
	}
	os.Exit(code)
}

// openFDs counts descriptors, leaving out those of the Go runtime's poller, which stay once made.
func openFDs() int {
	n := 0
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		name, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && name != "anon_inode:[eventpoll]" && name != "anon_inode:[eventfd]" {
			n++
		}
	}
	return n
}
