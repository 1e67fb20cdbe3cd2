package server

import (
	"bytes"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/talon-worker/talon/uring"
)

// Rings of Linux so small that most operations find the submission queue full, and most
// completions the completion queue: everybody is served all the same, those who come
// when the crowd has gone as if nothing had been, and nothing is held.
func TestTinyRings(t *testing.T) {
	for _, cfg := range []uring.Config{{Entries: 2, CQEntries: 2}, {Entries: 2, CQEntries: 4}, {Entries: 4, CQEntries: 4}, {Entries: 8, CQEntries: 8}} {
		t.Run(fmt.Sprintf("%d and %d entries", cfg.Entries, cfg.CQEntries), func(t *testing.T) {
			r := startRig(t, nil, func(s *Server) {
				small, err := uring.New(cfg)
				if err != nil {
					t.Fatal(err)
				}
				if err := s.loops[0].ring.Close(); err != nil {
					t.Fatal(err)
				}
				s.loops[0].ring = small
			})
			objects := map[string][]byte{"small": pattern(5000, 1), "big": pattern(2<<20, 2)}
			for name, body := range objects {
				r.put(name, body)
				evict(t, filepath.Join(r.dir, name))
			}
			syncTree(t, r.dir)
			const crowd = 60
			var over sync.WaitGroup
			start := make(chan struct{})
			for i := range crowd {
				c := r.dial()
				name := []string{"small", "big"}[i%2]
				over.Go(func() {
					<-start
					for range 4 {
						if _, err := c.conn.Write([]byte(getRequest("/"+name) + getRequest("/"+name, "Range: bytes=100-1099"))); err != nil {
							t.Error(err)
							return
						}
						for _, want := range [][]byte{objects[name], objects[name][100:1100]} {
							if _, body := c.reply("GET"); !bytes.Equal(body, want) {
								t.Errorf("%s: got %d bytes of %d, or others", name, len(body), len(want))
							}
						}
					}
				})
			}
			close(start)
			over.Wait()
			s := r.stats()
			if s.Ring.SQFull == 0 || s.Ring.CQOverflow == 0 {
				t.Errorf("submission queue full %d times, completion queue %d times: the test tests nothing", s.Ring.SQFull, s.Ring.CQOverflow)
			}
			_, body := r.dial().get("/small")
			wantBody(t, "after the crowd", body, objects["small"])
			if s := r.stats(); s.BuffersHeld+s.InputsHeld+s.SlabsHeld+s.StarvedNow != 0 {
				t.Errorf("held: %+v", s)
			}
		})
	}
}
