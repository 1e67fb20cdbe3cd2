package coordinator

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// quiet is how long a directory must be silent before its file is looked at: a file that is written in place is not read half way through.
const quiet = 50 * time.Millisecond

// longest bounds that in a directory which is never silent.
const longest = 400 * time.Millisecond

// A Watcher tells when a file may have changed.
type Watcher struct {
	path  string
	files *fsnotify.Watcher
	dirs  map[string]bool // that are watched
	ended chan struct{}
}

// Watch begins to watch path: changed is called, by a goroutine of the Watcher and never twice at a time, after something has happened to the file,
// at most about half a second later. failed is called with what the kernel could not tell, after which changes may have been missed; changed is
// called, too, then.
//
// Directories are watched and not the file: editors, configuration managers and Kubernetes put another file in its place, or turn a symbolic
// link over, and a watch on the file would stay with the old one. So changed is also called for its neighbours; the caller compares what it reads.
func Watch(path string, changed func(), failed func(error)) (*Watcher, error) {
	files, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch %s: %w", path, err)
	}
	w := &Watcher{path: path, files: files, dirs: map[string]bool{}, ended: make(chan struct{})}
	if err := w.follow(); err != nil {
		_ = files.Close()
		return nil, fmt.Errorf("watch %s: %w", path, err)
	}
	go w.run(changed, failed)
	return w, nil
}

// follow watches the directory of the path, and of every file on the way from it to the file that it leads to.
func (w *Watcher) follow() error {
	now := map[string]bool{filepath.Dir(w.path): true}
	if target, err := filepath.EvalSymlinks(w.path); err == nil {
		now[filepath.Dir(target)] = true
	}
	for dir := range now {
		if w.dirs[dir] {
			continue
		}
		if err := w.files.Add(dir); err != nil {
			return err
		}
		w.dirs[dir] = true
	}
	for dir := range w.dirs {
		if !now[dir] {
			_ = w.files.Remove(dir) // it may be gone itself
			delete(w.dirs, dir)
		}
	}
	return nil
}

func (w *Watcher) run(changed func(), failed func(error)) {
	defer close(w.ended)
	var calm <-chan time.Time // fires when the directory has been quiet
	var first time.Time       // event since the last call
	for {
		select {
		case e, ok := <-w.files.Events:
			switch {
			case !ok:
				return
			case e.Op == fsnotify.Chmod: // reading may set it off
			case calm == nil:
				first = time.Now()
				calm = time.After(quiet)
			case time.Since(first) < longest-quiet:
				calm = time.After(quiet)
			}
		case err, ok := <-w.files.Errors:
			if !ok {
				return
			}
			failed(err)
			if calm == nil {
				first, calm = time.Now(), time.After(quiet)
			}
		case <-calm:
			calm = nil
			if err := w.follow(); err != nil {
				failed(err)
			}
			changed()
		}
	}
}

// Close ends the watch; no call is under way any more when it returns. It must not be called from one.
func (w *Watcher) Close() error {
	err := w.files.Close()
	<-w.ended
	return err
}
