package faults

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// These make this test binary a program that runs another under a seccomp filter, which
// cannot be taken off again: the number of the call to deny and the errno, and the
// arguments of the other, one a line.
const (
	filterEnv   = "FAULTS_FILTER"
	filteredEnv = "FAULTS_FILTERED"
)

func filtered(setting string) {
	var call, errno uint32
	if _, err := fmt.Sscan(setting, &call, &errno); err != nil {
		panic(err)
	}
	runtime.LockOSThread()       // the filter holds for this thread, and so does exec from it
	filter := []unix.SockFilter{ // load the call's number; if it is the one, answer errno; else allow: seccomp(2)
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: 0},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | errno},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		panic(err)
	}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0); err != nil {
		panic(err)
	}
	args := strings.Split(os.Getenv(filteredEnv), "\n")
	panic(unix.Exec(args[0], args, os.Environ()))
}
