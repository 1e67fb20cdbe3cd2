package server

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/uring/uringtest"
)

// A disk that fails, memory that is short, a file that is cut: as long as the client has
// heard nothing of the object it is told, and may go on asking.
func TestUnreadableBeforeTheHead(t *testing.T) {
	for _, tt := range []struct {
		name, object string
		errno        unix.Errno // 0: the file is cut while it is being read
		want         string
	}{
		{"small, bad disk", "o700", unix.EIO, "HTTP/1.1 500 "},
		{"large, bad disk", "o20483", unix.EIO, "HTTP/1.1 500 "},
		{"small, no memory", "o700", unix.ENOMEM, "HTTP/1.1 503 "},
		{"large, no memory", "o20483", unix.ENOMEM, "HTTP/1.1 503 "},
		{"small, cut", "o700", 0, "HTTP/1.1 503 "},
		{"large, cut", "o20483", 0, "HTTP/1.1 503 "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := tell(t, unix.AF_UNIX, func(c *Config) { c.OpenFileValid = time.Hour })
			c := s.client()
			path := filepath.Join(s.tree.path, tt.object)
			ask := getRequest("/" + tt.object)
			c.say(ask) // its file is open from here on
			s.settle()
			s.want(c, "HTTP/1.1 200 ", false)

			s.pass(2 * time.Second) // what was seen in memory is not believed any more
			evict(t, path)
			late := uringtest.Faults{Late: 1, MaxLate: 1000}
			if tt.errno != 0 {
				late = uringtest.Faults{Error: 1, Errnos: uringtest.Errnos{Read: []unix.Errno{tt.errno}}}
			}
			c.say(ask)
			s.turns(1, 1e5) // what has been sent arrives
			s.kernel.SetFaults(late)
			s.turns(3, 1e5)
			if tt.errno == 0 {
				if s.count(stateFilling)+s.count(stateParked) != 1 {
					t.Fatal("nothing is being read")
				}
				if err := os.Truncate(path, 0); err != nil {
					t.Fatal(err)
				}
			}
			s.kernel.Quiet()
			s.turns(1000, 1e5)
			s.want(c, tt.want, false)
			if s.loop.stats.Parked != 1 {
				t.Errorf("parked %d times, want once: the object was in memory", s.loop.stats.Parked)
			}
			c.say(getRequest("/o1"))
			s.settle()
			s.want(c, "HTTP/1.1 200 ", false)
		})
	}
}

// Behind the head nothing can be said but by closing.
func TestUnreadableBehindTheHead(t *testing.T) {
	s := tell(t, unix.AF_UNIX, func(c *Config) { c.OpenFileValid = time.Hour })
	name := filepath.Join(s.tree.path, "long")
	if err := os.WriteFile(name, pattern(4<<20, 3), 0o644); err != nil {
		t.Fatal(err)
	}
	syncTree(t, s.tree.path)
	defer os.Remove(name)
	c := s.client()
	c.say(getRequest("/long"))
	s.settle()
	s.pass(2 * time.Second) // what was seen in memory is not believed any more
	evict(t, name)
	s.kernel.SetFaults(uringtest.Faults{Error: 1, Errnos: uringtest.Errnos{Read: []unix.Errno{unix.EIO}}})
	for range 2000 {
		if c.read(1 << 20); c.ended {
			break
		}
		s.turns(1, 1e5)
	}
	s.kernel.Quiet()
	s.settle()
	if !c.ended || len(c.got) >= 4<<20 {
		t.Errorf("ended: %v, after %d bytes of %d", c.ended, len(c.got), 4<<20)
	}
	if s.loop.stats.Closed[ClosedFile] != 1 {
		t.Errorf("closed: %v, want one for the file", s.loop.stats.Closed)
	}
}

// Of a file that waits every fetch may bring less than was asked for, for as long as the
// rest of it cannot be read: what came is sent, and the next fetch begins behind it.
func TestShortFetchesOfAFileThatWaits(t *testing.T) {
	s := tell(t, unix.AF_UNIX, func(c *Config) { c.OpenFileValid, c.TransferChunk = time.Hour, 16<<10 })
	c := s.client()
	c.say(getRequest("/o20483"))
	s.settle()
	s.want(c, "HTTP/1.1 200 ", false)
	s.pass(2 * time.Second) // what was seen in memory is not believed any more
	f, _ := s.loop.files.Lookup([]byte("o20483"), s.now)
	f.Waits = true
	s.loop.releaseFile(f)
	s.kernel.SetFaults(uringtest.Faults{Short: 1})
	c.say(getRequest("/o20483"))
	s.turns(100, 1e5)
	if got := c.hear(); !bytes.HasSuffix([]byte(got), s.tree.objects["o20483"]) {
		t.Errorf("got %d bytes of %d after %d fetches", len(got), len(s.tree.objects["o20483"]), s.loop.stats.Prefetches)
	}
	s.kernel.Quiet()
	s.settle()
}
