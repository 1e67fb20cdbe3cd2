// Package sim runs the production scheduler in virtual time: rings that take turns with stale clocks, sockets that take little, block and break,
// tenants that come, go, and are held back by limits. Equal seed, equal trace.
//
//	setup.go   what a world is made of, and worlds from seeds
//	world.go   events, in the order of virtual time
//	ring.go    one loop: mail, dispatches, sleep
//	client.go  connections: requests, sockets, limits
//	check.go   what must hold at every event, and at the end
//	ablation.go  the schedulers that were not chosen, to show that the checks can tell
package sim
