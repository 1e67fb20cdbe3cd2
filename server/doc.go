// Package server is the data plane: one request, in the order of its steps.
//
//	accept.go     1  a connection gets a slot, or is turned away
//	recv.go       2  bytes arrive in the ring's provided buffers
//	parse.go      3  consumeRequest: bytes -> request, or a refusal
//	auth.go       4  credential -> TenantContext
//	admit.go      5  the tenant's bounds and read_iops: go, wait as bytes, or be refused (refusal.go)
//	open.go       6  key -> open file; the request parks while it is looked up
//	respond.go    7  conditions, range, response head
//	schedule.go   8  whose turn it is, by package sched
//	limits.go     9  client_egress_bytes, charged before a piece is submitted
//	send.go      10  small bodies by one ring SEND, large ones by sendfile in turns
//	account.go   11  what the socket really took
//
// # Ownership
//
// A loop is one thread, one ring and all that hangs on it: slots, buffers, open
// files, counters. Everything of a loop is touched by its thread alone. Other
// goroutines enter only through its mailbox, and a loop never waits for them:
// it waits in one place, uring.Ring.Wait.
//
// Everything the kernel reads or writes after a system call has returned lives
// in mmap'ed memory (uring.Slabs, uring.Buffers). The race detector does not see
// the kernel; the lease rules of those two types are what keeps it honest.
//
// # States of a connection
//
//	         accept
//	           |
//	           v                  lookup blocks
//	+----> reading <---------------------------> opening
//	|          |
//	|   request|-- no read_iops --> queued (at the door, as bytes)
//	|          |                      |
//	|          v                      |
//	|        ready <------------------+----------------+
//	|          | its turn, and it is paid for          |
//	|          |-- no slab free -------> starved ------|
//	|          |-- pages are cold, small: filling -----|
//	|          |-- pages are cold, large: parked ------|
//	|          |-- large body, socket full: blocked ---|
//	|          |-- large body, more to come -----------+
//	|          +-- small body --> verifying --> sending
//	|          |                                  |
//	+----------+ last byte accepted, keep-alive --+
//	           |
//	           +-- last byte, close --> lingering --> closing --> free
//	                                                    ^
//	any state, on failure, timeout or drain ------------'
//
// ready is with the scheduler: its turn has not come, or its tenant sleeps until its limit has more. A request that waits so without having begun may be
// there as bytes too (conn.raw): it is opened when its turn comes. starved is also where a refusal waits for a slab.
// held, not drawn, is a refusal that waits for its turn to be told (hold.go): it comes from reading, queued or ready and goes to sending.
//
// reading may also end in lingering, when the worker drains or a header takes too
// long. verifying, between the last byte read of a file and sending or finish, lasts to
// the end of the turn (verify.go). lingering: our FIN is sent; what the client still sends is discarded until its
// FIN, so that the answer is not lost to a reset. closing: the socket is shut
// down and its operations are cancelled; the slot stays taken until every
// completion is in (pend is empty), then the fd is closed and the generation
// grows. A slot never has two senders: while a SEND is with the ring no direct
// call writes to the socket.
package server
