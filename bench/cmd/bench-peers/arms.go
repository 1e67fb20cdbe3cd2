package main

import (
	"context"
	"strconv"
	"time"

	"github.com/talon-worker/talon/bench/bed"
	"github.com/talon-worker/talon/bench/load"
)

// An arm is one way in which peers, or strangers, are bad.
type arm struct {
	name, says string
	control    string // the arm that is the same without the worker; its ratio shows what the attacker alone takes
	begin      func(ctx context.Context, r *ring) (end func(ctx context.Context) error, err error)

	rounds []round
}

// round is an arm's two windows, and what of the peer port was counted meanwhile.
type round struct {
	Calm     sample  `json:"calm"`
	Hit      sample  `json:"hit"`
	Errors   int64   `json:"errors"`
	Accepted float64 `json:"connections"` // that came to the peer port, a second, whatever became of them
	FramesIn float64 `json:"frames_in"`   // a second
}

// sample is one window.
type sample struct {
	Rate   float64 `json:"req_per_s"`
	P99    float64 `json:"p99_us"`
	Busy   float64 `json:"busy"`           // cores
	CPU    float64 `json:"us_per_request"` // of the worker, whatever it did beside
	Client float64 `json:"client_idle"`
}

func sampled(res *load.Result) (s sample) {
	s = sample{Client: res.ClientIdle}
	for _, stream := range res.Streams {
		s.Rate += stream.Rate
		s.P99 = max(s.P99, stream.P99US)
	}
	if res.Server != nil {
		s.Busy, s.CPU = res.Server.Busy, res.Server.PerRequest
	}
	return s
}

var nothing = func(context.Context) error { return nil }

// relayed tells the relay to do something.
func relayed(mode string) func(context.Context, *ring) (func(context.Context) error, error) {
	return func(_ context.Context, r *ring) (func(context.Context) error, error) {
		return func(context.Context) error { return r.relay.tell(pass) }, r.relay.tell(mode)
	}
}

// flooded lets strangers flood the measured worker's peer port, or the sink.
func flooded(kind string, sink bool) func(context.Context, *ring) (func(context.Context) error, error) {
	return func(_ context.Context, r *ring) (func(context.Context) error, error) {
		to := r.peers[measured]
		if sink {
			to = r.sinkAddr
		}
		c, _, err := r.startChild("flood", kind, strconv.Itoa(r.o.Flood), to)
		return func(context.Context) error { c.stop(); return nil }, err
	}
}

func arms() []*arm {
	return []*arm{
		{name: "well", says: "nothing: what the machine moves by itself", begin: func(context.Context, *ring) (func(context.Context) error, error) { return nothing, nil }},
		{name: "dead", says: "the bad peer is killed, and its port closed", begin: func(_ context.Context, r *ring) (func(context.Context) error, error) {
			r.servers[bad].Kill()
			return func(ctx context.Context) error { return r.start(ctx, bad) }, nil
		}},
		{name: "stopped", says: "the bad peer is stopped: its connections stay, and nothing is read", begin: func(_ context.Context, r *ring) (func(context.Context) error, error) {
			r.servers[bad].Pause()
			return func(context.Context) error { r.servers[bad].Resume(); return nil }, nil
		}},
		{name: drip, says: "the bad peer reads one byte at a time, a thousand a second", begin: relayed(drip)},
		{name: beats, says: "the bad peer floods with empty frames", control: "pour-control", begin: relayed(beats)},
		{name: replay, says: "the bad peer floods with what it has said before", control: "pour-control", begin: relayed(replay)},
		{name: elements, says: "the bad peer sends 64 KiB of messages without anything in them on every connection", begin: relayed(elements)},
		{name: huge, says: "the bad peer begins a frame of 1 MiB on every connection", begin: relayed(huge)},
		{name: connects, says: "strangers connect and go", control: "connects-control", begin: flooded(connects, false)},
		{name: garbage, says: "strangers connect, say 4 KiB of noise and go", control: "garbage-control", begin: flooded(garbage, false)},
		{name: empties, says: "strangers connect, say 4 KiB of empty messages and go", control: "garbage-control", begin: flooded(empties, false)},
		{name: trickle, says: "256 strangers say a hello one byte at a time", control: "trickle-control", begin: flooded(trickle, false)},
		{name: "connects-control", says: "connects, to another process", begin: flooded(connects, true)},
		{name: "garbage-control", says: "garbage, to another process", begin: flooded(garbage, true)},
		{name: "trickle-control", says: "trickle, to another process", begin: flooded(trickle, true)},
		{name: "pour-control", says: "one connection to another process is written to as fast as it reads", begin: flooded(pour, true)},
	}
}

func armNames() (names []string) {
	for _, a := range arms() {
		names = append(names, a.name)
	}
	return names
}

// settle is how long something bad lasts before it is measured: longer than it takes to fill buffers and to miss heartbeats.
const settle = 300 * time.Millisecond

// measure is a calm window and one under what the arm does.
func (a *arm) measure(ctx context.Context, r *ring) error {
	calm, err := r.measure(ctx)
	if err != nil {
		return err
	}
	end, err := a.begin(ctx, r)
	if err != nil {
		return err
	}
	hit, counted, err := a.hit(ctx, r)
	if eerr := end(ctx); err == nil {
		err = eerr
	}
	if err != nil {
		return err
	}
	counted.Calm, counted.Hit = sampled(calm), sampled(hit)
	for _, s := range hit.Streams {
		counted.Errors += s.Errors
	}
	a.rounds = append(a.rounds, counted)
	return r.connected(ctx)
}

func (a *arm) hit(ctx context.Context, r *ring) (hit *load.Result, counted round, err error) {
	if err := bed.Sleep(ctx, settle); err != nil {
		return nil, counted, err
	}
	before, err := r.servers[measured].Metrics(ctx)
	if err != nil {
		return nil, counted, err
	}
	from := time.Now()
	if hit, err = r.measure(ctx); err != nil {
		return nil, counted, err
	}
	after, err := r.servers[measured].Metrics(ctx)
	sec := time.Since(from).Seconds()
	counted.FramesIn = (after[framesIn] - before[framesIn]) / sec
	for _, outcome := range came {
		counted.Accepted += (after[outcome] - before[outcome]) / sec
	}
	return hit, counted, err
}
