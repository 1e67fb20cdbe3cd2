package coordinator

import (
	"fmt"
	"slices"
)

// BackTo is the change that makes the named records, or all of them where none is named, what they were at a generation. history is all that the store
// remembers, newest first. It is an error if that does not reach back far enough to tell.
func (b *Book) BackTo(generation uint64, history []Version, names ...string) (c Change, err error) {
	if generation == 0 || generation > b.Generation {
		return c, fmt.Errorf("generation %d: the policy has had 1 to %d", generation, b.Generation)
	}
	then := map[string]*Version{}  // newest not after generation
	later := map[string]*Version{} // oldest after it
	oldest := b.Generation + 1
	for i := range history {
		v := &history[i]
		oldest = min(oldest, v.Generation)
		switch {
		case v.Generation > generation:
			later[v.Name] = v
		case then[v.Name] == nil:
			then[v.Name] = v
		}
	}
	if oldest > generation+1 {
		return c, fmt.Errorf("generation %d: the history begins with %d", generation, oldest)
	}
	if len(names) == 0 {
		for name := range later {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		switch v := then[name]; {
		case later[name] == nil:
			if b.Find(name) == nil && v == nil {
				return Change{}, fmt.Errorf("%s: nothing of that name is remembered", name)
			}
		case v != nil && !v.Removed:
			c.Set = append(c.Set, Record{Name: name, Text: v.Text})
		case v == nil && !later[name].New:
			return Change{}, fmt.Errorf("%s: what it was at generation %d is not remembered; the history begins with %d", name, generation, oldest)
		case b.Find(name) != nil && name == defaultsName:
			c.Set = append(c.Set, Record{Name: name, Text: noDefaults})
		case b.Find(name) != nil:
			c.Remove = append(c.Remove, name)
		}
	}
	c.Set = slices.DeleteFunc(c.Set, func(r Record) bool { old := b.Find(r.Name); return old != nil && old.Text == r.Text })
	return c, nil
}
