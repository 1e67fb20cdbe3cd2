package bed

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Machine is the sheet that stands above every result.
type Machine struct {
	Time    string `json:"time"` // UTC
	Commit  string `json:"commit"`
	Kernel  string `json:"kernel"`
	CPU     string `json:"cpu"`
	Cores   int    `json:"cores"`
	Memory  string `json:"memory"`
	Go      string `json:"go"`
	Nginx   string `json:"nginx,omitempty"`
	Load    string `json:"load_average"` // when the run began: others on the machine
	Hygiene bool   `json:"hygiene"`
}

// Describe reads the sheet of this machine. The working directory must be in the repository.
func Describe(hygiene bool) Machine {
	m := Machine{Time: time.Now().UTC().Format("2006-01-02 15:04:05"), Commit: commit(), Go: runtime.Version(),
		Cores: runtime.NumCPU(), CPU: procField("/proc/cpuinfo", "model name"), Memory: procField("/proc/meminfo", "MemTotal"), Hygiene: hygiene}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		m.Kernel = unix.ByteSliceToString(u.Release[:])
	}
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load = strings.Join(strings.Fields(string(b))[:3], " ")
	}
	if path, err := FindNginx(); err == nil {
		out, _ := exec.Command(path, "-v").CombinedOutput()
		_, m.Nginx, _ = strings.Cut(strings.TrimSpace(string(out)), "nginx version: ")
	}
	return m
}

// commit is the short hash, marked if the tree differs from it.
func commit() string {
	out, err := exec.Command("git", "rev-parse", "--short=9", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	hash := strings.TrimSpace(string(out))
	status, err := exec.Command("git", "status", "--porcelain", "--untracked-files=no", "--", ".", ":!bench/results").Output()
	if err != nil || len(bytes.TrimSpace(status)) > 0 {
		hash += "-dirty"
	}
	return hash
}

func procField(file, name string) string {
	b, _ := os.ReadFile(file)
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v)
		}
	}
	return "unknown"
}

// String is the sheet as the first lines of a result.
func (m Machine) String() string {
	s := fmt.Sprintf("%s UTC, commit %s\n%s, %d cores, %s; Linux %s; %s", m.Time, m.Commit, m.CPU, m.Cores, m.Memory, m.Kernel, m.Go)
	if m.Nginx != "" {
		s += ", " + m.Nginx
	}
	s += "; load average " + m.Load
	if !m.Hygiene {
		s += "\nWITHOUT nice and autogroup: do not compare these figures with others"
	}
	return s + "\n"
}
