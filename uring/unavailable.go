package uring

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// ExitUnavailable is the exit code of a command that cannot run because io_uring is not available: EX_UNAVAILABLE of sysexits.h.
const ExitUnavailable = 69

// Unavailable says why io_uring cannot be used here and what to change, in one line.
type Unavailable struct {
	Cause  string // what was found
	Remedy string // what to do about it, an imperative
	Err    error  // the errno, or the failure of the self-test
}

func (u *Unavailable) Error() string {
	return fmt.Sprintf("io_uring is not available: %s (%v); %s", u.Cause, u.Err, u.Remedy)
}

func (u *Unavailable) Unwrap() error { return u.Err }

// unavailable explains an errno of io_uring's own calls. The errno alone does not tell a container's seccomp filter from the sysctl, so it
// looks at both.
func unavailable(err error) error {
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return err
	}
	switch errno {
	case unix.ENOSYS:
		return &Unavailable{"the kernel does not have it, or a seccomp filter hides it", needKernel + ", outside such a filter", err}
	case unix.EPERM:
		return denied(procWord("/proc/sys/kernel/io_uring_disabled", ""), procWord("/proc/thread-self/status", "Seccomp:"), err)
	case unix.EACCES:
		return &Unavailable{"a security module forbids it", "allow io_uring for this program in the SELinux or AppArmor policy", err}
	case unix.ENOMEM:
		return &Unavailable{"no memory for the ring", "raise the memlock limit (LimitMEMLOCK= of systemd, ulimit -l) and the memory limit of the cgroup", err}
	case unix.EINVAL:
		return tooOld(err)
	case unix.EMFILE, unix.ENFILE:
		return &Unavailable{"no file descriptor is left", "raise the limit of open files (LimitNOFILE= of systemd, ulimit -n)", err}
	}
	return &Unavailable{"the kernel refuses it", needKernel, err}
}

const needKernel = "run Linux 6.1 or later with CONFIG_IO_URING=y"

func tooOld(err error) error {
	return &Unavailable{"the kernel is too old for a ring of one thread (IORING_SETUP_DEFER_TASKRUN)", needKernel, err}
}

// denied tells the causes of EPERM apart, by the sysctl (empty where it cannot be read) and the thread's seccomp mode (2: a filter).
func denied(sysctl, seccomp string, err error) error {
	switch {
	case sysctl == "2":
		return &Unavailable{"the sysctl kernel.io_uring_disabled is 2", "set it to 0: sysctl -w kernel.io_uring_disabled=0", err}
	case sysctl == "1":
		return &Unavailable{"the sysctl kernel.io_uring_disabled is 1 and this process is not privileged",
			"set it to 0, or put the user into the group of the sysctl kernel.io_uring_group", err}
	case seccomp == "2":
		return &Unavailable{"a seccomp filter denies it, as those of container runtimes do",
			"allow io_uring_setup, io_uring_enter and io_uring_register in the seccomp profile of the container or service", err}
	}
	return &Unavailable{"the system denies it", "look for a seccomp filter, a security module or the sysctl kernel.io_uring_disabled", err}
}

// procWord returns the word after key in a file of /proc, or the first word if key is empty; "" if there is none.
func procWord(path, key string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	_, after, found := strings.Cut(string(text), key)
	word := strings.Fields(after)
	if !found || len(word) == 0 {
		return ""
	}
	return word[0]
}
