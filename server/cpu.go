package server

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// allowedCPUs lists the CPUs that this process may run on, in order:
// sched_getaffinity(2), so that taskset, cpusets and container limits count.
func allowedCPUs() ([]int, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("sched_getaffinity: %w", err)
	}
	var cpus []int
	for cpu := 0; len(cpus) < set.Count(); cpu++ {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus, nil
}
