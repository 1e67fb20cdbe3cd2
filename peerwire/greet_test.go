package peerwire

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/talon-worker/talon/qos"
)

// counted counts the reads of a connection that returned something.
type counted struct {
	net.Conn
	reads int
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.reads++
	}
	return n, err
}

// TestTrickledHello: a hello that comes a byte at a time is read a few times and then at the greeter's pace, and is not waited for longer than any other. One that
// comes in a few pieces is understood without a rest.
func TestTrickledHello(t *testing.T) {
	for _, tt := range []struct {
		name   string
		pieces int // of the hello; 0 is a byte each
		named  bool
	}{{"whole", 1, true}, {"in pieces", greetReads - 2, true}, {"byte by byte", 0, false}} {
		synctest.Test(t, func(t *testing.T) {
			limits := testLimits()
			g := &greeter{self: "w1", epoch: 1, limits: sharedOf(&limits), ring: func() uint64 { return 1 }}
			ours, theirs := net.Pipe()
			defer ours.Close()
			go func() {
				defer theirs.Close()
				h := appendHello(nil, &hello{version: protocol, oldest: oldestProtocol, worker: "w2", to: "w1", epoch: 1, limits: g.limits})
				size := 1
				if tt.pieces > 0 {
					size = (len(h) + tt.pieces - 1) / tt.pieces
				}
				for len(h) > 0 {
					n := min(size, len(h))
					theirs.SetWriteDeadline(time.Now().Add(2 * greetTime))
					if _, err := theirs.Write(h[:n]); err != nil {
						return
					}
					h = h[n:]
				}
			}()
			begin := time.Now()
			conn := &counted{Conn: ours}
			named := false
			err := g.answer(context.Background(), conn, func(l *link) error {
				named = l.peer == qos.WorkerID("w2")
				return nil
			})
			took := time.Since(begin) // of the bubble's clock
			ours.Close()
			if named != tt.named || named != (err == nil) {
				t.Errorf("%s: named %v, %v", tt.name, named, err)
			}
			if most := greetReads + int(greetTime/greetRest); conn.reads > most || named && took > 0 || took > greetTime+greetRest {
				t.Errorf("%s: %d reads, want at most %d, within %v", tt.name, conn.reads, most, took)
			}
		})
	}
}
