package main

import (
	"math"
	"strings"
	"testing"

	"github.com/talon-worker/talon/bench/bed"
)

// A refusal costs what the server used beyond the victim alone; in a closed loop the victim takes what the refusals leave, and it cannot be told.
func TestFloodTable(t *testing.T) {
	f := newFlood(&options{}, bed.Client{})
	if want := len(readers) * len(scenes); len(f.cells) != want {
		t.Fatalf("%d cells, want %d", len(f.cells), want)
	}
	for _, c := range f.cells {
		c.Rate, c.P50, c.P99, c.P999, c.Busy = []float64{100, 100}, []float64{1, 1}, []float64{10, 20}, []float64{30, 30}, []float64{0.2, 0.3}
		if c.Scene.Conns > 0 {
			c.P99, c.Busy, c.Refused, c.Lost = []float64{14, 28}, []float64{0.3, 0.5}, []float64{10_000, 20_000}, []float64{0, 0}
		}
		cost, share := c.cost(f.alone(c)), c.reader.share
		switch told := share > 0 && c.Scene.Conns > 0 && !c.Scene.Elsewhere; {
		case told && (math.Abs(cost[0]-10) > 1e-9 || math.Abs(cost[1]-10) > 1e-9):
			t.Errorf("%s, %s: %v us, want 10", c.Victim, c.Scene.Name, cost)
		case !told && !math.IsNaN(bed.Median(cost)):
			t.Errorf("%s, %s: %v us, want none", c.Victim, c.Scene.Name, cost)
		}
	}
	if text := f.table(); !strings.HasSuffix(text, "at most 1.40x of alone (at most 1.5): PASS\n") {
		t.Errorf("%s", text)
	}
	f.cells[len(f.cells)-1].P99 = []float64{16, 32}
	if text := f.table(); !strings.HasSuffix(text, "at most 1.60x of alone (at most 1.5): SHORT\n") {
		t.Errorf("%s", text)
	}
}
