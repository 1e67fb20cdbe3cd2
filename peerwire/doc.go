// Package peerwire is the control plane of one worker: the loop that drives the limiter's state machines, and the wire to the other workers.
//
// # One loop
//
// One goroutine (Node.Run) owns the worker's qos.Reporter, qos.Owner, qos.Voter and qos.Tenure, and the control side of its qos.Ledger. What a turn
// of it does is a value, core.step: (state, now, inputs) -> outputs, without clock, goroutine or lock, which tests drive in fake time. Everything
// else reaches the loop through a mailbox: new policies, a new ring, what peers have sent, a question for the status.
//
// The loop sleeps until the earliest of Reporter.Next, Owner.NextPush and the next question to the voters (none while nothing that the worker owns is in use). A ring that has something urgent wakes it
// (qos.Ledger.OnUrgent): one atomic load while the loop is awake, and one wake-up of a thread, about 10 us of the ring's time, while it
// sleeps. After a turn that was urgent the loop rests for a millisecond and looks by itself, so that rings of a busy worker pay only the load. No ring
// ever waits for the loop. Limits that are far from exhausted, owned here and used by nobody else have their turns together and seldom (qos, calm.go): a
// hundred times a second, ten times where the worker is alone for good (qos.Config.Alone).
//
// # Alone
//
// Until SetRing names peers the worker is alone: it owns every limit, its reports go to its own owner within the turn and the snapshot
// comes straight back. There is no lag and no advance, and use is at most burst + rate*t.
//
// # The wire
//
// Each pair of workers keeps one TCP connection that carries all limits both ways. A frame is a length of four bytes and one protobuf Frame
// (peerpb/peer.proto, changed by appending alone): whatever one worker has for the other at that moment. The first frame each way is a hello with
// worker, incarnation, ring and the settings that the bound rests on; workers that differ in those refuse each other. Both sides may dial; of two
// connections that cross, the one that the lower id has dialed stays.
//
// With TLS (LoadTLS) both sides show a certificate of the cluster's authority, and one of its DNS names is the worker's id, letter for letter. Without
// TLS a worker listens and dials on loopback alone. Either way a worker speaks for itself alone: a report, question, answer or grant in another's name is dropped and
// counted (Counters.Forged, Strange).
//
// A message that is lost does no harm, so nothing is kept for a peer that cannot be reached, and what waits for one that reads slowly is merged: the
// newest report of a limit holds all that the older ones said. A link on which nothing comes for 2 F (a heartbeat comes every F/2) is closed.
package peerwire
