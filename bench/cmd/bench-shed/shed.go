package main

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/talon-worker/talon/bench/bed"
	"github.com/talon-worker/talon/bench/load"
)

const (
	aggressorConns = 64
	victimConns    = 8
	perSecond      = 20 // slices; the grain of the recovery time
	slice          = 1.0 / perSecond
	calmAfter      = 1   // second of the recovery run at the high rate
	calmShare      = 0.5 // of the limit, from then on
	tries          = 3   // how often a client that does not give up sends a request again
)

// detector is the failure detector of the second kind of client: 95 % of at least 30 requests in a second, and a probe
// every second while the server is taken for down. The ratio is Voldemort's; its minutes are scaled to this run.
var detector = load.Detector{Threshold: 0.95, Least: 30, IntervalS: 1, RecoverS: 1}

// arm is one way to turn the aggressor away.
type arm struct {
	name string
	srv  *bed.Server
}

// cell is one arm at one multiple of the limit with one kind of client. Its slices have an element for each round.
type cell struct {
	Arm    string  `json:"arm"`
	Client string  `json:"client"`
	Times  float64 `json:"times"`

	VictimRate []float64 `json:"victim_req_per_s"`
	VictimP99  []float64 `json:"victim_p99_us"`
	Good       []float64 `json:"aggressor_good_per_s"`
	Vain       []float64 `json:"aggressor_in_vain_per_s"` // refused or cut off
	Again      []float64 `json:"aggressor_retries_per_s"`
	Withheld   []float64 `json:"aggressor_withheld_per_s"`
	Cost       []float64 `json:"us_per_answer"` // server CPU over all that was answered, refusals and cut connections too
	Recovery   []float64 `json:"recovery_s"`    // NaN if it did not recover within the run
}

type shed struct {
	o                 *options
	client            bed.Client
	aggressor, victim bed.Tenant
	arms              []arm
	cells             []*cell

	aloneRate, aloneP99, aloneCost []float64 // the victim without an aggressor; cost in us of server CPU per answer
}

func newShed(o *options, client bed.Client) *shed {
	limit := fmt.Sprintf("max_connections: 1000, queue: {deadline: 500ms}, limits: {read_iops: {rate: %d/s, burst: %d, local_burst: %d", o.Limit, max(o.Limit/10, 10), max(o.Limit/20, 5))
	ban := fmt.Sprintf(", on_limit: ban, ban: {for: %gs, mode: ", o.Ban)
	s := &shed{o: o, client: client, aggressor: bed.NewTenant("aggressor", ""), victim: bed.NewTenant("victim", "weight: 1, max_connections: 1000")}
	for _, a := range []struct{ name, fields string }{
		{"429", limit + ban + "error}}}"},
		{"503", "dialect: s3, " + limit + ban + "error}}}"},
		{"close", limit + ban + "close}}}"},
		{"pace", limit + ", on_limit: pace}}"},
	} {
		t := s.aggressor
		t.Fields = a.fields
		srv := bed.Talon(a.name, o.Talon, "serve --listen {listen} --admin {admin} --origin {dir} --rings 1 --policy {work}/"+a.name+".yaml")
		srv.Files = map[string]string{"{work}/" + a.name + ".yaml": bed.Policy([]bed.Tenant{t, s.victim})}
		s.arms = append(s.arms, arm{a.name, srv})
	}
	for _, times := range o.Times {
		for _, a := range s.arms {
			for _, client := range []string{"plain", "detector"} {
				s.cells = append(s.cells, &cell{Arm: a.name, Client: client, Times: times})
			}
		}
	}
	return s
}

func (s *shed) server(name string) *bed.Server {
	return s.arms[slices.IndexFunc(s.arms, func(a arm) bool { return a.name == name })].srv
}

// config is one run: the victim, and the aggressor unless c is nil.
func (s *shed) config(srv *bed.Server, c *cell) load.Config {
	conf := load.Config{Target: srv.Target, WarmupS: s.o.Warmup, DurationS: s.o.Window, ServerPIDs: srv.PIDs, SliceS: slice, TimeoutS: 5, Seed: 1,
		Streams: []load.Stream{{Name: "victim", Conns: victimConns, Keys: []string{"/" + key}, Headers: []string{s.victim.Header()}}}}
	if c != nil {
		conf.Streams = append(conf.Streams, s.attack(c))
	}
	return conf
}

func (s *shed) attack(c *cell) load.Stream {
	st := load.Stream{Name: "aggressor", Conns: aggressorConns, Keys: []string{"/" + key}, Headers: []string{s.aggressor.Header()},
		Rate: c.Times * float64(s.o.Limit), Refusals: []int{429, 503}, Retries: tries}
	if c.Client == "detector" {
		d := detector
		st.Detector = &d
	}
	return st
}

// alone measures the victim by itself.
func (s *shed) alone(ctx context.Context) error {
	res, err := s.client.Measure(ctx, s.config(s.arms[0].srv, nil))
	if err != nil {
		return err
	}
	v := &res.Streams[0]
	s.aloneRate, s.aloneP99 = append(s.aloneRate, v.Rate), append(s.aloneP99, v.P99US)
	s.aloneCost = append(s.aloneCost, res.Server.PerRequest)
	return nil
}

// round measures a cell once: with the aggressor at its rate, and, unless that is not asked for, how it comes back under its limit.
func (s *shed) round(ctx context.Context, c *cell) error {
	srv := s.server(c.Arm)
	res, err := s.client.Measure(ctx, s.config(srv, c))
	if err != nil {
		return err
	}
	c.add(res, s.o.Warmup)
	if !s.o.Recovery {
		return nil
	}
	back := s.config(srv, c)
	back.DurationS = calmAfter + s.o.Ban + 3*detector.RecoverS
	back.Streams[1].CalmS, back.Streams[1].CalmRate = calmAfter, calmShare*float64(s.o.Limit)
	if res, err = s.client.Measure(ctx, back); err != nil {
		return err
	}
	c.Recovery = append(c.Recovery, recovery(res.Streams[1].Slices, calmShare*float64(s.o.Limit)*size))
	return nil
}

// add takes the figures of a run. Lost connections are counted from the start of the warm-up.
//
// What a refusal alone costs cannot be told apart: the more there are of anything in one turn of the server, the less each costs, so taking the cost of a
// good response from a quiet run for its cost in a busy one gives less than nothing for the refusals.
func (c *cell) add(r *load.Result, warmup float64) {
	v, a := &r.Streams[0], &r.Streams[1]
	lost := float64(a.ByFault["eof"]+a.ByFault["recv"]+a.ByFault["connect"]+a.ByFault["send"]) / (warmup + r.Seconds)
	c.VictimRate, c.VictimP99 = append(c.VictimRate, v.Rate), append(c.VictimP99, v.P99US)
	c.Good, c.Vain = append(c.Good, a.Rate), append(c.Vain, a.RefusedRate+lost)
	c.Again, c.Withheld = append(c.Again, a.RetriedRate), append(c.Withheld, a.WithheldRate)
	c.Cost = append(c.Cost, r.Server.Busy*1e6/(v.Rate+a.Rate+a.RefusedRate+lost))
}

// recovery is the time in seconds from the calm until the aggressor gets what it asks for: the start of the first of
// three slices in a row with at least 90 % of want bytes a second. NaN if there are none.
func recovery(slices []int64, want float64) float64 {
	from, row := calmAfter*perSecond, 0
	for i := from; i < len(slices); i++ {
		if float64(slices[i]) < 0.9*want*slice {
			row = 0
			continue
		}
		if row++; row == 3 {
			return float64(i-2-from) * slice
		}
	}
	return math.NaN()
}
