package server

import (
	"fmt"
	"net"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/talon-worker/talon/uring"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(crowdEnv); addr != "" {
		crowd(addr)
		return
	}
	if err := uring.Probe(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if ln, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		ln.Close() // the runtime's own poller is open from here on
	}
	fds := openFDs()
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if n := openFDs(); n != fds && code == 0 {
		fmt.Fprintf(os.Stderr, "descriptors: %d before the tests, %d after\n", fds, n)
		code = 1
	}
	os.Exit(code)
}

func openFDs() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		panic(err)
	}
	return len(entries)
}
