package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEveryMutantFitsTheCode: each replaces exactly one place, changes it, has a name of its own, and names tests that exist. It is what keeps the list
// alive between two runs of the whole.
func TestEveryMutantFitsTheCode(t *testing.T) {
	tests := ""
	for _, dir := range []string{"..", "../sim"} {
		names, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			tests += string(text)
		}
	}
	seen := map[string]bool{}
	for _, m := range mutants {
		text, err := os.ReadFile(filepath.Join("..", m.file))
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		if n := strings.Count(string(text), m.old); n != 1 || m.old == m.new {
			t.Errorf("%s: %s has %d places like it, want one to change", m.name, m.file, n)
		}
		for _, test := range strings.Fields(m.tests) {
			if !strings.Contains(tests, "func "+test+"(") {
				t.Errorf("%s: there is no %s", m.name, test)
			}
		}
		if seen[m.name] || m.tests == "" {
			t.Errorf("%s: twice, or without a test", m.name)
		}
		seen[m.name] = true
	}
	if len(mutants) < 20 {
		t.Errorf("%d mutants, want at least 20", len(mutants))
	}
}
