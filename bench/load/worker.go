package load

import (
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

const (
	retryAfter = int64(10 * time.Millisecond) // a failed connection is dialled again after this
	sweepEvery = int64(50 * time.Millisecond) // how often timeouts are looked for
	copyBuffer = 256 << 10
	maxEvents  = 512
)

// worker is one thread of the generator. Everything in it belongs to that thread until run returns.
type worker struct {
	cfg      *Config
	cpu      int // to pin to, -1 for none
	epfd     int
	addr     unix.Sockaddr
	family   int
	base     time.Time // the clock's zero, the same for all workers
	stop     *atomic.Bool
	copyBody bool
	buf      []byte
	events   []unix.EpollEvent
	patience *unix.Timespec // scratch for sysWait
	conns    []conn
	broken   []*conn // in the order they broke; at most every connection once
	streams  []*streamWork
	meter    *cpuMeter // on the first worker only

	began     int64 // when its thread started the run
	openAt    int64 // when the window is to open and close
	closeAt   int64
	measuring bool
	sweepAt   int64
	lookedAt  int64 // when it last began to wait for the sockets: what they have now has come since
	idleNS    int64 // in the window, in epoll_wait with nothing to do
}

// streamWork is a stream's share on one worker.
type streamWork struct {
	cfg    *Stream
	plan   *plan
	tally  *tally
	open   bool // open loop
	pace   pace
	free   []*conn // open loop: connections that can carry a request
	behind int64   // open loop: due and not sent when the window closed

	owed     []owed // open loop: requests to be sent again, the first to be sent last
	detector *judge // nil without one
	calmed   bool   // the rate is Stream.CalmRate
	conns    int
}

// forget takes an idle connection out of the free list. That is rare, so a scan does.
func (s *streamWork) forget(c *conn) {
	if i := slices.Index(s.free, c); i >= 0 {
		s.free = slices.Delete(s.free, i, i+1)
	}
}

func (w *worker) clock() int64 { return int64(time.Since(w.base)) }

// run carries the load until the window has closed or stop is set. It keeps its thread.
func (w *worker) run() error {
	runtime.LockOSThread() // never unlocked: the pinned and raised thread must end with this goroutine
	if err := w.settle(); err != nil {
		return err
	}
	var err error
	if w.epfd, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("epoll: %w", err)
	}
	defer w.close()
	w.began = w.clock()
	w.openAt = w.began + int64(w.cfg.WarmupS*1e9)
	for _, s := range w.streams {
		s.pace.start = w.began
	}
	for i := range w.conns {
		w.broken = append(w.broken, &w.conns[i])
	}
	w.loop()
	return nil
}

// settle pins and raises the thread, and lets it wake on time.
func (w *worker) settle() error {
	if w.cfg.Block {
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // else 50 us late; it can be refused to nobody
	}
	if w.cpu >= 0 {
		if err := Pin(w.cpu); err != nil {
			return err
		}
	}
	if w.cfg.Hygiene {
		return Raise()
	}
	return nil
}

func (w *worker) close() {
	for i := range w.conns {
		if w.conns[i].fd >= 0 {
			unix.Close(w.conns[i].fd)
		}
	}
	unix.Close(w.epfd)
}

func (w *worker) loop() {
	before := w.clock()
	for !w.stop.Load() {
		w.lookedAt = before
		*w.patience = unix.NsecToTimespec(w.timeout(before))
		n, errno := sysWait(w.epfd, w.events, w.patience)
		now := w.clock()
		if errno != 0 {
			n = 0
		}
		if w.measuring && (n == 0 || w.cfg.Block) {
			w.idleNS += now - before
		}
		for i := range w.events[:n] {
			w.dispatch(&w.events[i])
		}
		if w.turn(now) {
			return
		}
		before = w.clock()
	}
	if w.measuring && w.cfg.UntilStopped {
		w.closeWindow()
	}
}

// timeout is how long epoll may sleep from now on, in ns: an open loop and broken connections need the
// clock. A request that is due and not sent waits for a connection, not for the clock.
func (w *worker) timeout(now int64) int64 {
	const ms = 1e6
	if !w.cfg.Block {
		return 0
	}
	limit := int64(5 * ms)
	if len(w.broken) > 0 {
		limit = ms
	}
	for _, s := range w.streams {
		if !s.open {
			continue
		}
		limit = min(limit, ms)
		switch until := s.pace.due() - now; {
		case until > 0:
			limit = min(limit, until)
		case len(s.free) > 0 || s.detector != nil:
			return 0 // it has become due since turn looked
		}
	}
	return limit
}

// dispatch hands an event to its connection. The cookie carries the generation, since a connection
// may have been closed and dialled again by an earlier event of the same batch.
func (w *worker) dispatch(e *unix.EpollEvent) {
	c := &w.conns[e.Fd]
	if c.gen != e.Pad || c.state == broken {
		return
	}
	if e.Events&(unix.EPOLLOUT|unix.EPOLLERR|unix.EPOLLHUP) != 0 {
		w.writable(c)
	}
	if e.Events&(unix.EPOLLIN|unix.EPOLLERR|unix.EPOLLHUP) != 0 {
		w.readable(c)
	}
	if e.Events&(unix.EPOLLRDHUP|unix.EPOLLHUP) != 0 {
		w.hangup(c)
	}
}

// turn does what the clock asks for and says whether the run is over.
func (w *worker) turn(now int64) (over bool) {
	if !w.measuring && now >= w.openAt {
		w.openWindow()
	}
	if w.measuring && now >= w.closeAt {
		w.closeWindow()
		return true
	}
	if len(w.broken) > 0 {
		w.redial(now)
	}
	for _, s := range w.streams {
		if s.open {
			w.calm(s, now)
			w.paced(s, now)
		}
	}
	if now >= w.sweepAt {
		w.sweepAt = now + sweepEvery
		w.sweep(now)
	}
	return false
}

// owed is a request that is to be sent again.
type owed struct {
	due   int64 // when it was first due
	tries int   // that it has had
}

// paced sends what is owed and what is due, as far as there are free connections.
func (w *worker) paced(s *streamWork, now int64) {
	for len(s.free) > 0 || s.detector != nil {
		o, ok := s.next(now)
		if !ok {
			return
		}
		if s.detector != nil && !s.detector.allows(now) {
			s.tally.inWindow(&s.tally.withheld)
			continue
		}
		if len(s.free) == 0 { // only with a detector: what it allows may find no connection
			s.owe(o)
			return
		}
		c := s.free[len(s.free)-1]
		s.free = s.free[:len(s.free)-1]
		c.tries = o.tries
		w.issue(c, o.due, now)
	}
}

// calm changes the rate of a stream when its time has come.
func (w *worker) calm(s *streamWork, now int64) {
	if s.cfg.CalmS > 0 && !s.calmed && w.measuring && now >= s.tally.from+int64(s.cfg.CalmS*1e9) {
		s.calmed, s.owed = true, s.owed[:0]
		s.pace = newPace(now, s.cfg.CalmRate/float64(w.cfg.Threads))
	}
}

// next takes the next request to send.
func (s *streamWork) next(now int64) (owed, bool) {
	if n := len(s.owed); n > 0 {
		o := s.owed[n-1]
		s.owed = s.owed[:n-1]
		return o, true
	}
	due := s.pace.due()
	if due > now {
		return owed{}, false
	}
	s.pace.take()
	return owed{due: due, tries: 0}, true
}

// owe keeps a request to be sent again, as far as there is room.
func (s *streamWork) owe(o owed) {
	if len(s.owed) < cap(s.owed) {
		s.owed = append(s.owed, o)
		return
	}
	s.tally.inWindow(&s.tally.givenUp)
}

// failed is told of a request that was refused or lost: it is sent again, or given up.
func (s *streamWork) failed(c *conn) {
	switch {
	case !s.open:
	case c.tries < s.cfg.Retries:
		s.tally.inWindow(&s.tally.retried)
		s.owe(owed{due: c.start, tries: c.tries + 1})
	default:
		s.tally.inWindow(&s.tally.givenUp)
	}
}

// redial dials the connections whose time has come.
func (w *worker) redial(now int64) {
	later := w.broken[:0]
	for _, c := range w.broken {
		if c.since > now || !w.connect(c, now) {
			later = append(later, c)
		}
	}
	w.broken = later
}

func (w *worker) connect(c *conn, now int64) bool {
	fd, err := dial(w.addr, w.family)
	if err == nil {
		ev := unix.EpollEvent{Fd: c.slot, Pad: c.gen + 1}
		ev.Events = unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET&0xffffffff
		if err = unix.EpollCtl(w.epfd, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
			unix.Close(fd)
		}
	}
	if err != nil {
		c.stream.tally.faults[FaultConnect]++
		c.since = now + retryAfter
		return false
	}
	c.fd, c.gen, c.state, c.since = fd, c.gen+1, connecting, now
	return true
}

// sweep gives up on requests and connects that take too long.
func (w *worker) sweep(now int64) {
	limit := now - int64(w.cfg.TimeoutS*1e9)
	for i := range w.conns {
		c := &w.conns[i]
		if (c.state == busy || c.state == connecting) && c.since < limit {
			w.fault(c, FaultTimeout)
		}
	}
}

// openWindow starts measuring. The clock is read after the meter, which takes tens of microseconds.
func (w *worker) openWindow() {
	if w.meter != nil {
		w.meter.open()
	}
	now := w.clock()
	w.measuring, w.closeAt = true, now+int64(w.cfg.DurationS*1e9)
	for _, s := range w.streams {
		s.tally.from = now
	}
	w.edges(-1)
}

func (w *worker) closeWindow() {
	now := w.clock()
	if w.meter != nil {
		w.meter.close()
	}
	for _, s := range w.streams {
		s.tally.to = now
		if s.open {
			s.behind = s.pace.behind(now)
		}
	}
	w.edges(+1)
	for i := range w.conns {
		if c := &w.conns[i]; c.state == busy {
			c.stream.tally.pending(&c.span, c.start)
		}
	}
}

// edges accounts for the responses that the edge of the window cuts.
func (w *worker) edges(sign float64) {
	for i := range w.conns {
		if c := &w.conns[i]; c.state == busy && c.frame.body && c.frame.head.length > 0 {
			c.stream.tally.edge(sign, float64(c.frame.got())/float64(c.frame.head.length))
		}
	}
}
