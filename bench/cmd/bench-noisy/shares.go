package main

import (
	"math"
	"slices"

	"github.com/talon-worker/talon/bench/load"
)

// shares is what the tenants of one run got while all of them wanted more.
type shares struct {
	Bytes  [][]int64 `json:"bytes"`      // by tenant and slice of the window
	Total  float64   `json:"bytes_s"`    // of all tenants
	Second float64   `json:"min_max_1s"` // the worst second: least over most bytes per weight
	Tenth  float64   `json:"min_max_100ms"`
	Errors int64     `json:"errors"`
	Busy   float64   `json:"server_cores"`
}

func sharesOf(r *load.Result, tenants []tenant) shares {
	var s shares
	weights := make([]int, len(tenants))
	for i, t := range tenants {
		weights[i] = t.weight
		s.Bytes = append(s.Bytes, r.Streams[i].Slices)
		s.Errors += r.Streams[i].Errors
		s.Total += r.Streams[i].GBps * 1e9
	}
	if r.Server != nil {
		s.Busy = r.Server.Busy
	}
	s.Second = worstRatio(s.Bytes, weights, perSecond)
	s.Tenth = worstRatio(s.Bytes, weights, 1)
	return s
}

// worstRatio is the smallest ratio, over all windows of so many slices, between the least and the most that a tenant got
// for its weight.
func worstRatio(bytes [][]int64, weights []int, window int) float64 {
	worst := math.NaN()
	for from := 0; from+window <= len(bytes[0]); from++ {
		per := make([]float64, len(bytes))
		for i := range bytes {
			for _, n := range bytes[i][from : from+window] {
				per[i] += float64(n)
			}
			per[i] /= float64(weights[i])
		}
		if most := slices.Max(per); most > 0 {
			if ratio := slices.Min(per) / most; math.IsNaN(worst) || ratio < worst {
				worst = ratio
			}
		}
	}
	return worst
}
