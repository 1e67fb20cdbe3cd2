package coordinator

import (
	"bytes"
	"errors"
	"strings"

	"go.yaml.in/yaml/v3"
)

// rewrite is a policy file with the records of the book and all else of the old one: peers, ring_epoch, and the order of the tenants.
func (b *Book) rewrite(old []byte) ([]byte, error) {
	var f file
	if err := yaml.Unmarshal(old, &f); err != nil {
		return nil, err
	}
	order, there := make([]string, 0, len(f.Tenants)), map[string]bool{}
	for i := range f.Tenants {
		name := TenantRecord(idOf(&f.Tenants[i]))
		order, there[name] = append(order, name), true
	}
	for _, r := range b.Records {
		if strings.HasPrefix(r.Name, tenantPrefix) && !there[r.Name] {
			order = append(order, r.Name)
		}
	}
	f.Tenants, f.Classes, f.Defaults = nil, map[string]yaml.Node{}, yaml.Node{}
	for _, name := range order {
		if r := b.Find(name); r != nil {
			n, err := r.node()
			if err != nil {
				return nil, err
			}
			f.Tenants = append(f.Tenants, *n)
		}
	}
	for i := range b.Records {
		r := &b.Records[i]
		n, err := r.node()
		if err != nil {
			return nil, err
		}
		if class, ok := strings.CutPrefix(r.Name, classPrefix); ok {
			f.Classes[class] = *n
		} else if r.Name == defaultsName && r.Text != noDefaults {
			f.Defaults = *n
		}
	}
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	err := errors.Join(e.Encode(f), e.Close())
	return out.Bytes(), err
}

// idOf is the id in a tenant's mapping.
func idOf(n *yaml.Node) string {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == "id" {
			return n.Content[i+1].Value
		}
	}
	return ""
}
