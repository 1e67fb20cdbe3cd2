package admin

import (
	"bytes"
	"strings"

	"github.com/VictoriaMetrics/metrics"
)

// processHelp is the text of the families that are kept of the Go runtime and
// the process; of the library's hundred, these are the ones with a question an
// operator of this server asks, and none that promtool objects to.
var processHelp = map[string]string{
	"go_gc_duration_seconds":        "Stop-the-world time of the last 256 garbage collections.",
	"go_gomaxprocs":                 "Threads that may run Go code at once; more than the rings by design.",
	"go_goroutines":                 "Goroutines that exist.",
	"go_memlimit_bytes":             "GOMEMLIMIT.",
	"go_memstats_alloc_bytes":       "Bytes of live and not yet swept heap objects.",
	"go_memstats_heap_inuse_bytes":  "Bytes of heap spans in use.",
	"go_memstats_mallocs_total":     "Heap objects ever allocated; flat while only hits are served.",
	"go_memstats_next_gc_bytes":     "Heap size at which the next collection starts.",
	"go_memstats_sys_bytes":         "Bytes obtained from the system by the Go runtime.",
	"go_sched_latencies_seconds":    "Time that goroutines waited, runnable, for a thread.",
	"go_threads":                    "Threads created by the Go runtime.",
	"process_cpu_seconds_total":     "User and system time of the process.",
	"process_max_fds":               "Open files the process may have.",
	"process_open_fds":              "Open files the process has.",
	"process_resident_memory_bytes": "Resident memory.",
	"process_start_time_seconds":    "When the process started, in Unix time.",
	"process_virtual_memory_bytes":  "Virtual memory.",
}

// writeProcess appends those families of the library's output, each with its
// text in place of the library's empty HELP line.
func writeProcess(e *exposition) {
	metrics.ExposeMetadata(true)
	var all bytes.Buffer
	metrics.WriteGoMetrics(&all)
	metrics.WriteProcMetrics(&all)
	metrics.WriteFDMetrics(&all)
	keepFamilies(e, all.String(), processHelp)
}

// keepFamilies copies the families named in help from in, a text exposition
// whose every family begins with its HELP line.
func keepFamilies(e *exposition, in string, help map[string]string) {
	keep := false
	for line := range strings.Lines(in) {
		if rest, ok := strings.CutPrefix(line, "# HELP "); ok {
			name := strings.Fields(rest)[0]
			var text string
			if text, keep = help[name]; keep {
				line = "# HELP " + name + " " + escapeHelp(text) + "\n"
			}
		}
		if keep {
			e.WriteString(line)
		}
	}
}
