package coordinator

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/talon-worker/talon/policy"
	"github.com/talon-worker/talon/qos"
)

// Record is one piece of a policy: the defaults, a class or a tenant.
type Record struct {
	Name       string `json:"name"`       // "defaults", "class/NAME" or "tenant/ID"
	Generation uint64 `json:"generation"` // of its last change
	Text       string `json:"text"`       // YAML: the mapping that stands for it in a policy file
}

// The names of records.
const (
	defaultsName = "defaults"
	classPrefix  = "class/"
	tenantPrefix = "tenant/"
)

// noDefaults is the text of defaults that say nothing.
const noDefaults = "{}\n"

// TenantRecord is the name of a tenant's record.
func TenantRecord(id string) string { return tenantPrefix + id }

// Book is a whole policy as records.
type Book struct {
	Generation uint64   `json:"generation"` // of the last change; 0: there never was a policy
	Records    []Record `json:"records"`    // sorted by name
}

// Find returns the record of that name, or nil.
func (b *Book) Find(name string) *Record {
	if i, ok := b.search(name); ok {
		return &b.Records[i]
	}
	return nil
}

func (b *Book) search(name string) (int, bool) {
	return slices.BinarySearchFunc(b.Records, name, func(r Record, n string) int { return cmp.Compare(r.Name, n) })
}

// put sets a record.
func (b *Book) put(r Record) {
	i, ok := b.search(r.Name)
	if ok {
		b.Records[i] = r
		return
	}
	b.Records = slices.Insert(b.Records, i, r)
}

// remove drops a record.
func (b *Book) remove(name string) {
	if i, ok := b.search(name); ok {
		b.Records = slices.Delete(b.Records, i, i+1)
	}
}

// Change is what one step does to a Book.
type Change struct {
	Set    []Record // Generation is given by the store
	Remove []string // names
}

// Empty reports whether nothing changes.
func (c *Change) Empty() bool { return len(c.Set)+len(c.Remove) == 0 }

// Apply returns the book after a change with the given generation. The book itself stays as it is.
func (b Book) Apply(c Change, generation uint64) Book {
	next := Book{Generation: generation, Records: slices.Clone(b.Records)}
	for _, name := range c.Remove {
		next.remove(name)
	}
	for _, r := range c.Set {
		r.Generation = generation
		next.put(r)
	}
	return next
}

// ChangeTo is the change that brings the book to the given records: those that differ are set and, if all is true, those that are not among
// them removed. The defaults are emptied instead: what inherits from them must see a later generation.
func (b *Book) ChangeTo(records []Record, all bool) (c Change) {
	given := map[string]bool{}
	for _, r := range records {
		given[r.Name] = true
		if old := b.Find(r.Name); old == nil || old.Text != r.Text {
			c.Set = append(c.Set, r)
		}
	}
	for _, r := range b.Records {
		switch {
		case !all || given[r.Name]:
		case r.Name != defaultsName:
			c.Remove = append(c.Remove, r.Name)
		case r.Text != noDefaults:
			c.Set = append(c.Set, Record{Name: defaultsName, Text: noDefaults})
		}
	}
	return c
}

// file is the outer shape of a policy file. Everything below it is kept as it is written.
type file struct {
	Defaults  yaml.Node            `yaml:"defaults,omitempty"`
	Classes   map[string]yaml.Node `yaml:"classes,omitempty"`
	Tenants   []yaml.Node          `yaml:"tenants"`
	RingEpoch uint64               `yaml:"ring_epoch,omitempty"`
	Peers     yaml.Node            `yaml:"peers,omitempty"`
}

// Split takes a policy file apart. name is how errors call it; they are policy.Problems with the lines of the file. Comments inside a
// record stay, others are lost.
func Split(name string, text []byte) ([]Record, *policy.Set, error) {
	set, err := policy.Parse(name, text)
	if err != nil {
		return nil, nil, err
	}
	var f file
	if err := yaml.Unmarshal(text, &f); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err) // not reached: it has been parsed
	}
	b := Book{}
	add := func(name string, n *yaml.Node) {
		var out bytes.Buffer
		e := yaml.NewEncoder(&out)
		e.SetIndent(2)
		if err = errors.Join(err, e.Encode(n), e.Close()); err == nil {
			b.put(Record{Name: name, Text: out.String()})
		}
	}
	if !f.Defaults.IsZero() {
		add(defaultsName, &f.Defaults)
	}
	for class, n := range f.Classes { // any order: put sorts
		add(classPrefix+class, &n)
	}
	for i, t := range set.Tenants {
		add(TenantRecord(t.ID), &f.Tenants[i])
	}
	return b.Records, set, err
}

// Join is the policy file of a book, without peers.
func (b *Book) Join() ([]byte, error) {
	f := file{Classes: map[string]yaml.Node{}}
	for _, r := range b.Records {
		n, err := r.node()
		if err != nil {
			return nil, err
		}
		switch class, ok := strings.CutPrefix(r.Name, classPrefix); {
		case ok:
			f.Classes[class] = *n
		case r.Name == defaultsName:
			f.Defaults = *n
		default:
			f.Tenants = append(f.Tenants, *n)
		}
	}
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	err := errors.Join(e.Encode(f), e.Close())
	return out.Bytes(), err
}

func (r *Record) node() (*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(r.Text), &doc); err != nil {
		return nil, fmt.Errorf("record %s, generation %d: %w", r.Name, r.Generation, err)
	}
	if len(doc.Content) != 1 {
		return nil, fmt.Errorf("record %s, generation %d: empty", r.Name, r.Generation)
	}
	return doc.Content[0], nil
}

// Resolve is the policy that the book spells, each limit with its generation. An error says which record cannot be; then nothing of the book is to be used.
func (b *Book) Resolve() (*Policy, error) {
	if len(b.Records) == 0 {
		return &Policy{Generation: b.Generation, Set: &policy.Set{}, tenants: map[string]uint64{}}, nil
	}
	text, err := b.Join()
	if err != nil {
		return nil, err
	}
	set, err := policy.Parse("policy", text)
	if err != nil {
		return nil, err
	}
	p := &Policy{Generation: b.Generation, Set: set, tenants: map[string]uint64{}}
	for i := range set.Tenants {
		t := &set.Tenants[i]
		g := b.generationOf(t)
		p.tenants[t.ID] = g
		for _, row := range policy.Rows(t) {
			row.Generation = g
			p.Limits = append(p.Limits, row)
		}
	}
	return p, nil
}

// generationOf is the highest generation of what a tenant is made of. A class that a tenant names cannot be removed, and the
// defaults never are, so nothing that a tenant inherits changes without a higher one.
func (b *Book) generationOf(t *policy.Tenant) uint64 {
	g := uint64(0)
	for _, name := range []string{TenantRecord(t.ID), classPrefix + t.Class, defaultsName} {
		if r := b.Find(name); r != nil {
			g = max(g, r.Generation)
		}
	}
	return g
}

// Policy is a book in force.
type Policy struct {
	Generation uint64
	Set        *policy.Set
	Limits     []qos.Policy // all that are in force, by tenant and metric, with generations
	tenants    map[string]uint64
}

// TenantGeneration returns that of a tenant; 0: no such tenant.
func (p *Policy) TenantGeneration(id string) uint64 { return p.tenants[id] }
