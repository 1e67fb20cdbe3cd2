package bed

import (
	"math"
	"slices"
	"testing"
)

func TestMedian(t *testing.T) {
	nan := math.NaN()
	tests := []struct {
		in   []float64
		want float64
	}{
		{[]float64{3, 1, 2}, 2}, {[]float64{4, 1, 2, 3}, 2.5}, {[]float64{nan, 7, nan}, 7}, {[]float64{5}, 5},
	}
	for _, tt := range tests {
		if got := Median(tt.in); got != tt.want {
			t.Errorf("Median(%v) = %v, want %v", tt.in, got, tt.want)
		}
	}
	if got := Median([]float64{nan}); !math.IsNaN(got) {
		t.Errorf("the median of nothing is %v, want NaN", got)
	}
	in := []float64{3, 1, 2}
	if Median(in); !slices.Equal(in, []float64{3, 1, 2}) {
		t.Error("Median sorted its argument: rounds would be paired wrongly")
	}
}

// A machine that halves its speed in one round moves both sides; the ratio of medians would not see
// that, the median of ratios does.
func TestRatiosPairRounds(t *testing.T) {
	a, b := []float64{200, 100, 210}, []float64{100, 50, math.NaN()}
	if got := Median(Ratios(a, b)); got != 2 {
		t.Errorf("got %v, want 2", got)
	}
	if got := Ratios([]float64{1}, []float64{0})[0]; !math.IsNaN(got) {
		t.Errorf("a ratio to nothing is %v, want NaN", got)
	}
}

func TestSpread(t *testing.T) {
	if got := Spread([]float64{10, math.NaN(), 12}); got != 1.2 {
		t.Errorf("got %v, want 1.2", got)
	}
}

func TestOrderAlternates(t *testing.T) {
	if got := Order(3, 0); !slices.Equal(got, []int{0, 1, 2}) {
		t.Errorf("round 0: %v", got)
	}
	if got := Order(3, 1); !slices.Equal(got, []int{2, 1, 0}) {
		t.Errorf("round 1: %v", got)
	}
}
