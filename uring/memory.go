package uring

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

const (
	protection = unix.PROT_READ | unix.PROT_WRITE
	mapping    = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
)

// mapMemory returns n zeroed bytes outside the Go heap, whole pages of them, not inherited by fork: a child between fork and exec
// must not share pages that the kernel writes. flags are more of mmap(2)'s. unmapMemory ends
// the mapping.
func mapMemory(n, flags int) ([]byte, error) {
	mem, err := mmap(n, flags)
	if err != nil {
		return nil, fmt.Errorf("uring: map %d bytes: %w", n, err)
	}
	if err := unix.Madvise(mem, unix.MADV_DONTFORK); err != nil {
		return nil, errors.Join(fmt.Errorf("uring: keep %d bytes from forks: %w", n, err), unmapMemory(mem))
	}
	return mem, nil
}
