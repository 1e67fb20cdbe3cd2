package load

import "math"

// pace is the timetable of an open loop: request k is due at start + k/rate. It knows no clock.
// What is due and not sent yet is a number, not a queue, so falling behind costs no memory.
type pace struct {
	start int64   // ns
	gap   float64 // ns between two requests
	sent  int64
}

func newPace(start int64, rate float64) pace { return pace{start: start, gap: 1e9 / rate} }

// due returns the intended time of the next request; take moves on to the one after it.
func (p *pace) due() int64 { return p.start + int64(math.Round(float64(p.sent)*p.gap)) }

func (p *pace) take() { p.sent++ }

// behind is how many requests are due at now and have not been taken.
func (p *pace) behind(now int64) int64 {
	if now < p.start {
		return 0
	}
	return max(int64(float64(now-p.start)/p.gap)+1-p.sent, 0)
}
