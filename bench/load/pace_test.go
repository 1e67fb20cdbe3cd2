package load

import "testing"

func TestPace(t *testing.T) {
	p := newPace(1000, 2e6) // every 500 ns
	for i, want := range []int64{1000, 1500, 2000} {
		if got := p.due(); got != want {
			t.Errorf("request %d due at %d, want %d", i, got, want)
		}
		p.take()
	}
	for now, want := range map[int64]int64{999: 0, 2400: 0, 2500: 1, 3999: 3, 4000: 4} {
		if got := p.behind(now); got != want {
			t.Errorf("behind at %d: %d, want %d", now, got, want)
		}
	}
}

func TestPaceDoesNotDrift(t *testing.T) {
	p := newPace(0, 3e5) // 3333.3 ns: a rounded gap would be 100 us off after 300,000 requests
	p.sent = 300_000
	if got := p.due(); got != 1e9 {
		t.Errorf("request 300000 due at %d ns, want one second", got)
	}
}

// A generator that sleeps wakes for the next request. One that has become due since it last looked, and could go, is not slept over: a hundredth of all
// were, for a millisecond each, and that was the p99.
func TestTimeoutOfAnOpenLoop(t *testing.T) {
	idle := []*conn{{}}
	at := func(due int64, free []*conn, d *judge) *streamWork {
		return &streamWork{open: true, pace: newPace(due, 1000), free: free, detector: d}
	}
	tests := []struct {
		name    string
		streams []*streamWork
		want    int64
	}{
		{"a closed loop", []*streamWork{{free: idle}}, 5e6},
		{"not due for long", []*streamWork{at(100e6, idle, nil)}, 1e6},
		{"due soon", []*streamWork{at(10e6+300, idle, nil)}, 300},
		{"due now", []*streamWork{at(10e6, idle, nil)}, 0},
		{"due since a while", []*streamWork{at(9e6, idle, nil)}, 0},
		{"due, but no connection is free", []*streamWork{at(9e6, nil, nil)}, 1e6},
		{"due, to be withheld", []*streamWork{at(9e6, nil, &judge{})}, 0},
		{"the second is due", []*streamWork{at(10e6+300, idle, nil), at(10e6, idle, nil)}, 0},
	}
	for _, tt := range tests {
		w := worker{cfg: &Config{Block: true}, streams: tt.streams}
		if got := w.timeout(10e6); got != tt.want {
			t.Errorf("%s: %d ns, want %d", tt.name, got, tt.want)
		}
	}
}
