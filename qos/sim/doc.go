// Package sim runs whole clusters of the limiter in virtual time, under every fault that we could think of, and holds each charge against
// the contract.
//
// # What runs
//
// The production state machines of package qos, unchanged: Ledger, Reporter, Owner, Tenure, Voter, Ring. Around them, simulated: machines with
// clocks of their own (clock.go), data-plane rings with requests that wait (dataplane.go), a network (network.go), a coordinator
// (coordinator.go), demand (demand.go), and all that can go wrong (deed.go). A World is a heap of events and one integer seed: equal seeds make
// equal runs, to the hash of everything that happened.
//
// # What is checked (check.go)
//
// At every charge, over all windows that end with it: admitted <= B + R*t + N*b + R*d, by the excess meter, with N the incarnations that charged
// since the ideal bucket was last full and d the snapshot TTL (with drifting clocks R is what the fastest clock makes of it). At every
// charge: within the highest ceiling given, or within the allowance. At every report: what is reported was admitted, and nothing else. At every report
// applied: the owner's level less what is not reported is at most the level of a bucket that knows everything. At every change of owner: the one
// before cannot act any more, and the new one, if it was handed nothing, has at most what has been refilled since. After every turn of a control loop: it does not ask to be run again at once. And when the faults are over: 0.97 of what
// is due is delivered, and a tenant under its limit is refused nothing.
//
// # Where it is kinder than the world
//
// Messages arrive whole or not at all. State machines run in no time: what two threads of one process do to each other's memory is tested
// elsewhere, with the race detector. The coordinator never goes back (see qos.Tenure). Liveness is owed only for policies that policy check
// would not warn of, and from when the owners' debts are paid: see awaitPaid and stands.
//
// # How to use it
//
//	go test ./qos/sim                                      400 seeds and the written schedules
//	go test ./qos/sim -run TestSeeds -seeds 10000 -v       with the coverage table, and a failure where it has holes
//	go run ./qos/sim/cmd/seeds -seeds 1000000              in slices, with a record in bench/results
//	go test ./qos/sim -run TestSeeds -first 4711 -seeds 1 -tell -v
//
// A seed that fails prints the last of these.
package sim
