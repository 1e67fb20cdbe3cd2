package server

import (
	"testing"

	"golang.org/x/sys/unix"
)

// reportCPU reports the processor time per operation, which other work on the
// machine inflates less than ns/op. Call it before the loop and call what it
// returns after it.
func reportCPU(b *testing.B) (done func()) {
	b.ReportAllocs()
	start := cpuNanos(b)
	return func() { b.ReportMetric(float64(cpuNanos(b)-start)/float64(b.N), "cpu-ns/op") }
}

func cpuNanos(b *testing.B) int64 {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
