package coordinator

import (
	"context"
	"errors"
	"fmt"
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

// ringText is the peers w1 to wN under an epoch.
func ringText(epoch, n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "ring_epoch: %d\npeers:\n", epoch)
	for i := range n {
		fmt.Fprintf(&b, "  - {id: w%d, addr: \"127.0.0.1:%d\"}\n", i+1, i+1)
	}
	return b.String()
}

// A file that is refused keeps no worker from what the others have in force: not one that has not looked in time, and not one that starts. (One that
// stayed behind asked the voters of a ring that they had left: its limits were closed, and with them all that it owned.)
func TestRefusedFileLeavesWhatIsInForce(t *testing.T) {
	for _, tt := range []struct{ name, text string }{
		{"rings too fast", start + ringText(100, 2)},
		{"broken", "tenants: ["},
		{"older", start + ringText(1, 3)},
		{"peers gone", start},
	} {
		t.Run(tt.name, func(t *testing.T) {
			early, _ := fileAt(t, start+ringText(1, 3))
			late := OpenFile(early.path)
			late.now = early.now
			if _, err := look(t, late); err != nil {
				t.Fatal(err)
			}
			for epoch := 2; epoch <= qos.MaxReplaced+1; epoch++ {
				writeFile(t, early, start+ringText(epoch, 2+epoch%2))
				if _, err := look(t, early); err != nil {
					t.Fatal(err)
				}
			}
			writeFile(t, early, tt.text)
			if s, err := look(t, early); s != nil || err == nil {
				t.Fatalf("taken: %+v, %v", s, err)
			}
			fresh := OpenFile(early.path)
			fresh.now = early.now
			for who, f := range map[string]*File{"late": late, "fresh": fresh} {
				s, err := look(t, f)
				if s == nil || s.Ring.Epoch != qos.MaxReplaced+1 || s.Policy == nil || err == nil {
					t.Errorf("%s: %+v, %v; want what the others have, and why no more", who, s, err)
				}
				if again, err := look(t, f); again != nil || err == nil {
					t.Errorf("%s, again: %+v, %v", who, again, err)
				}
			}
		})
	}
}

// Rings that are known to have settled may follow each other as fast as they like; the next one replaces the last alone.
func TestSettledRingsFollowEachOther(t *testing.T) {
	f, _ := fileAt(t, "")
	for epoch := 1; epoch < 5*qos.MaxReplaced; epoch++ {
		writeFile(t, f, start+ringText(epoch, 2+epoch%2))
		s, err := look(t, f)
		if err != nil || s.Ring.Epoch != uint64(epoch) || len(s.Ring.Replaces) != min(epoch-1, 1) {
			t.Fatalf("epoch %d: %+v, %v", epoch, s, err)
		}
		for _, at := range []int{epoch - 1, epoch, epoch + 1} { // word of another ring is none about this one
			if err := f.Settled(uint64(at)); err != nil {
				t.Fatal(err)
			}
		}
	}
	writeFile(t, f, start+ringText(100, 2))
	look(t, f)
	if err := f.Settled(99); err != nil {
		t.Fatal(err)
	}
	writeFile(t, f, start+ringText(101, 3))
	if s, err := look(t, f); err != nil || len(s.Ring.Replaces) != 2 {
		t.Errorf("after one that has not settled: %+v, %v", s, err)
	}
}

// A worker that reads the file, and enters it after another has entered a newer one, must not turn that back: the text is read under the lock.
func TestSlowReaderTurnsNothingBack(t *testing.T) {
	f, _ := fileAt(t, start)
	if _, err := look(t, f); err != nil {
		t.Fatal(err)
	}
	unlock, err := lockFile(f.path + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	rate := func(r string) string { return strings.Replace(start, "20000/s", r, 1) }
	writeFile(t, f, rate("8/s"))
	looked := make(chan error)
	slow := OpenFile(f.path)
	go func() { looked <- slow.step(func(State) {}) }()
	time.Sleep(20 * time.Millisecond) // it has seen the text and waits for the lock, or will: either way it must enter what is written next
	writeFile(t, f, rate("9/s"))
	unlock()
	if err := <-looked; err != nil {
		t.Fatal(err)
	}
	if s, err := look(t, f); err != nil || s.Policy.Generation != 2 {
		t.Errorf("%+v, %v; want the last text as generation 2, and none between", s, err)
	}
}

// A worker that is stopped with the lock in its hand keeps nobody from what is entered already.
func TestStoppedWorkerHidesNothing(t *testing.T) {
	first, _ := fileAt(t, start+ringText(1, 3))
	if _, err := look(t, first); err != nil {
		t.Fatal(err)
	}
	unlock, err := lockFile(first.path + ".lock")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	looked := make(chan error, 1)
	second := OpenFile(first.path)
	var got State
	go func() { looked <- second.step(func(s State) { got = s }) }()
	select {
	case err := <-looked:
		if err != nil || got.Policy.Generation != 1 || got.Ring.Epoch != 1 {
			t.Errorf("%+v, %v", got, err)
		}
	case <-time.After(patience):
		t.Error("it waits for the lock")
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

// A change after which nobody could read the file is refused: the removal of its last tenant was not, and no command could read the policy any more.
func TestFileIsNeverWrittenUnreadable(t *testing.T) {
	f, _ := fileAt(t, "tenants: [{id: a}]\n"+peers)
	old, err := f.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(f.path)
	if _, err := f.Save(t.Context(), old, Change{Remove: []string{"tenant/a"}}, "me"); err == nil || !strings.Contains(err.Error(), "was not changed") {
		t.Errorf("got %v", err)
	}
	if after, _ := os.ReadFile(f.path); string(after) != string(before) {
		t.Errorf("the file was changed:\n%s", after)
	}
	if now, err := f.Load(t.Context()); err != nil || now.Generation != old.Generation {
		t.Errorf("generation %d, %v", now.Generation, err)
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
