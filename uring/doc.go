// Package uring is a ring of Linux's io_uring for one thread: a dozen operations, provided buffers, and nothing else. It knows
// nothing of what is carried over it.
//
// # One ring, one thread
//
// A [Ring] is made disabled ([New], anywhere) and enabled ([Ring.Enable]) on the locked OS thread that owns it from then on. The
// kernel refuses submissions of any other thread (IORING_SETUP_SINGLE_ISSUER), and cancels what is in flight when that thread
// exits: the goroutine must call runtime.LockOSThread and stay until [Ring.Close]. Nothing in the package takes a lock.
//
// # The four shared words
//
// Process and kernel share two arrays and four indexes. Each index is a free-running uint32 (index & mask is the slot) that one
// side writes and the other reads, so each needs exactly one ordering rule:
//
//	word      written by  rule
//	SQ tail   us          store-release after the entries below it are complete; once per enter, not per entry
//	SQ head   the kernel  load-acquire before a slot is filled again; without SQPOLL it moves only inside enter, so it is read once after each
//	CQ tail   the kernel  load-acquire before the completions below it are read
//	CQ head   us          store-release after the completions below it have been copied out; once per enter
//
// A provided-buffer ring has one more, its 16-bit tail: store-release after the slots below it are complete. The kernel keeps that
// ring's head to itself. sync/atomic is sequentially consistent, which is stronger than needed; that costs an XCHG per store, so the
// stores are batched: everything prepared, reaped and released becomes visible in one place, at the next enter.
//
// # Leases
//
// The kernel reads and writes memory long after the call that named it, and the garbage collector, the stack copier and the
// race detector know nothing of it. So everything that a request names lies outside the Go heap: [Buffers] and [Slabs] are mmap'ed,
// and so is the argument of a timed wait. Who may touch a buffer at a time is a lease:
//
//   - A buffer of [Buffers] belongs to the kernel until [Ring.Next] hands out a completion that names it, then to the caller until
//     [Buffers.Release]. Releasing twice panics: the second release would lend one buffer to two connections.
//   - A slab belongs to the caller from [Slabs.Get] to [Slabs.Put], and to the kernel as well between a Send, Read or Prefetch
//     that names it and that request's completion. Cancelling does not end the kernel's lease; only the completion does.
//
// # Limits
//
// Entries and CQEntries bound what can be prepared and what can be unreaped; beyond that Prepare methods return false, and
// completions wait in the kernel and are counted in Stats.CQOverflow. A buffer group has at most 32,768 buffers. io-wq, where operations go
// that would block, is capped by Config.
package uring
