package coordinator

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// stepReads makes a step that brings nothing new, and reports whether it has read the file.
func stepReads(t *testing.T, f *File) bool {
	t.Helper()
	before := f.seen.at
	if err := f.step(func(State) { t.Error("applied what is not new") }); err != nil {
		t.Error(err)
	}
	return f.seen.at != before
}

// age lets the clock of f stand so long after now.
func (f *File) age(d time.Duration) { f.now = func() time.Time { return time.Now().Add(d) } }

func TestUnchangedFileIsNotRead(t *testing.T) {
	f, _ := fileAt(t, start+peers)
	f.age(0)
	first := func() {
		t.Helper()
		n := 0
		if err := f.step(func(State) { n++ }); err != nil || n != 1 {
			t.Fatalf("applied %d times, %v", n, err)
		}
	}
	first()
	for range 3 {
		if !stepReads(t, f) {
			t.Error("a file of this moment was not read again: it may have changed within the tick of its clock")
		}
	}
	f.age(2 * coarsest)
	stepReads(t, f)
	if stepReads(t, f) {
		t.Error("a file that was as it is two seconds before it was read is read again")
	}
	f.age(2*coarsest + fullRead)
	if !stepReads(t, f) {
		t.Error("not read for a minute")
	}
	if stepReads(t, f) {
		t.Error("read again")
	}
	// The text has another length or not, the modification time is as it was: it is another file.
	for i, text := range []string{strings.Replace(start, "20000/s", "20001/s", 1), strings.Replace(start, "20000/s", "1/s", 1)} {
		info, err := os.Stat(f.path)
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, f, text+peers)
		if err := os.Chtimes(f.path, time.Time{}, info.ModTime()); err != nil {
			t.Fatal(err)
		}
		f.age(2*coarsest + time.Duration(i+1)*fullRead/4)
		first()
	}
	stepReads(t, f)
	if stepReads(t, f) {
		t.Error("read again")
	}
	if _, err := f.Force(t.Context()); err != nil { // touches the ledger alone
		t.Fatal(err)
	}
	first()
}

// What is wrong is read again each time: whether a ring may follow depends on the clock.
func TestBadFileIsReadAgain(t *testing.T) {
	f, _ := fileAt(t, "tenants: [")
	f.age(2 * coarsest)
	for range 3 {
		if err := f.step(func(State) { t.Error("applied") }); err == nil {
			t.Error("a bad file was taken, or not read again")
		}
	}
}

func TestWhenStampsAreTrusted(t *testing.T) {
	at := time.Unix(1000, 0)
	old := stamp{dev: 1, ino: 2, size: 3, mtime: at.Add(-3 * time.Second).UnixNano(), ctime: at.Add(-3 * time.Second).UnixNano()}
	was := seen{file: old, ledger: old, at: at}
	for _, c := range []struct {
		what        string
		after       time.Duration
		change      func(*stamp)
		both, alike bool
	}{
		{what: "nothing happened", after: time.Second, alike: true},
		{what: "written before reading began, in the tick of the clock", change: func(s *stamp) { s.ctime = at.UnixNano() }, both: true, after: time.Second},
		{what: "written a second before, on a file system that counts in two", change: func(s *stamp) { s.mtime = at.Add(-time.Second).UnixNano() }, both: true, after: time.Second},
		{what: "from the future", change: func(s *stamp) { s.mtime = at.Add(time.Hour).UnixNano() }, both: true, after: 2 * time.Second},
		{what: "another inode", change: func(s *stamp) { s.ino++ }, after: time.Second},
		{what: "another file system", change: func(s *stamp) { s.dev++ }, after: time.Second},
		{what: "another size", change: func(s *stamp) { s.size++ }, after: time.Second},
		{what: "another time of modification", change: func(s *stamp) { s.mtime-- }, after: time.Second},
		{what: "another time of change", change: func(s *stamp) { s.ctime++ }, after: time.Second},
		{what: "gone", change: func(s *stamp) { *s = stamp{} }, after: time.Second},
		{what: "a minute later", after: fullRead},
		{what: "the clock went back", after: -time.Second},
	} {
		for _, part := range []func(*seen) *stamp{func(s *seen) *stamp { return &s.file }, func(s *seen) *stamp { return &s.ledger }} {
			before, now := was, was
			now.at = at.Add(c.after)
			if c.change != nil {
				c.change(part(&now))
				if c.both {
					c.change(part(&before))
				}
			}
			if got := before.same(now); got != c.alike {
				t.Errorf("%s: not read again: %v, want %v", c.what, got, c.alike)
			}
		}
	}
	if (seen{}).same(was) {
		t.Error("never read, and not read now")
	}
}

// A file that is written again at once, in the same place and with the same length, is seen each time.
func TestEditsAtOnce(t *testing.T) {
	f, _ := fileAt(t, start)
	f.age(0)
	for i := range 50 {
		rate := "11111/s"
		if i%2 == 1 {
			rate = "22222/s"
		}
		writeFile(t, f, strings.Replace(start, "20000/s", rate, 1))
		n := 0
		if err := f.step(func(State) { n++ }); err != nil || n != 1 {
			t.Fatalf("edit %d: applied %d times, %v", i, n, err)
		}
	}
}

// BenchmarkStep is what each look costs at a file of ten thousand tenants that has not changed.
func BenchmarkStep(b *testing.B) {
	for _, mode := range []string{"read", "unchanged"} {
		b.Run(mode, func(b *testing.B) {
			f := OpenFile(filepath.Join(b.TempDir(), "p.yaml"))
			var text strings.Builder
			text.WriteString("tenants:\n")
			for i := range 10000 {
				fmt.Fprintf(&text, "  - {id: t%d, allow: [/], limits: {read_iops: {rate: 20000/s, burst: 2000, local_burst: 500}}}\n", i)
			}
			if err := os.WriteFile(f.path, []byte(text.String()), 0o600); err != nil {
				b.Fatal(err)
			}
			f.age(2 * coarsest)
			b.ReportAllocs()
			for range 2 {
				if err := f.step(func(State) {}); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				if mode == "read" {
					f.seen = seen{}
				}
				if err := f.step(func(State) {}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
