package bed

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/talon-worker/talon/bench/plot"
)

// What all benchmarks take is checked for all of them; cores and hygiene belong to those alone that pin.
func TestRunnerParses(t *testing.T) {
	parse := func(pins bool, args ...string) (r Runner, err error) {
		fs := r.FlagSet("bench")
		if pins {
			r.PinFlags(fs, "the server", "the client", "every process")
		}
		return r, r.Parse(fs, args)
	}
	for _, args := range [][]string{{"x"}, {"--no-results", "x"}, {"--server-cpu", "1"}, {"--client-cpu", "0"}, {"--server-cpu", "-1", "--client-cpu", "-1"}} {
		if _, err := parse(true, args...); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
	if r, err := parse(true); err != nil || r.ServerCPU != 0 || r.ClientCPU != 1 || !r.Hygiene {
		t.Errorf("%+v, %v: want cores 0 and 1, with hygiene", r, err)
	}
	if r, err := parse(false, "--talon", "t"); err != nil || r.ServerCPU != AnyCPU || r.ClientCPU != AnyCPU || r.Hygiene || r.Talon != "t" {
		t.Errorf("%+v, %v: want any core, without hygiene", r, err)
	}
}

// A site that cannot be made, for its objects or for talon, leaves nothing behind.
func TestSiteLeavesNothing(t *testing.T) {
	t.Chdir("../..")
	r := Runner{dir: t.TempDir(), Talon: "no such program"}
	if _, err := r.Site("4X"); err == nil {
		t.Error("no error for a size that is none")
	}
	if _, err := r.Prepare("1"); !errors.Is(err, exec.ErrNotFound) {
		t.Errorf("%v for a binary that is not there", err)
	}
	if left, _ := os.ReadDir(r.dir); len(left) > 0 {
		t.Errorf("%s was left behind", left[0].Name())
	}
}

func TestRecord(t *testing.T) {
	m, charts := Machine{Time: "2026-01-02 03:04:05", Commit: "c0ffee"}, []plot.Chart{{Series: []plot.Series{{Step: 1, Y: []float64{1, 2}}}}}
	r := Runner{results: t.TempDir(), noResults: true}
	for _, want := range []int{0, 3} { // text, JSON and picture
		if err := r.Record("noisy", m, "text", 1, charts...); err != nil {
			t.Fatal(err)
		}
		if names, _ := filepath.Glob(r.results + "/20260102-c0ffee-noisy.*"); len(names) != want {
			t.Errorf("%v, want %d files", names, want)
		}
		r.noResults = false
	}
}

func TestExitCode(t *testing.T) {
	for _, c := range []struct {
		strict, holds bool
		code          int
	}{{false, false, 0}, {false, true, 0}, {true, true, 0}, {true, false, 4}} {
		if r := (Runner{Strict: c.strict}); r.ExitCode(c.holds) != c.code {
			t.Errorf("%+v: %d", c, r.ExitCode(c.holds))
		}
	}
}
