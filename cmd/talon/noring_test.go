package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// noRing runs the command in os.Args where io_uring_setup is refused with
// EPERM, as the default seccomp profiles of container runtimes do. It is a
// program of the test binary, because a filter cannot be taken off again.
func noRing() {
	path, err := exec.LookPath(os.Args[1])
	if err != nil {
		fatal(err)
	}
	// The filter holds for this thread only, and so does exec from it.
	runtime.LockOSThread()
	const numberOffset = 0 // of nr in struct seccomp_data
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: numberOffset},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_IO_URING_SETUP, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		fatal(err)
	}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0); err != nil {
		fatal(err)
	}
	fatal(unix.Exec(path, os.Args[1:], os.Environ()))
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "noring:", err)
	os.Exit(125)
}
