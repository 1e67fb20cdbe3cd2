package qos

import (
	"fmt"
	"time"
)

// Advice says what in a valid policy will disappoint, and the least value that mends it; nil when nothing. need is the largest single charge that is
// usual for the metric: 1 for requests, the transfer chunk for bytes.
//
// None of it breaks the contract. A burst of one chunk delivered 0.67 of the rate in simulation, one of 1 ms of the rate 0.81.
func (c *Config) Advice(p *Policy, need int64) (advice []string) {
	say := func(format string, args ...any) {
		advice = append(advice, fmt.Sprintf("%v: ", p.Limit())+fmt.Sprintf(format, args...))
	}
	if p.Burst < 2*need {
		say("burst %d holds less than two charges of %d: want at least %d, or the rate is not reached", p.Burst, need, 2*need)
	}
	trip := c.SyncMax + c.Trip
	if short := mulDiv(p.Rate, int64(max(trip-c.Advance, 0)), perSecond); p.Burst < short {
		say("burst %d is less than %d, the refill of one sync and round trip (%v) beyond the advance (%v): want at least that", p.Burst, short, trip, c.Advance)
	}
	if room := p.LocalBurst + mulDiv(p.Rate, int64(c.TTL), perSecond); room < max(need, mulDiv(p.Rate, int64(trip), perSecond)) {
		say("local_burst %d: one worker may hold %d, less than one charge of %d or one sync of the rate: want at least %d", p.LocalBurst, room, need, need)
	}
	if boot := c.bootstrapOf(p.Metric); p.LocalBurst < boot {
		say("local_burst %d is under the bootstrap allowance %d: a quiet worker's first requests wait for a round trip (%v)", p.LocalBurst, boot, c.Trip.Round(time.Microsecond))
	}
	return advice
}

func (c *Config) bootstrapOf(m Metric) int64 {
	if m.Requests() {
		return c.BootstrapIops
	}
	return c.BootstrapBytes
}
