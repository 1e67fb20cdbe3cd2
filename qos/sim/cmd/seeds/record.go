package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/talon-worker/talon/qos/sim"
)

// A header is what a record is about: the first line of its file.
type header struct {
	Commit  string `json:"commit"` // with "+changes" if the tree had any
	Tree    string `json:"tree"`   // of qos/ in that commit: another commit with the same runs the same
	Machine string `json:"machine"`
	First   uint64 `json:"first"`
	Seeds   uint64 `json:"seeds"` // that were asked for
}

// A part is one slice: a line each after the header.
type part struct {
	First   uint64     `json:"first"`
	Seeds   uint64     `json:"seeds"`
	Begun   string     `json:"begun"`
	Wall    float64    `json:"wall_seconds"`
	CPU     float64    `json:"cpu_seconds"`
	Failed  []failure  `json:"failed,omitempty"`
	Counted sim.Result `json:"counted"`
}

type failure struct {
	Seed  uint64 `json:"seed"`
	Error string `json:"error"`
}

// A record is a file of slices and their sum.
type record struct {
	path string // without ending
	header
	next   uint64 // first seed that was not run
	parts  int
	begun  string
	wall   float64
	cpu    float64
	failed []failure
	total  sim.Result
}

// open begins a record, or goes on with the one that is there if it is about the same. The last line of a call that was killed while it wrote is
// cut off: its slice is run again.
func open(path string, h header) (*record, error) {
	h.Machine = machine()
	r := &record{path: path, header: h, next: h.First}
	text, err := os.ReadFile(path + ".jsonl")
	if errors.Is(err, os.ErrNotExist) {
		return r, r.append(h)
	} else if err != nil {
		return nil, err
	}
	whole := bytes.LastIndexByte(text, '\n') + 1
	if whole < len(text) {
		if err := os.Truncate(path+".jsonl", int64(whole)); err != nil {
			return nil, err
		}
	}
	lines := bufio.NewScanner(bytes.NewReader(text[:whole]))
	lines.Buffer(nil, 1<<26)
	for n := 0; lines.Scan(); n++ {
		if n == 0 {
			err = r.same(lines.Bytes(), h)
		} else {
			err = r.read(lines.Bytes())
		}
		if err != nil {
			return nil, fmt.Errorf("%s.jsonl:%d: %w", path, n+1, err)
		}
	}
	return r, lines.Err()
}

// recordOf is where the record of a commit is: the one that is there, on whatever day it was begun, or a new one.
func recordOf(dir, commit string, now time.Time) string {
	name := fmt.Sprintf("%.9s-seeds", commit)
	if there, _ := filepath.Glob(filepath.Join(dir, "*-"+name+".jsonl")); len(there) > 0 {
		return strings.TrimSuffix(there[len(there)-1], ".jsonl")
	}
	return filepath.Join(dir, now.UTC().Format("20060102")+"-"+name)
}

// same checks that a record there is about what is asked for; more seeds of the same are no other record.
func (r *record) same(line []byte, h header) error {
	var was header
	if err := json.Unmarshal(line, &was); err != nil {
		return fmt.Errorf("no header: %w", err)
	}
	if was.Commit != h.Commit || was.First != h.First {
		return fmt.Errorf("a record of commit %s from seed %d on, not of %s from %d on: name another with -out", was.Commit, was.First, h.Commit, h.First)
	}
	return nil
}

// read takes in a slice that was run before.
func (r *record) read(line []byte) error {
	var p part
	if err := json.Unmarshal(line, &p); err != nil {
		return err
	}
	if p.First != r.next {
		return fmt.Errorf("a slice from seed %d on, where %d is next", p.First, r.next)
	}
	r.sum(&p)
	return nil
}

// add writes a slice down, and the sum of all anew.
func (r *record) add(p part) error {
	if err := r.append(p); err != nil {
		return err
	}
	r.sum(&p)
	next := r.path + ".txt.new"
	if err := os.WriteFile(next, []byte(r.text()), 0o644); err != nil {
		return err
	}
	return os.Rename(next, r.path+".txt")
}

func (r *record) append(line any) error {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(r.path+".jsonl", os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	return errors.Join(err, f.Close())
}

func (r *record) sum(p *part) {
	if r.parts == 0 {
		r.begun = p.Begun
	}
	r.parts++
	r.next = p.First + p.Seeds
	r.wall += p.Wall
	r.cpu += p.CPU
	r.failed = append(r.failed, p.Failed...)
	r.total.Add(&p.Counted)
}

// text is the record for people.
func (r *record) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s %s, commit %s (qos/ is tree %.9s)\n", r.begun, r.Machine, r.Commit, r.Tree)
	fmt.Fprintf(&b, "# the limiter's simulator: seeds %d to %d, %d of %d asked for, in %d slices\n", r.First, r.next-1, r.next-r.First, r.Seeds, r.parts)
	virtual := float64(r.total.Virtual) / 1e9
	fmt.Fprintf(&b, "%d seeds failed; %.0f virtual seconds in %.0f CPU seconds (%.0f of wall time): %.0f virtual seconds and %.1f seeds in a CPU second\n\n",
		len(r.failed), virtual, r.cpu, r.wall, virtual/max(r.cpu, 1e-9), float64(r.total.Runs)/max(r.cpu, 1e-9))
	b.WriteString(r.total.Table())
	for _, hole := range r.total.Holes() {
		fmt.Fprintf(&b, "short: %s\n", hole)
	}
	for _, f := range r.failed {
		fmt.Fprintf(&b, "\nseed %d: %s\n\treplay: %s\n", f.Seed, f.Error, sim.Replay(f.Seed))
	}
	return b.String()
}

// verdict is what the exit status says.
func (r *record) verdict() error {
	if holes := r.total.Holes(); len(r.failed) > 0 || len(holes) > 0 {
		return fmt.Errorf("%d seeds failed, %d things came up less often than is due: see %s.txt", len(r.failed), len(holes), r.path)
	}
	return nil
}

// commit is the commit that is checked out around the working directory, and its tree of qos/.
func commit() (name, tree string, err error) {
	both, err := exec.Command("git", "rev-parse", "HEAD", "HEAD:qos").Output()
	if err != nil {
		return "", "", fmt.Errorf("a record names its commit, and git rev-parse HEAD HEAD:qos says: %w", err)
	}
	changes, err := exec.Command("git", "status", "--porcelain", "--untracked-files=no", "--", "qos", "go.mod").Output()
	if err != nil {
		return "", "", fmt.Errorf("git status: %w", err)
	}
	name, tree, _ = strings.Cut(strings.TrimSpace(string(both)), "\n")
	if len(changes) > 0 {
		name += "+changes"
	}
	return name, tree, nil
}

func machine() string {
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	cores := runtime.NumCPU()
	return fmt.Sprintf("%s %s %d cores, %s", strings.TrimSpace(string(release)), runtime.GOARCH, cores, runtime.Version())
}

// cpuSeconds is what this process has used so far.
func cpuSeconds() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
