package server

import (
	"testing"
	"time"

	"github.com/talon-worker/talon/qos"
)

// However refusals come, no interval has more than the burst and what the rate allows.
func TestPaceOfRefusals(t *testing.T) {
	var p paceOfRefusals
	var told []int64
	for now := int64(0); now < 2e9; now += 10_000 { // 100,000 a second are asked for
		if p.take(now) {
			told = append(told, now)
		}
	}
	for i := range told {
		for j := i; j < len(told); j += 997 {
			if n, most := j-i+1, refusalBurst+int(float64(told[j]-told[i])*refusalRate/1e9)+1; n > most {
				t.Fatalf("%d refusals from %v to %v, at most %d", n, time.Duration(told[i]), time.Duration(told[j]), most)
			}
		}
	}
	if least := refusalBurst + 2*refusalRate - 10; len(told) < least {
		t.Errorf("%d refusals in 2 s, want at least %d", len(told), least)
	}
	if !p.take(1e12) {
		t.Error("none after a pause")
	}
}

// A story: a tenant is refused so often that what is over the pace is told later, and what is over that is not told at all. Others are told at once.
func TestTooManyRefusalsAreHeld(t *testing.T) {
	policies := append(limited("loud", 1, 1, 0, 0), limited("quiet", 1, 1, 0, 0)...)
	for i := range policies {
		policies[i].OnLimit = qos.Reject
	}
	s := tellOf(t, []Tenant{{ID: "loud"}, {ID: "quiet"}}, policies)
	s.wantAnswers(s.asks(1, "/o1", "loud"), map[string]int{"200": 1})
	s.wantAnswers(s.asks(1, "/o1", "quiet"), map[string]int{"200": 1})
	seat := s.loop.seatOf(s.loop.worker.accounts["loud"])
	seat.refusals.full = s.loop.now.mono + 10e9
	loud := s.asks(5, "/o1", "loud")
	s.wantAnswers(loud, map[string]int{})
	if n := s.count(stateHeld); n != 5 || s.loop.stats.RefusalsHeld != 5 {
		t.Errorf("%d are held, %d were, want 5", n, s.loop.stats.RefusalsHeld)
	}
	s.wantAnswers(s.asks(1, "/o1", "quiet"), map[string]int{"429": 1})
	s.pass(80 * time.Millisecond)
	s.wantAnswers(loud, map[string]int{})
	s.pass(40 * time.Millisecond)
	s.wantAnswers(loud, map[string]int{"429": 5})
	if n := s.count(stateHeld); n != 0 {
		t.Errorf("%d are held after the time of all", n)
	}
}

// A client that gives up while its refusal is held leaves nothing behind.
func TestAHeldClientMayGo(t *testing.T) {
	policies := limited("loud", 1, 1, 0, 0)
	policies[0].OnLimit = qos.Reject
	s := tellOf(t, []Tenant{{ID: "loud"}}, policies)
	s.asks(1, "/o1", "loud")
	seat := s.loop.seatOf(s.loop.worker.accounts["loud"])
	seat.refusals.full = s.loop.now.mono + 10e9
	loud := s.asks(3, "/o1", "loud")
	if n := s.count(stateHeld); n != 3 {
		t.Fatalf("%d are held, want 3", n)
	}
	loud[1].hangUp()
	s.pass(150 * time.Millisecond)
	if n := s.count(stateHeld); n != 0 || s.loop.held.len() != 0 {
		t.Errorf("%d are held, %d in the queue", n, s.loop.held.len())
	}
	s.wantAnswers([]*simClient{loud[0], loud[2]}, map[string]int{"429": 2})
}
