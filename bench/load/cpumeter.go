package load

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// cpuMeter reads the CPU time of processes at the edges of the window: the sum over their threads,
// so the workers that the kernel runs for a ring (io-wq) count as the server's own.
type cpuMeter struct {
	pids       []int
	from, to   time.Time
	used, wait map[string]int64 // ns by thread at the opening, then the difference in total
	cpu, queue int64            // ns in the window: on a CPU; runnable and waiting for one
	err        error
}

func (m *cpuMeter) open() {
	m.used, m.wait = map[string]int64{}, map[string]int64{}
	m.err = m.each(func(task string, used, wait int64) { m.used[task], m.wait[task] = used, wait })
	m.from = time.Now()
}

// close takes the differences. A thread born in the window counts from zero; one that died in it is
// lost, which for io-wq workers means idle ones.
func (m *cpuMeter) close() {
	m.to = time.Now()
	err := m.each(func(task string, used, wait int64) {
		m.cpu += used - m.used[task]
		m.queue += wait - m.wait[task]
	})
	if m.err == nil {
		m.err = err
	}
}

// each reads /proc/PID/task/*/schedstat: ns on a CPU, ns waiting, timeslices.
func (m *cpuMeter) each(visit func(task string, used, wait int64)) error {
	for _, pid := range m.pids {
		tasks, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/schedstat")
		if len(tasks) == 0 {
			return fmt.Errorf("server process %d: no threads; has it died?", pid)
		}
		for _, task := range tasks {
			b, err := os.ReadFile(task)
			if err != nil {
				continue // the thread ended in between
			}
			used, wait, err := parseSchedstat(b)
			if err != nil {
				return fmt.Errorf("%s: %w", task, err)
			}
			visit(task, used, wait)
		}
	}
	return nil
}

func parseSchedstat(b []byte) (used, wait int64, err error) {
	f := bytes.Fields(b)
	if len(f) != 3 {
		return 0, 0, fmt.Errorf("%d fields in %q, want 3", len(f), b)
	}
	if used, err = strconv.ParseInt(string(f[0]), 10, 64); err != nil {
		return 0, 0, err
	}
	wait, err = strconv.ParseInt(string(f[1]), 10, 64)
	return used, wait, err
}
