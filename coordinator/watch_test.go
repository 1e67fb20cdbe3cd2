package coordinator

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

// patience bounds a wait that only a failure makes long.
const patience = time.Minute

// watched is a file under watch; every call of changed puts what was read into seen.
type watched struct {
	t    *testing.T
	path string
	seen chan string
	*Watcher
}

func watch(t *testing.T, path string) *watched {
	t.Helper()
	f := &watched{t: t, path: path, seen: make(chan string, 100)}
	w, err := Watch(path, func() {
		text, _ := os.ReadFile(path) // it may be missing for a while
		f.seen <- string(text)
	}, func(err error) { t.Errorf("failed: %v", err) })
	if err != nil {
		t.Fatal(err)
	}
	f.Watcher = w
	t.Cleanup(func() { _ = w.Close() })
	return f
}

// wants waits until the file has been seen with that text.
func (f *watched) wants(text string) {
	f.t.Helper()
	late := time.After(patience)
	for {
		select {
		case got := <-f.seen:
			if got == text {
				return
			}
		case <-late:
			f.t.Fatalf("%q was never seen", text)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestWaysToChange: in place, by rename, removed and made again, also a second time.
func TestWaysToChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.yaml")
	write(t, path, "one")
	f := watch(t, path)
	for _, text := range []string{"two", "three"} {
		write(t, path, text)
		f.wants(text)
		write(t, path+".new", text+" renamed")
		must(t, os.Rename(path+".new", path))
		f.wants(text + " renamed")
		must(t, os.Remove(path))
		f.wants("")
		write(t, path, text+" again")
		f.wants(text + " again")
	}
}

// TestMountedConfig is what Kubernetes does with a ConfigMap: the file is a link through a link that is turned over.
func TestMountedConfig(t *testing.T) {
	dir := t.TempDir()
	for _, version := range []string{"v1", "v2", "v3"} {
		must(t, os.Mkdir(filepath.Join(dir, version), 0o700))
		write(t, filepath.Join(dir, version, "p.yaml"), version)
	}
	must(t, os.Symlink("v1", filepath.Join(dir, "..data")))
	must(t, os.Symlink("..data/p.yaml", filepath.Join(dir, "p.yaml")))
	f := watch(t, filepath.Join(dir, "p.yaml"))
	for _, version := range []string{"v2", "v3"} {
		must(t, os.Symlink(version, filepath.Join(dir, "..new")))
		must(t, os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")))
		f.wants(version)
	}
}

// TestLinkElsewhere: the file that a link leads to changes in a directory of its own, and the link is turned to a third.
func TestLinkElsewhere(t *testing.T) {
	dir, far, farther := t.TempDir(), t.TempDir(), t.TempDir()
	link := filepath.Join(dir, "p.yaml")
	write(t, filepath.Join(far, "x"), "one")
	write(t, filepath.Join(farther, "x"), "far one")
	must(t, os.Symlink(filepath.Join(far, "x"), link))
	f := watch(t, link)
	write(t, filepath.Join(far, "x"), "two")
	f.wants("two")
	must(t, os.Symlink(filepath.Join(farther, "x"), link+".new"))
	must(t, os.Rename(link+".new", link))
	f.wants("far one")
	write(t, filepath.Join(farther, "x"), "far two")
	f.wants("far two")
}

// TestRestlessDirectory: a neighbour that is written all the time does not put the call off for ever.
func TestRestlessDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.yaml")
	write(t, path, "one")
	f := watch(t, path)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
				_ = os.WriteFile(path+".log", []byte("x"), 0o600)
			}
		}
	}()
	write(t, path, "two")
	f.wants("two")
	close(stop)
	<-stopped
}

// TestOverflow: when the kernel has dropped events, the file is looked at, and it is said.
func TestOverflow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.yaml")
	seen, said := make(chan struct{}, 10), make(chan error, 10)
	w, err := Watch(path, func() { seen <- struct{}{} }, func(err error) { said <- err })
	must(t, err)
	w.files.Errors <- fsnotify.ErrEventOverflow
	<-seen
	if err := <-said; !errors.Is(err, fsnotify.ErrEventOverflow) {
		t.Errorf("failed with %v", err)
	}
	must(t, w.Close())
}

func TestNoDirectory(t *testing.T) {
	if _, err := Watch(filepath.Join(t.TempDir(), "missing", "p.yaml"), func() {}, func(error) {}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
