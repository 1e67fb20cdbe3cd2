package qos

import (
	"errors"
	"fmt"
	"time"
)

// Config holds the settings that all workers of a cluster share. They are part of the contract's bound: d is TTL. Use
// DefaultConfig and change fields; no field's zero has a meaning of its own.
type Config struct {
	SyncMin time.Duration // shortest time between two reports of a hot limit, early reports apart if the advance is under 4 of it (--sync-interval)
	SyncMax time.Duration // longest time between two reports of a limit in use; with two round trips it fits in the TTL
	Trip    time.Duration // the round trip to a peer that is to be expected: start-up checks it against the TTL, reporters measure it

	ReportIops  int64 // early report once so much is unacknowledged and it is a quarter of the ceiling's room (--report-iops)
	ReportBytes int64 // the same for metrics in bytes (--report-bytes)

	TTL     time.Duration // how long after the stamp it acknowledges a snapshot may be acted upon (--snapshot-ttl)
	Advance time.Duration // so much of the refill to come may be granted; at most TTL (--advance)
	Lease   time.Duration // how long after its last report a reporter counts as active at the owner

	BootstrapBytes int64 // what may be used at once without a fresh view, at most a policy's local burst (--bootstrap)
	BootstrapIops  int64

	Confirm time.Duration // F: how long a majority's answer lets an owner act (--ring-confirm)

	Budget       int // reports one worker sends to one owner, and pushes one owner sends, at most per SyncMin (--message-budget)
	MaxLimits    int // limits known to one worker; more are refused, never unlimited
	MaxReporters int // reporters that an owner keeps for one limit
}

// DefaultConfig returns the proposal's initial parameters.
func DefaultConfig() Config {
	return Config{
		SyncMin: 2 * time.Millisecond, SyncMax: 5 * time.Millisecond, Trip: time.Millisecond,
		ReportIops: 32, ReportBytes: 64 << 10,
		TTL: 20 * time.Millisecond, Advance: 8 * time.Millisecond, Lease: 250 * time.Millisecond,
		BootstrapBytes: 256 << 10, BootstrapIops: 4,
		Confirm: 500 * time.Millisecond,
		Budget:  1024, MaxLimits: 1 << 17, MaxReporters: 1 << 14,
	}
}

// Alone returns the settings of a worker that has no peers and never will: its views may be old, for nobody else can come to own its limits, and what
// it tells its own owner is never late. Use stays within burst + rate*t, to the unit, whatever the TTL. So its loop may sleep for longer while little happens.
func (c Config) Alone() Config {
	c.TTL = max(c.TTL, aloneTTL)
	c.Lease = max(c.Lease, 5*c.TTL/2)
	c.Confirm = max(c.Confirm, c.TTL+time.Millisecond)
	return c
}

// aloneTTL is such a worker's TTL. With more, people would look at figures that are older than they can bear.
const aloneTTL = 200 * time.Millisecond

// Validate refuses settings under which the rules cannot hold or nothing would be delivered, and says how to mend them.
func (c *Config) Validate() error {
	switch {
	case c.SyncMin < 100*time.Microsecond:
		return fmt.Errorf("sync interval %v: want at least 100us", c.SyncMin)
	case c.SyncMax < c.SyncMin:
		return fmt.Errorf("longest sync interval %v is under the shortest, %v: raise it", c.SyncMax, c.SyncMin)
	case c.Trip <= 0:
		return fmt.Errorf("round trip %v: want more than 0", c.Trip)
	case c.TTL > time.Second:
		return fmt.Errorf("snapshot TTL %v: want at most 1s, it is d of the bound N*b + R*d", c.TTL)
	case c.TTL < c.SyncMax+2*c.Trip:
		return fmt.Errorf("snapshot TTL %v: every view would expire between two reports: want at least the longest sync interval and 2 round trips, %v", c.TTL, c.SyncMax+2*c.Trip)
	case c.Advance < 0 || c.Advance > c.TTL:
		return fmt.Errorf("advance %v: want 0 to the snapshot TTL, %v, that pays for it", c.Advance, c.TTL)
	case c.Lease < 2*c.TTL:
		return fmt.Errorf("reporter lease %v: want at least two snapshot TTLs, %v", c.Lease, 2*c.TTL)
	case c.ReportIops < 1 || c.ReportBytes < 1:
		return errors.New("report thresholds: want at least 1 request and 1 byte")
	case c.BootstrapIops < 0 || c.BootstrapBytes < 0:
		return errors.New("bootstrap: want 0 (none) or more")
	case c.Confirm <= c.TTL:
		return fmt.Errorf("ring confirmation %v: want more than the snapshot TTL, %v, so that an old owner's views die before the new owner acts", c.Confirm, c.TTL)
	case c.Budget < 1 || c.MaxLimits < 1 || c.MaxReporters < 1:
		return errors.New("message budget, limits and reporters: want at least 1 each")
	}
	return nil
}

// bootstrap is the allowance of rule 9 for a policy: what may be unacknowledged without a fresh view.
func (c *Config) bootstrap(p *Policy) int64 {
	return min(c.bootstrapOf(p.Metric), p.LocalBurst)
}

// earlyGap is how long after the last a report may go that is not due: the shortest interval; but a quarter of the advance, if that is sooner, for the
// owner grants half of what is free, and where nothing is left that is half of the advance: it has to last until the answer is in.
func (c *Config) earlyGap() int64 {
	return max(min(int64(c.SyncMin), int64(c.Advance)/4), int64(c.SyncMin)/4)
}

// longest is the interval up to which that of a limit with little use stretches.
func (c *Config) longest() int64 { return max(int64(c.TTL)/2, int64(c.SyncMax)) }

// threshold is the least unacknowledged use that is worth an early report.
func (c *Config) threshold(m Metric) int64 {
	if m.Requests() {
		return c.ReportIops
	}
	return c.ReportBytes
}
