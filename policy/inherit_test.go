package policy

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// fieldsOf are the fields of one level by their paths, as texts.
type fieldsOf map[string]string

// drawLevel draws a level that leaves out about half of the fields.
func drawLevel(t *rapid.T, whole bool) fieldsOf {
	l := fieldsOf{}
	for _, path := range slices.Sorted(maps.Keys(fields)) {
		f := fields[path]
		if strings.HasPrefix(path, "limits.") && !strings.HasPrefix(path, "limits.read_iops.") && !strings.HasPrefix(path, "limits.origin_read_bytes.") {
			continue
		}
		if !whole && !rapid.Bool().Draw(t, path) {
			continue
		}
		switch f.kind {
		case prefixes:
			l[path] = rapid.SampledFrom([]string{"[]", `["/"]`, `[/a, "/b c/"]`}).Draw(t, path)
		default:
			most := min(f.max, 5)
			if f.kind == span {
				most = 5e9
			}
			if f.words != nil {
				most = int64(len(f.words) - 1)
			} else if f.kind == toggle {
				most = 1
			}
			l[path] = f.print(rapid.Int64Range(f.min, most).Draw(t, path))
		}
	}
	return l
}

// yaml writes the level with that indentation; {} if it has no fields.
func (l fieldsOf) yaml(indent string) string {
	var b strings.Builder
	var members func(prefix, indent string)
	members = func(prefix, indent string) {
		done := map[string]bool{}
		for _, path := range slices.Sorted(maps.Keys(l)) {
			rest, ok := strings.CutPrefix(path, prefix)
			name, _, group := strings.Cut(rest, ".")
			switch {
			case !ok || done[name]:
			case group:
				done[name] = true
				fmt.Fprintf(&b, "%s%s:\n", indent, name)
				members(prefix+name+".", indent+" ")
			default:
				fmt.Fprintf(&b, "%s%s: %s\n", indent, name, l[path])
			}
		}
	}
	members("", indent)
	if b.Len() == 0 {
		return indent + "{}\n"
	}
	return b.String()
}

// TestInheritance: a tenant with a class and defaults is the tenant that writes itself what a plain overlay of the three gives.
func TestInheritance(t *testing.T) {
	good := 0
	rapid.Check(t, func(t *rapid.T) {
		own, class := drawLevel(t, false), drawLevel(t, false)
		base := drawLevel(t, rapid.Bool().Draw(t, "whole defaults"))
		flat := fieldsOf{}
		for _, l := range []fieldsOf{base, class, own} {
			maps.Copy(flat, l)
		}
		inherited := "classes:\n c:\n" + class.yaml("  ") + "defaults:\n" + base.yaml(" ") + "tenants:\n- id: a\n  class: c\n"
		if len(own) > 0 {
			inherited += own.yaml("  ")
		}
		written := "tenants:\n- id: a\n"
		if len(flat) > 0 {
			written += flat.yaml("  ")
		}
		got, err1 := Parse("p.yaml", []byte(inherited))
		want, err2 := Parse("p.yaml", []byte(written))
		if (err1 == nil) != (err2 == nil) {
			t.Fatalf("%v for\n%s\n%v for\n%s", err1, inherited, err2, written)
		}
		if err1 != nil {
			return
		}
		good++
		got.Tenants[0].Class = ""
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%+v for\n%s\n%+v for\n%s", got, inherited, want, written)
		}
		wantValid(t, got)
	})
	if good < 5 {
		t.Errorf("only %d of the drawn files were good", good)
	}
}

// wantValid holds a Set to what its fields promise.
func wantValid(t interface{ Errorf(string, ...any) }, s *Set) {
	ids, tokens := map[string]bool{}, map[string]bool{}
	for _, tenant := range s.Tenants {
		if ids[tenant.ID] || !identifier.MatchString(tenant.ID) {
			t.Errorf("tenant %q is there twice, or badly named", tenant.ID)
		}
		ids[tenant.ID] = true
		for _, k := range tenant.Tokens {
			if tokens[k.ID] {
				t.Errorf("token %s is there twice", k.ID)
			}
			tokens[k.ID] = true
		}
		for i, l := range tenant.Limits {
			if i > 0 && l.Metric <= tenant.Limits[i-1].Metric || l.Tenant != tenant.ID {
				t.Errorf("limits of %s: %+v", tenant.ID, tenant.Limits)
			}
			l.Generation = 1
			if err := l.Validate(); err != nil {
				t.Errorf("a limit that the limiter refuses: %v", err)
			}
		}
	}
	_, policies := Versions{}.Next(s)
	for _, l := range policies {
		if err := l.Validate(); err != nil {
			t.Errorf("a policy that the limiter refuses: %v", err)
		}
	}
}

// FuzzParse: whatever a file holds, each problem names it and one of its lines, and a good one is what a Set promises.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", whole, "tenants: [{id: a}]", "tenants:\n- &a {id: x}\n- *a\n", "%YAML 1.1\n---\ntenants: [{id: a, weight: 010}]",
		"tenants: [{id: a, limits: {read_iops: {rate: 1/s, burst: 1, local_burst: 1, soft_rate: none}}}]", "? {a: b}\n: 1", "tenants: [{id: !!binary YQ==}]",
		"tenants: [{id: a, tokens: [{id: t, sha256: 1e9}]}]\nring_epoch: 18446744073709551615", "\xff\xfe", "tenants: [{id: a, allow: [\"\\0\"]}]",
		"tenants: [{id: a}]\npeers: [{id: a, addr: \"[::]:1\"}]\nring_epoch: 1", "defaults: {queue: {bytes: 99999999999GiB}}", "a: |\n  b\n---\n...\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Parse("p.yaml", text)
		if err != nil {
			lines := strings.Count(string(text), "\n") + strings.Count(string(text), "\r") + strings.Count(string(text), "\u0085") +
				strings.Count(string(text), "\u2028") + strings.Count(string(text), "\u2029") + 2
			found := err.(Problems)
			for _, p := range found {
				if p.Name != "p.yaml" || p.Line < 1 || p.Line > lines || strings.ContainsAny(p.Text, "\n\r") || len(p.Text) > 1000 {
					t.Errorf("%d lines: %q", lines, p.Error())
				}
			}
			if len(found) == 0 || len(found) > maxProblems+1 || s != nil {
				t.Errorf("%d problems and %v", len(found), s)
			}
			return
		}
		wantValid(t, s)
		if again, err := Parse("p.yaml", text); err != nil || !reflect.DeepEqual(s, again) {
			t.Errorf("read again: %v", err)
		}
	})
}
