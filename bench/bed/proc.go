package bed

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/bench/load"
)

// stopGrace is how long a process may take to end on SIGTERM before its session is killed; a variable for tests.
var stopGrace = 5 * time.Second

// Spec is a process to start.
type Spec struct {
	Argv  []string
	CPU   int  // pinned to it, with all its threads and children; AnyCPU leaves them alone
	Raise bool // nice -20 and autogroup weight -20 (root)
	Kill  bool // killed if this process dies, not asked to end: for one that may be stopped just then
	In    io.Reader
	Out   io.Writer // nil: kept with the error output
	Log   io.Writer // takes what is kept, too: all of it; nil: the end alone is kept
}

// AnyCPU pins nothing: of a server with a ring on every core.
const AnyCPU = -1

// Proc is a running process of the bed.
type Proc struct {
	Pid  int
	done chan struct{} // closed when it has ended
	err  error         // of Wait; read after done
	log  *tailBuffer
}

// Start starts a process and returns once it runs.
//
// The thread that forks is pinned and raised first, because a child inherits both; setting them
// afterwards would miss the threads that the child has made by then. The thread then waits for the
// child: the parent-death signal is tied to the thread, not to the process.
func Start(s Spec) (*Proc, error) {
	p := &Proc{done: make(chan struct{}), log: &tailBuffer{}}
	started := make(chan error, 1)
	go p.run(s, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("%s: %w", s.Argv[0], err)
	}
	return p, nil
}

func (p *Proc) run(s Spec, started chan<- error) {
	runtime.LockOSThread() // never unlocked: the thread goes with the goroutine
	defer close(p.done)
	cmd := exec.Command(s.Argv[0], s.Argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = s.In, s.Out, p.log
	if s.Log != nil {
		cmd.Stderr = io.MultiWriter(p.log, s.Log)
	}
	if s.Out == nil {
		cmd.Stdout = cmd.Stderr
	}
	cmd.WaitDelay = stopGrace
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM}
	if s.Kill {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	err := p.prepareThread(s)
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		p.err = err
		started <- err
		return
	}
	p.Pid = cmd.Process.Pid
	if s.Raise {
		err = load.RaiseAutogroup(strconv.Itoa(p.Pid))
	}
	if err != nil {
		cmd.Process.Kill()
	}
	started <- err
	p.err = cmd.Wait()
}

func (p *Proc) prepareThread(s Spec) error {
	if s.CPU != AnyCPU {
		if err := load.Pin(s.CPU); err != nil {
			return err
		}
	}
	if !s.Raise {
		return nil
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, -20); err != nil {
		return fmt.Errorf("nice -20: %w (run as root, or with --hygiene=false and a grain of salt)", err)
	}
	return nil
}

// Wait waits for the end and returns the error of the process.
func (p *Proc) Wait() error {
	<-p.done
	return p.err
}

// Done is closed when the process has ended.
func (p *Proc) Done() <-chan struct{} { return p.done }

// Log is the end of what the process wrote.
func (p *Proc) Log() string { return p.log.String() }

// State is what the kernel says that the process does: "S (sleeping)", "T (stopped)" by somebody's signal, "D (disk sleep)".
func (p *Proc) State() string { return procField(fmt.Sprintf("/proc/%d/status", p.Pid), "State") }

// Stop ends the process and its group: SIGTERM first, SIGKILL for what is left after stopGrace.
// The process leads a session of its own, so its group holds nobody else.
func (p *Proc) Stop() {
	select {
	case <-p.done:
		return
	default:
	}
	syscall.Kill(-p.Pid, syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(stopGrace):
		syscall.Kill(-p.Pid, syscall.SIGKILL)
		<-p.done
	}
}

// Family is the process and its children, whose CPU time is the server's.
func (p *Proc) Family() []int {
	pids := []int{p.Pid}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		// The name in parentheses may hold anything; the parent is the second field behind it.
		f := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
		if len(f) > 1 && string(f[1]) == strconv.Itoa(p.Pid) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(name)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// tailBuffer keeps the last few KiB written to it.
type tailBuffer struct {
	mu sync.Mutex
	b  []byte
}

const tailSize = 4 << 10

func (t *tailBuffer) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, b...)
	if over := len(t.b) - tailSize; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(b), nil
}

func (t *tailBuffer) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.b))
}
