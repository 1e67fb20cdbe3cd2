package policy

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/talon-worker/talon/qos"
)

// Change is one difference between two policies.
type Change struct {
	Tenant string // empty: of the ring
	Field  string // empty: the tenant itself
	Was    string // as a file would write it; empty: it was not there
	Now    string // empty: it is not there any more
}

// String is a line for people: - gone, + new, ~ different.
func (c Change) String() string {
	what := strings.Trim(c.Tenant+" "+c.Field, " ")
	switch {
	case c.Field == "" && c.Now == "":
		return "- tenant " + c.Tenant
	case c.Field == "" && c.Was == "":
		return "+ tenant " + c.Tenant
	case c.Now == "":
		return fmt.Sprintf("- %s: was %s", what, c.Was)
	case c.Was == "":
		return fmt.Sprintf("+ %s: %s", what, c.Now)
	}
	return fmt.Sprintf("~ %s: %s, was %s", what, c.Now, c.Was)
}

// Diff lists what is different in force, whatever way it is written or inherited: by tenant as in the new file, those that are gone at the
// end, then the ring.
func Diff(was, now *Set) (changes []Change) {
	old := byID(was)
	for i := range now.Tenants {
		t := &now.Tenants[i]
		before := old[t.ID]
		if before == nil {
			changes = append(changes, Change{Tenant: t.ID, Now: "new"})
			changes = append(changes, diffLines(t.ID, nil, t.all())...)
			continue
		}
		delete(old, t.ID)
		changes = append(changes, diffLines(t.ID, before.all(), t.all())...)
	}
	for i := range was.Tenants {
		if old[was.Tenants[i].ID] != nil {
			changes = append(changes, Change{Tenant: was.Tenants[i].ID, Was: "there"})
		}
	}
	return append(changes, diffLines("", was.ring(), now.ring())...)
}

func byID(s *Set) map[string]*Tenant {
	m := make(map[string]*Tenant, len(s.Tenants))
	for i := range s.Tenants {
		m[s.Tenants[i].ID] = &s.Tenants[i]
	}
	return m
}

// all are the lines of a tenant with its limits.
func (t *Tenant) all() []line {
	lines := t.own()
	for _, m := range qos.Metrics {
		lines = append(lines, limitLines(t.Limit(m))...)
	}
	return lines
}

func (s *Set) ring() (lines []line) {
	if s.RingEpoch != 0 {
		lines = append(lines, line{"ring_epoch", strconv.FormatUint(s.RingEpoch, 10)})
	}
	for _, p := range s.Peers {
		lines = append(lines, line{"peer " + p.ID, p.Addr})
	}
	return lines
}

// diffLines compares two lists in which no field is there twice.
func diffLines(tenant string, was, now []line) (changes []Change) {
	old := make(map[string]string, len(was))
	for _, l := range was {
		old[l.field] = l.value
	}
	for _, l := range now {
		if before, ok := old[l.field]; !ok || before != l.value {
			changes = append(changes, Change{tenant, l.field, before, l.value})
		}
		delete(old, l.field)
	}
	for _, l := range was {
		if _, gone := old[l.field]; gone {
			changes = append(changes, Change{tenant, l.field, l.value, ""})
		}
	}
	return changes
}
