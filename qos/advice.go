package qos

import (
	"fmt"
	"time"
)

// Use says how a limit is going to be used, as far as its policy does not.
type Use struct {
	Need     int64         // the largest single charge that is usual for the metric: 1 for requests, the transfer chunk for bytes
	Workers  int           // that share the limit, at least 1
	Deadline time.Duration // how long a request may wait; 0 not known
}

// Advice says what in a valid policy will disappoint, and the least value that mends it; nil when nothing.
//
// None of it breaks the contract. A burst of one chunk delivered 0.67 of the rate in simulation, one of 1 ms of the rate 0.81.
func (c *Config) Advice(p *Policy, u Use) (advice []string) {
	say := func(format string, args ...any) {
		advice = append(advice, fmt.Sprintf("%v: ", p.Limit())+fmt.Sprintf(format, args...))
	}
	if p.Burst < 2*u.Need {
		say("burst %d holds less than two charges of %d: want at least %d, or the rate is not reached", p.Burst, u.Need, 2*u.Need)
	}
	trip := c.SyncMax + c.Trip
	if short := mulDiv(p.Rate, int64(max(trip-c.Advance, 0)), perSecond); p.Burst < short {
		say("burst %d is less than %d, the refill of one sync and round trip (%v) beyond the advance (%v): want at least that", p.Burst, short, trip, c.Advance)
	} else if short := mulDiv(p.Rate, c.twoReports(), perSecond); p.Burst < short {
		say("burst %d is less than %d, the refill between three reports of a worker that uses the limit alone (%v): want at least that, or the rate is not reached there",
			p.Burst, short, time.Duration(c.twoReports()))
	}
	if least := c.leastToReject(p, u); p.OnLimit != Pace && u.Workers > 1 && p.Burst < least {
		say("burst %d is little for %d workers that do not let requests wait: each holds twice what it uses between two reports (up to %v), so that a tenant under its limit is refused, too: "+
			"want at least %d, or on_limit: pace", p.Burst, u.Workers, time.Duration(c.longest()), least)
	}
	if idle, least := c.TTL+trip, u.Need*int64(u.Workers+2); p.OnLimit == Pace && u.Workers > 1 && u.Deadline > 0 && u.Deadline < idle && p.Burst < least {
		say("requests wait for %v at most, and a turn that comes too late may lie with its worker for %v: want a burst of at least %d, or a queue deadline of at least that",
			u.Deadline, idle, least)
	}
	if room := p.LocalBurst + mulDiv(p.Rate, int64(c.TTL), perSecond); room < max(u.Need, mulDiv(p.Rate, int64(trip), perSecond)) {
		say("local_burst %d: one worker may hold %d, less than one charge of %d or one sync of the rate: want at least %d", p.LocalBurst, room, u.Need, u.Need)
	}
	if boot := c.bootstrapOf(p.Metric); p.LocalBurst < boot {
		say("local_burst %d is under the bootstrap allowance %d: a quiet worker's first requests wait for a round trip (%v)", p.LocalBurst, boot, c.Trip.Round(time.Microsecond))
	}
	return advice
}

// twoReports is the longest time in which a worker whose view is used up reports twice. Where it is the owner itself, and alone, it has no advance, and what
// it has used since the last report is still in the level: that and what it may use until the next have to fit in the burst.
func (c *Config) twoReports() int64 { return 2 * (c.earlyGap() + c.earlyGap()/5) }

// leastToReject is the least burst with which a tenant just under its rate is not refused where nothing waits. What it uses in one interval is in hand at the
// workers twice (rule 5), and once more is used and not yet told: three times the rate in the longest interval and a round trip, less the advance. And
// whoever has little has it in whole needs: one that is used, one in hand, and both again while they move to another worker.
func (c *Config) leastToReject(p *Policy, u Use) int64 {
	inHand := max(3*(c.longest()+int64(c.Trip))-int64(c.Advance), 0)
	return max(mulDiv(p.Rate, inHand, perSecond), 4*u.Need*int64(u.Workers))
}

func (c *Config) bootstrapOf(m Metric) int64 {
	if m.Requests() {
		return c.BootstrapIops
	}
	return c.BootstrapBytes
}
