package bed

import (
	"math"
	"slices"
)

// Median of the numbers in v that are one; NaN if none is.
func Median(v []float64) float64 {
	s := slices.DeleteFunc(slices.Clone(v), math.IsNaN)
	if len(s) == 0 {
		return math.NaN()
	}
	slices.Sort(s)
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// Ratios divides round by round. A round without a figure on either side gives NaN.
func Ratios(a, b []float64) []float64 {
	out := make([]float64, min(len(a), len(b)))
	for i := range out {
		out[i] = a[i] / b[i]
		if b[i] == 0 {
			out[i] = math.NaN()
		}
	}
	return out
}

// Spread is max/min over the rounds: how far the machine, not the server, moved the figures.
func Spread(v []float64) float64 {
	s := slices.DeleteFunc(slices.Clone(v), math.IsNaN)
	if len(s) == 0 {
		return math.NaN()
	}
	return slices.Max(s) / slices.Min(s)
}

// Order is the order in which n servers are measured in a round: every other one is reversed, so that
// a machine that slowly changes its speed favours nobody.
func Order(n, round int) []int {
	o := make([]int, n)
	for i := range o {
		o[i] = i
	}
	if round%2 == 1 {
		slices.Reverse(o)
	}
	return o
}
