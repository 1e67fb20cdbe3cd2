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
