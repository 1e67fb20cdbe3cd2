package peerwire

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/talon-worker/talon/qos"
)

// Membership is one epoch of the ring of owners, as the coordinator or the policy file proposes it.
type Membership struct {
	Epoch    uint64
	Members  []Member
	Replaces []qos.Voting // earlier rings whose owners may still act, newest first; nil: the one that this worker has, and what that replaces if it is not settled
}

// A Member is one worker of a ring.
type Member struct {
	ID   qos.WorkerID
	Addr string // host:port of its peer port; not needed for this very worker
}

// ErrOldRing is returned for a ring that is not newer than the one known.
var ErrOldRing = errors.New("peerwire: the ring is not newer than the one in force")

// ids returns the members' ids in order.
func (m *Membership) ids() []qos.WorkerID {
	ids := make([]qos.WorkerID, len(m.Members))
	for i := range m.Members {
		ids[i] = m.Members[i].ID
	}
	slices.Sort(ids)
	return ids
}

// check refuses a membership that is wrong by itself.
func (m *Membership) check() error {
	for i := range m.Members {
		if id := m.Members[i].ID; !goodWorkerID(id) {
			return fmt.Errorf("ring %d: worker id %.100q: want 1 to %d bytes of UTF-8", m.Epoch, id, maxWorkerID)
		}
	}
	if len(m.Members) > maxPeers+1 {
		return fmt.Errorf("ring %d has %d members: a worker keeps a connection with each other, and at most %d", m.Epoch, len(m.Members), maxPeers)
	}
	_, err := qos.NewRing(m.Epoch, m.ids(), m.Replaces...)
	return err
}

// setRing adopts a newer ring. The same one again, perhaps with other addresses, is no error; the same epoch with other members is.
func (c *core) setRing(m *Membership, now int64) error {
	switch {
	case c.ring != nil && m.Epoch == c.ring.Epoch() && slices.Equal(m.ids(), c.ring.Members()):
		return nil
	case c.ring != nil && m.Epoch <= c.ring.Epoch():
		return fmt.Errorf("%w: epoch %d with %d members, have epoch %d with %d: a change of peers needs a higher epoch",
			ErrOldRing, m.Epoch, len(m.Members), c.ring.Epoch(), len(c.ring.Members()))
	case c.ring == nil && c.started && m.Epoch <= aloneEpoch:
		return fmt.Errorf("%w: epoch %d, but this worker has run alone as ring %d: raise it", ErrOldRing, m.Epoch, aloneEpoch)
	}
	replaces := m.Replaces
	if replaces == nil && c.ring != nil {
		replaces = c.ring.Replaced(c.tenure.Open(now))
	}
	r, err := qos.NewRing(m.Epoch, m.ids(), replaces...)
	if err != nil {
		return err
	}
	c.adopt(r, now)
	return nil
}

// adopt goes over to a ring, and hands over what has moved away.
func (c *core) adopt(r *qos.Ring, now int64) {
	c.voter.Learn(r.Epoch())
	c.mayAct(now) // for the last time under the old ring, as the simulator does: a voter's word may have begun to count by time alone
	c.leaveBy = c.tenure.Until()
	c.tenure.Learn(r)
	c.before, c.ring, c.started = c.ring, r, true
	c.uses = false
	members := len(r.Members())
	if r.Index(c.self) < 0 {
		members = 0 // it serves, but is not one of them
	}
	before := r.Replaces()
	if c.before == nil { // what was metered alone was nobody's ring's, whatever epoch that had
		before = 0
	}
	c.owner.SetRing(r.Epoch(), before, func(l qos.Limit) bool { return c.ownerOf(r, l) == c.self }, now)
	c.mayAct(now)
	c.reporter.SetRing(r.Epoch(), members, func(l qos.Limit) qos.WorkerID { return c.ownerOf(r, l) }, now)
	c.changed = true
	if c.leaving = c.owner.Export(nil); len(c.leaving) > 0 {
		c.chaseAt = now
		c.planAsk()
	}
	c.handOver(now)
	early := c.tooEarly
	c.tooEarly, c.earlyHeld = nil, 0
	for i := range early {
		c.receive(&early[i], now)
	}
}

func (c *core) ownerOf(r *qos.Ring, l qos.Limit) qos.WorkerID {
	return r.Members()[r.Owner(qos.PlaceOf(l))]
}

// ask puts this worker's question to the voters whose word is due, and to itself at once if it is one.
func (c *core) ask(now int64) {
	c.uses = c.owner.InUse(now)
	c.voters = c.tenure.Poll(now, c.uses, c.voters[:0])
	if len(c.leaving) > 0 {
		c.voters = c.tenure.Chase(now, c.voters)
		c.chaseAt = now + int64(c.cfg.Confirm)/50
	}
	a := c.tenure.Ask(now)
	for _, id := range c.voters {
		if id != c.self {
			b := c.box(id)
			b.asks = append(b.asks, a)
		} else if answer, ok := c.voter.Answer(now, a); ok {
			c.tenure.Answered(now, answer)
		}
	}
	c.mayAct(now)
	c.handOver(now)
}

// wakes reports whether something that this worker owns is in use, and it has asked nobody as yet.
func (c *core) wakes(now int64) bool { return !c.uses && c.ring != nil && c.owner.InUse(now) }

// planAsk sets when to ask next. One that is no member any more asks too while something leaves it: that waits for the voters' word.
func (c *core) planAsk() {
	c.asksAt = math.MaxInt64
	if len(c.leaving) > 0 {
		c.asksAt = min(c.chaseAt, c.tenure.Next(c.uses))
	} else if c.ring.Index(c.self) >= 0 {
		c.asksAt = c.tenure.Next(c.uses)
	}
}

// mayAct tells the owner what the voters have said.
func (c *core) mayAct(now int64) {
	if c.ring == nil {
		return
	}
	c.owner.Confirm(c.tenure.Until())
	if c.tenure.Open(now) {
		c.owner.Settle(now)
	}
	c.planAsk()
}
