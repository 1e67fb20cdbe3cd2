package bed

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// allowedCPU is a CPU that this test may use.
func allowedCPU(t *testing.T) int {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	for cpu := range 1024 {
		if set.IsSet(cpu) {
			return cpu
		}
	}
	t.Fatal("no CPU")
	return -1
}

func TestStartPinsTheWholeFamilyAndStopEndsIt(t *testing.T) {
	cpu := allowedCPU(t)
	var out bytes.Buffer
	p, err := Start(Spec{Argv: []string{"sh", "-c", "grep Cpus_allowed_list /proc/self/status; sleep 1000 & wait"}, CPU: cpu, Out: &out})
	if err != nil {
		t.Fatal(err)
	}
	var family []int
	for i, last := 0, ""; last != "sleep\n" && i < 1000; i++ { // the shell forks in its own time, and grep before
		family = p.Family()
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", family[len(family)-1]))
		last = string(name)
		time.Sleep(time.Millisecond)
	}
	if sid, err := unix.Getsid(p.Pid); err != nil || sid != p.Pid {
		t.Errorf("session %d of process %d, %v: want one of its own", sid, p.Pid, err)
	}
	p.Stop()
	if got := strings.Fields(out.String()); len(got) != 2 || got[1] != strconv.Itoa(cpu) {
		t.Errorf("child saw %q, want CPU %d alone", got, cpu)
	}
	if len(family) != 2 {
		t.Fatalf("family %v, want the shell and its sleep", family)
	}
	for _, pid := range family {
		wantGone(t, pid)
	}
}

func TestStopKillsWhatIgnoresSIGTERM(t *testing.T) {
	old := stopGrace
	stopGrace = 50 * time.Millisecond
	defer func() { stopGrace = old }()
	p, err := Start(Spec{Argv: []string{"sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1000; done"}, CPU: allowedCPU(t)})
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; p.Log() != "ready" && i < 5000; i++ {
		time.Sleep(time.Millisecond)
	}
	family := p.Family()
	syscall.Kill(p.Pid, syscall.SIGSTOP)
	for i := 0; !strings.HasPrefix(p.State(), "T") && i < 5000; i++ {
		time.Sleep(time.Millisecond)
	}
	if s := p.State(); s != "T (stopped)" {
		t.Errorf("a stopped process is %q", s)
	}
	p.Stop() // stopped, it does not even hear SIGTERM
	for _, pid := range family {
		wantGone(t, pid)
	}
}

// wantGone waits for a killed process to be gone, or a zombie that init has not buried yet.
func wantGone(t *testing.T, pid int) {
	t.Helper()
	var stat []byte
	for range 2000 {
		var err error
		if stat, err = os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err != nil || bytes.Contains(stat, []byte(") Z ")) {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Errorf("still there: %s", stat)
}

// What a process writes on either output is kept in part, and goes whole to the log that is given.
func TestStartKeepsALog(t *testing.T) {
	var log bytes.Buffer
	p, err := Start(Spec{Argv: []string{"sh", "-c", "echo one; echo two >&2"}, CPU: AnyCPU, Log: &log})
	if err != nil {
		t.Fatal(err)
	}
	p.Wait()
	for _, got := range []string{log.String(), p.Log()} {
		if !strings.Contains(got, "one") || !strings.Contains(got, "two") {
			t.Errorf("kept %q", got)
		}
	}
}

func TestStartOfNothing(t *testing.T) {
	if _, err := Start(Spec{Argv: []string{"/no/such/program"}, CPU: allowedCPU(t)}); err == nil {
		t.Error("no error")
	}
	if _, err := Start(Spec{Argv: []string{"true"}, CPU: 1023}); err == nil || !strings.Contains(err.Error(), "1023") {
		t.Errorf("a CPU that does not exist: %v", err)
	}
}

func TestUpReportsAServerThatEnds(t *testing.T) {
	s := Server{Name: "x", Argv: []string{"sh", "-c", "echo no such option; exit 2"}}
	err := s.Up(context.Background(), "/", "/", allowedCPU(t), false, "/")
	if err == nil || !strings.Contains(err.Error(), "no such option") {
		t.Errorf("got %v, want what the server said", err)
	}
}

func TestParseSize(t *testing.T) {
	for in, want := range map[string]int64{"1": 1, "4K": 4096, "16M": 16 << 20, "2G": 2 << 30, "": 0, "K": 0, "4k": 0, "-1K": 0, "1KK": 0, "0": 0} {
		if got, err := ParseSize(in); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %d, %v; want %d", in, got, err, want)
		}
	}
}

func TestMakeAll(t *testing.T) {
	dir := t.TempDir()
	if err := MakeAll(dir, []string{"1K", "300K"}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int64{"1K": 1024, "300K": 300 << 10} {
		st, err := os.Stat(filepath.Join(dir, name))
		if err != nil || st.Size() != want {
			t.Errorf("%s: %v, %v; want %d bytes", name, st, err, want)
		}
	}
	if err := FreeSpace(dir, 1<<60); err == nil || !strings.Contains(err.Error(), "--dir") {
		t.Errorf("an exabyte fits: %v", err)
	}
}

// Results are history: a second run on the same day and commit must leave the first as it is.
func TestAppendNeverRewrites(t *testing.T) {
	dir := t.TempDir()
	m := Machine{Time: "2026-11-30 12:00:00", Commit: "abc"}
	for i := range 2 {
		name, err := appendRun(dir, "nginx", m, fmt.Sprintf("run %d", i), map[string]int{"run": i})
		if err != nil || filepath.Base(name) != "20261130-abc-nginx.txt" {
			t.Fatal(name, err)
		}
	}
	text, _ := os.ReadFile(filepath.Join(dir, "20261130-abc-nginx.txt"))
	lines, _ := os.ReadFile(filepath.Join(dir, "20261130-abc-nginx.jsonl"))
	if string(text) != "run 0\nrun 1\n" || string(lines) != "{\"run\":0}\n{\"run\":1}\n" {
		t.Errorf("got %q and %q", text, lines)
	}
}

func TestNginxConfigurations(t *testing.T) {
	var got []string
	for _, s := range Nginx("nginx") {
		for _, conf := range s.Files {
			got = append(got, fmt.Sprintf("%s %v %v", s.Name, strings.Contains(conf, "tcp_nopush on;"), strings.Contains(conf, "sendfile_max_chunk 512k;")))
		}
	}
	want := []string{"nginx false false", "nginx-nopush true false", "nginx-512k false true", "nginx-nopush-512k true true"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestTailBufferIsBounded(t *testing.T) {
	var b tailBuffer
	for range 100 {
		b.Write(bytes.Repeat([]byte("x"), 1000))
	}
	b.Write([]byte("end"))
	if s := b.String(); len(s) > tailSize || !strings.HasSuffix(s, "xend") {
		t.Errorf("%d bytes kept, ending in %q", len(s), s[len(s)-4:])
	}
}
