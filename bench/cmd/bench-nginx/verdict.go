package main

import (
	"math"

	"github.com/talon-worker/talon/bench/bed"
)

// target is what talon must reach at a size, as a ratio to the best nginx configuration.
type target struct{ floor, goal float64 }

var targets = map[string]target{
	"1K": {1.40, 1.60}, "4K": {1.35, 1.50}, "16K": {1.20, 1.35}, "64K": {1.20, 1.35},
	"256K": {1.10, 1.15}, "1M": {1.00, 1.05}, "16M": {1.00, 1.05},
}

// limitFloor is the share of the bare sendfile loop that talon must reach from limitFrom bytes up.
const (
	limitFloor = 0.85
	limitFrom  = 256 << 10
)

// busyEnough is the share of its core from which the server counts as the bottleneck.
const busyEnough = 0.90

// The words of a verdict.
const (
	goal  = "GOAL"  // the goal is reached
	pass  = "PASS"  // the floor is reached
	short = "SHORT" // it is not
)

// verdict is talon's standing in one cell. Ratios are medians of per-round ratios, above 1 is better.
type verdict struct {
	RateRatio ratio `json:"rate_ratio"`  // of req/s to the configuration that is best by req/s
	CPURatio  ratio `json:"cpu_ratio"`   // of its CPU per request to ours, best by CPU
	Limit     ratio `json:"limit_share"` // of the bare loop's req/s
	ByRate    string
	ByCPU     string
	Spread    ratio  `json:"peer_spread"`  // max/min over the rounds of the best by req/s
	ClientIs  bool   `json:"client_bound"` // the client, or somebody else, kept a server from its core
	Basis     string `json:"basis"`        // "req/s" or "CPU per request"
	Word      string `json:"word"`         // "" if the size has no target or the peer is missing
}

// policyFloor is the part of its speed that talon must keep with authentication, scheduling and limits on.
const policyFloor = 0.95

// toll is what a policy costs talon in one cell. Ratios are medians of per-round ratios, of talon with a policy to talon without.
type toll struct {
	RateRatio ratio  `json:"rate_ratio"` // of req/s
	CPURatio  ratio  `json:"cpu_ratio"`  // of CPU per request, the other way round: above 1 is better
	Basis     string `json:"basis"`      // as a verdict's
	Word      string `json:"word"`       // "" if one of the two is missing
}

// weigh compares talon with a policy with talon without; nil if they are not there.
func weigh(c *cell) *toll {
	t, p := c.row("talon"), c.row(withPolicy)
	if t == nil || p == nil {
		return nil
	}
	v := &toll{RateRatio: ratio(bed.Median(bed.Ratios(p.Rate, t.Rate))), CPURatio: ratio(bed.Median(bed.Ratios(t.CPU, p.CPU))), Basis: "req/s"}
	got := float64(v.RateRatio)
	if bed.Median(t.Busy) < busyEnough || bed.Median(p.Busy) < busyEnough {
		v.Basis, got = "CPU per request", float64(v.CPURatio)
	}
	switch {
	case math.IsNaN(got):
	case got < policyFloor:
		v.Word = short
	default:
		v.Word = pass
	}
	return v
}

// ratio is a number that may be missing.
type ratio float64

func (r ratio) MarshalJSON() ([]byte, error) { return figures{float64(r)}.one() }

func (f figures) one() ([]byte, error) {
	b, err := f.MarshalJSON()
	return b[1 : len(b)-1], err
}

// judge compares talon with the best nginx configuration and with the limit line.
func judge(c *cell) *verdict {
	t := c.row("talon")
	if t == nil {
		return nil
	}
	nan := math.NaN()
	v := &verdict{RateRatio: ratio(nan), CPURatio: ratio(nan), Limit: ratio(nan), Spread: ratio(nan), Basis: "req/s"}
	if l := c.row("limit"); l != nil {
		v.Limit = ratio(bed.Median(bed.Ratios(t.Rate, l.Rate)))
	}
	byRate, byCPU := c.bestNginx()
	if byRate == nil || byCPU == nil {
		return v
	}
	v.ByRate, v.ByCPU = byRate.Server, byCPU.Server
	v.RateRatio = ratio(bed.Median(bed.Ratios(t.Rate, byRate.Rate)))
	v.CPURatio = ratio(bed.Median(bed.Ratios(byCPU.CPU, t.CPU)))
	v.Spread = ratio(bed.Spread(byRate.Rate))
	v.ClientIs = bed.Median(t.Busy) < busyEnough || bed.Median(byRate.Busy) < busyEnough
	v.word(c.Size)
	return v
}

// word decides by req/s if both servers were the bottleneck, else by CPU per request.
func (v *verdict) word(size string) {
	got := float64(v.RateRatio)
	if v.ClientIs {
		v.Basis, got = "CPU per request", float64(v.CPURatio)
	}
	t, known := targets[size]
	n, _ := bed.ParseSize(size)
	switch {
	case !known || math.IsNaN(got):
	case got < t.floor, n >= limitFrom && float64(v.Limit) < limitFloor:
		v.Word = short
	case got < t.goal:
		v.Word = pass
	default:
		v.Word = goal
	}
}

func (c *cell) row(server string) *row {
	for i := range c.Rows {
		if c.Rows[i].Server == server {
			return &c.Rows[i]
		}
	}
	return nil
}

// bestNginx is the strongest configuration at this cell: by req/s, and by CPU per request.
func (c *cell) bestNginx() (byRate, byCPU *row) {
	for i := range c.Rows {
		r := &c.Rows[i]
		if !isNginx(r.Server) || r.good() == 0 {
			continue
		}
		if byRate == nil || bed.Median(r.Rate) > bed.Median(byRate.Rate) {
			byRate = r
		}
		if byCPU == nil || bed.Median(r.CPU) < bed.Median(byCPU.CPU) {
			byCPU = r
		}
	}
	return byRate, byCPU
}
