package origin

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const second = int64(time.Second)

func TestFilesLife(t *testing.T) {
	f := NewFiles(2, time.Second)
	v1, v2 := Info{Size: 1, Ino: 1}, Info{Size: 2, Ino: 2}
	key := []byte("k")

	wantState := func(when string, want State, now int64) *File {
		t.Helper()
		file, state := f.Lookup(key, now)
		if state != want || (file != nil) != (want == Hit) {
			t.Fatalf("%s: state %v, file %v; want state %v", when, state, file, want)
		}
		return file
	}
	wantFD := func(when string, got, want int) {
		t.Helper()
		if got != want {
			t.Fatalf("%s: descriptor %d to close, want %d", when, got, want)
		}
	}

	wantState("an empty cache", Miss, 0)
	first, fd := f.Insert(key, 10, v1, 0)
	wantFD("first version", fd, -1)
	first.Head = append(first.Head, "head"...)
	same := wantState("just before the second is over", Hit, second-1)
	if same != first || string(same.Key) != "k" || same.FD != 10 || same.Info != v1 {
		t.Fatalf("got %+v, want %+v", same, first)
	}
	wantState("when the second is over", Stale, second)
	same, fd = f.Insert(key, 11, v1, second)
	wantFD("the same version again", fd, 11)
	if same != first || string(same.Head) != "head" {
		t.Fatal("the confirmed file lost its identity or its head")
	}
	wantState("confirmed", Hit, 2*second-1)

	second2, fd := f.Insert(key, 12, v2, 2*second)
	wantFD("replaced while held", fd, -1)
	if second2 == first || first.FD != 10 || first.Info != v1 || len(second2.Head) != 0 {
		t.Fatal("the replaced version changed under its holders")
	}
	if file, fd := f.Insert([]byte("other"), 13, v1, 2*second); file != nil || fd != 13 {
		t.Fatalf("third descriptor of two: %v, closing %d; want refused", file, fd)
	}
	for i := range 4 {
		want := -1
		if i == 3 {
			want = 10
		}
		wantFD(fmt.Sprint("release ", i, " of the replaced version"), f.Release(first), want)
	}
	wantFD("last release of the current version", f.Release(second2), -1)
	if f.Len() != 1 {
		t.Fatalf("%d descriptors, want 1", f.Len())
	}
	second2, _ = f.Insert(key, 16, v2, 2*second+1)
	f.Release(second2)
	wantFD("a sweep of what was not used since its confirmation", f.EvictUnused(2*second+1), -1)
	late, fd := f.Insert(key, 14, v1, second)
	wantFD("an open that was asked for before the current version was seen", fd, 14)
	if late != second2 {
		t.Fatal("a late answer brought the old version back")
	}
	f.Release(late)
	wantFD("replaced while idle", closeOf(f.Insert(key, 15, v1, 3*second)), 12)
	wantFD("forgotten while held", f.Forget(key), -1)
	wantState("forgotten", Miss, 3*second)
	wantFD("forgotten twice", f.Forget(key), -1)
	wantFD("nothing to evict", f.Evict(), -1)
	want := FilesStats{Hits: 2, Stales: 1, Misses: 2, Confirmed: 3, Replaced: 2, Evicted: 1, Full: 1}
	last, _ := f.Insert(key, 17, v1, 3*second)
	f.Release(last)
	wantFD("evicted", f.Evict(), 17)
	if f.Stats != want {
		t.Errorf("counted %+v, want %+v", f.Stats, want)
	}
}

func closeOf(_ *File, fd int) int { return fd }

func TestFilesReleaseTooOften(t *testing.T) {
	f := NewFiles(1, 0)
	file, _ := f.Insert([]byte("k"), 3, Info{}, 0)
	f.Release(file)
	defer func() {
		if recover() == nil {
			t.Error("the second release of one reference went through")
		}
	}()
	f.Release(file)
}

// filesTwin does what Files does by looking at everything each time.
type filesTwin struct {
	max, ends int
	validFor  int64
	all       []*twinFile // with a descriptor
}

type twinFile struct {
	key           string
	fd, refs      int
	info          Info
	listed        bool
	checked, used int64
	idleSince     int // sequence number of the release
}

func (w *filesTwin) find(key string) *twinFile {
	for _, f := range w.all {
		if f.listed && f.key == key {
			return f
		}
	}
	return nil
}

func (w *filesTwin) oldestIdle() (oldest *twinFile) {
	for _, f := range w.all {
		if f.listed && f.refs == 0 && (oldest == nil || f.idleSince < oldest.idleSince) {
			oldest = f
		}
	}
	return oldest
}

func (w *filesTwin) end(f *twinFile) int {
	for i := range w.all {
		if w.all[i] == f {
			w.all = append(w.all[:i], w.all[i+1:]...)
			return f.fd
		}
	}
	panic("ended twice")
}

func (w *filesTwin) lookup(key string, now int64) (*twinFile, State) {
	f := w.find(key)
	switch {
	case f == nil:
		return nil, Miss
	case now-f.checked >= w.validFor:
		return nil, Stale
	}
	f.refs, f.used = f.refs+1, now
	return f, Hit
}

func (w *filesTwin) insert(key string, fd int, info Info, asked int64) (*twinFile, int) {
	old, closeFD := w.find(key), -1
	if old != nil && (old.info == info || asked < old.checked) {
		old.refs, old.checked, old.used = old.refs+1, max(old.checked, asked), max(old.used, asked)
		return old, fd
	}
	if old != nil && old.refs == 0 {
		closeFD = w.end(old)
	} else if len(w.all) == w.max {
		victim := w.oldestIdle()
		if victim == nil {
			return nil, fd
		}
		closeFD = w.end(victim)
	}
	if old != nil {
		old.listed = false
	}
	f := &twinFile{key: key, fd: fd, refs: 1, info: info, listed: true, checked: asked, used: asked}
	w.all = append(w.all, f)
	return f, closeFD
}

func (w *filesTwin) release(f *twinFile) int {
	f.refs--
	w.ends++
	f.idleSince = w.ends
	if f.refs == 0 && !f.listed {
		return w.end(f)
	}
	return -1
}

func (w *filesTwin) forget(key string) int {
	f := w.find(key)
	if f == nil {
		return -1
	}
	f.listed = false
	if f.refs == 0 {
		return w.end(f)
	}
	return -1
}

func (w *filesTwin) evictUnused(before int64) int {
	if f := w.oldestIdle(); f != nil && f.used < before {
		return w.end(f)
	}
	return -1
}

// TestFilesTwin lets Files and the twin live through the same random life. Each
// descriptor number is used once, so a second close, or one under a holder, shows.
func TestFilesTwin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 5).Draw(t, "max")
		f := NewFiles(limit, time.Second)
		w := &filesTwin{max: limit, validFor: second}
		open := map[int]bool{}
		held := []*File{}
		heldTwin := []*twinFile{}
		now, nextFD := int64(0), 100
		keys := rapid.SampledFrom([]string{"a", "b", "a/b", "c", "ab"})

		closed := func(got, want int) {
			if got != want {
				t.Fatalf("closes %d, the twin closes %d", got, want)
			}
			if got >= 0 && !open[got] {
				t.Fatalf("descriptor %d closed twice", got)
			}
			delete(open, got)
		}
		took := func(file *File, twin *twinFile) {
			if (file == nil) != (twin == nil) {
				t.Fatalf("gave %v, the twin %v", file, twin)
			}
			if file != nil {
				held, heldTwin = append(held, file), append(heldTwin, twin)
			}
		}
		life := map[string]func(*rapid.T){
			"advance": func(t *rapid.T) { now += rapid.Int64Range(0, second).Draw(t, "ns") },
			"lookup": func(t *rapid.T) {
				key := keys.Draw(t, "key")
				file, state := f.Lookup([]byte(key), now)
				twin, want := w.lookup(key, now)
				if state != want {
					t.Fatalf("state %v, the twin %v", state, want)
				}
				took(file, twin)
			},
			"insert": func(t *rapid.T) {
				key, version := keys.Draw(t, "key"), rapid.Uint64Range(1, 3).Draw(t, "version")
				asked := now - rapid.Int64Range(0, second/2).Draw(t, "late")
				nextFD++
				open[nextFD] = true
				file, got := f.Insert([]byte(key), nextFD, Info{Ino: version}, asked)
				twin, want := w.insert(key, nextFD, Info{Ino: version}, asked)
				closed(got, want)
				took(file, twin)
			},
			"release": func(t *rapid.T) {
				if len(held) == 0 {
					return
				}
				i := rapid.IntRange(0, len(held)-1).Draw(t, "holder")
				closed(f.Release(held[i]), w.release(heldTwin[i]))
				held, heldTwin = append(held[:i], held[i+1:]...), append(heldTwin[:i], heldTwin[i+1:]...)
			},
			"forget": func(t *rapid.T) {
				key := keys.Draw(t, "key")
				closed(f.Forget([]byte(key)), w.forget(key))
			},
			"evict": func(t *rapid.T) { closed(f.Evict(), w.evictUnused(now+1)) },
			"evict unused": func(t *rapid.T) {
				before := now - rapid.Int64Range(0, 2*second).Draw(t, "age")
				closed(f.EvictUnused(before), w.evictUnused(before))
			},
			"purge": func(t *rapid.T) {
				f.Purge(func(fd int) { closed(fd, w.evictUnused(now+1)) })
				if w.oldestIdle() != nil {
					t.Fatal("purge left idle files")
				}
				for _, file := range w.all {
					file.listed = false
				}
			},
			"": func(t *rapid.T) {
				if f.Len() != len(open) || f.Len() != len(w.all) || f.Len() > limit {
					t.Fatalf("Len %d, %d open, the twin has %d, at most %d", f.Len(), len(open), len(w.all), limit)
				}
				for i, file := range held {
					twin := heldTwin[i]
					if !open[file.FD] || file.FD != twin.fd || string(file.Key) != twin.key || file.Info != twin.info {
						t.Fatalf("held file %+v, the twin %+v, open %v", file, twin, open[file.FD])
					}
				}
			},
		}
		for range rapid.IntRange(1, 20).Draw(t, "chapters") { // of some 30 steps each
			t.Repeat(life)
		}
	})
}

func TestFilesAllocateNothing(t *testing.T) {
	f := NewFiles(4, time.Second)
	keys := [][]byte{}
	for i := range 8 {
		keys = append(keys, fmt.Appendf(nil, "key-%d", i))
	}
	now := int64(0)
	round := func() {
		for i, key := range keys {
			now += second
			file, _ := f.Insert(key, i, Info{Size: now}, now)
			f.Release(file)
			if file, state := f.Lookup(key, now); state != Hit {
				t.Fatal(state)
			} else {
				f.Release(file)
			}
		}
	}
	round()
	if n := testing.AllocsPerRun(100, round); n != 0 {
		t.Errorf("%v allocations for 8 inserts with eviction and 8 hits", n)
	}
}

func BenchmarkLookup(b *testing.B) {
	for _, n := range []int{1, 1000, 4096} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			f := NewFiles(4096, time.Second)
			keys := make([][]byte, n)
			for i := range keys {
				keys[i] = fmt.Appendf(nil, "bucket/prefix/object-%06d", i)
				file, _ := f.Insert(keys[i], i, Info{}, 0)
				f.Release(file)
			}
			i := 0
			for b.Loop() {
				file, _ := f.Lookup(keys[i], 1)
				f.Release(file)
				if i++; i == n {
					i = 0
				}
			}
		})
	}
}
