package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"
)

var rewrite = flag.Bool("rewrite", false, "write generated files instead of comparing with them")

// TestMain makes this binary the command "talon" for the scripts and for the
// worker processes of the end-to-end tests, and ends with the leak checks.
func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){
		"talon":  main,
		"noring": noRing,
	})
}

type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	clearSettings()
	before := openFDs()
	code := l.m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if after := openFDs(); code == 0 && after > before {
		fmt.Fprintf(os.Stderr, "%d descriptors open before the tests, %d after\n", before, after)
		code = 1
	}
	return code
}

// clearSettings keeps the TALON_ variables of whoever runs the tests out of them.
func clearSettings() {
	for _, entry := range os.Environ() {
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, envPrefix) {
			_ = os.Unsetenv(name) // a name that was found can be unset
		}
	}
}

// openFDs counts descriptors but not the runtime's own epoll instance and
// eventfd, nor the pidfd probe of os/exec, which stay for good.
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

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *rewrite,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits,
		},
	})
}

// exits N command... runs a command that must end with exit code N.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE command [argument...]")
	}
	code := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		exit, ok := err.(*exec.ExitError)
		if !ok {
			ts.Fatalf("%v", err)
		}
		code = exit.ExitCode()
	}
	if fmt.Sprint(code) != args[0] {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}
