package talon_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	testName = regexp.MustCompile(`\bTest[A-Z]\w*`)
	testFunc = regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(`)
)

// Tests that docs/failures.md names as its evidence are there.
func TestFailuresNameTests(t *testing.T) {
	have := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
			have[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("docs/failures.md")
	if err != nil {
		t.Fatal(err)
	}
	named := testName.FindAllString(string(text), -1)
	for _, name := range named {
		if !have[name] {
			t.Errorf("docs/failures.md names %s, and there is no such test", name)
		}
	}
	if len(named) < 60 {
		t.Errorf("docs/failures.md names %d tests: has it lost some?", len(named))
	}
}
