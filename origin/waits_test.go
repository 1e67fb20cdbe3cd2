package origin

import (
	"os"
	"testing"
)

// Of a file that cannot be read without waiting only a read says what is in memory:
// cachestat would count the pages that somebody is still reading.
func TestFilesThatWait(t *testing.T) {
	proc, err := os.Open("/proc/version") // a regular file without RWF_NOWAIT, as those of FUSE
	must(t, err)
	defer proc.Close()
	f := fileOf(int(proc.Fd()), Info{Size: 100})
	if r := f.Probe(0, 100, 0); r != Unknown || !f.Waits {
		t.Errorf("%v, waits: %v; want Unknown, and that it waits", r, f.Waits)
	}
	f.Mark(0, 60, 0)
	if r := f.Probe(0, 60, 1); r != Resident {
		t.Errorf("what was just read: %v, want Resident", r)
	}

	shm, err := os.CreateTemp("/dev/shm", "talon")
	if err != nil {
		t.Skipf("no tmpfs: %v", err)
	}
	defer os.Remove(shm.Name())
	defer shm.Close()
	_, err = shm.Write(pattern(ChunkSize))
	must(t, err)
	for name, ask := range map[string]func(*File){
		"ReadNow": func(f *File) { f.ReadNow(make([]byte, 1), 0) },
		"Probe":   func(f *File) { f.Probe(0, ChunkSize, 0) },
	} {
		f = fileOf(int(shm.Fd()), Info{Size: ChunkSize})
		if ask(f); f.Waits {
			t.Errorf("%s: a file in memory waits for no disk", name)
		}
		if r := f.Probe(0, ChunkSize, 0); r != Resident {
			t.Errorf("%s: a file in memory is %v, want Resident", name, r)
		}
	}
	disk := openFile(t, ChunkSize)
	if disk.ReadNow(make([]byte, 1), 0); disk.Waits {
		t.Error("a file of this disk can be read without waiting")
	}
}
