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
//   - Ring, Tenure and Voter: who owns, and who may act. Excess: by how much the contract was missed.
//
// Nothing here starts a goroutine, opens a socket, takes a lock or reads a clock: the arguments are (state, input, now) and the
// result is (state, outputs). now is int64 nanoseconds of the machine's own CLOCK_BOOTTIME, so that a suspended machine's
// views age; a now that goes back is taken as the newest seen. Production and the simulator run the same code.
//
// # Who calls what
//
// A ring looks its Cell up once (Ledger.Cell) and keeps it. In a pass, between Ledger.Enter and Leave, it charges with Cell.Admit, AdmitUnder or AdmitBoth, gives
// back with Refund, and says what waits (Await) and what was finally refused (Refuse). A Decision to wait names a time; a new View (Verdict
// InForce) is the other moment to ask again.
//
// The control loop sleeps until the earlier of Reporter.Next and Owner.NextPush, or until Reporter.Urgent (Ledger.OnUrgent tells it). It sends what Reporter.Poll and Owner.Push hand
// out, gives reports to Owner.Apply and its snapshots, or Owner.Redirect, back to the reporter, and what arrives to Reporter.Apply and Redirected.
// Tenure.Poll is told whether the owner is in use (Owner.InUse); while it is not, nobody is asked. What Tenure says goes to Owner.Confirm and Settle.
// A new ring goes to Owner.SetRing, then Reporter.SetRing; what Owner.Export hands out goes to the next owners' Import once Tenure.SeenOff says so.
// Policies go to Ledger.SetPolicy and Owner.SetPolicy. At the end Reporter.Flush, and on until Done.
//
// # Limits
//
// Ledger and Owner know at most Config.MaxLimits limits, an owner at most MaxReporters workers for each; reports and pushes have a budget; a hand-over
// comes in parts of 256 reporters. What is over is refused with a reason or waits its turn: nothing grows without bound, and nothing becomes unlimited.
package qos
