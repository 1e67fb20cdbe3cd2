// Package qos holds what a tenant may have: a cluster-wide, eventually consistent rate limit as pure state machines.
//
// # Contract
//
// For every window (s, t] and every schedule of faults, admitted(s, t) <= B + R*(t-s) + N*b + R*d: admitted counts units when they are
// charged, on all workers, less refunds; N counts the worker incarnations active in the window; d is the snapshot TTL. And the
// other half, without which refusing everything would do: with faults healed and demand of at least R, at least 0.97 R is delivered
// whatever the skew of demand; a tenant under its limit is not refused.
//
// # The idea
//
// A snapshot raises a ceiling on what one worker may ever have used, and the bucket pays for the ceiling when it is raised, like
// flow control in QUIC (RFC 9000 section 4.1) with a bucket behind it.
//
//	request --> Cell.Admit --> go            (one atomic word; reads an immutable View)
//	                |
//	           Reporter.Poll --> UsageReport --> Owner.Apply --> RateSnapshot --> Reporter.Apply --> next View
//
// # Who owns what
//
//   - Level is the owner's bucket: exact, with debt, never above the burst.
//   - GCRA is a bucket in one atomic word, for limits that one worker alone decides: the allowance, and an owner's own traffic.
//   - Ledger holds the worker's Cells, one per limit; rings charge them (atomics only); one control loop owns the rest.
//   - Reporter is that loop's logic: what to report, to whom, when; it puts Views in force.
//   - Owner is the meter of each limit that the ring gives to this worker.
//   - Ring, Voters and Excess: who owns, who may act, and by how much the contract was missed.
//
// Nothing here starts a goroutine, opens a socket, takes a lock or reads a clock: the arguments are (state, input, now) and the
// result is (state, outputs). now is int64 nanoseconds of the machine's own CLOCK_BOOTTIME, so that a suspended machine's
// views age; a now that goes back is taken as the newest seen. Production and the simulator run the same code.
//
// # The interface, in the reader's order
//
//	NewLedger(cfg Config, rings int) (*Ledger, error)
//	(*Ledger) SetPolicy(p *Policy, now int64) error      control loop
//	(*Ledger) DropPolicy(l Limit, now int64)             control loop
//	(*Ledger) Cell(l Limit) *Cell                        any ring; never nil: an unknown limit gets a closed cell
//	(*Ledger) Enter(ring int), Leave(ring int)           ring: around each pass; between them a View may be held
//	(*Cell)   View() *View                               ring: the view in force
//	(*Cell)   Admit(n, now int64) Decision               ring: View and AdmitUnder in one
//	(*Cell)   AdmitUnder(v *View, n, now int64) Decision ring: charge under a view read earlier in this pass
//	AdmitBoth(a *Cell, n int64, b *Cell, m, now int64) Decision
//	(*Cell)   Refund(n int64)                            ring
//	(*Cell)   Await(ring int, need, waiting int64)       ring: what waits now on this ring: the next charge and the sum
//	(*Cell)   Refuse(ring int, n int64)                  ring: n units were finally refused (counted as wanted, never charged)
//
//	NewReporter(cfg Config, l *Ledger, worker WorkerID, epoch, seed uint64) (*Reporter, error)
//	(*Reporter) SetRing(epoch uint64, members int, owner func(Limit) WorkerID, now int64)
//	(*Reporter) Poll(now int64, out []Addressed) []Addressed   reports due, sorted by owner
//	(*Reporter) Next() int64                                   when to poll again if nothing becomes urgent
//	(*Reporter) Apply(s *RateSnapshot, now int64) Verdict      a snapshot has come
//	(*Reporter) Redirected(d *Redirect, now int64)             a report was not taken
//	(*Reporter) Flush(now int64), Done() bool                  shutdown: every total acknowledged or given up
//
//	NewOwner(cfg Config, worker WorkerID, epoch uint64) (*Owner, error)
//	(*Owner) SetPolicy(p *Policy, now int64) error
//	(*Owner) SetRing(epoch, before uint64, owns func(Limit) bool, now int64)   before: the ring that epoch replaced
//	(*Owner) Confirm(until int64)                              Voters said so: may act before until
//	(*Owner) Settle(now int64)                                 Voters said so: limits gained without a hand-over start, exhausted
//	(*Owner) Apply(r *UsageReport, now int64) (RateSnapshot, Refusal)
//	(*Owner) Push(now int64, out []RateSnapshot) []RateSnapshot   what cannot wait for a report: turns, exhaustion, bans
//	(*Owner) NextPush() int64
//	(*Owner) Export(now int64, out []HandOver) []HandOver      after SetRing: the limits that moved away
//	(*Owner) Import(h *HandOver, now int64) Refusal
package qos
