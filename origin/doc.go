// Package origin is where objects come from: a local directory, opened
// beneath its root, and what a ring needs to serve from it without ever
// waiting for a disk.
//
//	Dir      a directory; key -> descriptor and Info, or one of five errors
//	Opener   goroutines that open what could block, and close what could block
//	Files    one ring's open files: bounded, reference counted, revalidated
//	File     one version of one object, with what is known of its page cache
//	ReadNow, SendFile   the two calls that move bytes, both non-blocking
//
// It knows no tenant, no ring and no HTTP: a key in, a descriptor out.
//
// # Two kinds of threads
//
// A ring thread calls TryOpen, Stat, everything of Files and File, ReadNow and
// SendFile. These enter the kernel by RawSyscall (the Go scheduler is not told,
// which saves 40-70 ns a call and, around sendfile, 10 % of the throughput), ask
// only for what the kernel has in memory, and allocate nothing. All that may
// wait for a disk belongs to the Opener's goroutines or to the ring's own
// worker threads.
//
// # Keys
//
// A key is 1 to MaxKey opaque bytes: segments joined by single slashes, no slash
// in front, none at the end. A segment that is empty, "." or ".." names nothing
// here (object stores allow such keys, directories cannot hold them), nor does a
// key with a NUL. Symbolic links may be followed as long as every step stays
// beneath the root; only regular files are objects. A mount beneath the root is
// part of the tree.
//
// # Files that change
//
// Objects must be replaced by rename. A response keeps the descriptor it began
// with, so a rename never mixes two versions, and the new version is seen at the
// latest Files' validFor later. A file that is overwritten in place is detected
// (Info.Same) before or after the damage, not prevented: bytes queued in a socket
// are read from the page cache when they are sent.
//
// # Limits
//
// Opening a device or a fifo that somebody planted beneath the root happens
// (without waiting) before it is found to be none of ours; mount the tree nodev
// where that matters. An overwrite that restores size and modification time is
// not seen. A change within the file system's timestamp granularity (4 ms at HZ
// 250 before Linux 6.13) is not seen either, which is why a validator made from
// a young modification time is weak.
package origin
