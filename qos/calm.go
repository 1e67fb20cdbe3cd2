package qos

// calmFactor is how many intervals of use at the present rate an owner's level must hold for a limit to be calm.
const calmFactor = 8

// A limit is calm on a worker that owns it, while nobody else uses it and it is far from exhaustion: then nothing that the worker tells itself late is
// news to anybody, and what waits for the next report could not be served any better. Such a limit is reported at most twice in a TTL, less seldom the
// less there is left; at times that all calm limits of the worker share, so that its control loop wakes up once for them all; and early only when three
// quarters of what it has are used. Who has a soft rate or may be banned is judged by the reports, and has them at least every 10 ms.
//
// Nothing of the bound rests on it: ceilings are raised out of the level as ever, and views die as ever. Another worker's first report ends the
// calm with the next report of this one; until then it finds three quarters of the level.
//
// On one core that the loop shares with a ring, each of its turns costs the ring some 60 us with all that the Go runtime does for it. At the shortest
// interval two hot limits took 800 of them a second.
//
// calm returns the interval, 0 where a limit is not calm.
func (r *Reporter) calm(c *Cell, s *RateSnapshot) int64 {
	p := c.rep.policy
	if p == nil || r.ledger.ownerOf(c) != r.self || s.Reporters > 1 || s.Queued || s.Exhausted {
		return 0
	}
	least, d := r.cfg.calmLeast(), r.cfg.calmMost()
	if p.SoftRate > 0 || p.OnLimit == Ban {
		d = least
	}
	if !p.Limits() {
		return d
	}
	for ; d >= least; d /= 2 {
		if s.Level/calmFactor >= mulDiv(c.rep.rate, d, perSecond) {
			return d
		}
	}
	return 0
}

// calmMost is the longest time between two reports of a calm limit: the shortest, doubled as often as two fit in a TTL.
func (c *Config) calmMost() int64 {
	d := c.calmLeast()
	for 4*d <= int64(c.TTL) {
		d *= 2
	}
	return d
}

// calmLeast is the shortest.
func (c *Config) calmLeast() int64 {
	return max(min(2*int64(c.SyncMax), int64(c.TTL)/2), int64(c.SyncMax))
}

// beat is when a calm limit with an interval of d reports next: at a multiple of it, half of one from now at least.
func beat(d, now int64) int64 {
	at := now + d/2
	return at + d - at%d
}
