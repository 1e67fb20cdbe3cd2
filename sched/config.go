package sched

import (
	"errors"
	"fmt"
)

const (
	// MaxTenants is the most tenants that a Worker knows at a time.
	MaxTenants = 65536
	// MaxWeight is the largest weight; the least is 1.
	MaxWeight = 1000
	// MaxRate is the largest rate, in bytes per second: 8 Tbit/s.
	MaxRate = 1e12
	// MaxChunk is the largest chunk, in bytes.
	MaxChunk = 16 << 20
	// MaxRings is the most rings of a Worker.
	MaxRings = 1024
	// DefaultDepth is how many chunks a ring has in flight at a time.
	DefaultDepth = 4
	// ResponseCost is charged for every response beside its bytes, so that floods of tiny objects pay.
	ResponseCost = 512
	// LeastEstimate is the least that is charged ahead for a socket that takes little at a time, in bytes.
	LeastEstimate = 64 << 10
)

// Order says whose turn it is. All but Fair are there to be measured against it, and keep nothing of what it promises between tenants.
type Order int

const (
	// Fair is what this package is for.
	Fair Order = iota
	// RingLocal is fair on each ring by itself: a tenant has a virtual time on every ring, and what it gets elsewhere does not count. A rate binds by its
	// bucket alone, for which the rings race.
	RingLocal
	// FIFO serves the chunks of all responses of a ring in the order in which they became ready, whoever's they are. A rate binds as with RingLocal.
	FIFO
)

// Config is what a Worker is built from.
type Config struct {
	Order Order
	Rings int   // 1..MaxRings
	Rate  int64 // bytes per second of the whole worker that bind, 0 for none
	Chunk int64 // the most bytes of one dispatch, LeastEstimate..MaxChunk; a quarter while a rate binds
	Depth int   // chunks in flight per ring, 0 for DefaultDepth

	// Wake is called, on the thread of whoever moved the shared clock, with a ring that sleeps longer than it should now: it must be made to call
	// Next. May be nil with one ring.
	Wake func(ring int)
}

func (c *Config) check() error {
	if c.Depth == 0 {
		c.Depth = DefaultDepth
	}
	return errors.Join(
		inRange("order", int64(c.Order), int64(Fair), int64(FIFO)),
		inRange("rings", int64(c.Rings), 1, MaxRings),
		inRange("rate", c.Rate, 0, MaxRate),
		inRange("chunk", c.Chunk, LeastEstimate, MaxChunk),
		inRange("depth", int64(c.Depth), 1, 64),
	)
}

// TenantConfig is what a tenant is given. Zero means no bound, except for Weight.
type TenantConfig struct {
	Weight        int   // 1..MaxWeight
	QueueRequests int   // requests that wait for their first dispatch, on all rings
	QueueBytes    int64 // their bytes; a request that finds the queue empty may be larger
	Deadline      int64 // ns that a request may wait for its first dispatch
	Target        int64 // ns of CoDel: what the least wait of 100 ms may be before requests that waited twice as long are shed
	MaxInflight   int   // requests admitted and not over, on all rings
}

func (c *TenantConfig) check() error {
	return errors.Join(
		inRange("weight", int64(c.Weight), 1, MaxWeight),
		inRange("queue requests", int64(c.QueueRequests), 0, 1<<30),
		inRange("queue bytes", c.QueueBytes, 0, 1<<60),
		inRange("queue deadline", c.Deadline, 0, 1<<60),
		inRange("queue target", c.Target, 0, 1<<60),
		inRange("max inflight", int64(c.MaxInflight), 0, 1<<30),
	)
}

func inRange(what string, n, least, most int64) error {
	if n < least || n > most {
		return fmt.Errorf("sched: %s %d is not between %d and %d", what, n, least, most)
	}
	return nil
}
