package admin

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWorkQueueThreads(t *testing.T) {
	tasks := t.TempDir()
	for id, comm := range map[string]string{"10": "talon\n", "11": "iou-wrk-10\n", "12": "iou-wrk-10\n", "13": "iou-sqp-10\n"} {
		if err := os.Mkdir(filepath.Join(tasks, id), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(tasks, id, "comm"), []byte(comm), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_ = os.Mkdir(filepath.Join(tasks, "14"), 0o755) // ended between the two looks
	if got := workQueueThreads(tasks); got != 2 {
		t.Errorf("%d threads, want 2", got)
	}
}
