package origin

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// openFile is an open File of n pattern bytes, warm.
func openFile(t testing.TB, n int) *File {
	t.Helper()
	fd, info := openPattern(t, n)
	return fileOf(fd, info)
}

func fileOf(fd int, info Info) *File {
	file, _ := NewFiles(1, 0).Insert([]byte("f"), fd, info, 0)
	return file
}

func TestProbe(t *testing.T) {
	const size = 3*ChunkSize + 1000
	f := openFile(t, size)
	now := int64(0)
	want := func(what string, off, n int64, want Residency) {
		t.Helper()
		if got := f.Probe(off, n, now); got != want {
			t.Fatalf("%s: Probe(%d, %d) = %v, want %v", what, off, n, got, want)
		}
	}
	want("warm", 0, ChunkSize, Resident)
	want("warm, over a chunk's end", ChunkSize-10, 20, Resident)
	want("warm, the last bytes", 3*ChunkSize, ChunkSize, Resident)
	dropPages(t, f.FD)
	now = int64(ResidentFor) - 1
	want("remembered", 0, ChunkSize, Resident)
	want("remembered across a chunk's end", ChunkSize-10, 20, Resident)
	want("never seen, though in a chunk that was", ChunkSize+markPage, 1, Absent)
	want("beyond the end", size, 1, Resident)
	want("nothing", 0, 0, Resident)
	now++
	want("forgotten", 0, ChunkSize, Absent)
	want("forgotten, the last bytes", size-1, 1, Absent)

	f.Mark(0, ChunkSize, now)
	want("fetched", 0, ChunkSize, Resident)
	want("more than was fetched", 0, ChunkSize+1, Absent)
	now += int64(ResidentWhileMissing) - 1
	want("fetched a moment ago", 0, ChunkSize, Resident)
	now++
	want("fetched, of a file that is being evicted", 0, ChunkSize, Absent)
	now += int64(ResidentFor)
	f.Mark(0, ChunkSize, now)
	now += int64(ResidentFor) - 1
	want("fetched, and nothing has been missing since", 0, ChunkSize, Resident)
	now++
	want("fetched a second ago", 0, ChunkSize, Absent)

	must(t, unix.Fadvise(f.FD, 0, 0, unix.FADV_RANDOM)) // no read ahead
	_, err := unix.Pread(f.FD, make([]byte, 64<<10), ChunkSize)
	must(t, err)
	want("just read", ChunkSize, 64<<10, Resident)
	want("just read, and a byte behind", ChunkSize, 64<<10+1, Absent)
	want("just read, and a byte before", ChunkSize-1, 64<<10, Absent)
}

// TestProbeOfPagesUnderWay: pages that are being read are in the page cache, and a
// sendfile would wait for them.
func TestProbeOfPagesUnderWay(t *testing.T) {
	f := openFile(t, 4*ChunkSize)
	for i := range int64(50) {
		dropPages(t, f.FD)
		must(t, unix.Fadvise(f.FD, 0, ChunkSize, unix.FADV_WILLNEED))
		r := f.Probe(0, ChunkSize, i*2*second)
		if r == Resident && f.touch(ChunkSize-1) == Absent {
			t.Fatal("Resident, while the last page was still being read")
		}
		if _, err := unix.Pread(f.FD, make([]byte, 1), ChunkSize-1); err != nil {
			t.Fatal(err)
		}
	}
}

func TestProbeOfAHole(t *testing.T) {
	var st unix.Statfs_t
	if unix.Statfs("/dev/shm", &st) != nil || st.Type != unix.TMPFS_MAGIC {
		t.Skip("no tmpfs at /dev/shm")
	}
	dir, err := os.MkdirTemp("/dev/shm", "origin")
	must(t, err)
	defer os.RemoveAll(dir)
	write(t, dir+"/f", "")
	must(t, os.Truncate(dir+"/f", ChunkSize))
	fd, info, err := openDir(t, dir).Open([]byte("f"))
	must(t, err)
	defer unix.Close(fd)
	f := fileOf(fd, info)
	if r := f.Probe(0, ChunkSize, 0); r != Absent {
		t.Fatalf("a hole: %v, want Absent", r)
	}
	f.Mark(0, ChunkSize, 0)
	if r := f.Probe(0, ChunkSize, int64(ResidentWhileMissing)-1); r != Resident {
		t.Fatalf("a hole that was just fetched: %v, want Resident", r)
	}
}

func TestProbeUnknown(t *testing.T) {
	f := fileOf(-1, Info{Size: 100})
	if r := f.Probe(0, 100, 0); r != Unknown {
		t.Errorf("a descriptor the kernel refuses: %v, want Unknown", r)
	}
	proc, err := os.Open("/proc/version")
	must(t, err)
	defer proc.Close()
	f = fileOf(int(proc.Fd()), Info{Size: 100})
	f.noCachestat = true
	if r := f.Probe(0, 100, 0); r != Unknown {
		t.Errorf("a file system without RWF_NOWAIT: %v, want Unknown", r)
	}
}

func TestProbeAsNobody(t *testing.T) {
	diskDir(t)
	dir := openToAll(t)
	must(t, os.WriteFile(dir+"/f", pattern(32*ChunkSize), 0o644))
	unix.Sync() // only clean pages can be dropped
	asNobody(t, "probe", dir)
}

// probeErrand: without cachestat, the ends of the range are touched.
func probeErrand(args []string) error {
	d, err := OpenDir(args[0])
	if err != nil {
		return err
	}
	fd, info, err := d.Open([]byte("f"))
	if err != nil {
		return err
	}
	f := fileOf(fd, info)
	if _, errno := cachestat(fd, 0, 1); errno != unix.EPERM {
		return fmt.Errorf("cachestat of another user's file: %v, want EPERM", errno)
	}
	now := int64(0)
	everywhere := func(want Residency) (seen int) {
		now += 2 * second
		for off := int64(0); off < info.Size; off += ChunkSize {
			if f.Probe(off, ChunkSize, now) == want {
				seen++
			}
		}
		return seen
	}
	buf := make([]byte, info.Size)
	if _, err := unix.Pread(fd, buf, 0); err != nil {
		return err
	}
	if n := everywhere(Resident); n != 32 || !f.noCachestat {
		return fmt.Errorf("warm: %d of 32 chunks resident; cachestat given up: %v", n, f.noCachestat)
	}
	for range 20 {
		if err := unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED); err != nil {
			return err
		}
		if everywhere(Absent) > 0 {
			return nil
		}
	}
	return fmt.Errorf("dropped 20 times, and no chunk was ever absent")
}

// TestMarksTwin holds marks against a map that remembers when each page was last
// seen: what is covered was seen, and what was just seen is covered.
func TestMarksTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.SampledFrom([]int64{1, markPage, ChunkSize, ChunkSize + 1, 5 * ChunkSize, 3 * maxMarks * ChunkSize}).Draw(t, "size")
		m := marks(nil).sized(size)
		seen := map[int64]int64{} // page -> when
		now := int64(0)
		spot := rapid.Custom(func(t *rapid.T) int64 { // near a chunk's edge, in chunks that share a mark
			chunk := rapid.SampledFrom([]int64{0, 1, 2, 4, maxMarks, maxMarks + 1, 2 * maxMarks}).Draw(t, "chunk")
			return max(0, chunk*ChunkSize+rapid.Int64Range(-3, 3).Draw(t, "page")*markPage+rapid.Int64Range(-1, 1).Draw(t, "byte"))
		})
		ranges := func(t *rapid.T) (off, end int64) {
			off = min(spot.Draw(t, "off"), size-1)
			return off, min(size, off+rapid.SampledFrom([]int64{1, markPage, 3 * markPage, ChunkSize}).Draw(t, "n"))
		}
		remember := func(off, end int64) {
			for p := off / markPage; p*markPage < end; p++ {
				seen[p] = now
			}
			if !m.covered(off, end, now-second+1) {
				t.Fatalf("[%d, %d) was just seen, and is not covered", off, end)
			}
		}
		life := map[string]func(*rapid.T){
			"advance": func(t *rapid.T) { now += rapid.Int64Range(0, second*2/3).Draw(t, "ns") },
			"add":     func(t *rapid.T) { off, end := ranges(t); m.add(off, end, now, now-second+1); remember(off, end) },
			"set": func(t *rapid.T) {
				off, end := ranges(t)
				m.set(off, end, now)
				remember(off, end)
				if !m.covered(off, end, now) {
					t.Fatalf("[%d, %d) was fetched, and does not count for a second", off, end)
				}
			},
			"covered": func(t *rapid.T) {
				off, end := ranges(t)
				if !m.covered(off, end, now-second+1) {
					return
				}
				for p := off / markPage; p*markPage < end; p++ {
					if when, ok := seen[p]; !ok || now-when >= second {
						t.Fatalf("[%d, %d) at %d is covered; page %d was seen at %d (%v)", off, end, now, p, when, ok)
					}
				}
			},
		}
		for range rapid.IntRange(1, 10).Draw(t, "chapters") {
			t.Repeat(life)
		}
	})
}

func TestMarksAreBounded(t *testing.T) {
	for size, want := range map[int64]int{0: 1, 1: 1, ChunkSize: 1, ChunkSize + 1: 2, 3 * ChunkSize: 4, 64 << 20: 256, 1 << 40: 256} {
		if n := len(marks(nil).sized(size)); n != want {
			t.Errorf("%d marks for %d bytes, want %d", n, size, want)
		}
	}
	m := marks(nil).sized(1 << 40)
	m.set(0, 10*ChunkSize, 5)
	if again := m.sized(8 * ChunkSize); &again[0] != &m[0] || again.covered(0, 1, 5) {
		t.Error("the next file got new memory, or the old file's marks")
	}
}

func TestProbeAllocatesNothing(t *testing.T) {
	f := openFile(t, 4*ChunkSize)
	now := int64(0)
	if n := testing.AllocsPerRun(100, func() {
		now += 2 * second
		asked, remembered := f.Probe(0, ChunkSize, now), f.Probe(0, ChunkSize, now)
		f.Mark(ChunkSize, ChunkSize, now)
		f.noCachestat = true
		touched := f.Probe(2*ChunkSize, ChunkSize, now)
		f.noCachestat = false
		if asked != Resident || remembered != Resident || touched != Resident {
			t.Fatal(asked, remembered, touched)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkProbe(b *testing.B) {
	f := openFile(b, 4*ChunkSize)
	now := int64(0)
	for _, c := range []struct {
		name  string
		pause int64
		blind bool
	}{{"remembered", 0, false}, {"cachestat", 2 * second, false}, {"touch", 2 * second, true}} {
		b.Run(c.name, func(b *testing.B) {
			f.noCachestat = c.blind
			for b.Loop() {
				now += c.pause
				if f.Probe(0, ChunkSize, now) != Resident {
					b.Fatal("not resident")
				}
			}
		})
	}
}
