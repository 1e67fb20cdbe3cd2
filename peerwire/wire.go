package peerwire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/qos"
)

// Bounds of the wire.
const (
	maxPeers     = 10_000 // links at one time, about 40 KiB each; more are refused, and so are larger rings
	maxGreeting  = 256    // connections that have not named themselves yet; more are reset
	maxGreetOne  = 16     // of them, from one address
	firstBackOff = 25 * time.Millisecond
	maxBackOff   = 2 * time.Second
	dialGap      = time.Millisecond // between two first attempts to members of a new ring, on average
	settled      = time.Second      // a link that lived so long makes the next back-off the first again
)

// Reasons why a link ends or does not begin.
var (
	errDuplicate = errors.New("there is another connection with that worker")
	errOutdated  = errors.New("a newer incarnation of that worker is connected")
	errReplaced  = errors.New("replaced by another connection with the same worker")
	errFull      = fmt.Errorf("%d peers are connected already", maxPeers)
	errEnding    = errors.New("this worker shuts down")
)

// A wire keeps one link with every peer: it dials the ring's members and answers those who dial. Its goroutines end with end.
type wire struct {
	greeter
	mail      *mailbox
	began     time.Time
	log       *slog.Logger
	silence   time.Duration // a link on which nothing comes for so long is dead
	heartbeat time.Duration // and this end says something at least so often: four times in that

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu       sync.Mutex // of the tables below; never held over I/O
	links    map[qos.WorkerID]*link
	dialers  map[qos.WorkerID]*dialer
	greeting map[string]int // by address
	greets   int
	ending   bool

	counters WireCounters
	counted  wireCounts
}

// WireCounters count what happened on the wire. They only grow.
type WireCounters struct {
	Accepted    uint64 // connections that others have opened and that became links
	Dialed      uint64 // those that this worker has opened
	DialErrors  uint64 // attempts that came to nothing
	Paced       uint64 // connections that waited because others had come right before them
	RefusedBusy uint64 // connections reset because too many had not named themselves
	RefusedTLS  uint64 // no TLS, no certificate, or not one of the authority's
	Refused     uint64 // hellos that were not understood or not acceptable
	Duplicates  uint64 // second connections of a pair
	BadFrames   uint64 // links closed for a frame that was too long, too full or broken, or for too many
	Rested      uint64 // times that a link was not read for a while because its peer had sent too many frames
	Silent      uint64 // links closed because nothing came in time
	Goodbyes    uint64 // links that the peer has closed in order
	Lost        uint64 // links that ended in any other way
	Unsent      uint64 // batches for workers without a link
	Merged      uint64 // messages that took the place of one not sent yet
	Dropped     uint64 // messages for which an outbox had no room
	HandLost    uint64 // of hand-overs, parts
	FramesIn    uint64
	FramesOut   uint64
	BytesIn     uint64
	BytesOut    uint64
}

// wireCounts is what of WireCounters is counted as it happens; the rest is summed over links.
type wireCounts struct {
	accepted, dialed, dialErrors, paced, refusedBusy, refusedTLS, refused, duplicates, badFrames, silent, goodbyes, lost, unsent atomic.Uint64
}

// A dialer looks after the link with one member.
type dialer struct {
	addr   string
	cancel context.CancelFunc
	fault  error // of the last attempt; nil after one that succeeded
}

func newWire(cfg *Config, mail *mailbox, ring func() uint64) *wire {
	w := &wire{
		greeter: greeter{self: cfg.Worker, epoch: cfg.Epoch, limits: sharedOf(&cfg.Limits), ring: ring},
		mail:    mail, began: time.Now(), log: cfg.Logger, silence: 2 * cfg.Limits.Confirm, heartbeat: cfg.Limits.Confirm / 2,
		links: map[qos.WorkerID]*link{}, dialers: map[qos.WorkerID]*dialer{}, greeting: map[string]int{},
	}
	w.tls.Store(cfg.TLS)
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w
}

// listen answers those who dial until the wire ends, at a bounded pace. What comes faster waits in the kernel, and beyond its backlog the kernel drops it:
// to take and reset each of ten thousand connections a second costs a third of a core, to leave them costs nothing. A peer that finds no room
// then tries again, and this worker dials it meanwhile; links that there are do not notice.
func (w *wire) listen(ln net.Listener) {
	if err := shorten(ln, acceptBacklog); err != nil {
		w.log.Warn("the backlog of the peer port stays as it is", "error", err)
	}
	w.wg.Go(func() {
		pace := newPace(acceptRate, acceptBurst)
		for w.ctx.Err() == nil {
			conn, err := ln.Accept()
			switch {
			case errors.Is(err, net.ErrClosed):
				return
			case err != nil: // no descriptor is left, for example
				w.log.Warn("the peer port cannot accept", "error", err)
				w.pause(firstBackOff)
			default:
				if wait := pace.next(int64(time.Since(w.began))); wait > 0 {
					w.counted.paced.Add(1)
					w.pause(time.Duration(wait))
				}
				w.answered(conn)
			}
		}
	})
	w.wg.Go(func() {
		<-w.ctx.Done()
		ln.Close()
	})
}

// shorten gives a listener another backlog (listen(2) again): Go's own is the system's largest, in which a peer would stand for most of a minute behind
// strangers.
func shorten(ln net.Listener, backlog int) error {
	t, ok := ln.(*net.TCPListener)
	if !ok {
		return nil
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return err
	}
	var lerr error
	if err := raw.Control(func(fd uintptr) { lerr = unix.Listen(int(fd), backlog) }); err != nil {
		return err
	}
	return lerr
}

// answered greets one who has dialed, unless too many are being greeted.
func (w *wire) answered(conn net.Conn) {
	host, _, _ := net.SplitHostPort(conn.RemoteAddr().String())
	if !w.beginGreeting(host) {
		w.counted.refusedBusy.Add(1)
		reset(conn)
		return
	}
	w.wg.Go(func() {
		defer w.endGreeting(host)
		stop := context.AfterFunc(w.ctx, func() { conn.Close() })
		err := w.answer(w.ctx, conn, func(l *link) error {
			if err := w.adopt(l); err != nil {
				return err
			}
			// Before anything else goes out on this link; its writer begins after it.
			if _, err := l.conn.Write(appendHello(nil, w.hello(""))); err != nil {
				w.drop(l, err)
				return nil
			}
			w.counted.accepted.Add(1)
			l.conn.SetDeadline(time.Time{})
			w.drive(l)
			return nil
		})
		stop()
		if err != nil {
			w.refusedFor(err)
			w.log.Debug("a connection to the peer port was refused", "from", conn.RemoteAddr(), "error", err)
			conn.Close()
		}
	})
}

func (w *wire) beginGreeting(host string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ending || w.greets >= maxGreeting || w.greeting[host] >= maxGreetOne {
		return false
	}
	w.greets++
	w.greeting[host]++
	return true
}

func (w *wire) endGreeting(host string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.greets--
	if w.greeting[host]--; w.greeting[host] == 0 {
		delete(w.greeting, host)
	}
}

func (w *wire) refusedFor(err error) {
	switch {
	case errors.Is(err, errDuplicate):
		w.counted.duplicates.Add(1)
	case errors.Is(err, errTLS), errors.Is(err, errIdentity):
		w.counted.refusedTLS.Add(1)
	default:
		w.counted.refused.Add(1)
	}
}

// reset closes a connection without leaving anything behind on this machine.
func reset(c net.Conn) {
	if t, ok := c.(*net.TCPConn); ok {
		t.SetLinger(0)
	}
	c.Close()
}

// adopt makes a link the one with its peer, or says why not. Two that were opened at the same time, one from each side, must be judged alike on
// both: the one that the worker with the lower id has dialed stays. Of two that the same side has dialed the later one stays, for that side
// dials only when it has none.
func (w *wire) adopt(l *link) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	old := w.links[l.peer]
	switch {
	case w.ending:
		return errEnding
	case old == nil && len(w.links) >= maxPeers:
		return errFull
	case old == nil:
	case l.epoch < old.epoch:
		return errOutdated
	case l.epoch == old.epoch && w.byLower(old) && !w.byLower(l) && !old.over():
		return errDuplicate
	}
	w.links[l.peer] = l
	if old != nil {
		old.close(errReplaced)
	}
	w.tell(presence{l.peer, l.epoch})
	return nil
}

// byLower reports whether the worker with the lower id has dialed.
func (w *wire) byLower(l *link) bool { return l.dialed == (w.self < l.peer) }

// tell lets the loop know who is there. It is called with mu held, so that the loop hears it in order.
func (w *wire) tell(p presence) {
	w.mail.put(func(in *inputs) bool {
		for i := range in.presence { // only the last word on a peer counts
			if in.presence[i].peer == p.peer {
				in.presence[i] = p
				return true
			}
		}
		in.presence = append(in.presence, p)
		return true
	})
}

// drop ends a link.
func (w *wire) drop(l *link, why error) {
	l.close(why)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.links[l.peer] == l {
		delete(w.links, l.peer)
		w.tell(presence{peer: l.peer})
	}
	w.fold(l)
}

// drive runs an adopted link's reader and writer.
func (w *wire) drive(l *link) {
	w.log.Info("peer connected", "peer", l.peer, "epoch", l.epoch, "dialed", l.dialed, "addr", l.conn.RemoteAddr())
	var both sync.WaitGroup
	both.Add(2)
	w.wg.Go(func() {
		defer both.Done()
		if err := l.write(w.heartbeat, w.silence, errEnding.Error()); err != nil {
			l.close(err)
		}
	})
	w.wg.Go(func() {
		defer both.Done()
		l.close(l.read(w.silence, func(b *batch) {
			if !w.mail.put(func(in *inputs) bool {
				in.letters = append(in.letters, letter{from: l.peer, epoch: l.epoch, batch: b, done: func() { l.release(b) }})
				return true
			}) {
				l.release(b)
			}
		}))
	})
	w.wg.Go(func() {
		both.Wait()
		why := *l.why.Load()
		if w.ctx.Err() == nil {
			w.endedFor(why)
		}
		w.drop(l, why)
		w.log.Info("peer gone", "peer", l.peer, "epoch", l.epoch, "why", why)
	})
}

func (w *wire) endedFor(why error) {
	c := &w.counted
	switch {
	case errors.Is(why, errGoodbye):
		c.goodbyes.Add(1)
	case errors.Is(why, errReplaced):
		c.duplicates.Add(1)
	case errors.Is(why, os.ErrDeadlineExceeded):
		c.silent.Add(1)
	case errors.Is(why, errFrameLong), errors.Is(why, errElements), errors.Is(why, errFrameBroken), errors.Is(why, errFrameGroup), errors.Is(why, errFlood):
		c.badFrames.Add(1)
	default:
		c.lost.Add(1)
	}
}

// setMembers dials those who are new and leaves alone those who are not members any more: what they still have to say, they say on the link there is.
func (w *wire) setMembers(members []Member) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, d := range w.dialers { // any order: each by itself
		if !slices.ContainsFunc(members, func(m Member) bool { return m.ID == id && m.Addr == d.addr }) {
			d.cancel()
			delete(w.dialers, id)
		}
	}
	for _, m := range members {
		if m.ID == w.self || m.Addr == "" || w.dialers[m.ID] != nil || w.ending {
			continue
		}
		ctx, cancel := context.WithCancel(w.ctx)
		d := &dialer{addr: m.Addr, cancel: cancel}
		w.dialers[m.ID] = d
		w.wg.Go(func() {
			defer cancel()
			sleep(ctx, rand.N(time.Duration(len(members))*dialGap)) // a thousand at once would be refused for it
			w.keepDialing(ctx, m.ID, d)
		})
	}
}

// keepDialing dials a peer whenever there is no link with it.
func (w *wire) keepDialing(ctx context.Context, peer qos.WorkerID, d *dialer) {
	wait := firstBackOff
	for ctx.Err() == nil {
		w.mu.Lock()
		l := w.links[peer]
		w.mu.Unlock()
		if l != nil {
			select {
			case <-l.closed:
			case <-ctx.Done():
				return
			}
			if time.Since(l.since) >= settled {
				wait = firstBackOff
			}
			sleep(ctx, spread(firstBackOff)) // both sides have lost it: do not run into each other
			continue
		}
		err := w.dial(ctx, peer, d.addr)
		if ctx.Err() != nil {
			return
		}
		w.note(peer, d, err)
		if err != nil {
			sleep(ctx, spread(wait))
			wait = min(2*wait, maxBackOff)
		}
	}
}

// note keeps the outcome of an attempt, and says it once until it changes.
func (w *wire) note(peer qos.WorkerID, d *dialer, err error) {
	if errors.Is(err, errDuplicate) {
		w.counted.duplicates.Add(1)
		err = nil
	}
	w.mu.Lock()
	if w.links[peer] != nil { // the peer was faster
		err = nil
	}
	if err != nil {
		w.counted.dialErrors.Add(1)
	}
	news := err != nil && (d.fault == nil || d.fault.Error() != err.Error())
	d.fault = err
	w.mu.Unlock()
	if news {
		w.log.Warn("a peer cannot be reached; trying on", "peer", peer, "addr", d.addr, "error", err)
	}
}

// dial opens one connection and makes it a link.
func (w *wire) dial(ctx context.Context, peer qos.WorkerID, addr string) error {
	conn, err := (&net.Dialer{Timeout: greetTime}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	l, err := w.call(ctx, conn, peer)
	if err == nil {
		err = w.adopt(l)
	}
	if !stop() && err == nil {
		w.drop(l, ctx.Err())
		return ctx.Err()
	}
	if err != nil {
		conn.Close()
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("%w without a word", errTurned)
		}
		return err
	}
	w.counted.dialed.Add(1)
	w.drive(l)
	return nil
}

// send gives a batch to the link with a worker, if there is one. What is lost so is said again by whoever means it.
func (w *wire) send(to qos.WorkerID, b *batch) {
	w.mu.Lock()
	l := w.links[to]
	w.mu.Unlock()
	if l == nil {
		w.counted.unsent.Add(1)
		return
	}
	l.out.add(b)
}

// end flushes every link, says goodbye, and waits for all that runs; at most for patience, then it cuts.
func (w *wire) end(patience time.Duration) {
	w.mu.Lock()
	w.ending = true
	for _, d := range w.dialers { // any order
		d.cancel()
	}
	links := make([]*link, 0, len(w.links))
	for _, l := range w.links { // any order
		links = append(links, l)
	}
	w.mu.Unlock()
	w.cancel()
	for _, l := range links {
		l.out.end()
	}
	cut := time.AfterFunc(patience, func() {
		for _, l := range links {
			l.close(errEnding)
		}
	})
	w.wg.Wait()
	cut.Stop()
}

// spread is d, half longer or shorter: workers that have lost each other at the same time must not come back at the same time.
func spread(d time.Duration) time.Duration { return d/2 + rand.N(d) }

func (w *wire) pause(d time.Duration) { sleep(w.ctx, d) }

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
