package coordinator

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func mustLife(t *testing.T, l life, err error) life {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// Whatever the order of starts with the cluster and without it, each life of a worker is above those before it.
func TestLivesGrow(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		revision := r.Int64N(1<<40) + 1
		l, err := life{}.enlist("w1", revision)
		l = mustLife(t, l, err)
		for range 50 {
			next := l
			if r.IntN(3) == 0 {
				revision += 1 + r.Int64N(3) // the next enlistment is a write itself
				next, err = l.enlist("w1", revision)
			} else {
				next, err = l.resume()
			}
			if next = mustLife(t, next, err); next.Epoch <= l.Epoch || next.Worker != "w1" {
				t.Fatalf("seed %d: %+v follows %+v", seed, next, l)
			}
			l = next
		}
	}
}

func TestLivesThatCannotBegin(t *testing.T) {
	if l, err := (life{}).resume(); !errors.Is(err, errNoLife) {
		t.Errorf("without an epoch: %+v, %v", l, err)
	}
	now, err := life{}.enlist("w1", 5)
	now = mustLife(t, now, err)
	for _, revision := range []int64{5, 4} {
		if l, err := now.enlist("w1", revision); err == nil || !strings.Contains(err.Error(), "restored from a backup") {
			t.Errorf("at revision %d after 5: %+v, %v", revision, l, err)
		}
	}
	for range maxStarts {
		l, err := now.resume()
		now = mustLife(t, l, err)
	}
	if l, err := now.resume(); err == nil {
		t.Errorf("epoch %d is that of revision %d", l.Epoch, l.Epoch>>startBits)
	}
	l, err := now.enlist("w1", 6)
	mustLife(t, l, err)
	if err := now.of("w2", "dir"); err == nil {
		t.Error("another worker took the directory")
	}
}

func TestLifeOnDisk(t *testing.T) {
	dir := t.TempDir()
	if l, err := readLife(dir); err != nil || l != (life{}) {
		t.Fatalf("an empty directory: %+v, %v", l, err)
	}
	want := life{"w1", 1<<startBits + 3}
	if err := writeLife(dir, want); err != nil {
		t.Fatal(err)
	}
	if l, err := readLife(dir); err != nil || l != want {
		t.Fatalf("%+v, %v, want %+v", l, err, want)
	}
	for _, text := range []string{"", "{}", `{"worker":"w1"}`, `{"worker":"w1","epoch":-1}`, "{"} {
		if err := os.WriteFile(filepath.Join(dir, lifeName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if l, err := readLife(dir); err == nil || !strings.Contains(err.Error(), "remove it") {
			t.Errorf("%q: %+v, %v", text, l, err)
		}
	}
}

// What cannot be replaced is removed: it would be a step back for whoever begins with it.
func TestWhatCannotBeKeptIsForgotten(t *testing.T) {
	name := filepath.Join(t.TempDir(), strings.Repeat("x", 250)) // a temporary file beside it would have too long a name
	if err := os.WriteFile(name, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := keepFile(name, []byte("new")); err == nil || !strings.Contains(err.Error(), "cannot start while etcd is away") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the old one is still there: %v", err)
	}
}
