package talon_test

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// boundRow is a row of the table of bounds: name, default, `room.constant`.
var boundRow = regexp.MustCompile("^\\| ([^|]+) \\| ([0-9]+)( [A-Za-z]+)? \\| `([a-z/]+)\\.([A-Za-z]+)` \\|")

// unitOf is what the second column may be written in; a plain number counts.
var unitOf = map[string]int64{"": 1, " B": 1, " KiB": 1 << 10, " MiB": 1 << 20, " s": 1e9, " ms": 1e6}

// TestBounds compares the table of bounds with the constants it names, and wants
// every default and maximum that server, policy and sched export to be in it.
func TestBounds(t *testing.T) {
	page, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	constants := map[string]map[string]int64{}
	listed := map[string]bool{}
	for line := range strings.Lines(string(page)) {
		m := boundRow.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		room, name := m[4], m[5]
		listed[room+"."+name] = true
		if constants[room] == nil {
			constants[room] = constantsOf(t, room)
		}
		want, err := tableValue(m[2], m[3])
		if err != nil {
			t.Errorf("%s: %v", m[1], err)
		}
		if got, ok := constants[room][name]; !ok || got != want {
			t.Errorf("%q: the table says %d, %s.%s is %d (exists: %v)", m[1], want, room, name, got, ok)
		}
	}
	rows := 0
	for _, room := range []string{"server", "origin", "admin", "policy", "peerwire", "coordinator", "sched", "cmd/talon"} {
		rows += strings.Count(string(page), "| `"+room+".")
	}
	if rows != len(listed) {
		t.Errorf("%d rows name a constant, %d were understood", rows, len(listed))
	}
	for _, room := range []string{"server", "policy", "sched"} {
		for name := range constants[room] {
			if (strings.HasPrefix(name, "Default") || strings.HasPrefix(name, "Max")) && !listed[room+"."+name] {
				t.Errorf("%s.%s is missing in the table of bounds", room, name)
			}
		}
	}
}

func tableValue(number, unit string) (int64, error) {
	n, err := strconv.ParseInt(number, 10, 64)
	scale, ok := unitOf[unit]
	if err == nil && !ok {
		err = fmt.Errorf("no unit%s here", unit)
	}
	return n * scale, err
}

// constantsOf evaluates the package-level constants of a room that are written
// with literals, with time's units, or with each other.
func constantsOf(t *testing.T, dir string) map[string]int64 {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	names = slices.DeleteFunc(names, func(n string) bool { return strings.HasSuffix(n, "_test.go") })
	fset, files := token.NewFileSet(), []*ast.File{}
	for _, n := range names {
		f, err := parser.ParseFile(fset, n, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	// Imports are stubs, so almost nothing type-checks; constants do.
	cfg := types.Config{Importer: timeOnly{}, Error: func(error) {}}
	pkg, _ := cfg.Check(dir, fset, files, nil)
	values := map[string]int64{}
	for _, name := range pkg.Scope().Names() {
		c, ok := pkg.Scope().Lookup(name).(*types.Const)
		if !ok {
			continue
		}
		if n, exact := constant.Int64Val(constant.ToInt(c.Val())); exact {
			values[name] = n
		}
	}
	return values
}

// timeOnly imports a package time that has nothing but its units; other
// packages are empty.
type timeOnly struct{}

func (timeOnly) Import(path string) (*types.Package, error) {
	pkg := types.NewPackage(path, filepath.Base(path))
	if path == "time" {
		named := types.NewNamed(types.NewTypeName(token.NoPos, pkg, "Duration", nil), types.Typ[types.Int64], nil)
		pkg.Scope().Insert(named.Obj())
		for name, ns := range map[string]int64{"Nanosecond": 1, "Microsecond": 1e3, "Millisecond": 1e6, "Second": 1e9, "Minute": 60e9, "Hour": 3600e9} {
			pkg.Scope().Insert(types.NewConst(token.NoPos, pkg, name, named, constant.MakeInt64(ns)))
		}
	}
	pkg.MarkComplete()
	return pkg, nil
}
