package load

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Pin binds the calling thread to one CPU. The goroutine must have locked its thread.
func Pin(cpu int) error {
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("pin to cpu %d: %w (is it online?)", cpu, err)
	}
	return nil
}

// Raise gives the calling thread nice -20 and its autogroup the same weight. Nice alone orders tasks
// inside one autogroup only (sched(7)); against other sessions the group's weight counts.
// It needs root. The weight stays with the session, so start it in a session of its own (setsid).
func Raise() error {
	if err := unix.Setpriority(unix.PRIO_PROCESS, 0, -20); err != nil {
		return fmt.Errorf("hygiene: nice -20: %w (it needs root; leave hygiene off otherwise)", err)
	}
	return RaiseAutogroup("self")
}

// RaiseAutogroup does the second half for the session of another process.
func RaiseAutogroup(pid string) error {
	err := os.WriteFile("/proc/"+pid+"/autogroup", []byte("-20"), 0)
	if os.IsNotExist(err) {
		return nil // a kernel without autogroups: nice is enough
	}
	if err != nil {
		return fmt.Errorf("hygiene: autogroup of %s: %w", pid, err)
	}
	return nil
}
