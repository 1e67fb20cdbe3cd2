// Package server is the data plane: one request, in the order of its steps.
//
//	accept.go   1  a connection gets a slot, or is turned away
//	recv.go     2  bytes arrive in the ring's provided buffers
//	parse.go    3  consumeRequest: bytes -> request, or a refusal
//	auth.go     4  credential -> TenantContext
//	open.go     5  key -> open file; the request parks while it is looked up
//	respond.go  6  conditions, range, response head
//	send.go     7  small bodies by one ring SEND, large ones by sendfile in turns
//	account.go  8  what the socket really took
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
//	|          |  \  no slab free
//	|          |   +----------------------------> starved
//	|   request|
//	|          +-- small body --> sending <--------- filling (pages were cold)
//	|          |                     |                 ^
//	|          |                     |   short read ---+
//	|          +-- large body --> ready --> blocked (socket full, POLLOUT armed)
//	|          |                   ^ |  <--'
//	|          |                   | +----> parked  (pages are cold, prefetch armed)
//	|          |                   +--------'
//	+----------+ last byte accepted, keep-alive
//	           |
//	           +-- last byte, close --> lingering --> closing --> free
//	                                                    ^
//	any state, on failure, timeout or drain ------------'
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
