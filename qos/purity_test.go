package qos

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
	"testing"
)

// banned names what a state machine of this package must not touch: it takes now as an argument and shares nothing.
var bannedImports = map[string]string{
	"time":      "only for the type and constants of time.Duration",
	"sync":      "",
	"os":        "",
	"net":       "",
	"math/rand": "", "math/rand/v2": "only with a seed that the caller passes in",
	"context": "", "runtime": "", "unsafe": "", "log": "", "log/slog": "",
}

// allowedFrom lists the selectors that a half-banned import may be used for.
var allowedFrom = map[string]map[string]bool{
	"time":         {"Duration": true, "Nanosecond": true, "Microsecond": true, "Millisecond": true, "Second": true, "Minute": true, "Hour": true},
	"math/rand/v2": {"PCG": true, "NewPCG": true},
}

// sortedRange is written beside a range over a map whose order cannot reach any output.
const sortedRange = "// any order:"

// TestPurity parses the package: no clock, goroutine, channel, lock or map order decides anything in it. The simulator's promise of
// equal seed, equal run, and the data plane's of never waiting, rest on this.
func TestPurity(t *testing.T) {
	faults := impurities(t, ".")
	for _, f := range faults {
		t.Error(f)
	}
}

func impurities(t *testing.T, dir string) (faults []string) {
	t.Helper()
	fset := token.NewFileSet()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	conf := types.Config{Importer: hollow{importer.Default()}, Error: func(error) {}}
	conf.Check(dir, fset, files, info)
	for _, f := range files {
		faults = append(faults, impuritiesOf(fset, f, info)...)
	}
	return faults
}

func impuritiesOf(fset *token.FileSet, f *ast.File, info *types.Info) (faults []string) {
	bad := func(n ast.Node, format string, args ...any) {
		faults = append(faults, fset.Position(n.Pos()).String()+": "+fmt.Sprintf(format, args...))
	}
	named := map[string]string{} // local name of an import -> path
	for _, imp := range f.Imports {
		path := strings.Trim(imp.Path.Value, `"`)
		named[path[strings.LastIndexByte(path, '/')+1:]] = path
		if path == "math/rand/v2" {
			named["rand"] = path
		}
		if _, banned := bannedImports[path]; banned && allowedFrom[path] == nil {
			bad(imp, "import of %s: state machines are values, (state, input, now) -> (state, outputs)", path)
		}
	}
	excused := map[int]bool{} // lines that carry the excuse for a map range
	for _, group := range f.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, sortedRange) {
				excused[fset.Position(c.Pos()).Line] = true
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			bad(n, "go statement")
		case *ast.ChanType, *ast.SelectStmt, *ast.SendStmt:
			bad(n, "channel")
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok {
				if allowed := allowedFrom[named[x.Name]]; allowed != nil && !allowed[n.Sel.Name] {
					bad(n, "%s.%s: %s", x.Name, n.Sel.Name, bannedImports[named[x.Name]])
				}
			}
		case *ast.RangeStmt:
			if mayBeMap(info.Types[n.X].Type) && !excused[fset.Position(n.Pos()).Line] {
				bad(n, "range over a map: sort its keys first, or say beside it %q why no output depends on the order", sortedRange)
			}
		}
		return true
	})
	return faults
}

// hollow imports what map types can come through, and every other package as an empty one: enough to know this package's own types, and much
// faster than the real thing.
type hollow struct{ std types.Importer }

func (h hollow) Import(path string) (*types.Package, error) {
	if path == "slices" || path == "maps" {
		return h.std.Import(path)
	}
	pkg := types.NewPackage(path, path[strings.LastIndexByte(path, '/')+1:])
	pkg.MarkComplete()
	return pkg, nil
}

// mayBeMap reports whether t is a map. What is not known counts as one, and so does what package maps iterates over.
func mayBeMap(t types.Type) bool {
	if t == nil || t == types.Typ[types.Invalid] {
		return true
	}
	_, isMap := t.Underlying().(*types.Map)
	_, isFunc := t.Underlying().(*types.Signature)
	return isMap || isFunc
}

func TestPurityFindsImpurities(t *testing.T) {
	want := []string{"import of sync", "go statement", "channel", "time.Now", "range over a map"}
	got := strings.Join(impurities(t, "testdata/impure"), "\n")
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("testdata/impure: %q not found in\n%s", w, got)
		}
	}
	if n := strings.Count(got, "\n") + 1; n != len(want) {
		t.Errorf("%d faults, want %d:\n%s", n, len(want), got)
	}
}
