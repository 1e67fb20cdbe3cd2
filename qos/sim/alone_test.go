package sim

import "testing"

// TestAloneWithTheLeastBurst: one worker that owns the limit and uses it alone has no advance. With the burst that policy check asks for, 2.4 shortest
// intervals of the rate, it is served all of it, and with half of that 0.6 of it.
func TestAloneWithTheLeastBurst(t *testing.T) {
	delivered := func(burst int64) float64 {
		s := calm()
		s.Workers, s.Pass = 1, 200e3
		l := &s.Limits[0]
		l.Policy.Rate, l.Policy.Burst, l.Policy.LocalBurst = 100_000, burst, burst
		l.Demand = Demand{Rate: 150_000, Need: 1, Shape: Uniform}
		w, err := New(s)
		if err != nil {
			t.Fatal(err)
		}
		w.Until(1000 * msec)
		before := w.limits[0].net()
		w.Until(2000 * msec)
		return float64(w.limits[0].net()-before) / float64(l.Policy.Rate)
	}
	if part := delivered(480); part < 0.99 {
		t.Errorf("a burst of 4.8 ms of the rate delivered %.3f of it", part)
	}
	if part := delivered(240); part > 0.65 {
		t.Errorf("a burst of 2.4 ms of the rate delivered %.3f of it: the advice asks for too much", part)
	}
}
