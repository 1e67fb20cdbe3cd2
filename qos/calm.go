package qos

// calmViews is how many TTLs of use at the present rate an owner's level must hold for a limit to be calm.
const calmViews = 4

// A limit is calm on a worker that owns it, while nobody else uses it and it is far from exhaustion: then nothing that the worker tells itself late is
// news to anybody, and what waits for the next report could not be served any better. Such a limit is reported twice in a TTL, at times that all
// calm limits of the worker share, so that its control loop wakes up once for them all; and early only when three quarters of what it has are used.
//
// Nothing of the bound rests on it: ceilings are raised out of the level as ever, and views die as ever. Another worker's first report ends the
// calm with the next report of this one; until then it finds calmViews times what this one holds at most, less that.
//
// On one core that the loop shares with a ring, each of its turns costs the ring some 60 us with all that the Go runtime does for it. At the shortest
// interval two hot limits took 800 of them a second.
func (r *Reporter) calm(c *Cell, s *RateSnapshot) bool {
	if r.ledger.ownerOf(c) != r.self || s.Reporters > 1 || s.Queued {
		return false
	}
	if p := c.rep.policy; p == nil || !p.Limits() {
		return p != nil
	}
	return !s.Exhausted && s.Level/calmViews >= mulDiv(c.rep.rate, int64(r.cfg.TTL), perSecond)
}

// calmInterval is the time between two reports of a calm limit.
func (c *Config) calmInterval() int64 { return max(int64(c.TTL)/2, int64(c.SyncMax)) }

// beat is when a calm limit reports next: at a multiple of the interval, half of one from now at least.
func (c *Config) beat(now int64) int64 {
	d := c.calmInterval()
	at := now + d/2
	return at + d - at%d
}
