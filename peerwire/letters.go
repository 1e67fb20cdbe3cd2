package peerwire

import (
	"slices"

	"github.com/talon-worker/talon/qos"
)

// maxTooEarly bounds the hand-overs kept for a ring that this worker has yet to learn, in limits and reporters.
const maxTooEarly = 64 << 10

// meet notes that a peer has come or gone.
func (c *core) meet(p presence, now int64) {
	if p.epoch == 0 {
		delete(c.peers, p.peer)
		return
	}
	c.peers[p.peer] = p.epoch
	c.tenure.Met(p.peer, p.epoch)
	c.mayAct(now)
	c.handOver(now)
}

// receive gives what a peer has sent to the state machines, and their answers to the peer. Whoever sent it speaks only for itself: a message in another's
// name, or for another incarnation than the connection's, is dropped and counted.
func (c *core) receive(l *letter, now int64) {
	if l.done != nil {
		defer l.done()
	}
	if c.ring == nil { // alone: there is nothing that a peer could want
		c.stats.Strange++
		return
	}
	b := l.batch
	for i := range b.asks {
		c.asked(l, b.asks[i], now)
	}
	for _, a := range b.answers {
		if a.Voter != l.from || a.VoterEpoch != l.epoch {
			c.stats.Forged++
			continue
		}
		c.tenure.Answered(now, a)
		c.mayAct(now)
		c.handOver(now)
	}
	for i := range b.handOvers {
		c.handed(l, &b.handOvers[i], now)
	}
	for i := range b.reports {
		c.reported(l, &b.reports[i], now)
	}
	for i := range b.snapshots {
		s := &b.snapshots[i]
		if c.ownerOf(c.ring, s.Key.Limit()) != l.from || s.Mark.Owner.Worker != l.epoch {
			c.stats.Strange++
			continue
		}
		c.inForce(s, now)
	}
	for i := range b.redirects {
		d := &b.redirects[i]
		if c.ownerOf(c.ring, d.Key.Limit()) != l.from {
			c.stats.Strange++
			continue
		}
		c.reporter.Redirected(d, now)
	}
}

func (c *core) asked(l *letter, a qos.Ask, now int64) {
	if a.Worker != l.from || a.Incarnation != l.epoch {
		c.stats.Forged++
		return
	}
	if answer, ok := c.voter.Answer(now, a); ok {
		out := c.box(l.from)
		out.answers = append(out.answers, answer)
	}
}

func (c *core) reported(l *letter, u *qos.UsageReport, now int64) {
	if u.From.Worker != l.from || u.From.Epoch != l.epoch {
		c.stats.Forged++
		return
	}
	out := c.box(l.from)
	s, why := c.owner.Apply(u, now)
	if why != qos.Accepted {
		out.redirects = append(out.redirects, c.owner.Redirect(u, why))
		return
	}
	out.snapshots = append(out.snapshots, s)
}

// handed takes in what the owner of the ring before knew. A part for a ring that this worker has yet to learn is kept until then: the ring reaches
// workers at different times, and what is handed over is given once.
func (c *core) handed(l *letter, h *qos.HandOver, now int64) {
	if h.ToRing > c.ring.Epoch() {
		if c.earlyHeld+weight(h) > maxTooEarly {
			c.stats.HandLost++
			return
		}
		c.earlyHeld += weight(h)
		c.tooEarly = append(c.tooEarly, letter{from: l.from, epoch: l.epoch, batch: &batch{handOvers: []qos.HandOver{*h}}})
		return
	}
	if c.before != nil && c.before.Epoch() == c.ring.Replaces() && c.ownerOf(c.before, h.Limit) != l.from {
		c.stats.Forged++
		return
	}
	c.owner.Import(h, now)
}

// handOver sends what has left this worker to those new owners that can be reached. It is meant for the incarnation that is there before anybody
// can have started the limit without it, which is while the last confirmation of the old ring runs: an incarnation that comes later may follow one
// that started afresh, and would grant a second time. So what has found no way by then is worth nothing. It goes once nobody can be confirmed in the
// old ring any more.
func (c *core) handOver(now int64) {
	if len(c.leaving) == 0 {
		return
	}
	late := now >= c.leaveBy
	if !late && !c.tenure.SeenOff(c.ring.Replaces()) {
		return
	}
	c.leaving = slices.DeleteFunc(c.leaving, func(h qos.HandOver) bool {
		to := c.ownerOf(c.ring, h.Limit)
		epoch := c.peers[to]
		switch {
		case late:
			c.stats.HandLost++
		case epoch == 0:
			return false
		default:
			h.ToEpoch = epoch
			out := c.box(to)
			out.handOvers = append(out.handOvers, h)
			c.stats.HandedOver++
		}
		return true
	})
}
