package uring

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// mapMemory returns n zeroed bytes outside the Go heap, whole pages of them, not inherited by fork: a child between fork and exec
// must not share pages that the kernel writes. flags are more of mmap(2)'s.
func mapMemory(n, flags int) ([]byte, error) {
	mem, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|flags)
	if err != nil {
		return nil, fmt.Errorf("uring: map %d bytes: %w", n, err)
	}
	if err := unix.Madvise(mem, unix.MADV_DONTFORK); err != nil {
		return nil, errors.Join(fmt.Errorf("uring: keep %d bytes from forks: %w", n, err), unix.Munmap(mem))
	}
	return mem, nil
}
