package coordinator

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/talon-worker/talon/qos"
)

// fileAt is a File on a new directory, with a clock that the test sets.
func fileAt(t *testing.T, text string) (*File, *time.Time) {
	t.Helper()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f := OpenFile(filepath.Join(t.TempDir(), "policy.yaml"))
	f.now = func() time.Time { return now }
	if text != "" {
		writeFile(t, f, text)
	}
	return f, &now
}

func writeFile(t *testing.T, f *File, text string) {
	t.Helper()
	if err := os.WriteFile(f.path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
}

// look is one step of Follow; nil if nothing new was applied.
func look(t *testing.T, f *File) (*State, error) {
	t.Helper()
	var got *State
	err := f.step(func(s State) { got = &s })
	return got, err
}

const peers = "ring_epoch: 1\npeers: [{id: w2, addr: \"127.0.0.1:2\"}, {id: w1, addr: \"127.0.0.1:1\"}]\n"

func TestFileStory(t *testing.T) {
	f, now := fileAt(t, "")
	if s, err := look(t, f); s != nil || err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Fatalf("without a file: %v, %v", s, err)
	}
	writeFile(t, f, start+peers)
	s, err := look(t, f)
	if err != nil || s.Policy.Generation != 1 || s.Ring.Epoch != 1 || len(s.Ring.Members) != 2 || s.Ring.Members[0].ID != "w1" || s.Ring.Replaces != nil {
		t.Fatalf("the first: %+v, %v", s, err)
	}
	if s, err := look(t, f); s != nil || err != nil {
		t.Fatalf("nothing has happened: %v, %v", s, err)
	}
	writeFile(t, f, "tenants: [")
	if s, err := look(t, f); s != nil || err == nil {
		t.Fatalf("a broken file: %v, %v", s, err)
	}
	writeFile(t, f, strings.Replace(start, "20000/s", "500/s", 1)+peers)
	if s, err = look(t, f); err != nil || s.Policy.Generation != 2 || s.Ring.Epoch != 1 {
		t.Fatalf("a limit has changed: %+v, %v", s, err)
	}
	writeFile(t, f, start+strings.Replace(peers, "w2", "w3", 1))
	if s, err := look(t, f); s != nil || err == nil || !strings.Contains(err.Error(), "raise it with every change") {
		t.Fatalf("other peers under the same epoch: %v, %v", s, err)
	}
	*now = now.Add(time.Hour)
	writeFile(t, f, start+strings.NewReplacer("w2", "w3", "ring_epoch: 1", "ring_epoch: 7").Replace(peers))
	if s, err = look(t, f); err != nil || s.Ring.Epoch != 7 || len(s.Ring.Replaces) != 1 || s.Ring.Replaces[0].Epoch != 1 || s.Ring.Replaces[0].Voters[1] != "w2" {
		t.Fatalf("the next ring: %+v, %v", s, err)
	}
	writeFile(t, f, start+strings.Replace(peers, "ring_epoch: 1", "ring_epoch: 8", 1))
	before := s.Policy
	if s, err = look(t, f); err != nil || s.Policy != before || s.Ring.Epoch != 8 || len(s.Ring.Replaces) != 2 {
		t.Fatalf("one more at once: %+v, %v", s, err)
	}
	writeFile(t, f, start+peers)
	if s, err := look(t, f); s != nil || err == nil || !strings.Contains(err.Error(), "8 has been in force") {
		t.Fatalf("an older ring: %v, %v", s, err)
	}
	writeFile(t, f, start)
	if s, err := look(t, f); s != nil || err == nil || !strings.Contains(err.Error(), "peers are gone") {
		t.Fatalf("no peers any more: %v, %v", s, err)
	}
}

// Workers that read the file at different times give every limit the same generation.
func TestFilesWorkersAgree(t *testing.T) {
	a, _ := fileAt(t, start)
	b := OpenFile(a.path)
	if s, err := look(t, a); err != nil || s.Policy.Generation != 1 {
		t.Fatal(s, err)
	}
	writeFile(t, a, strings.Replace(start, "20000/s", "1/s", 1))
	sa, err := look(t, a)
	if err != nil {
		t.Fatal(err)
	}
	sb, err := look(t, b) // it has never seen the first
	if err != nil {
		t.Fatal(err)
	}
	if ga, gb := generation(sa.Policy, "serving", qos.ReadIOPS), generation(sb.Policy, "serving", qos.ReadIOPS); ga != 2 || gb != 2 {
		t.Errorf("generations %d and %d, want 2", ga, gb)
	}
	if ga, gb := generation(sa.Policy, "batch", qos.ReadIOPS), generation(sb.Policy, "batch", qos.ReadIOPS); ga != 1 || gb != 1 {
		t.Errorf("generations of what has not changed %d and %d, want 1", ga, gb)
	}
}

func TestFileEpochsGrow(t *testing.T) {
	a, _ := fileAt(t, start)
	for want := uint64(1); want < 4; want++ {
		if got, err := OpenFile(a.path).Enlist(t.Context(), Member{ID: "w1"}); err != nil || got != want {
			t.Errorf("epoch %d, %v, want %d", got, err, want)
		}
	}
	if got, err := a.Enlist(t.Context(), Member{ID: "w2"}); err != nil || got != 1 {
		t.Errorf("another worker: epoch %d, %v", got, err)
	}
}

// What has no end is not read to its end, whatever size it says it has.
func TestReadBounded(t *testing.T) {
	if _, err := readBounded("/dev/zero", 1000); err == nil || !strings.Contains(err.Error(), "more than 1000 bytes") {
		t.Errorf("got %v", err)
	}
	name := filepath.Join(t.TempDir(), "f")
	for _, n := range []int{0, 999, 1000, 1001} {
		if err := os.WriteFile(name, make([]byte, n), 0o600); err != nil {
			t.Fatal(err)
		}
		if text, err := readBounded(name, 1000); (err == nil) != (n <= 1000) || err == nil && len(text) != n {
			t.Errorf("%d bytes: %d, %v", n, len(text), err)
		}
	}
}

// A directory that nobody may write to is said, and how to mend it.
func TestFileSaysThatItMustWrite(t *testing.T) {
	f := OpenFile("/proc/self/status") // a readable file in a directory that takes no other
	_, err := f.Load(t.Context())
	if err == nil {
		t.Fatal("no error")
	}
	if _, err := f.Enlist(t.Context(), Member{ID: "w1"}); err == nil || !strings.Contains(err.Error(), "must be writable") {
		t.Errorf("got %v", err)
	}
}

func TestFileStore(t *testing.T) { storeStory(t, func() Store { f, _ := fileAt(t, ""); return f }) }

// A file that somebody edits between Load and Save is a conflict, whether a worker has seen it or not.
func TestFileEditedMeanwhile(t *testing.T) {
	f, _ := fileAt(t, start+peers)
	old, err := f.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, f, strings.Replace(start, "20000/s", "7/s", 1)+peers)
	if _, err := f.Save(t.Context(), old, Change{Remove: []string{"tenant/batch"}}, "me"); !errors.Is(err, ErrConflict) {
		t.Fatalf("got %v, want a conflict", err)
	}
	if old, err = f.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Save(t.Context(), old, Change{Remove: []string{"tenant/batch"}}, "me"); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(f.path)
	for _, want := range []string{"# the website", "7/s", "ring_epoch: 1", "id: w2"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is lost:\n%s", want, text)
		}
	}
	if strings.Contains(string(text), "id: batch") {
		t.Errorf("batch is still there:\n%s", text)
	}
}

// Follow sees a change without being asked, and ends.
func TestFileFollow(t *testing.T) {
	f, _ := fileAt(t, start)
	ctx, cancel := context.WithCancel(t.Context())
	states := make(chan State, 10)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.Follow(ctx, func(s State) { states <- s }, func(error) {})
	}()
	wait := func(generation uint64) {
		t.Helper()
		for late := time.After(patience); ; {
			select {
			case s := <-states:
				if s.Policy.Generation == generation {
					return
				}
			case <-late:
				t.Fatalf("generation %d has not come", generation)
			}
		}
	}
	wait(1)
	writeFile(t, f, strings.Replace(start, "20000/s", "9/s", 1))
	wait(2)
	cancel()
	<-ended
}
