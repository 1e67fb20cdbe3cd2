package bed

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/talon-worker/talon/bench/plot"
)

// Main is the main function of a benchmark: it exits with 2 where parse refuses, with 1 where run fails, and else with the code that run returns.
// A signal ends run by its context.
func Main[O any](name string, parse func(args []string) (O, error), run func(O, context.Context) (int, error)) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o, err := parse(os.Args[1:])
	code := 2
	if err == nil {
		if code, err = run(o, ctx); err != nil {
			code = 1
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	}
	os.Exit(code)
}

// Runner is the settings that benchmarks share. Each embeds it beside its own, as json:"-": where a run was made is no part of its record.
type Runner struct {
	Talon                string // binary; once prepared, one that is there
	ServerCPU, ClientCPU int    // AnyCPU unless PinFlags have set them
	Hygiene, Strict      bool   // Strict is a flag of those benchmarks that want something, in their own words

	dir, results string
	noResults    bool
}

// FlagSet has the flags that every benchmark takes.
func (r *Runner) FlagSet(name string) *flag.FlagSet {
	r.ServerCPU, r.ClientCPU = AnyCPU, AnyCPU
	fs := flag.NewFlagSet(name, flag.ExitOnError)
	fs.StringVar(&r.Talon, "talon", "", "talon binary; empty builds ./cmd/talon")
	fs.StringVar(&r.dir, "dir", os.TempDir(), "where to make the files; on a local disk")
	fs.StringVar(&r.results, "results", "bench/results", "where to append the results")
	fs.BoolVar(&r.noResults, "no-results", false, "print only")
	return fs
}

// PinFlags adds those of a benchmark in which one core serves and another carries the load; server, client and raised are who that is.
func (r *Runner) PinFlags(fs *flag.FlagSet, server, client, raised string) {
	fs.IntVar(&r.ServerCPU, serverCPU, 0, "core of "+server)
	fs.IntVar(&r.ClientCPU, "client-cpu", 1, "core of "+client)
	r.HygieneFlag(fs, raised)
}

const serverCPU = "server-cpu"

// HygieneFlag adds that alone.
func (r *Runner) HygieneFlag(fs *flag.FlagSet, raised string) {
	fs.BoolVar(&r.Hygiene, "hygiene", true, "nice -20 and autogroup weight -20 for "+raised+" (root)")
}

// Parse parses args and checks what Runner has added.
func (r *Runner) Parse(fs *flag.FlagSet, args []string) error {
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("%q: no arguments beside flags are taken", fs.Arg(0))
	}
	if fs.Lookup(serverCPU) != nil && r.ServerCPU == r.ClientCPU {
		return fmt.Errorf("server and client on the same core %d would measure neither", r.ClientCPU)
	}
	return nil
}

// Site is what a run works with.
type Site struct {
	Work   string // a directory of its own
	Files  string // in it, of the objects
	Client Client // on its core, with the hygiene that was asked for
}

// Site makes one with an object for each size, named after it. The caller removes it.
func (r *Runner) Site(sizes ...string) (*Site, error) {
	work, err := os.MkdirTemp(r.dir, "talon-bench-")
	if err != nil {
		return nil, err
	}
	s := &Site{Work: work, Files: filepath.Join(work, "files"), Client: Client{CPU: r.ClientCPU, Raise: r.Hygiene}}
	if err = os.Mkdir(s.Files, 0o755); err == nil {
		err = MakeAll(s.Files, sizes)
	}
	if err == nil {
		s.Client.Path, err = BuildGo(work, "./bench/cmd/talon-load")
	}
	if err != nil {
		s.Remove()
		return nil, err
	}
	return s, nil
}

// Remove removes all that is in the site's directory.
func (s *Site) Remove() { os.RemoveAll(s.Work) }

// Prepare makes a site, and talon in it unless a binary was given.
func (r *Runner) Prepare(sizes ...string) (*Site, error) {
	s, err := r.Site(sizes...)
	if err != nil {
		return nil, err
	}
	if err := r.FindTalon(s.Work); err != nil {
		s.Remove()
		return nil, err
	}
	return s, nil
}

// FindTalon is the second half of Prepare.
func (r *Runner) FindTalon(work string) (err error) {
	if r.Talon != "" {
		r.Talon, err = exec.LookPath(r.Talon)
		return err
	}
	if r.Talon, err = BuildGo(work, "./cmd/talon"); err != nil {
		return fmt.Errorf("%w (or give a binary by --talon)", err)
	}
	return nil
}

// Record appends a run to the results, with its charts as a picture beside it, and says where; not with --no-results.
func (r *Runner) Record(scenario string, m Machine, text string, record any, charts ...plot.Chart) error {
	if r.noResults {
		return nil
	}
	name, err := appendRun(r.results, scenario, m, text, record)
	if err != nil {
		return err
	}
	if len(charts) == 0 {
		fmt.Println("appended to", name)
		return nil
	}
	picture := strings.TrimSuffix(name, filepath.Ext(name)) + ".svg"
	if err := plot.WriteFile(picture, charts); err != nil {
		return err
	}
	fmt.Println("appended to", name, "and drew", picture)
	return nil
}

// ExitCode is that of a run that holds what is wanted, or does not.
func (r *Runner) ExitCode(holds bool) int {
	if r.Strict && !holds {
		return 4
	}
	return 0
}
