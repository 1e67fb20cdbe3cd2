// Command mutants breaks the limiter and the scheduler on purpose, one small fault at a time, and runs the tests that must notice.
//
//	go run ./qos/mutants [-room sched] [-only regexp] [-seeds 200] [-starts 1]
//
// Each mutant is a replacement of text in one file of a copy of the module; it must match exactly once, so that a change of the code cannot
// turn a mutant into nothing unseen. A mutant is killed when its named test fails. For those that name TestSeeds, the simulator's, the number
// of seeds that it took is printed, the median over the starts. The module itself is not touched, and has no switches for any of this.
//
// Exit status 1: a mutant survived, or took more than -seeds.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const simulator = "TestSeeds"

var (
	only   = flag.String("only", "", "run the mutants whose name matches")
	room   = flag.String("room", "", "run the mutants of this room, qos or sched; both if not said")
	seeds  = flag.Int("seeds", 200, "seeds that the simulator may take to kill a mutant")
	starts = flag.Int("starts", 1, "first seeds to start from: the median over them counts")
	batch  = flag.Int("batch", 25, "seeds run at once")
	list   = flag.Bool("list", false, "list the mutants and stop")
)

func main() {
	flag.Parse()
	want, err := regexp.Compile(*only)
	if err != nil {
		fatal("-only: %v", err)
	}
	root, err := moduleRoot()
	if err != nil {
		fatal("%v", err)
	}
	survived, ran, all := 0, 0, []int{}
	for _, m := range slices.Concat(mutants, schedulers) {
		if !want.MatchString(m.name) || *room != "" && *room != m.dir() {
			continue
		}
		if *list {
			fmt.Printf("%-34s %-20s %s\n", m.name, m.dir()+"/"+m.file, m.tests)
			continue
		}
		ran++
		v := m.run(root)
		fmt.Println(v)
		if !v.killed {
			survived++
		}
		if v.seeds > 0 {
			all = append(all, v.seeds)
		}
	}
	if len(all) > 0 {
		slices.Sort(all)
		fmt.Printf("simulator: median %d seeds, most %d, over %d mutants\n", all[len(all)/2], all[len(all)-1], len(all))
	}
	if ran == 0 && !*list {
		fatal("no mutant of room %q matches %q", *room, *only)
	}
	if survived > 0 {
		fatal("%d survived: add the property that is missing", survived)
	}
}

func fatal(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "mutants: "+format+"\n", args...)
	os.Exit(1)
}

func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// A mutant is one fault.
type mutant struct {
	name     string
	file     string // in the room
	old, new string
	tests    string // names, separated by spaces: each of them must fail; sim.Name is one of the room's simulator
	room     string // qos, if none is named
}

func (m mutant) dir() string {
	if m.room == "" {
		return "qos"
	}
	return m.room
}

// A verdict is what became of a mutant.
type verdict struct {
	name   string
	killed bool
	by     string
	seeds  int // median; 0 where the simulator was not asked
}

func (v verdict) String() string {
	if !v.killed {
		return fmt.Sprintf("SURVIVED  %-34s %s", v.name, v.by)
	}
	return fmt.Sprintf("killed    %-34s %s", v.name, v.by)
}

// run makes the mutant and asks each of its tests.
func (m mutant) run(root string) verdict {
	v := verdict{name: m.name, killed: true}
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		fatal("%v", err)
	}
	defer os.RemoveAll(dir)
	if err := m.make(root, dir); err != nil {
		fatal("%s: %v", m.name, err)
	}
	for _, test := range strings.Fields(m.tests) {
		killed, by := false, ""
		if test == simulator {
			killed, by, v.seeds = simulate(dir, m.dir())
		} else {
			killed, by = unit(dir, m.dir(), test)
		}
		v.killed = v.killed && killed
		v.by += by + "  "
	}
	return v
}

// make copies what the room needs and puts the fault in.
func (m mutant) make(root, dir string) error {
	for _, name := range []string{"go.mod", "go.sum"} {
		if err := copyFile(filepath.Join(root, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	from := filepath.Join(root, m.dir())
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		to := filepath.Join(dir, m.dir(), strings.TrimPrefix(path, from))
		switch {
		case d.IsDir() && (d.Name() == "mutants" || d.Name() == "rapid"):
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(to, 0o755)
		}
		return copyFile(path, to)
	})
	if err != nil {
		return err
	}
	path := filepath.Join(dir, m.dir(), m.file)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if n := bytes.Count(text, []byte(m.old)); n != 1 {
		return fmt.Errorf("%s has %d places like %q, want exactly one", m.file, n, m.old)
	}
	return os.WriteFile(path, bytes.Replace(text, []byte(m.old), []byte(m.new), 1), 0o644)
}

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, text, 0o644)
}

// unit runs one named test of the room or its simulator, which must exist and fail.
func unit(dir, room, test string) (killed bool, by string) {
	args := []string{"-run", "", "-v"}
	if name, ok := strings.CutPrefix(test, "sim."); ok {
		room, test = room+"/sim", name
	} else {
		args = append(args, "-rapid.nofailfile")
	}
	args[1] = "^" + test + "$"
	out, err := goTest(dir, append([]string{"./" + room}, args...)...)
	switch {
	case !strings.Contains(out, "=== RUN   "+test):
		return false, test + " does not run: " + firstLine(out)
	case err == nil:
		return false, test + " passes"
	}
	return true, test
}

// simulate asks the simulator, in batches, until it finds the fault.
func simulate(dir, room string) (killed bool, by string, median int) {
	took := make([]int, *starts)
	for i := range took {
		if took[i] = simulateFrom(dir, room, 1+1000*i); took[i] == 0 {
			took[i] = 1 << 30
		}
	}
	slices.Sort(took)
	median = took[len(took)/2]
	if median > *seeds {
		return false, fmt.Sprintf("%s passes %d seeds", simulator, *seeds), 0
	}
	return true, fmt.Sprintf("%s after %d seeds", simulator, median), median
}

var failedSeed = regexp.MustCompile(`seed (\d+): (.*)`)

// simulateFrom returns how many seeds it took, 0 if none failed.
func simulateFrom(dir, room string, first int) int {
	for done := 0; done < *seeds; done += *batch {
		n := min(*batch, *seeds-done)
		out, err := goTest(dir, "./"+room+"/sim", "-run", "^"+simulator+"$", "-args", "-first", strconv.Itoa(first+done), "-seeds", strconv.Itoa(n))
		if err == nil {
			continue
		}
		least := 0
		for _, found := range failedSeed.FindAllStringSubmatch(out, -1) {
			if seed, _ := strconv.Atoi(found[1]); least == 0 || seed < least {
				least = seed
			}
		}
		if least == 0 {
			fatal("the simulator failed without naming a seed:\n%s", out)
		}
		return least - first + 1
	}
	return 0
}

// goTest runs go test in the copy. A mutant that hangs is as good as caught, but must not stop the others.
func goTest(dir string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-vet=off", "-count=1"}, args...)...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if bytes.Contains(out, []byte("[build failed]")) {
		fatal("does not compile:\n%s", out)
	}
	return string(out), err
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
