package admin

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain ends with the leak checks: no goroutine and no descriptor may be
// left by any test.
func TestMain(m *testing.M) {
	before := openFDs()
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if after := openFDs(); code == 0 && after > before {
		fmt.Fprintf(os.Stderr, "%d descriptors open before the tests, %d after\n", before, after)
		code = 1
	}
	os.Exit(code)
}

// openFDs counts descriptors; the runtime's epoll instance and its eventfd,
// which appear with the first socket and stay, are not counted.
func openFDs() (n int) {
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && target != "anon_inode:[eventpoll]" && target != "anon_inode:[eventfd]" {
			n++
		}
	}
	return n
}
