package peerwire

import (
	"errors"
	"fmt"
	"maps"
	"unicode/utf8"

	"github.com/talon-worker/talon/qos"
)

// maxTenant bounds a tenant's name on the wire, in bytes.
const maxTenant = 255

// known is the newest version of a policy that this worker has been given.
type known struct {
	policy qos.Policy
	gone   bool // dropped since: it comes back under a higher generation or not at all
}

// checkPolicies refuses a set that is wrong by itself.
func checkPolicies(set []qos.Policy, most int) error {
	if len(set) > most {
		return fmt.Errorf("%w: %d policies, at most %d", qos.ErrLimitsFull, len(set), most)
	}
	seen := make(map[qos.Limit]bool, len(set))
	for i := range set {
		p := &set[i]
		if err := p.Validate(); err != nil {
			return err
		}
		if len(p.Tenant) > maxTenant || !utf8.ValidString(p.Tenant) {
			return fmt.Errorf("policy of tenant %.40q: want a name of at most %d bytes of UTF-8, as messages between workers take it", p.Tenant, maxTenant)
		}
		if seen[p.Limit()] {
			return fmt.Errorf("two policies of %v: want one", p.Limit())
		}
		seen[p.Limit()] = true
	}
	return nil
}

// setPolicies puts a whole set in force: what is newer replaces, what is missing is dropped. A set that goes back, or says two things under one
// generation, is refused whole, and what was in force stays: it comes from a copy that is out of date or from two writers.
//
// The comparison is made here, at the moment of the change, and not where the set was read: else an older set that was slow on its way wins.
func (c *core) setPolicies(set []qos.Policy, now int64) error {
	keep := make(map[qos.Limit]bool, len(set))
	for i := range set {
		p := &set[i]
		keep[p.Limit()] = true
		k, ok := c.policies[p.Limit()]
		switch {
		case !ok || p.Generation > k.policy.Generation:
		case p.Generation < k.policy.Generation:
			return fmt.Errorf("%w: %v, have generation %d: the whole set is refused", qos.ErrOldPolicy, p.Key(), k.policy.Generation)
		case k.gone:
			return fmt.Errorf("%w: %v was dropped; it needs a higher generation to come back: the whole set is refused", qos.ErrOldPolicy, p.Key())
		case *p != k.policy:
			return fmt.Errorf("%v has two contents: a change needs a higher generation; the whole set is refused", p.Key())
		}
	}
	for limit, k := range c.policies { // any order: each by itself
		if !keep[limit] && !k.gone {
			c.dropPolicy(limit, k, now)
		}
	}
	var failed error
	for i := range set {
		if err := c.setPolicy(&set[i], now); err != nil && failed == nil {
			failed = err
		}
	}
	return failed
}

func (c *core) setPolicy(p *qos.Policy, now int64) error {
	k, ok := c.policies[p.Limit()]
	if ok && p.Generation == k.policy.Generation {
		return nil
	}
	// One of the two may have it already, if the other had no room when it was tried before.
	for _, err := range []error{c.owner.SetPolicy(p, now), c.ledger.SetPolicy(p, now)} {
		if err != nil && !errors.Is(err, qos.ErrOldPolicy) {
			c.stats.PolicyErrors++
			return err
		}
	}
	c.policies[p.Limit()] = known{policy: *p}
	if k.gone {
		c.dropped--
	}
	c.changed = true
	return nil
}

func (c *core) dropPolicy(limit qos.Limit, k known, now int64) {
	c.ledger.DropPolicy(limit, now)
	c.owner.DropPolicy(limit)
	k.gone = true
	c.policies[limit] = k
	c.changed = true
	if c.dropped++; c.dropped > c.cfg.MaxLimits { // what the ledger and the owner do with theirs
		maps.DeleteFunc(c.policies, func(_ qos.Limit, k known) bool { return k.gone })
		c.dropped = 0
	}
}
