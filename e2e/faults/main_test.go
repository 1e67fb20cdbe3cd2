package faults

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"go.uber.org/goleak"
)

// talon is the worker under test, readable by everybody.
var talon string

func TestMain(m *testing.M) {
	if setting := os.Getenv(keeperEnv); setting != "" {
		keep(setting)
		return
	}
	if setting := os.Getenv(filterEnv); setting != "" {
		filtered(setting)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if os.Getenv("TALON_FAULTS") == "" {
		fmt.Println("skipped: these tests change things of the machine; TALON_FAULTS=1 runs them")
		return 0
	}
	if os.Getuid() == 0 && os.Getenv(ownMountsEnv) == "" {
		return inOwnMounts()
	}
	for _, entry := range os.Environ() { // whoever runs the tests may have set some of the worker's
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "TALON_") {
			_ = os.Unsetenv(name) // a name that was found can be unset
		}
	}
	dir, err := os.MkdirTemp("", "talon-faults")
	if err != nil {
		return failed(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := os.Chmod(dir, 0o755); err != nil {
		return failed(err)
	}
	talon = filepath.Join(dir, "talon")
	if out, err := exec.Command("go", "build", "-o", talon, "../../cmd/talon").CombinedOutput(); err != nil {
		return failed(fmt.Errorf("%w: %s", err, out))
	}
	code := m.Run()
	printReliefs()
	if err := goleak.Find(); err != nil && code == 0 {
		return failed(err)
	}
	return code
}

// ownMountsEnv says that this process has a mount namespace of its own.
const ownMountsEnv = "FAULTS_OWN_MOUNTS"

// inOwnMounts runs the tests in a process with mounts of its own, which the kernel takes
// away with it, and the loop devices under them, however it ends.
func inOwnMounts() int {
	cmd := exec.Command(os.Args[0], os.Args[1:]...)
	cmd.Env = append(os.Environ(), ownMountsEnv+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // the signal comes with the end of the thread that started it
	defer runtime.UnlockOSThread()
	if err := cmd.Run(); cmd.ProcessState == nil {
		return failed(err)
	}
	return cmd.ProcessState.ExitCode()
}

func failed(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// relief is how long a worker took to be well again.
type relief struct {
	fault string
	took  time.Duration
	note  string
}

var reliefs struct {
	sync.Mutex
	all []relief
}

func printReliefs() {
	reliefs.Lock()
	defer reliefs.Unlock()
	w := tabwriter.NewWriter(os.Stdout, 0, 4, 2, ' ', 0)
	for i, r := range reliefs.all {
		if i == 0 {
			fmt.Fprintln(w, "fault\twell again after\tthe others meanwhile")
		}
		fmt.Fprintf(w, "%s\t%v\t%s\n", r.fault, r.took.Round(10*time.Microsecond), r.note)
	}
	_ = w.Flush() // to the standard output of a test
}
