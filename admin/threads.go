package admin

import (
	"bytes"
	"os"
	"path/filepath"
)

// workQueueThreads counts io_uring's own kernel threads among those of a process:
// the kernel names them iou-wrk-PID. One that ends meanwhile is not counted.
func workQueueThreads(tasks string) (n int) {
	names, _ := filepath.Glob(filepath.Join(tasks, "*", "comm")) // the pattern is right
	for _, name := range names {
		if comm, err := os.ReadFile(name); err == nil && bytes.HasPrefix(comm, []byte("iou-wrk-")) {
			n++
		}
	}
	return n
}
