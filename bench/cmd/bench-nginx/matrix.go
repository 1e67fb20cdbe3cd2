package main

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/talon-worker/talon/bench/bed"
	"github.com/talon-worker/talon/bench/load"
)

// retries is how often a refused measurement is taken again within its round.
const retries = 2

type matrix struct {
	o       *options
	servers []*bed.Server
	client  bed.Client
}

// cell is one size at one number of connections.
type cell struct {
	Size    string   `json:"size"`
	Conns   int      `json:"conns"`
	Rows    []row    `json:"rows"`
	Verdict *verdict `json:"verdict,omitempty"` // of talon
	Policy  *toll    `json:"policy,omitempty"`  // what a policy costs it
}

// row is one server in a cell; its slices have an element for each round, null where it was refused.
type row struct {
	Server string   `json:"server"`
	Rate   figures  `json:"req_per_s"`
	GBps   figures  `json:"gb_per_s"`
	CPU    figures  `json:"us_per_request"`
	Busy   figures  `json:"server_busy"`
	Wait   figures  `json:"server_waiting"`
	Idle   figures  `json:"client_idle"`
	P50    figures  `json:"p50_us"`
	P99    figures  `json:"p99_us"`
	Little figures  `json:"little_conns"`
	Errors int64    `json:"errors"`
	Refuse []string `json:"refused,omitempty"`
}

// figures are numbers by round; NaN, which JSON has not, is null.
type figures []float64

func (f figures) MarshalJSON() ([]byte, error) {
	parts := make([]string, len(f))
	for i, v := range f {
		parts[i] = "null"
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			parts[i] = fmt.Sprintf("%.6g", v)
		}
	}
	return []byte("[" + strings.Join(parts, ",") + "]"), nil
}

// good is the number of rounds that may be quoted.
func (r *row) good() int {
	n := 0
	for _, v := range r.Rate {
		if !math.IsNaN(v) {
			n++
		}
	}
	return n
}

func (m *matrix) measure(ctx context.Context, size string, conns int) (*cell, error) {
	c := &cell{Size: size, Conns: conns, Rows: make([]row, len(m.servers))}
	for i, s := range m.servers {
		c.Rows[i].Server = s.Name
	}
	for round := range m.o.Rounds {
		for _, i := range bed.Order(len(m.servers), round) {
			r, err := m.once(ctx, m.servers[i], size, conns, &c.Rows[i])
			if err != nil {
				return nil, fmt.Errorf("%s at %s with %d connections: %w", m.servers[i].Name, size, conns, err)
			}
			c.Rows[i].add(r)
		}
	}
	c.Verdict, c.Policy = judge(c), weigh(c)
	return c, nil
}

// once takes one measurement and repeats it if it was refused; nil if it stays refused.
func (m *matrix) once(ctx context.Context, s *bed.Server, size string, conns int, r *row) (*load.Result, error) {
	for range 1 + retries {
		res, err := m.client.Measure(ctx, m.o.config(s, size, conns))
		if err != nil {
			return nil, err
		}
		r.Errors += res.Streams[0].Errors
		if len(res.Refused) == 0 && res.Streams[0].Errors == 0 {
			return res, nil
		}
		why := strings.Join(res.Refused, "; ")
		if why == "" {
			why = fmt.Sprintf("%d errors: %v", res.Streams[0].Errors, res.Streams[0].ByFault)
		}
		r.Refuse = append(r.Refuse, why)
	}
	return nil, nil
}

// add appends a round, which is NaN throughout if it was refused.
func (r *row) add(res *load.Result) {
	nan := math.NaN()
	s, cpu, idle := load.StreamResult{Rate: nan, GBps: nan, P50US: nan, P99US: nan, LittleConn: nan}, load.ServerCPU{Busy: nan, Waiting: nan, PerRequest: nan}, nan
	if res != nil {
		s, cpu, idle = res.Streams[0], *res.Server, res.ClientIdle
	}
	r.Rate = append(r.Rate, s.Rate)
	r.GBps = append(r.GBps, s.GBps)
	r.P50 = append(r.P50, s.P50US)
	r.P99 = append(r.P99, s.P99US)
	r.Little = append(r.Little, s.LittleConn)
	r.CPU = append(r.CPU, cpu.PerRequest)
	r.Busy = append(r.Busy, cpu.Busy)
	r.Wait = append(r.Wait, cpu.Waiting)
	r.Idle = append(r.Idle, idle)
}
