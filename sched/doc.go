// Package sched decides which response sends the next chunk: fairly between tenants over all rings of the worker, whatever the number of
// their connections and wherever these landed.
//
// # Who owns what
//
//   - Worker is what rings share: the virtual clock V, the bucket of --egress-rate, the set of active tenants. Atomics only.
//   - Tenant is what rings share of one tenant: weight, virtual time, queue counters. Atomics only.
//   - Ring is one loop's part, touched by its thread alone: flows (one per connection slot), a heap of the tenants that are ready, a timing
//     wheel of those that wait.
//
// A flow is a response on its connection; several flows of one tenant take turns. A seat is one tenant on one ring.
//
//	Admit --> queued --Push--> ready --Next--> picked --Charge--> in flight --Done--> ready | over
//	                            ^  \                                 |
//	                   Unblock  |   +--Block--> blocked <---Block----+        Drop ends any of them
//
// # The order
//
// Every charge adds bytes/weight to the tenant's virtual time vt, with one compare-and-swap.
//
// With a rate that binds (paced): V advances at boost * 0.995 * C / (sum of the active weights), planned every 10 ms and when a tenant joins. A
// tenant may dispatch while vt <= V; among those that may, a ring takes the earliest virtual deadline, vt + estimate/weight. V binds and the
// bucket does not, because where a bucket binds, races decide who gets it. Boost gives away what tenants leave unused.
// While V binds, so that rings have time to spare, they send a chunk in four pieces: what comes to a ring waits for the one that it is at. Credit and debt are
// counted in chunks all the same, or who asks for less than its share in bursts would wait for V instead.
//
// Without (free): each ring serves its least vt first and is never idle while it has work. Rings advance at different speeds, so each
// keeps a frame of its own: a seat's key is vt less an offset that is set when the seat becomes active. What a tenant gets elsewhere moves its
// key here; how far the rings' clocks are apart does not.
//
// With one tenant and no rate (solo) there is nothing to decide, and no shared word is touched.
//
// Config.Order leaves parts of this out, to measure what they are worth: RingLocal the virtual time that rings share, FIFO the tenants.
//
// # No credit, debt kept
//
// A tenant that comes back from idling, throttling or slow reading, or had nothing left to send, starts at most one chunk/weight behind V; at every charge it is
// at most (rings * depth + 1) chunks/weight behind. Debt stays. Where rings or bucket cannot carry what V promises, both count from where the service is,
// and not from V: else weights would decide who forfeits.
//
// Tenants that come for the first time start up to a chunk before V, each at another part of it: tenants in step would all wait, then all ask at once.
//
// # Purity
//
// Nothing here starts a goroutine, takes a lock, does I/O or reads a clock. now is int64 nanoseconds of one monotonic clock, the same for all
// rings; a now that goes back is taken as the newest seen.
package sched
