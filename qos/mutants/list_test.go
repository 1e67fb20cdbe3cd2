package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestEveryMutantFitsTheCode: each replaces exactly one place, changes it, has a name of its own, and names tests that exist. It is what keeps the list
// alive between two runs of the whole.
func TestEveryMutantFitsTheCode(t *testing.T) {
	tests := map[string]string{}
	for _, dir := range []string{"qos", "qos/sim", "sched", "sched/sim"} {
		names, err := filepath.Glob(filepath.Join("../..", dir, "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			tests[dir] += string(text)
		}
	}
	seen := map[string]bool{}
	for _, m := range slices.Concat(mutants, schedulers) {
		text, err := os.ReadFile(filepath.Join("../..", m.dir(), m.file))
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		if n := strings.Count(string(text), m.old); n != 1 || m.old == m.new {
			t.Errorf("%s: %s has %d places like it, want one to change", m.name, m.file, n)
		}
		for _, test := range strings.Fields(m.tests) {
			dir := m.dir()
			if name, ok := strings.CutPrefix(test, "sim."); ok || test == simulator {
				dir, test = dir+"/sim", name
			}
			if !strings.Contains(tests[dir], "func "+test+"(") {
				t.Errorf("%s: there is no %s in %s", m.name, test, dir)
			}
		}
		if seen[m.name] || m.tests == "" {
			t.Errorf("%s: twice, or without a test", m.name)
		}
		seen[m.name] = true
	}
	for room, n := range map[string]int{"limiter": len(mutants), "scheduler": len(schedulers)} {
		if n < 20 {
			t.Errorf("%d mutants of the %s, want at least 20", n, room)
		}
	}
}
