package qos

import (
	"cmp"
	"slices"
)

// handOverPart bounds the reporters of one HandOver, so that it fits in a frame of 64 KiB with worker ids of 80 bytes.
const handOverPart = 256

// maxHandOverParts bounds what an owner collects before it has a whole hand-over.
const maxHandOverParts = 1 << 10

// Export appends the hand-overs of the limits that the last SetRing took from this worker, as they were then. They are given once: a level
// handed on twice would be two buckets. Whoever sends them waits for Tenure.SeenOff of the ring before, and fills in ToEpoch, from what the receiver said
// when it connected.
func (o *Owner) Export(out []HandOver) []HandOver {
	for _, m := range o.leaving {
		out = m.handOver(o.ring, out)
	}
	o.leaving = nil
	return out
}

// Leaves reports whether there is something to be exported.
func (o *Owner) Leaves() bool { return len(o.leaving) > 0 }

// handOver cuts the state of a meter, as of its last advance, into parts.
func (m *meter) handOver(to uint64, out []HandOver) []HandOver {
	all := make([]HandOverReporter, 0, len(m.reporters))
	for _, r := range m.reporters { // any order: sorted below
		all = append(all, r.handOver())
	}
	slices.SortFunc(all, func(a, b HandOverReporter) int { return cmp.Compare(a.From.Worker, b.From.Worker) })
	h := HandOver{
		Limit: m.limit, Generation: m.policy.Generation, FromRing: m.owned.Ring, ToRing: to, Parts: max((len(all)+handOverPart-1)/handOverPart, 1),
		Level: m.level.Now(), Remainder: m.level.rem, Mark: m.newest(), Orphans: m.gone(),
		Wanted: m.asked.asked(m.level.at), SoftLeft: max(m.softUntil-m.level.at, 0), BanLeft: max(m.banned-m.level.at, 0),
	}
	for h.Part = range h.Parts {
		h.Reporters = all[h.Part*handOverPart : min((h.Part+1)*handOverPart, len(all))]
		out = append(out, h)
	}
	return out
}

// gone is what is reserved for incarnations that are not among the reporters.
func (m *meter) gone() int64 {
	n := m.reserved
	for _, r := range m.reporters { // any order: a sum
		n -= r.reserved
	}
	return n
}

func (r *reporter) handOver() HandOverReporter {
	return HandOverReporter{
		From: r.id, Generation: r.generation, Sequence: r.sequence, Stamp: r.stamp, Total: r.total, Lapsed: r.lapsed, Wanted: r.wanted,
		Reserved: r.reserved, Mark: r.issued, Expired: r.expired,
	}
}

// Import takes in a part of a hand-over; with the last part the limit starts where its old owner stopped. A hand-over for another ring, for a limit
// that is not this worker's, or that has started in this ring without it or with a copy of it, is refused and changes nothing; so is one that was
// meant for an incarnation of this worker that has died: what it granted would be granted again.
func (o *Owner) Import(h *HandOver, now int64) Refusal {
	k, why := o.expects(h)
	if why != Accepted {
		o.Stats.Refused[why]++
		return why
	}
	if len(k.parts) != h.Parts {
		k.parts = make([]*HandOver, h.Parts)
	}
	own := *h
	own.Reporters = slices.Clone(h.Reporters)
	k.parts[h.Part] = &own
	o.use(now) // whoever hands it over has used it
	for _, p := range k.parts {
		if p == nil {
			return Accepted
		}
		if p.Level != h.Level || p.Mark != h.Mark || p.Orphans != h.Orphans || p.Wanted != h.Wanted || p.SoftLeft != h.SoftLeft || p.BanLeft != h.BanLeft { // of two hand-overs
			k.parts = nil
			o.Stats.Refused[Contradiction]++
			return Contradiction
		}
	}
	o.inherit(k, now)
	return Accepted
}

// expects checks a hand-over before it changes anything.
func (o *Owner) expects(h *HandOver) (*owned, Refusal) {
	k := o.limits[h.Limit]
	switch {
	case h.ToRing != o.ring || o.ring == 0:
		return nil, OtherRing
	case !o.owns(h.Limit):
		return nil, NotOwner
	case k == nil || k.policy == nil:
		return nil, UnknownPolicy
	case h.ToEpoch != o.epoch:
		return nil, OldEpoch
	case k.meter != nil || k.begun == o.ring:
		return nil, Contradiction
	case !h.sound():
		return nil, BadReport
	}
	return k, Accepted
}

// sound reports whether a hand-over can come from a sound owner.
func (h *HandOver) sound() bool {
	if h.Parts < 1 || h.Parts > maxHandOverParts || h.Part < 0 || h.Part >= h.Parts || len(h.Reporters) > handOverPart ||
		h.Level < levelFloor || h.Level > MaxBurst || h.Remainder < 0 || h.Remainder >= perSecond ||
		h.Orphans < 0 || h.Orphans > MaxBurst || h.Mark.Owner.Ring >= h.ToRing ||
		!h.Wanted.sound() || h.SoftLeft < 0 || h.SoftLeft > perSecond || h.BanLeft < 0 || h.BanLeft > int64(maxBan) {
		return false
	}
	for i := range h.Reporters {
		r := &h.Reporters[i]
		if r.From.Worker == "" || r.From.Epoch == 0 || !r.Total.sound() || r.Lapsed < 0 || r.Lapsed > r.Total.Refunded ||
			r.Wanted < 0 || r.Reserved < 0 || r.Reserved > MaxBurst || r.Mark.Compare(h.Mark) > 0 {
			return false
		}
	}
	return true
}

// inherit starts a meter from a whole hand-over. What has been promised stays promised, and its life is counted from now: longer than it
// is, never shorter.
func (o *Owner) inherit(k *owned, now int64) {
	parts := k.parts
	h := parts[0]
	m := o.start(k, now, OwnerEpoch{Ring: o.ring, Worker: o.epoch})
	m.level = NewLevel(k.policy.Rate, k.policy.Burst, h.Level, now)
	if !m.level.Full() {
		m.level.rem = h.Remainder
	}
	m.orphans, m.reserved = h.Orphans, h.Orphans
	m.asked.goOn(h.Wanted, now)
	m.softUntil, m.banned = now+h.SoftLeft, now+h.BanLeft
	for _, p := range parts {
		for i := range p.Reporters {
			m.adopt(&p.Reporters[i], now)
		}
	}
	if k.policy.Generation != h.Generation {
		m.cut()
	}
	o.plan(m, now)
}

// adopt takes in one reporter of a hand-over.
func (m *meter) adopt(h *HandOverReporter, now int64) {
	if m.reporters[h.From.Worker] != nil || len(m.reporters) >= m.cfg.MaxReporters {
		m.orphans += h.Reserved
		m.reserved += h.Reserved
		return
	}
	r := &reporter{
		id: h.From, generation: h.Generation, sequence: h.Sequence, stamp: h.Stamp, total: h.Total, lapsed: h.Lapsed, wanted: h.Wanted,
		issued: h.Mark, issuedAt: now, heard: now,
	}
	r.high = grant{ceiling: r.known() + h.Reserved, mark: h.Mark}
	m.reporters[r.id.Worker] = r
	m.lines[byLease].add(byLease, r)
	m.reserve(r)
	if h.Expired && r.reserved > 0 {
		m.expire(r)
	} else {
		m.lines[byView].add(byView, r)
	}
}
