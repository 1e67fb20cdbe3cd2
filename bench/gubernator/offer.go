package main

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"
)

// tick is how long an offerer sleeps between two looks at what is due.
const tick = time.Millisecond

// result is what the program prints.
type result struct {
	From     int64   `json:"from_ns"` // Unix time, when slices begin
	Slice    int64   `json:"slice_ns"`
	Admitted []int64 `json:"admitted"` // by slice
	Offered  int64   `json:"offered"`
	Refused  int64   `json:"refused"`
	Messages float64 `json:"messages"` // calls between peers meanwhile
}

// offer asks all peers evenly in an open loop: what was due while a peer took its time is asked at once when it is done.
func (p *peers) offer(o *options) (*result, error) {
	// A key that nobody has asked for yet: its bucket is full.
	key := "hot" + strconv.FormatInt(time.Now().UnixNano(), 36)
	begin := time.Now()
	parts := make([]result, len(p.daemons))
	errs := make([]error, len(p.daemons))
	var all sync.WaitGroup
	for peer := range p.daemons {
		all.Go(func() { parts[peer], errs[peer] = p.offerOne(o, peer, key, begin) })
	}
	all.Wait()
	out := &result{From: begin.UnixNano(), Slice: o.slice.Nanoseconds(), Admitted: make([]int64, o.slices())}
	for _, part := range parts {
		out.Offered, out.Refused = out.Offered+part.Offered, out.Refused+part.Refused
		for i, n := range part.Admitted {
			out.Admitted[i] += n
		}
	}
	return out, errors.Join(errs...)
}

func (o *options) slices() int { return int(o.seconds/o.slice.Seconds() + 1e-9) }

func (p *peers) offerOne(o *options, peer int, key string, begin time.Time) (result, error) {
	r := result{Admitted: make([]int64, o.slices())}
	rate := o.offered / float64(len(p.daemons))
	for {
		now := time.Since(begin)
		if now.Seconds() >= o.seconds {
			return r, nil
		}
		if float64(r.Offered) >= rate*now.Seconds() {
			time.Sleep(tick)
			continue
		}
		r.Offered++
		admitted, err := p.ask(context.Background(), peer, key, 1, o)
		if err != nil {
			return r, err
		}
		if !admitted {
			r.Refused++
			continue
		}
		if i := int(time.Since(begin) / o.slice); i < len(r.Admitted) {
			r.Admitted[i]++
		}
	}
}
