package sim

import "testing"

// TestPerfect: what is due of a few arrivals, by hand. The bucket holds 20, each request takes 10 of it, and a request's worth comes back in 10 ms.
func TestPerfect(t *testing.T) {
	type arrival struct{ at, n int64 } // ms
	for _, tt := range []struct {
		name            string
		level, deadline int64
		come            []arrival
		until, want     int64
	}{
		{"nobody", 20, 5, nil, 100, 0},
		{"as they come", 20, 5, []arrival{{0, 1}, {10, 1}, {20, 1}}, 21, 30},
		{"three at once, that do not wait", 20, 5, []arrival{{0, 3}}, 100, 20},
		{"three at once, that do", 20, 15, []arrival{{0, 3}}, 100, 30},
		{"not before it can be", 20, 15, []arrival{{0, 3}}, 10, 20},
		{"what has gone takes nothing", 0, 5, []arrival{{0, 4}, {20, 2}}, 100, 20},
		{"a full bucket keeps nothing", 20, 5, []arrival{{50, 2}, {99, 9}}, 100, 40},
		{"a debt first", -30, 100, []arrival{{0, 9}}, 50, 10},
		{"all that comes is too much", 20, 55, []arrival{{0, 50}, {100, 50}}, 200, 2 * (20 + 50)},
	} {
		p := perfect{bucket: bucket{rate: 1000, burst: 20, level: tt.level}, need: 10, deadline: tt.deadline * msec}
		for _, a := range tt.come {
			p.arrive(a.at*msec, a.n)
		}
		if p.upTo(tt.until * msec); p.served != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, p.served, tt.want)
		}
	}
}
