package uringtest_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain ends with a look for what the tests left behind: goroutines, and the kernel's own holds on descriptors.
func TestMain(m *testing.M) {
	before := len(openFiles())
	code := m.Run()
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, "goroutines are left:", err)
		code = 1
	}
	if after := openFiles(); code == 0 && len(after) > before {
		fmt.Fprintf(os.Stderr, "descriptors are left: %v, %d at the start\n", after, before)
		code = 1
	}
	os.Exit(code)
}

func openFiles() (open []string) {
	dir, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		panic(err)
	}
	for _, e := range dir {
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && target != "anon_inode:[eventpoll]" && target != "anon_inode:[eventfd]" {
			open = append(open, e.Name()+" "+target)
		}
	}
	return open
}
