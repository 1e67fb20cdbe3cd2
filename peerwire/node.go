package peerwire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"github.com/talon-worker/talon/qos"
)

// rest is the least time between two turns of the loop that rings ask for, and the most that a busy worker's ring waits for one.
const rest = time.Millisecond

// Errors of a Node.
var (
	// ErrFenced ends Run: an owner has heard of a newer incarnation of this worker. Its use is not counted any more, so the process must stop.
	ErrFenced = errors.New("peerwire: a newer incarnation of this worker is at work: this process must stop")
	// ErrEnded is what a Node answers when its loop has ended.
	ErrEnded = errors.New("peerwire: the control loop has ended")
	// ErrBusy is what it answers when too many wait for the loop already.
	ErrBusy = errors.New("peerwire: too many changes wait for the control loop")
)

// A Node is the control plane of one worker. Its methods may be called from any goroutine.
type Node struct {
	cfg   Config
	core  *core // the loop's, once it runs
	mail  *mailbox
	wire  *wire
	began atomic.Bool
	ended chan struct{}

	asleep atomic.Bool   // the loop waits for wake
	wake   chan struct{} // has room for one

	ring         atomic.Uint64 // epoch of the ring, for hellos; 0 while alone
	steps, woken atomic.Uint64
}

// New returns a Node that has not begun. From here on the ledger's control side is the Node's.
func New(cfg Config) (*Node, error) {
	if err := cfg.mend(); err != nil {
		return nil, fmt.Errorf("peerwire: %w", err)
	}
	c, err := newCore(&cfg, cfg.Now())
	if err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, core: c, mail: newMailbox(), ended: make(chan struct{}), wake: make(chan struct{}, 1)}
	n.wire = newWire(&n.cfg, n.mail, n.ring.Load)
	cfg.Ledger.OnUrgent(n.stir)
	return n, nil
}

// stir wakes the loop if it sleeps. Rings call it in the middle of a charge.
//
// A channel costs a ring about as much as a write to an eventfd would (10 us, nearly all of it the kernel's wake-up of a thread) and needs no
// descriptor; to the loop's counters it makes no difference.
func (n *Node) stir() {
	if n.asleep.Load() && n.asleep.CompareAndSwap(true, false) {
		select {
		case n.wake <- struct{}{}:
		default:
		}
	}
}

// SetPolicies puts a whole set of policies in force: a newer generation replaces what is there, what is not in the set is dropped, which
// closes the limit. A set that is wrong anywhere is refused whole, with the first fault, and the last good one stays; with qos.ErrLimitsFull all
// but those that found no room are in force. It returns when the loop has taken the set in; before Run, at once, and then Run begins with it.
func (n *Node) SetPolicies(policies []qos.Policy) error {
	if err := checkPolicies(policies, n.cfg.Limits.MaxLimits); err != nil {
		return err
	}
	set := slices.Clone(policies)
	done := make(chan error, 1)
	return n.change(done, func(in *inputs) bool {
		if len(in.policies) >= maxChanges {
			return false
		}
		in.policies = append(in.policies, policyChange{set, done})
		return true
	})
}

// SetRing proposes a newer ring of owners; its epoch must be above the one in force. The same ring again is no error, with other addresses too. It
// returns when the loop has taken the ring in; before Run, at once, and then Run begins with it. Without any, the worker is alone.
func (n *Node) SetRing(m Membership) error {
	if err := m.check(); err != nil {
		return err
	}
	m.Members = slices.Clone(m.Members)
	done := make(chan error, 1)
	return n.change(done, func(in *inputs) bool {
		if len(in.rings) >= maxChanges {
			return false
		}
		in.rings = append(in.rings, ringChange{m, done})
		return true
	})
}

// ForceRing tells the worker that an operator takes it on himself that the rings before this epoch are over, and the workers that were in them
// gone: it acts without having heard so from their voters. It says nothing of any other epoch than the one in force.
func (n *Node) ForceRing(epoch uint64) {
	n.mail.put(func(in *inputs) bool {
		in.force = max(in.force, epoch)
		return true
	})
}

// change puts something into the mailbox and waits for the loop's verdict.
func (n *Node) change(done <-chan error, add func(*inputs) bool) error {
	if !n.mail.put(add) {
		select {
		case <-n.ended:
			return ErrEnded
		default:
			return ErrBusy
		}
	}
	if !n.began.Load() {
		return nil
	}
	select {
	case err := <-done:
		return err
	case <-n.ended:
		return ErrEnded
	}
}

// SetTLS changes certificate and authority for connections to come: certificates run out, and a worker does not stop for it. What was plain stays plain.
func (n *Node) SetTLS(c *tls.Config) error {
	if c == nil || n.cfg.TLS == nil {
		return errors.New("peerwire: a peer port is with TLS or without it from the start")
	}
	if err := checkTLS(c); err != nil {
		return err
	}
	n.wire.tls.Store(c)
	return nil
}

// Status asks the loop how it is. It costs the loop time in proportion to the number of limits.
func (n *Node) Status() Status {
	s := Status{Worker: n.cfg.Worker, Epoch: n.cfg.Epoch}
	if n.began.Load() {
		reply := make(chan Status, 1)
		if n.mail.put(func(in *inputs) bool {
			if len(in.queries) >= maxChanges {
				return false
			}
			in.queries = append(in.queries, reply)
			return true
		}) {
			select {
			case s = <-reply:
			case <-n.ended:
			}
		}
	}
	s.Peers, s.Wire = n.wire.status()
	s.Loop = LoopCounters{Steps: n.steps.Load(), Woken: n.woken.Load()}
	return s
}

// Run drives the worker's limits until ctx ends, then tells owners the last use, for at most Config.Patience, and returns nil. Rings must have stopped
// admitting by then. ErrFenced ends it before. A Node runs once.
func (n *Node) Run(ctx context.Context) error {
	if !n.began.CompareAndSwap(false, true) {
		return errors.New("peerwire: a Node runs once")
	}
	defer n.end()
	if n.cfg.Listener != nil {
		if n.cfg.TLS == nil {
			n.cfg.Logger.Warn("the peer port is plain TCP, for loopback alone", "addr", n.cfg.Listener.Addr())
		}
		n.wire.listen(n.cfg.Listener)
	}
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	stop, flushBy, spare := ctx.Done(), int64(math.MaxInt64), &inputs{}
	var letters []letter // that have come and wait for their turn: a few of each peer
	for {
		urgent := n.core.reporter.Urgent()
		in := n.mail.take(spare)
		letters = append(letters, in.letters...)
		some := portion(letters) // the rest waits for the next turn
		in.letters = append(in.letters[:0], letters[:some]...)
		letters = slices.Delete(letters, 0, some)
		now := n.cfg.Now()
		if ctx.Err() != nil {
			if in.flush = true; stop != nil {
				stop, flushBy = nil, now+int64(n.cfg.Patience)
			}
		}
		out := n.core.step(now, in)
		n.steps.Add(1)
		in.reset()
		spare = in
		for i := range out.parcels {
			n.wire.send(out.parcels[i].to, out.parcels[i].batch)
		}
		if out.ring != nil {
			n.ring.Store(n.core.ring.Epoch())
			n.wire.setMembers(out.ring)
		}
		if out.changed {
			n.cfg.Changed()
		}
		switch {
		case n.core.reporter.Fenced():
			return ErrFenced
		case n.core.done():
			return nil
		case now >= flushBy:
			n.cfg.Logger.Warn("the last use was not acknowledged in time: owners will miss it", "patience", n.cfg.Patience)
			return nil
		}
		if len(letters) > 0 {
			continue
		}
		n.sleep(timer, stop, urgent, min(out.next, flushBy)-now)
	}
}

// sleep waits for the next turn: d ns, or less if there is mail or a ring wakes the loop. After an urgent turn it rests without being woken by rings.
func (n *Node) sleep(timer *time.Timer, stop <-chan struct{}, urgent bool, d int64) {
	var wake chan struct{}
	if !urgent {
		n.asleep.Store(true)
		if n.core.reporter.Urgent() { // noted between the step and now: nobody will wake us for it
			n.asleep.Store(false)
			urgent = true
		}
	}
	if urgent {
		d = min(d, int64(rest))
	} else {
		wake = n.wake
	}
	timer.Reset(time.Duration(max(d, int64(rest)/8)))
	select {
	case <-n.mail.kick:
	case <-timer.C:
	case <-stop:
	case <-wake:
		n.woken.Add(1)
	}
	n.asleep.Store(false)
}

// end answers whoever still waits.
func (n *Node) end() {
	close(n.ended)
	n.mail.close()
	n.wire.end(n.cfg.Patience)
}
