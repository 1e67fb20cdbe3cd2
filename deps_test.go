// The house rules that a compiler does not hold: who may import whom, one
// package comment per package, and no drawer for things without a name.
package talon_test

import (
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/talon-worker/talon/"

// A room is a directory with all below it, unless a longer row names a part of
// it. Beside what its row says, it may import the standard library, x/sys and
// itself.
type room struct {
	dir    string
	may    string // rooms and modules, separated by spaces
	tests  string // more for its tests
	not    string // what of the standard library it must do without; its tests may
	reason string // what the room is kept from knowing
}

// rooms is the table of ARCHITECTURE.md as data. Rows of rooms that are not
// built yet wait for them.
var rooms = []room{
	{dir: "uring", may: giouring, tests: "uring/uringtest",
		reason: "the ring knows neither HTTP nor tenants"},
	{dir: "uring/uringtest", may: "uring",
		reason: "the fake kernel knows the ring and nothing else"},
	{dir: "sched", not: "time os net net/http sync",
		reason: "a scheduler is a value without clock, ring, lock or contract"},
	{dir: "sched/sim", may: "sched", not: "os net net/http",
		reason: "the simulator plays rings, sockets and clients, and sees sched alone"},
	{dir: "qos", may: "github.com/dgryski/go-farm", tests: "qos/sim", not: "os net net/http sync",
		reason: "what a tenant may have is arithmetic, without protobuf, socket, lock or connection"},
	{dir: "qos/sim", may: "qos", not: "os net net/http",
		reason: "the simulator plays the network and sees qos alone"},
	{dir: "qos/sim/cmd", may: "qos qos/sim",
		reason: "it prints what the simulator says"},
	{dir: "qos/mutants",
		reason: "it changes copies of the source and runs their tests"},
	{dir: "policy", may: "qos go.yaml.in/yaml", not: "os net/http sync",
		reason: "a policy file becomes values: no file is watched here, no clock read, no worker known"},
	{dir: "origin", may: "golang.org/x/sync",
		reason: "an origin knows neither tenants nor rings"},
	{dir: "peerwire", may: "qos google.golang.org/protobuf",
		reason: "the two planes meet only in qos"},
	{dir: "peerwire/genproto", may: "github.com/bufbuild/protocompile google.golang.org/protobuf",
		reason: "it compiles messages and is in no worker"},
	{dir: "coordinator", may: "qos policy go.etcd.io/etcd go.uber.org/zap github.com/fsnotify/fsnotify go.yaml.in/yaml",
		reason: "it hands out policies and membership, and serves no request"},
	{dir: "server", may: "uring sched qos origin", tests: "uring/uringtest",
		reason: "a request knows no peers, protobuf, flags or metric names"},
	{dir: "admin", may: "github.com/VictoriaMetrics/metrics",
		reason: "it reads counters and snapshots that the others hand it"},
	{dir: "bench", may: "github.com/HdrHistogram/hdrhistogram-go gonum.org/v1/plot",
		reason: "it measures through the public wire, as a stranger"},
	{dir: "cmd/talon", may: "uring sched qos policy origin peerwire coordinator server admin " +
		"github.com/spf13/cobra github.com/spf13/pflag github.com/knadh/koanf go.yaml.in/yaml",
		reason: "it wires the rooms together; whatever else it needs belongs into one"},
	{dir: "e2e",
		reason: "it breaks the machine under a worker and looks on from outside"},
	{dir: "cmd/mksample",
		reason: "it makes files"},
	{dir: ".", tests: "server",
		reason: "the root holds only tests of the whole"},
}

// giouring does not link without linker flags, so only files that its build tag
// selects may import it.
const giouring = "github.com/pawelgaczynski/giouring"

// testModules are for the tests of every room.
var testModules = strings.Fields("pgregory.net/rapid go.uber.org/goleak github.com/anishathalye/porcupine " +
	"github.com/HdrHistogram/hdrhistogram-go github.com/rogpeppe/go-internal")

// roomOf returns the row with the longest directory that holds dir.
func roomOf(dir string) (found room, ok bool) {
	for _, r := range rooms {
		if under(dir, r.dir) && len(r.dir) >= len(found.dir) {
			found, ok = r, true
		}
	}
	return found, ok
}

// under reports whether path is dir or below it.
func under(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// file is what a rule sees of a source file.
type file struct {
	dir    string // slash-separated, relative to the root
	name   string
	tagged bool // only built with the tag giouring
	syntax *ast.File
}

func (f file) test() bool { return strings.HasSuffix(f.name, "_test.go") }

// mayImport judges one edge.
func (f file) mayImport(path string) error {
	r, ok := roomOf(f.dir)
	if !ok {
		return fmt.Errorf("%s belongs to no room: give it a row in deps_test.go", f.dir)
	}
	allowed := strings.Fields(r.may)
	if f.test() {
		allowed = slices.Concat(allowed, strings.Fields(r.tests), testModules)
	}
	fits := true
	host, _, _ := strings.Cut(path, "/")
	switch local, ours := strings.CutPrefix(path, module); {
	case ours:
		target, ok := roomOf(local)
		fits = ok && (target.dir == r.dir || slices.Contains(allowed, target.dir))
	case !strings.Contains(host, "."): // the standard library
		fits = f.test() || !slices.Contains(strings.Fields(r.not), path)
	case path == giouring:
		fits = f.tagged && slices.Contains(allowed, path)
	default:
		fits = under(path, "golang.org/x/sys") ||
			slices.ContainsFunc(allowed, func(m string) bool { return under(path, m) })
	}
	if !fits {
		return fmt.Errorf("%s/%s must not import %s: %s", f.dir, f.name, path, r.reason)
	}
	return nil
}

// sources parses every Go file of the module, whatever its build constraints. A directory with a go.mod
// of its own is another module: nothing here can import it.
func sources(t *testing.T) (all []file) {
	t.Helper()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return filepath.SkipDir
		case d.IsDir() && name != "." && exists(filepath.Join(name, "go.mod")):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		syntax, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.ImportsOnly)
		if err != nil {
			return err
		}
		slash := filepath.ToSlash(name)
		all = append(all, file{dir: path.Dir(slash), name: path.Base(slash), tagged: needsTag(syntax, "giouring"), syntax: syntax})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// needsTag reports whether a build constraint excludes the file without tag.
func needsTag(f *ast.File, tag string) bool {
	for _, group := range f.Comments {
		for _, c := range group.List {
			if !constraint.IsGoBuild(c.Text) || c.Pos() > f.Package {
				continue
			}
			x, err := constraint.Parse(c.Text)
			return err == nil && !x.Eval(func(t string) bool { return t != tag })
		}
	}
	return false
}

func TestRooms(t *testing.T) {
	for _, f := range sources(t) {
		for _, i := range f.syntax.Imports {
			imported, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if err := f.mayImport(imported); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestRoomRules shows that the rules refuse what they are there to refuse.
func TestRoomRules(t *testing.T) {
	for _, c := range []struct {
		dir, name, imported string
		tagged, ok          bool
	}{
		{dir: "server", name: "send.go", imported: module + "uring", ok: true},
		{dir: "server", name: "send.go", imported: "golang.org/x/sys/unix", ok: true},
		{dir: "server", name: "send.go", imported: "time", ok: true},
		{dir: "server", name: "send.go", imported: module + "uring/uringtest"},
		{dir: "server", name: "send_test.go", imported: module + "uring/uringtest", ok: true},
		{dir: "server", name: "send.go", imported: module + "peerwire"},
		{dir: "server", name: "send_test.go", imported: module + "peerwire"},
		{dir: "server", name: "send.go", imported: module + "admin"},
		{dir: "server", name: "send.go", imported: module + "cmd/talon"},
		{dir: "server", name: "send.go", imported: "github.com/spf13/cobra"},
		{dir: "server", name: "send.go", imported: "pgregory.net/rapid"},
		{dir: "server", name: "send_test.go", imported: "pgregory.net/rapid", ok: true},
		{dir: "peerwire", name: "node.go", imported: module + "server"},
		{dir: "peerwire", name: "node.go", imported: module + "qos", ok: true},
		{dir: "sched", name: "sched.go", imported: "time"},
		{dir: "sched", name: "sched.go", imported: module + "qos"},
		{dir: "sched", name: "sched_test.go", imported: "time", ok: true},
		{dir: "sched", name: "sched.go", imported: module + "sched/sim"},
		{dir: "sched/sim", name: "world.go", imported: module + "sched", ok: true},
		{dir: "sched/sim", name: "world.go", imported: module + "server"},
		{dir: "qos", name: "meter.go", imported: "sync"},
		{dir: "qos", name: "meter.go", imported: "sync/atomic", ok: true},
		{dir: "qos", name: "meter.go", imported: module + "qos/sim"},
		{dir: "qos/sim", name: "net.go", imported: module + "qos", ok: true},
		{dir: "qos/sim", name: "net.go", imported: module + "peerwire"},
		{dir: "policy", name: "parse.go", imported: module + "qos", ok: true},
		{dir: "policy", name: "parse.go", imported: module + "server"},
		{dir: "policy", name: "parse.go", imported: "os"},
		{dir: "uring", name: "ring.go", imported: module + "uring/internal/abi", ok: true},
		{dir: "uring", name: "ring.go", imported: giouring},
		{dir: "uring", name: "ring.go", imported: giouring, tagged: true, ok: true},
		{dir: "server", name: "loop.go", imported: giouring, tagged: true},
		{dir: "uring/uringtest", name: "kernel.go", imported: module + "uring/internal/abi", ok: true},
		{dir: "admin", name: "metrics.go", imported: module + "server"},
		{dir: "bench/load", name: "run.go", imported: module + "bench/bed", ok: true},
		{dir: "bench/load", name: "run.go", imported: module + "uring"},
		{dir: "e2e/faults", name: "worker_test.go", imported: module + "server"},
		{dir: "cmd/talon", name: "serve.go", imported: module + "server", ok: true},
		{dir: "cmd/talon", name: "serve.go", imported: module + "bench/load"},
		{dir: "cmd/talon", name: "serve.go", imported: "github.com/VictoriaMetrics/metrics"},
		{dir: "misc", name: "misc.go", imported: "fmt"},
	} {
		f := file{dir: c.dir, name: c.name, tagged: c.tagged}
		if err := f.mayImport(c.imported); (err == nil) != c.ok {
			t.Errorf("%s/%s imports %s (tagged %v): got %v", c.dir, c.name, c.imported, c.tagged, err)
		}
	}
}

func TestOnePackageComment(t *testing.T) {
	docs := map[string][]string{}
	for _, f := range sources(t) {
		if f.test() {
			continue
		}
		docs[f.dir] = append(docs[f.dir], nil...) // known, even without a comment
		if f.syntax.Doc != nil {
			docs[f.dir] = append(docs[f.dir], f.name)
		}
	}
	for dir, names := range docs {
		if len(names) != 1 {
			t.Errorf("%s: package comments in %v, want exactly one", dir, names)
		}
	}
}

func TestNoDrawers(t *testing.T) {
	for _, f := range sources(t) {
		for _, drawer := range []string{"util", "helper", "common", "misc"} {
			if !f.test() && strings.HasPrefix(f.name, drawer) {
				t.Errorf("%s/%s: name the file after the thing it holds", f.dir, f.name)
			}
		}
	}
}
