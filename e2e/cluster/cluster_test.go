package cluster

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

// bench and talon are the programs, built once.
var bench, talon string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if os.Getenv("TALON_CLUSTER") == "" {
		fmt.Println("skipped: these tests take minutes; TALON_CLUSTER=1 runs them")
		return 0
	}
	for _, entry := range os.Environ() { // whoever runs the tests may have set some of the worker's
		if name, _, _ := strings.Cut(entry, "="); strings.HasPrefix(name, "TALON_") {
			_ = os.Unsetenv(name) // a name that was found can be unset
		}
	}
	dir, err := os.MkdirTemp("", "talon-cluster")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	talon, bench = filepath.Join(dir, "talon"), filepath.Join(dir, "bench-excess")
	for program, pkg := range map[string]string{talon: "./cmd/talon", bench: "./bench/cmd/bench-excess"} {
		build := exec.Command("go", "build", "-o", program, pkg)
		build.Dir = "../.."
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "%v: %s", err, out)
			return 1
		}
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// broken runs bench-excess, which must find that the bound held, by the workers' admission logs and by the clients' count, and that what was due was
// delivered again after each fault; how soon is printed and judges nothing, but for a limit that no machine is too slow for. It returns what was printed.
func broken(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command(bench, append(args, "--talon", talon, "--no-results", "--dir", t.TempDir())...)
	cmd.Dir = "../.."
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out.String())
	}
	t.Logf("%s", out.String())
	return out.String()
}

// want fails the test unless the text has it.
func want(t *testing.T, text string, all ...string) {
	t.Helper()
	for _, w := range all {
		if !strings.Contains(text, w) {
			t.Errorf("no %q", w)
		}
	}
}

// Four workers and two tenants under a policy file: killed and restarted at the same address, stopped, drained, left out of the ring and taken in again, cut off
// and late, the owners too, and rates cut in half.
func TestFile(t *testing.T) {
	text := broken(t, "--workers=4", "--tenants=2", "--faults=44", "--seed=1", "--longest-pause=10s", "--patience=30s", "--strict")
	want(t, text, "44 of 44 faults", " kill -9,", " kill -9 of the owner,", " kill -9 before it acknowledges", " SIGSTOP", " drain", " membership flapping", " rate halved,",
		" partition", " mute", " deaf", " delay", " connections cut")
}

// Three workers and two tenants under etcd, which is killed and compacted, too, while they serve; policies are set by talon policy set.
func TestEtcd(t *testing.T) {
	if _, err := exec.LookPath("etcd"); err != nil {
		t.Skip("no etcd in PATH: apt-get install etcd-server")
	}
	text := broken(t, "--etcd", "--workers=3", "--tenants=2", "--faults=26", "--seed=1", "--longest-pause=10s", "--patience=30s", "--strict")
	want(t, text, "26 of 26 faults", " kill -9 of etcd,", " cut off from etcd and compacted", " kill -9,", " kill -9 before it acknowledges", " drain", " membership flapping", " rate halved,",
		" partition", " mute", " deaf")
}
