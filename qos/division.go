package qos

import "math"

// How a level is divided: in whole needs, first come first served when there is not enough for all, and otherwise by demand, in
// proportion, each reporter at most half of what is free.
//
// Fluid shares look fairer and deliver nothing when units are scarce: 100 requests a second over 100 workers gives each a hundredth of a
// request, and 0.02 of the limit is used. Max-min water filling over all reporters costs twice as much a report for 0.3 % more.

// divide raises r's ceiling by what its last report asks for, or gives it a place in the line.
func (m *meter) divide(r *reporter, now int64) {
	m.serve(now)
	if r.in[byTurn] || r.expired || r.generation < m.policy.Generation || !m.policy.Limits() {
		return
	}
	free, own := m.free(r), m.ceiling(r)-r.known()
	goal := max(m.share(r, own, free), r.need)
	if own > 2*goal {
		m.lower(r, goal)
		return
	}
	m.relift(r, goal)
	more := goal - r.reserved
	switch {
	case more <= 0:
	case m.lines[byTurn].len == 0 && more <= free:
		m.raise(r, more)
	case r.reserved < r.need:
		m.takeTurn(r)
		m.serve(now)
	}
}

// share is what r is to have in hand: what it wants, but no more than its own and half of what is free, for others will ask; or when there is not
// enough for all, its part in proportion to what it wants. Halves alone are unfair then: those who are served well use much, report
// often, and at each report take half of what is free from those who wait and report seldom: of five alike, one got 0.35 of what the others had.
//
// Where nobody else wants any, half would be kept for nobody, and a burst and advance worth less than three intervals be full with much of the rate not served:
// one interval's use is still in the level until it is told, and of the rest half was granted (0.66 of the rate, where 10 ms of it met a report each 5 ms). What r
// wants once it has in full then, and only the second helping comes out of half.
func (m *meter) share(r *reporter, own, free int64) int64 {
	free = max(free, 0)
	if all := m.live() + free; m.wants > all && m.wants > r.want {
		return min(mulDiv(r.want, all, m.wants), own+free)
	}
	more := free / 2
	if m.wants == r.want {
		more = max(more, min(r.want/2-own, free))
	}
	return min(r.want, own+more)
}

// ceiling is what r's next snapshot says, never less than the use known.
func (m *meter) ceiling(r *reporter) int64 {
	if r.low != (grant{}) {
		return max(r.low.ceiling, r.known())
	}
	return max(r.high.ceiling, r.known())
}

// lower takes from a reporter what it has no use for any more, by a lower ceiling in its next snapshot. The higher one stays reserved until
// the worker says that the lower is in force. Without this a worker that was hot once keeps what it needed then, for as long as it uses the limit at all:
// a hot spot that moves every 100 ms through 100 workers brought delivery to 0.8.
func (m *meter) lower(r *reporter, goal int64) {
	r.low.ceiling = r.known() + goal
	if r.low.mark == (Mark{}) {
		r.low.mark = r.high.mark // until the snapshot is issued
	}
}

// relift lets a reporter have what is still reserved for it under a higher ceiling.
func (m *meter) relift(r *reporter, goal int64) {
	if r.low == (grant{}) {
		return
	}
	r.low.ceiling = min(max(r.low.ceiling, r.known()+goal), r.high.ceiling)
	if r.low.ceiling == r.high.ceiling {
		r.high.ceiling, r.low = r.low.ceiling, grant{}
	}
}

// raise promises r more units.
func (m *meter) raise(r *reporter, more int64) {
	r.high, r.low = grant{ceiling: r.known() + r.reserved + more, mark: m.unissued()}, grant{}
	m.reserve(r)
	m.stats.Granted += uint64(more)
}

// serve gives those in line what they lack, in order, while there is enough for the first. They hear of it by push, unless it is the one
// that is being answered.
func (m *meter) serve(now int64) {
	for r := m.lines[byTurn].head; r != nil && m.covers(r); r = m.lines[byTurn].head {
		lack := r.lack
		m.leaveTurn(r)
		m.raise(r, lack)
		m.lines[byPush].add(byPush, r)
	}
}

// covers reports whether the first in line can be served. What is more than can ever be free is served alone and from a full level,
// and paid for by the time that the level then takes to come back.
func (m *meter) covers(r *reporter) bool {
	if r.lack <= m.free(r) {
		return true
	}
	return m.reserved == r.reserved && m.level.Full()
}

// takeTurn puts r at the end of the line for what it lacks.
func (m *meter) takeTurn(r *reporter) {
	m.leaveTurn(r)
	r.lack = r.need - r.reserved
	m.shortfall += r.lack
	m.lines[byTurn].add(byTurn, r)
}

// leaveTurn takes r out of the line.
func (m *meter) leaveTurn(r *reporter) {
	if r.in[byTurn] {
		m.shortfall -= r.lack
		m.lines[byTurn].drop(byTurn, r)
	}
}

// keepTurn adjusts the place that r keeps to what its newest report says.
func (m *meter) keepTurn(r *reporter) {
	if !r.in[byTurn] {
		return
	}
	lack := r.need - r.reserved
	if lack <= 0 || r.expired || r.generation < m.policy.Generation {
		m.leaveTurn(r)
		return
	}
	m.shortfall += lack - r.lack
	r.lack = lack
}

// nextTurn returns when the first in line can be served if nobody reports before: for what is free, or for a full level.
func (m *meter) nextTurn(r *reporter) int64 {
	target := r.lack + m.reserved - m.advanceFor(r)
	switch {
	case target > m.level.Now() && target <= m.level.burst:
		return m.level.Until(target)
	case m.reserved == r.reserved:
		return m.level.Until(m.level.burst)
	}
	return math.MaxInt64 // only what others report, or the expiry of what they hold, helps
}
