// Package abi holds the io_uring words that cross the border between the process and the kernel, as include/uapi/linux/io_uring.h
// defines them (little-endian layouts; amd64 and arm64), and the border itself, [Kernel]. Only what uring uses is here. The
// sizes and offsets are pinned by tests: a changed field is a changed kernel interface, never a refactoring.
package abi
