// Package bedtest runs a benchmark's command the whole way, in its test.
package bedtest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Run runs the command at the top of the repository with args, and returns the text and the line of JSON that it has appended to the results of the scenario. It must
// leave nothing else behind, and exit with 0, or with 3: a stolen core may refuse every round of a row.
func Run[O any](t *testing.T, scenario string, parse func(args []string) (O, error), run func(O, context.Context) (int, error), args ...string) (text string, record []byte) {
	t.Helper()
	t.Chdir("../../..")
	dir, results := t.TempDir(), t.TempDir()
	o, err := parse(append(args, "--dir", dir, "--results", results))
	if err != nil {
		t.Fatal(err)
	}
	if code, err := run(o, context.Background()); err != nil || code != 0 && code != 3 {
		t.Fatalf("exit %d, %v", code, err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%s was left behind", left[0].Name())
	}
	names, _ := filepath.Glob(results + "/*-" + scenario + ".txt")
	if len(names) != 1 {
		t.Fatalf("results: %v", names)
	}
	b, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	if record, err = os.ReadFile(strings.TrimSuffix(names[0], "txt") + "jsonl"); err != nil {
		t.Fatal(err)
	}
	return string(b), record
}
