package faults

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// keeperEnv makes this test binary a keeper: its value is a file and what to write to
// it in the end.
const keeperEnv = "FAULTS_KEEPER"

// startKeeper starts a process, in a session of its own, that writes value to path as soon
// as this one lets go of a pipe, and so also when this one is killed.
func startKeeper(t *testing.T, path, value string) (letGo func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), keeperEnv+"="+path+"\n"+value)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	hold, err := cmd.StdinPipe()
	check(t, err)
	ready, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	_, err = bufio.NewReader(ready).ReadString('\n')
	check(t, err)
	return func() {
		check(t, hold.Close())
		check(t, cmd.Wait())
	}
}

// setSysctl sets a value of the whole machine until the returned function is called, or
// this process ends.
func setSysctl(t *testing.T, path, value string) (restore func()) {
	t.Helper()
	asRoot(t, "sets "+path)
	was, err := os.ReadFile(path)
	if err != nil {
		t.Skipf("needs %s: %v", path, err)
	}
	letGo := startKeeper(t, path, strings.TrimSpace(string(was)))
	done := false
	restore = func() {
		if !done {
			done = true
			letGo()
			if now, err := os.ReadFile(path); err != nil || string(now) != string(was) {
				t.Errorf("%s is %q after the test, was %q: %v", path, now, was, err)
			}
		}
	}
	t.Cleanup(restore)
	if err := os.WriteFile(path, []byte(value), 0); err != nil {
		t.Skipf("needs to write %s: %v", path, err)
	}
	return restore
}

// keep waits for the end of its standard input.
func keep(setting string) {
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP)
	path, value, _ := strings.Cut(setting, "\n")
	_, _ = os.Stdout.WriteString("ready\n")
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := os.WriteFile(path, []byte(value), 0); err != nil && !errors.Is(err, os.ErrNotExist) { // what is gone needs nothing
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
}
