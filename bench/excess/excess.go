// Package excess judges from outside how well several workers keep one limit together, by what clients received and when, and by what the workers' admission
// logs have.
//
// The contract: for every window (s, t], bytes(s, t) <= B + R*(t-s) + N*b + R*d, where N counts the incarnations of workers that were active
// in it. The excess is the largest left side less B + R*(t-s). It is found exactly in one pass: an ideal bucket of rate R and burst B is
// driven by what was really received or admitted, and its level may fall below zero; how far is the excess of the worst window that ends then.
package excess

import (
	"cmp"
	"slices"
)

const second = 1_000_000_000

// Event is something that happened: bytes were received or admitted, the rate changed, or a worker was born. Of events at one instant, bytes are counted
// last, and of those what was given back: that may overstate the excess by as much, and hides none.
type Event struct {
	At    int64 // ns, of one clock
	Bytes int64 // received or admitted; given back, if below 0
	Rate  int64 // bytes/s from now on, if above 0
	Born  int   // incarnations of workers that began
}

// turn orders events at one instant.
func (e Event) turn() int {
	switch {
	case e.Bytes > 0:
		return 1
	case e.Bytes < 0:
		return 2
	}
	return 0
}

// bucket is the ideal one. Times are ns, levels billionths of a byte: exact for bursts up to 9 GB.
type bucket struct {
	rate, full int64
	level      int64
	at         int64
	fullAt     int64 // when it was full last
}

func (b *bucket) step(now int64) {
	if now <= b.at {
		return
	}
	need := b.full - b.level
	if dt := now - b.at; b.rate > 0 && dt >= need/b.rate+1 { // without this the product could overflow
		b.level = b.full
	} else {
		b.level = min(b.level+b.rate*dt, b.full)
	}
	b.at = now
	if b.level == b.full {
		b.fullAt = now
	}
}

// Limit is what the workers share.
type Limit struct {
	Workers    int   `json:"workers"`           // alive at the beginning, and at any one time
	Rate       int64 `json:"rate"`              // R, bytes/s
	Burst      int64 `json:"burst"`             // B
	LocalBurst int64 `json:"local_burst"`       // b
	Staleness  int64 `json:"snapshot_ttl_ns"`   // d
	Slice      int64 `json:"slice_ns,omitzero"` // what is known of the time of bytes
}

// Point is the excess at one time, and what it may be.
type Point struct {
	At     int64 `json:"at_ns"`
	Excess int64 `json:"excess"` // bytes, rounded up, of the windows that end now
	Bound  int64 `json:"bound"`  // N*b + R*d, N the incarnations since the worst of those windows began, R the highest rate since
}

// Judge returns the excess after every event in which bytes were received or admitted. The bucket is full at from.
func (l Limit) Judge(from int64, events []Event) []Point {
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(a, b Event) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.turn(), b.turn()), cmp.Compare(a.Bytes, b.Bytes))
	})
	b := bucket{rate: l.Rate, full: l.Burst * second, level: l.Burst * second, at: from, fullAt: from}
	type birth struct {
		at int64
		n  int
	}
	var births []birth
	rates := []Event{{At: from, Rate: l.Rate}}
	var out []Point
	for _, e := range events {
		b.step(e.At)
		births = slices.DeleteFunc(births, func(x birth) bool { return x.at < b.fullAt })
		for len(rates) > 1 && rates[1].At <= b.fullAt {
			rates = rates[1:]
		}
		if e.Born > 0 {
			births = append(births, birth{e.At, e.Born})
		}
		if e.Rate > 0 {
			b.rate = e.Rate
			rates = append(rates, e)
		}
		if e.Bytes == 0 {
			continue
		}
		b.level = min(b.level-e.Bytes*second, b.full)
		if e.Bytes < 0 {
			continue
		}
		n, rate := l.Workers, int64(0)
		for _, x := range births {
			n += x.n
		}
		for _, x := range rates {
			rate = max(rate, x.Rate)
		}
		p := Point{At: e.At, Bound: int64(n)*l.LocalBurst + int64(float64(rate)*float64(l.Staleness)/second)}
		if b.level < 0 {
			p.Excess = (-b.level + second - 1) / second
		}
		out = append(out, p)
	}
	return out
}

// Worst is the point that comes closest to its bound, or passes it the most. Without points it is zero.
func Worst(points []Point) (w Point) {
	for _, p := range points {
		if p.Of() > w.Of() || w.Bound == 0 {
			w = p
		}
	}
	return w
}

// Of is the share of the bound that is used.
func (p Point) Of() float64 {
	if p.Bound == 0 {
		return 0
	}
	return float64(p.Excess) / float64(p.Bound)
}
