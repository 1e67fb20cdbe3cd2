package main

import (
	"time"

	"github.com/talon-worker/talon/bench/excess"
)

// part is what one client saw admitted, slice by slice.
type part struct {
	from, slice int64 // ns
	admitted    []int64
}

// window is one round of one arm.
type window struct {
	Admitted  int64   `json:"admitted"`
	OfIdeal   float64 `json:"of_ideal"`   // admitted over what a bucket admits that was full when the window opened
	Excess    int64   `json:"excess"`     // requests, over an ideal bucket, of the worst window within this one
	PerSecond []int64 `json:"per_second"` // admitted in each second
	Steady    float64 `json:"steady"`     // admitted per second over R, after the burst
	Offered   float64 `json:"offered_per_s"`
	Messages  float64 `json:"messages_per_s"` // between the workers
}

// judge puts the clients' slices together. The window opens with the first client.
func (o *options) judge(parts []part, offered, messages float64) *window {
	w := &window{Offered: offered, Messages: messages, PerSecond: make([]int64, int(o.Seconds))}
	open := parts[0].from
	for _, p := range parts {
		open = min(open, p.from)
	}
	length := int64(o.Seconds * 1e9)
	var events []excess.Event
	for _, p := range parts {
		for i, n := range p.admitted {
			at := p.from + int64(i+1)*p.slice // counted at the end of its slice: a window may look one slice shorter than it was
			if n == 0 || at > open+length {
				continue
			}
			events = append(events, excess.Event{At: at, Bytes: n})
			w.Admitted += n
			if second := int((at - open - 1) / int64(time.Second)); second < len(w.PerSecond) {
				w.PerSecond[second] += n
			}
		}
	}
	limit := excess.Limit{Workers: o.Workers, Rate: o.Rate, Burst: o.Burst, LocalBurst: o.LocalBurst}
	for _, p := range limit.Judge(open, events) {
		w.Excess = max(w.Excess, p.Excess)
	}
	w.OfIdeal = float64(w.Admitted) / (float64(o.Burst) + float64(o.Rate)*o.Seconds)
	// What a full bucket has beyond the rate is in the first second, whatever the algorithm.
	rest := int64(0)
	for _, n := range w.PerSecond[1:] {
		rest += n
	}
	w.Steady = float64(rest) / float64(len(w.PerSecond)-1) / float64(o.Rate)
	return w
}
