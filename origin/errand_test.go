package origin

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// An errand is what a test must do as a user who owns nothing (uid 65534): root
// passes every permission check, so root's tests cannot see one fail.
var errands = map[string]func(args []string) error{
	"open":    openErrand,
	"opendir": openDirErrand,
	"probe":   probeErrand,
}

const nobody = 65534

func runErrand(name string) int {
	if err := errands[name](strings.Split(os.Getenv("ORIGIN_ARGS"), "\n")); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// asNobody runs the errand in a copy of this test binary, since uid 65534 may
// not be allowed to walk to the original.
func asNobody(t *testing.T, name string, args ...string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can become another user")
	}
	cmd := exec.Command(copyOfSelf(t))
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "ORIGIN_ERRAND="+name, "ORIGIN_ARGS="+strings.Join(args, "\n"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("as uid %d: %v\n%s", nobody, err, out)
	}
}

func copyOfSelf(t *testing.T) string {
	t.Helper()
	dir := openToAll(t)
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "self")
	if err := os.WriteFile(path, self, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// openToAll is a temporary directory that every user can enter; t.TempDir's
// parent is closed to all but its owner.
func openToAll(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "origin")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}
