// Package uringtest is a kernel for a [uring.Ring] that runs in the test's own thread, from a seed. It takes the submission entries out of the
// shared memory and performs them for real, on real descriptors, but when and how they complete is the seed's choice: late,
// out of order, short, with an errno of a list, a multishot request that ends, buffers that run out, a cancellation that comes too
// late, an enter that takes a part or nothing. One seed and the same behaviour of the sockets give the same run.
//
// It is stricter than Linux where a mistake would hide:
//
//   - It never waits. An enter that may sleep looks once and returns as if its time had passed, so a loop under test runs in fake time: the
//     test moves its clock on when Wait has come back with nothing.
//   - A released buffer is overwritten as soon as the kernel sees it, so reading it afterwards is seen to be wrong.
//   - A request holds its descriptor open, by a duplicate, until it has completed: closing a socket with a receive armed sends no FIN.
//   - A field of a submission entry that an operation has no use for must be zero.
//
// What it does not have: io-wq and its threads, sleeping, signals, IORING_REGISTER_PROBE, and operations that package uring does not submit.
package uringtest
