package faults

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSignalStorm (EINTR): the process and each of its threads get a thousand signals a
// second. Every request is answered all the same.
func TestSignalStorm(t *testing.T) {
	dir := tree(t)
	hot, big := object(t, dir, "hot", 8000), object(t, dir, "big", 4<<20)
	w := start(t, dir)
	w.want("hot", hot)
	w.want("big", big)
	before := w.holdings()
	b, b2 := w.bystander("hot", hot), w.bystander("big", big)
	interrupted := w.metrics()["talon_ring_interrupted_total"]
	stop := time.After(2 * time.Second)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	signals := 0
storm:
	for {
		select {
		case <-stop:
			break storm
		case <-tick.C:
			check(t, unix.Kill(w.pid(), unix.SIGURG))
			for _, thread := range threads(t, w.pid()) {
				_ = unix.Tgkill(w.pid(), thread, unix.SIGURG) // it may have ended
				signals++
			}
		}
	}
	b.goesOn(20)
	b2.goesOn(5)
	if n := w.metrics()["talon_ring_interrupted_total"] - interrupted; n < 50 {
		t.Errorf("%v waits of the ring were interrupted by %d signals: the test tests nothing", n, signals)
	}
	others := b.end() + "; " + b2.end()
	w.wellAfter("EINTR, 1 kHz of signals to each thread", func() {}, w.serves("hot", hot), others)
	w.givenBack(before)
}

func threads(t *testing.T, pid int) (ids []int) {
	t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	check(t, err)
	for _, e := range entries {
		id, err := strconv.Atoi(e.Name())
		check(t, err)
		ids = append(ids, id)
	}
	return ids
}

// injected are the calls of a running worker that strace makes fail.
type injected struct {
	t   *testing.T
	log string
}

// inject makes calls of a running worker fail. What says how many of each thread's: an
// strace that lets go of a thread in the middle of one would leave it with ENOSYS, so it
// stays until the worker ends.
func (w *worker) inject(what string) *injected {
	t := w.t
	t.Helper()
	strace := tool(t, "strace", "strace")
	in := &injected{t, filepath.Join(t.TempDir(), "strace")}
	call, _, _ := strings.Cut(what, ":")
	cmd := exec.Command(strace, "-f", "-ttt", "-o", in.log, "-e", "trace="+call, "-e", "inject="+what, "-p", strconv.Itoa(w.pid()))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	said, err := cmd.StderrPipe()
	check(t, err)
	check(t, cmd.Start())
	attached := make(chan string, 1)
	go func() {
		buf := make([]byte, 4096)
		n, _ := said.Read(buf)
		attached <- string(buf[:n])
		for n > 0 {
			n, _ = said.Read(buf)
		}
	}()
	if line := <-attached; !strings.Contains(line, "attached") {
		_ = cmd.Wait()
		t.Skipf("needs the right to trace processes (ptrace): strace: %s", line)
	}
	t.Cleanup(func() {
		w.end()
		_ = cmd.Wait() // its exit code is the worker's
	})
	return in
}

// calls returns how many failed, and when the last of them did.
func (in *injected) calls() (n int, last time.Time) {
	in.t.Helper()
	text, err := os.ReadFile(in.log)
	check(in.t, err)
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if !strings.Contains(line, "(INJECTED)") || len(f) < 2 {
			continue
		}
		seconds, err := strconv.ParseFloat(f[1], 64)
		check(in.t, err)
		n++
		last = time.UnixMicro(int64(seconds * 1e6))
	}
	return n, last
}

// TestEnterFails: io_uring_enter fails every third time, and all requests are answered;
// then it does a few hundred times in a row, so that nothing can happen, and nothing is
// lost that was under way.
func TestEnterFails(t *testing.T) {
	for _, tt := range []struct {
		errno string
		inRow int // about half a second; the ring naps between refusals, not between interruptions
	}{{"EBUSY", 400}, {"EAGAIN", 400}, {"ENOMEM", 400}, {"EINTR", 10_000}} {
		t.Run(tt.errno, func(t *testing.T) {
			dir := tree(t)
			hot, big := object(t, dir, "hot", 8000), object(t, dir, "big", 1<<20)
			w := start(t, dir)
			w.want("hot", hot)
			w.want("big", big)
			before := w.holdings()
			b, b2 := w.bystander("hot", hot), w.bystander("big", big)
			in := w.inject("io_uring_enter:error=" + tt.errno + ":when=1+3")
			b.goesOn(50)
			b2.goesOn(20)
			others := b.end() + "; " + b2.end()
			m := w.metrics()
			counted := m["talon_ring_busy_total"]
			if tt.errno == "EINTR" {
				counted = m["talon_ring_interrupted_total"]
			}
			if counted == 0 {
				t.Errorf("no failed enter was counted: %v", m)
			}
			w.givenBack(before)
			w.end()
			if n, _ := in.calls(); n < 20 {
				t.Errorf("%d calls failed: the test tests nothing", n)
			}

			w = start(t, dir)
			w.want("hot", hot)
			w.want("big", big)
			before = w.holdings()
			in = w.inject(fmt.Sprintf("io_uring_enter:error=%s:when=1..%d", tt.errno, tt.inRow))
			waiting := make(chan error, 10)
			for range cap(waiting) {
				go func() { waiting <- w.serves("big", big)() }()
			}
			err := w.serves("hot", hot)()
			served := time.Now()
			if err != nil {
				t.Errorf("asked during the fault: %v", err)
			}
			for range cap(waiting) {
				if err := <-waiting; err != nil {
					t.Errorf("asked during the fault: %v", err)
				}
			}
			w.givenBack(before)
			w.end()
			n, last := in.calls()
			if n < tt.inRow || last.After(served) {
				t.Errorf("%d calls failed, the last of them %v after the answer", n, last.Sub(served))
			}
			w.report("io_uring_enter: "+tt.errno, served.Sub(last), "while every third call failed: "+others)
		})
	}
}

// refusal is how a worker must end where there is no ring for it: exit code 69, one line
// that names the cause and the remedy.
func refusal(t *testing.T, cmd *exec.Cmd, cause, remedy string) {
	t.Helper()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	attr := syscall.SysProcAttr{}
	if cmd.SysProcAttr != nil {
		attr = *cmd.SysProcAttr
	}
	attr.Setpgid = true
	cmd.SysProcAttr = &attr
	check(t, cmd.Start())
	serves := time.AfterFunc(patience, func() { _ = unix.Kill(-cmd.Process.Pid, unix.SIGKILL) })
	defer serves.Stop()
	_ = cmd.Wait() // the exit code is looked at below
	line := strings.TrimSpace(out.String())
	if code := cmd.ProcessState.ExitCode(); code != 69 {
		t.Errorf("exit code %d, want 69: %s", code, line)
	}
	if !strings.HasPrefix(line, "talon: io_uring is not available: ") || strings.Contains(line, "\n") ||
		!strings.Contains(line, cause) || !strings.Contains(line, remedy) {
		t.Errorf("said %q, want one line with the cause %q and the remedy %q", line, cause, remedy)
	}
}

// TestSetupFails: one of io_uring's calls fails from the start. (That of a later ring alone
// cannot be made to fail: strace counts the calls of each thread apart.)
func TestSetupFails(t *testing.T) {
	strace := tool(t, "strace", "strace")
	if out, err := exec.Command(strace, "-o", "/dev/null", "true").CombinedOutput(); err != nil {
		t.Skipf("needs the right to trace processes (ptrace): strace: %v: %s", err, out)
	}
	dir := tree(t)
	for _, tt := range []struct{ what, cause, remedy string }{
		{"io_uring_setup:error=ENOMEM", "no memory for the ring", "LimitMEMLOCK="},
		{"io_uring_setup:error=EBUSY", "the kernel refuses it", "run Linux"},
		{"io_uring_setup:error=EMFILE", "no file descriptor is left", "ulimit -n"},
		{"io_uring_setup:error=ENFILE", "no file descriptor is left", "LimitNOFILE="},
		{"io_uring_setup:error=ENOSYS", "the kernel does not have it", "CONFIG_IO_URING=y"},
		{"io_uring_setup:error=EINVAL", "too old", "run Linux"},
		{"io_uring_setup:error=EACCES", "a security module forbids it", "SELinux"},
		{"io_uring_enter:error=EPERM", "", ""},
		{"io_uring_register:error=ENOMEM", "no memory for the ring", "LimitMEMLOCK="},
		{"io_uring_register:error=EPERM", "", ""},
	} {
		t.Run(tt.what, func(t *testing.T) {
			call, _, _ := strings.Cut(tt.what, ":")
			args := append([]string{"-f", "-o", "/dev/null", "-e", "trace=" + call, "-e", "inject=" + tt.what, talon}, serveArgs(dir, "--rings=2")...)
			refusal(t, exec.Command(strace, args...), tt.cause, tt.remedy)
		})
	}
}

// TestDisabledBySysctl: kernel.io_uring_disabled, 1 for a user without privileges, and 2,
// which every program on the machine feels for a few milliseconds: only in CI, which has
// the machine for itself.
func TestDisabledBySysctl(t *testing.T) {
	const path = "/proc/sys/kernel/io_uring_disabled"
	dir := tree(t)
	for _, tt := range []struct {
		value, cause, remedy string
		nobody               bool
	}{
		{"1", "kernel.io_uring_disabled is 1", "kernel.io_uring_group", true},
		{"2", "kernel.io_uring_disabled is 2", "sysctl -w kernel.io_uring_disabled=0", false},
	} {
		t.Run(tt.value, func(t *testing.T) {
			if tt.value == "2" && os.Getenv("CI") == "" {
				t.Skip("no ring could be made on the whole machine meanwhile; CI=true runs it")
			}
			cmd := exec.Command(talon, serveArgs(dir)...)
			if tt.nobody {
				cmd.SysProcAttr = nobody(t)
			}
			restore := setSysctl(t, path, tt.value)
			refusal(t, cmd, tt.cause, tt.remedy)
			restore()
			hot := object(t, dir, "hot", 8000)
			begin := time.Now()
			w := start(t, dir)
			w.wellAfter("kernel.io_uring_disabled="+tt.value, func() {}, w.serves("hot", hot), fmt.Sprint("started again in ", time.Since(begin).Round(time.Millisecond)))
		})
	}
}

// TestDeniedBySeccomp: a filter over the worker denies one of io_uring's calls, as
// container runtimes do (EPERM), and as sandboxes do that feign an old kernel (ENOSYS).
func TestDeniedBySeccomp(t *testing.T) {
	dir := tree(t)
	for _, call := range []struct {
		name   string
		number uint32
	}{{"io_uring_setup", unix.SYS_IO_URING_SETUP}, {"io_uring_enter", unix.SYS_IO_URING_ENTER}, {"io_uring_register", unix.SYS_IO_URING_REGISTER}} {
		for _, tt := range []struct {
			errno         unix.Errno
			cause, remedy string
		}{
			{unix.EPERM, "a seccomp filter denies it", "allow io_uring_setup, io_uring_enter and io_uring_register"},
			{unix.ENOSYS, "a seccomp filter hides it", "outside such a filter"},
		} {
			t.Run(fmt.Sprint(call.name, " ", unix.ErrnoName(tt.errno)), func(t *testing.T) {
				cmd := exec.Command(os.Args[0])
				cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d", filterEnv, call.number, tt.errno), filteredEnv+"="+strings.Join(append([]string{talon}, serveArgs(dir)...), "\n"))
				refusal(t, cmd, tt.cause, tt.remedy)
			})
		}
	}
}
