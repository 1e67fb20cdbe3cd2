package peerwire

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/talon-worker/talon/qos"
)

// inFlight is how many frames of one peer may wait for the loop. Then its connection is not read, and the peer merges what it has.
const inFlight = 2

// errFlood ends it when the peer goes on to send more than one in order can.
var errFlood = fmt.Errorf("more than %d frames a second", frameRate)

// errGoodbye ends the reading of a connection whose other side has closed it in order.
var errGoodbye = errors.New("the peer has said goodbye")

// A link is one connection with a peer whose identity is known. It carries all keys both ways.
type link struct {
	peer   qos.WorkerID
	epoch  uint64 // of the peer's incarnation
	ring   uint64 // that its hello named
	dialed bool   // by this worker
	since  time.Time
	conn   net.Conn
	in     *bufio.Reader
	out    *outbox
	free   chan *batch   // those that the reader may fill
	closed chan struct{} // the link is over
	once   sync.Once
	why    atomic.Pointer[error]

	framesIn, framesOut, bytesIn, bytesOut, rested atomic.Uint64
}

func newLink(conn net.Conn, h *hello, dialed bool, in *bufio.Reader) *link {
	l := &link{
		peer: h.worker, epoch: h.epoch, ring: h.ring, dialed: dialed, since: time.Now(), conn: conn, in: in, out: newOutbox(),
		free: make(chan *batch, inFlight), closed: make(chan struct{}),
	}
	for range inFlight {
		l.free <- &batch{}
	}
	return l
}

// close ends the link at once; the first reason counts. It does no more than close the socket: TLS would say so to the peer first, and wait up to five
// seconds for one that does not read.
func (l *link) close(why error) {
	l.once.Do(func() {
		l.why.Store(&why)
		close(l.closed)
		if t, ok := l.conn.(*tls.Conn); ok {
			t.NetConn().Close()
			return
		}
		l.conn.Close()
	})
}

// over reports whether the link has ended.
func (l *link) over() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

// read hands frames to deliver until the connection ends. Each must be complete within silence of the one before, heartbeats among them: a peer that
// sends a byte now and then is as dead as one that sends none. A peer that sends more frames than one in order can is not read for a while: its own socket
// fills, and it merges what it has. If that does not help the link is closed, with all that waits in its buffers: at this pace they might last for minutes.
func (l *link) read(silence time.Duration, deliver func(*batch)) error {
	var frame, buf []byte
	pace, rests := newPace(frameRate, frameBurst), 0
	for {
		if err := l.conn.SetReadDeadline(time.Now().Add(silence)); err != nil {
			return err
		}
		var err error
		if frame, buf, err = readFrame(l.in, buf, maxFrame); err != nil {
			return err
		}
		l.framesIn.Add(1)
		l.bytesIn.Add(uint64(len(frame) + frameHead))
		wait := pace.next(int64(time.Since(l.since)))
		if wait == -pace.ahead { // the whole burst is there again
			rests = 0
		}
		if wait >= frameRest*pace.every {
			l.rested.Add(1)
			if rests++; rests > frameRests {
				return errFlood
			}
			select {
			case <-time.After(time.Duration(wait)):
			case <-l.closed:
				return *l.why.Load()
			}
		}
		if len(frame) == 0 {
			continue
		}
		if err := scanFrame(frame); err != nil {
			return err
		}
		var b *batch
		select {
		case b = <-l.free:
		case <-l.closed:
			return *l.why.Load()
		}
		b.reset()
		h, bye, err := decode(frame, b)
		switch {
		case err != nil:
			return err
		case h != nil:
			return fmt.Errorf("%w: a second hello", errFrameBroken)
		}
		if b.empty() {
			l.free <- b
		} else {
			deliver(b)
		}
		if bye != "" {
			return errGoodbye
		}
	}
}

// release gives a batch back to the reader.
func (l *link) release(b *batch) { l.free <- b }

// write sends what the outbox has, and a heartbeat when it has had nothing for so long, until the outbox has ended; then goodbye. A peer that does not read
// within silence is given up.
func (l *link) write(heartbeat, silence time.Duration, goodbye string) error {
	var e encoder
	spare := &batch{}
	beat := time.NewTimer(heartbeat)
	defer beat.Stop()
	for {
		select {
		case <-l.out.ready:
		case <-beat.C:
		case <-l.closed:
			return *l.why.Load()
		}
		b, last := l.out.take(spare)
		e.reset()
		frames := e.encode(b)
		b.reset()
		spare = b
		if len(frames) == 0 {
			frames = append(frames, 0, 0, 0, 0)
		}
		if last {
			frames = appendGoodbye(frames, goodbye)
		}
		if err := l.conn.SetWriteDeadline(time.Now().Add(silence)); err != nil {
			return err
		}
		if _, err := l.conn.Write(frames); err != nil {
			return err
		}
		l.framesOut.Add(1)
		l.bytesOut.Add(uint64(len(frames)))
		if last {
			return closeWrite(l.conn)
		}
		beat.Reset(heartbeat)
	}
}

// closeWrite says that nothing more comes, and leaves the reading side open.
func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
