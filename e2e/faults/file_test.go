package faults

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestFileChangesInMidResponse: an object is cut, replaced by rename, or its name goes
// away while it is being sent. What was begun is finished from the version it was begun
// with, where that still exists; of a cut file only what is left is sent, and the
// connection ends: nothing is padded and no two versions are mixed.
func TestFileChangesInMidResponse(t *testing.T) {
	dir := tree(t)
	hot := object(t, dir, "hot", 8000)
	w := start(t, dir)
	w.want("hot", hot)
	before := w.holdings()
	const size, rest = 24 << 20, 4 << 20 // more than the sockets hold; a multiple of the page size
	young := noise("young", 300_000)
	for _, tt := range []struct {
		name   string
		change func(path string) error
		whole  bool
		then   int // the status of the next request
	}{
		{"truncated", func(p string) error { return os.Truncate(p, rest) }, false, 200},
		{"truncated to nothing", func(p string) error { return os.Truncate(p, 0) }, false, 200},
		{"replaced", func(p string) error { put(t, dir, filepath.Base(p), young); return nil }, true, 200},
		{"unlinked", os.Remove, true, 404},
	} {
		t.Run(tt.name, func(t *testing.T) {
			name := filepath.Base(t.Name())
			old := object(t, dir, name, size)
			b := w.bystander("hot", hot)
			c := w.dial()
			check(t, c.conn.SetReadBuffer(64<<10))
			check(t, c.ask(name))
			resp, err := c.head()
			check(t, err)
			got := make([]byte, 1<<20)
			_, err = io.ReadFull(resp.Body, got)
			check(t, err)
			check(t, tt.change(filepath.Join(dir, name)))
			b.goesOn(20)
			more, err := io.ReadAll(resp.Body)
			got = append(got, more...)
			if tt.whole {
				if err != nil || !bytes.Equal(got, old) {
					t.Errorf("%d bytes of %d, the right ones: %v, %v", len(got), size, bytes.HasPrefix(old, got), err)
				}
			} else if !errors.Is(err, io.ErrUnexpectedEOF) || !bytes.HasPrefix(old, got) {
				t.Errorf("%d bytes of %d, the right ones: %v, %v; want the connection to end", len(got), size, bytes.HasPrefix(old, got), err)
			}
			c.close()
			w.wellAfter("file "+tt.name, func() {}, w.serves("hot", hot), b.end())
			now, err := os.ReadFile(filepath.Join(dir, name))
			if (err != nil) != (tt.then == 404) {
				t.Fatal(err)
			}
			// What is open is believed for a second: so long the old version may be served, whole.
			for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
				status, body, err := w.once(name)
				if err == nil && status == tt.then && (tt.then == 404 || bytes.Equal(body, now)) {
					break
				}
				if err != nil || !bytes.Equal(body, old) || time.Now().After(end) {
					t.Fatalf("then: %d, %d bytes of %d or of %d, %v", status, len(body), len(old), len(now), err)
				}
			}
			_ = os.Remove(filepath.Join(dir, name)) // it may be gone
		})
	}
	w.until("the end of what was replaced", func(map[string]float64) bool { return w.holdings().deleted <= before.deleted+3 })
	w.givenBack(holdings{sockets: before.sockets, anonymous: before.anonymous, deleted: before.deleted + 3, ioThreads: before.ioThreads,
		threads: before.threads, goroutines: before.goroutines})
}
