package load

import (
	"fmt"
	"net"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain ends with leak checks: every run must close what it opened and end what it started.
func TestMain(m *testing.M) {
	if ln, err := net.Listen("tcp", "127.0.0.1:0"); err == nil { // makes the runtime open its poller, which stays
		ln.Close()
	}
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

func openFDs() int {
	entries, _ := os.ReadDir("/proc/self/fd")
	return len(entries)
}
