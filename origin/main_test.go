package origin

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain ends with the two leak checks. When the test binary runs itself as
// another user, it does the named errand instead.
func TestMain(m *testing.M) {
	if name := os.Getenv("ORIGIN_ERRAND"); name != "" {
		os.Exit(runErrand(name))
	}
	startPoller()
	before := openFDs()
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if after := openFDs(); len(after) > len(before) && code == 0 {
		fmt.Fprintf(os.Stderr, "descriptors leaked: %d before, %d after: %v\n", len(before), len(after), after)
		code = 1
	}
	os.Exit(code)
}

// startPoller makes the Go runtime open its epoll descriptors, which it keeps.
func startPoller() {
	if r, w, err := os.Pipe(); err == nil {
		r.Close()
		w.Close()
	}
}

func openFDs() map[string]string {
	fds := make(map[string]string)
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, e := range entries {
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			fds[e.Name()] = target
		}
	}
	return fds
}
