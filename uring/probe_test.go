package uring_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/uring"
)

var sysctl = flag.Bool("sysctl", false, "also set kernel.io_uring_disabled for a moment, for the whole machine")

func TestProbe(t *testing.T) {
	if err := uring.Probe(); err != nil {
		t.Fatalf("these tests need io_uring: %v", err)
	}
}

// What a child process is denied, and what it must say about it.
var denials = []struct {
	name       string
	impose     func() // in the child
	mount      bool   // the child gets a mount namespace of its own
	want       string // in the cause
	wantRemedy string
}{
	{"seccomp denies io_uring_setup", deny(unix.SYS_IO_URING_SETUP, unix.EPERM), false,
		"a seccomp filter denies it", "allow io_uring_setup, io_uring_enter and io_uring_register in the seccomp profile"},
	{"seccomp denies io_uring_enter alone", deny(unix.SYS_IO_URING_ENTER, unix.EPERM), false,
		"a seccomp filter denies it", "allow io_uring_setup, io_uring_enter and io_uring_register in the seccomp profile"},
	{"seccomp denies io_uring_register alone", deny(unix.SYS_IO_URING_REGISTER, unix.EPERM), false,
		"a seccomp filter denies it", "allow io_uring_setup, io_uring_enter and io_uring_register in the seccomp profile"},
	{"seccomp hides io_uring_setup", deny(unix.SYS_IO_URING_SETUP, unix.ENOSYS), false,
		"the kernel does not have it, or a seccomp filter hides it", "run Linux 6.1 or later"},
	{"an old kernel", deny(unix.SYS_IO_URING_SETUP, unix.EINVAL), false,
		"the kernel is too old", "run Linux 6.1 or later"},
	{"a kernel without the registrations", deny(unix.SYS_IO_URING_REGISTER, unix.EINVAL), false,
		"the self-test of enable failed", "run Linux 6.1 or later"},
	{"no locked memory for a user without privileges", withoutMemlock, false,
		"no memory for the ring", "LimitMEMLOCK="},
	{"no descriptor", deny(unix.SYS_IO_URING_SETUP, unix.EMFILE), false,
		"no file descriptor is left", "LimitNOFILE="},
	{"a security module", deny(unix.SYS_IO_URING_SETUP, unix.EACCES), false,
		"a security module forbids it", "SELinux or AppArmor"},
	{"the sysctl is 2", disable("2"), true,
		"the sysctl kernel.io_uring_disabled is 2", "sysctl -w kernel.io_uring_disabled=0"},
	{"the sysctl is 1", disable("1"), true,
		"the sysctl kernel.io_uring_disabled is 1", "kernel.io_uring_group"},
}

// childEnv tells the re-executed test binary which denial it lives under.
const childEnv = "URING_TEST_DENIAL"

func TestProbeExplains(t *testing.T) {
	for i, d := range denials {
		t.Run(d.name, func(t *testing.T) {
			out := probeInChild(t, strconv.Itoa(i), d.mount)
			if !strings.Contains(out, "io_uring is not available: "+d.want) || !strings.Contains(out, d.wantRemedy) {
				t.Errorf("got %q, want the cause %q and the remedy %q", out, d.want, d.wantRemedy)
			}
			if strings.Count(out, "\n") != 1 {
				t.Errorf("got %q, want one line", out)
			}
		})
	}
}

// probeInChild runs the probe in a process of its own, which must end as the command would, and returns what it said.
func probeInChild(t *testing.T, denial string, mount bool) string {
	t.Helper()
	cmd := exec.Command(must(os.Executable()), "-test.run=^$")
	cmd.Env = append(os.Environ(), childEnv+"="+denial)
	if mount {
		cmd.SysProcAttr = ownMounts()
	}
	out, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); !errors.As(err, &exit) || exit.ExitCode() != uring.ExitUnavailable {
		t.Fatalf("the child ended with %v and said %q, want exit code %d", err, out, uring.ExitUnavailable)
	}
	return string(out)
}

// ownMounts gives the child a mount namespace, by way of a user namespace where the tests do not run as root.
func ownMounts() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		attr.Cloneflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	return attr
}

// The real sysctl is the machine's, so other programs feel it too: only on demand.
func TestProbeExplainsTheRealSysctl(t *testing.T) {
	if !*sysctl {
		return
	}
	const path = "/proc/sys/kernel/io_uring_disabled"
	was := must(os.ReadFile(path))
	defer func() { check(os.WriteFile(path, was, 0)) }()
	check(os.WriteFile(path, []byte("2"), 0))
	if out := probeInChild(t, "none", false); !strings.Contains(out, "kernel.io_uring_disabled is 2") {
		t.Errorf("got %q, want the sysctl named", out)
	}
}

// child is the re-executed binary's main: it takes the denial upon itself and probes.
func child(denial string) {
	if i, err := strconv.Atoi(denial); err == nil {
		runtime.LockOSThread()
		denials[i].impose()
	}
	err := uring.Probe()
	if u := new(uring.Unavailable); errors.As(err, &u) {
		fmt.Println(err)
		os.Exit(uring.ExitUnavailable)
	}
	fmt.Println("the probe said", err)
	os.Exit(0)
}

// disable is what the kernel does while the sysctl has that value, with a file over it, so that no other program on the machine feels it.
func disable(value string) func() {
	return func() {
		dir := must(os.MkdirTemp("", "uring"))
		defer os.RemoveAll(dir)
		file := filepath.Join(dir, "disabled")
		check(os.WriteFile(file, []byte(value+"\n"), 0o600))
		check(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
		check(unix.Mount(file, "/proc/sys/kernel/io_uring_disabled", "", unix.MS_BIND, ""))
		deny(unix.SYS_IO_URING_SETUP, unix.EPERM)()
	}
}

// withoutMemlock takes root's exemption away, which hides the limit from tests that run as root.
func withoutMemlock() {
	check(unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{}))
	if os.Getuid() == 0 {
		check(syscall.Setuid(65534))
	}
}

// deny makes a seccomp filter for all threads: load the call's number; if it is the one, answer errno; else allow. See seccomp(2).
func deny(call uint32, errno unix.Errno) func() {
	return func() {
		filter := []unix.SockFilter{
			{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
			{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jt: 0, Jf: 1},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)},
			{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		}
		prog := &unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
		check(unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		if _, _, e := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(prog))); e != 0 {
			panic(e)
		}
	}
}
