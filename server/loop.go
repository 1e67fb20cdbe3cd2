package server

import (
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/origin"
	"github.com/talon-worker/talon/qos"
	"github.com/talon-worker/talon/sched"
	"github.com/talon-worker/talon/uring"
)

// Fixed sizes of one loop. They are mmap'ed and touched only as they are used.
const (
	recvBuffers = 1024 // provided buffers; a request is in one for part of a turn
	recvGroup   = 0    // their group id

	headRoom   = 1 << 10 // room for a response head in a send slab
	slabSize   = headRoom + MaxCopyBelow
	sendSlabs  = 1024 // small responses with the ring at one time
	inputSlabs = 1024 // connections with an incomplete or waiting request

	turnChunks = 4 // transfer chunks that one turn sends (about 0.4 ms) before it looks at the ring again
)

// loop is one thread, its ring and everything that hangs on it. See doc.go for
// who may touch it: nobody else.
type loop struct {
	worker   *worker
	index    int // of this loop among the worker's
	cfg      *Config
	clock    func() instant
	opener   *origin.Opener
	budget   *atomic.Int64 // connections the worker may still take
	roster   *roster       // the tenants in force in this turn
	heeded   atomic.Uint64 // its version
	mail     mailbox
	counters counters // what others read of stats

	ring     *uring.Ring
	bufs     *uring.Buffers
	slabs    *uring.Slabs
	ins      inputs
	page     *uring.Slabs // one slab: where wake-ups and prefetches put their bytes
	wake     []byte       // 8 bytes of it
	wakeable bool         // a READ is armed on the mailbox's eventfd
	sink     []byte       // a transfer chunk of it, mostly never touched; prefetches overwrite it at will, nobody reads it

	listen    int
	accepting acceptState

	conns   []conn
	free    []uint32 // free slots
	starved queue    // connections that wait for a send slab
	telling telling  // of refusals
	retry   []retry  // operations that found no room in the SQ

	flows  *sched.Ring  // whose turn it is
	more   bool         // it may be somebody's by now
	handed []uint32     // connections whose slab was handed to the ring in the turn before
	unsent int          // responses that have an open file and wait for their first turn
	raws   *uring.Slabs // requests that wait as bytes

	ledger  *qos.Ledger // nil: nobody has limits
	reading uint64      // counts readings of its clock
	waits   []*seat     // those that wait for a limit
	lookAt  int64       // mono ns of the next look at them
	nudged  bool        // their limits are to be asked again in this turn

	access     accessBuffer
	admissions *admissions // nil: they are not recorded

	anyWaits atomic.Bool // waits is not empty: news is wanted
	nudging  atomic.Bool // news is on its way
	news     message

	unverified []uint32 // connections whose file is looked at once more at the end of the turn
	verifying  []uint32 // the other half of a double buffer
	seen       glance   // the last file looked at before it was read
	dead       deadlines
	waiting    waiting  // who could go when the budget is spent
	oldest     []uint32 // scratch for shed and oldestHeads
	shedMost   int      // connections closed at a time to make room
	noHeads    uint64   // the turn in which oldestHeads last found none
	headroom   int      // of the budget, kept free for newcomers

	singleBelow int64 // of the budget: below it connections are accepted one by one
	singlesMost int   // single accepts out at one time
	away        head  // scratch for turnAway
	relief      int64 // mono ns of the next look for stalled senders

	files   *origin.Files
	scratch origin.Scratch
	tickets []*openTicket // free open tickets
	opens   int           // tickets made

	now       instant
	wallSec   int64
	date      [dateLen]byte // of wallSec
	requestID uint64
	key       []byte     // scratch for decodeKey
	req       request    // scratch for consumeRequest
	headBuf   []byte     // scratch for the head of a large body
	object    objectHead // scratch: the lines of the file being answered with

	draining    bool
	hasten      int64 // mono ns at which a drain ends all the same
	listenUntil int64 // mono ns at which its listener closes
	stats       Stats
	over        bool // released: only the mailbox is left
}

// retry is an operation that found the submission queue full.
type retry struct {
	slot uint32
	op   op
}

// newLoop makes a loop around a ring that is not enabled yet. It takes over
// listen and ring: release closes both.
func newLoop(w *worker, ring *uring.Ring, listen int, clock func() instant, seed uint64) (*loop, error) {
	cfg := w.cfg
	headroom := headroomOf(cfg.MaxConnections)
	slots := cfg.MaxConnections
	l := &loop{
		worker: w, cfg: cfg, clock: clock, opener: w.opener, budget: &w.budget,
		ring: ring, listen: listen,
		index: len(w.loops), ledger: w.ledger,
		conns: make([]conn, slots), free: make([]uint32, 0, slots), handed: make([]uint32, 0, slots),
		starved: newQueue(slots), telling: newTelling(1e9 / refusalRate), dead: newDeadlines(slots),
		retry: make([]retry, 0, 64), unverified: make([]uint32, 0, slots), verifying: make([]uint32, 0, slots),
		files:   origin.NewFiles(cfg.OpenFiles, cfg.OpenFileValid),
		waiting: newWaiting(slots), oldest: make([]uint32, 0, shedMost), shedMost: min(1+headroom, shedMost), headroom: headroom,
		singleBelow: singleBelowOf(cfg.Rings), singlesMost: singlesOf(headroom, cfg.Rings),
		requestID: seed, wallSec: math.MinInt64, counters: newCounters(),
		key: make([]byte, 0, maxKey), headBuf: make([]byte, 0, headRoom),
	}
	l.mail.eventf, l.accepting.reserve = -1, -1
	l.news.run = (*loop).hearNews
	if cfg.AccessLog != nil {
		l.access.records = make([]accessRecord, accessRecords)
	}
	if cfg.AdmissionLog != nil {
		l.admissions = &cfg.AdmissionLog.parts[l.index]
	}
	l.flows = w.sched.Ring(l.index, slots)
	for i := slots - 1; i >= 0; i-- {
		l.conns[i] = conn{slot: uint32(i), gen: 1, fd: -1, slab: noSlab, raw: noSlab, in: input{slab: noSlab}}
		l.free = append(l.free, uint32(i))
	}
	if err := l.mapMemory(); err != nil {
		l.release()
		l.mail.close()
		return nil, err
	}
	w.loops = append(w.loops, l)
	return l, nil
}

func (l *loop) mapMemory() (err error) {
	if l.mail.eventf, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	l.renewReserve()
	if l.slabs, err = uring.NewSlabs(sendSlabs, slabSize); err != nil {
		return err
	}
	if l.raws, err = uring.NewSlabs(rawSlabs, rawSize); err != nil {
		return err
	}
	inSlabs, err := uring.NewSlabs(inputSlabs, inputSize)
	if err != nil {
		return err
	}
	l.ins = newInputs(nil, inSlabs, recvBuffers)
	if l.page, err = uring.NewSlabs(1, 64+l.cfg.TransferChunk); err != nil {
		return err
	}
	_, page, _ := l.page.Get()
	l.wake, l.sink = page[:8], page[64:]
	return nil
}

// start enables the ring on the calling thread, which from here on is the
// loop's, and arms what is always armed.
func (l *loop) start() error {
	if err := l.ring.Enable(); err != nil {
		return err
	}
	bufs, err := l.ring.NewBuffers(recvGroup, recvBuffers, recvSize)
	if err != nil {
		return err
	}
	l.bufs, l.ins.bufs = bufs, bufs
	l.now = l.clock()
	l.tick()
	l.armWake()
	l.keepAccepting()
	l.stats.AcceptRearms = 0 // it is the first time
	return nil
}

// run is the loop of one thread: wait, then act on all that has come. The only
// wait is Ring.Wait.
func (l *loop) run() error {
	runtime.LockOSThread() // never unlocked: an exiting thread would cancel its ring's operations
	if err := l.start(); err != nil {
		return err
	}
	for !l.stopped() {
		if err := l.ring.Wait(l.patience()); err != nil {
			return err
		}
		l.turn()
	}
	return nil
}

// patience is how long the next Wait may last.
func (l *loop) patience() time.Duration {
	if l.more || len(l.retry) > 0 || !l.wakeable || !l.mail.sleep() {
		return 0
	}
	// The mailbox first: whoever moves the scheduler's clock from here on wakes it.
	wake := min(l.dead.wake(), l.acceptWake(), l.drainWake(), l.flows.Wake())
	if len(l.waits) > 0 {
		wake = min(wake, l.lookAt)
	}
	if l.starved.len() > 0 {
		wake = min(wake, l.relief)
	}
	wake = min(wake, l.tellWake())
	if wake == math.MaxInt64 {
		return -1
	}
	return max(time.Duration(wake-l.now.mono), 0)
}

// turn acts on everything that has happened since the last one.
func (l *loop) turn() {
	l.mail.awake()
	l.now = l.clock()
	l.heed()
	if l.ledger != nil {
		l.reading++
		l.ledger.Enter(l.index)
		defer l.ledger.Leave(l.index)
	}
	l.tick()
	l.stats.Turns++
	for {
		c, ok := l.ring.Next()
		if !ok {
			break
		}
		l.complete(c)
	}
	l.noteStalled()
	l.mail.drain(l)
	l.dead.expired(l.now.mono, l.expire)
	l.tryAgain()
	l.feedStarved()
	if len(l.waits) > 0 {
		l.openDoors()
	}
	l.sendChunks()
	l.verifyAll()
	l.tellRefusals()
	if len(l.waits) > 0 {
		l.tellWaits()
	}
	l.keepAccepting()
	l.keepDraining()
}

// tick renews what changes once a second.
func (l *loop) tick() {
	if sec := l.now.wall / 1e9; sec != l.wallSec {
		l.wallSec = sec
		appendDate(l.date[:0], sec)
		l.dropUnused()
	}
}

// complete hands a completion to the step that waits for it.
func (l *loop) complete(cq uring.Completion) {
	ud := cq.UserData
	switch op(ud.Op()) {
	case opAccept:
		l.accepted(cq)
		return
	case opAcceptOne:
		l.acceptedOne(cq)
		return
	case opWake:
		l.armWake()
		return
	case opIgnore:
		return
	}
	c := &l.conns[ud.Slot()]
	if c.gen != ud.Gen() {
		l.stats.StaleCompleted++
		l.discardBuffer(cq)
		return
	}
	switch op(ud.Op()) {
	case opRecv:
		l.received(c, cq)
	case opSend:
		l.slabSent(c, cq)
	case opRead:
		l.filled(c, cq)
	case opPoll:
		l.writable(c)
	case opPrefetch:
		l.prefetched(c, cq)
	case opCancel, opCancelSend, opCancelPoll:
		c.cancels--
	}
	if c.state == stateClosing {
		l.tryFree(c)
	}
}

// arm hands one operation of c to the ring. Its parameters all stand in c, so
// that one which finds the queue full can be tried again later.
func (l *loop) arm(c *conn, o op) {
	if o >= opCancel {
		c.cancels++
	} else {
		c.pend.add(o)
	}
	if !l.prepare(c, o) {
		l.retry = append(l.retry, retry{c.slot, o})
	}
}

func (l *loop) prepare(c *conn, o op) bool {
	ud := uring.Tag(uint8(o), c.slot, c.gen)
	switch o {
	case opRecv:
		return l.ring.Recv(c.fd, recvGroup, ud)
	case opSend:
		return l.ring.Send(c.fd, l.slabs.Bytes(c.slab)[c.sendOff:c.sendEnd], 0, ud)
	case opRead:
		p, off := l.slabs.Bytes(c.slab)[c.fillEnd:c.sendEnd], c.fillOff()
		if c.file.Waits {
			return l.ring.ReadAside(c.file.FD, p, off, ud)
		}
		return l.ring.Read(c.file.FD, p, off, ud)
	case opPoll:
		return l.ring.PollOut(c.fd, ud)
	case opPrefetch:
		if a := c.ahead; a.file.Waits {
			return l.ring.ReadAside(a.file.FD, l.sink[:a.n], a.off, ud)
		}
		return l.ring.Prefetch(c.ahead.file.FD, c.ahead.off, uint32(c.ahead.n), l.sink, ud)
	case opCancel:
		return l.ring.Cancel(uring.Tag(uint8(opRecv), c.slot, c.gen), ud)
	case opCancelSend:
		return l.ring.Cancel(uring.Tag(uint8(opSend), c.slot, c.gen), ud)
	case opCancelPoll:
		return l.ring.Cancel(uring.Tag(uint8(opPoll), c.slot, c.gen), ud)
	}
	panic("server: operation without preparation")
}

// tryAgain prepares what found the queue full. A slot cannot have changed hands
// meanwhile: its operation is pending.
func (l *loop) tryAgain() {
	if !l.wakeable {
		l.armWake()
	}
	waiting := l.retry
	l.retry = l.retry[:0]
	for i, r := range waiting {
		if !l.prepare(&l.conns[r.slot], r.op) {
			l.retry = append(l.retry, waiting[i:]...)
			return
		}
	}
}

// armWake keeps a READ on the mailbox's eventfd. Without one a sleeping loop
// would be deaf, so while the queue has no room for it the loop does not sleep.
func (l *loop) armWake() {
	l.wakeable = l.ring.Read(l.mail.eventf, l.wake, -1, uring.Tag(uint8(opWake), 0, 0))
}

// nextRequestID returns an id that no other response of this process has: a
// counter through a bijection that spreads its bits (splitmix64's finalizer).
func (l *loop) nextRequestID() uint64 {
	l.requestID++
	z := l.requestID
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// discardBuffer gives back the receive buffer of a completion nobody wants.
func (l *loop) discardBuffer(cq uring.Completion) {
	if id, ok := cq.Buffer(); ok {
		l.bufs.Release(id)
	}
}

// snapshot is what the counters say now, with the gauges that nobody keeps.
func (l *loop) snapshot() Stats {
	s := l.stats
	if l.over || l.bufs == nil { // ended, or not started
		return s
	}
	s.Ring = l.ring.Stats()
	s.StarvedNow = uint64(l.starved.len())
	s.BuffersHeld, s.InputsHeld, s.SlabsHeld = uint64(l.bufs.Held()), uint64(l.ins.slabs.Held()), uint64(l.slabs.Held())
	s.OpensOut = uint64(l.opens - len(l.tickets))
	return s
}

// release gives back everything but the mailbox, in an order in which no
// descriptor can be mistaken for another: first the ring with all its operations,
// then what they used. It runs on the thread that ran the loop, if any did.
func (l *loop) release() {
	if l.over {
		return
	}
	l.stats.Ring = l.ring.Stats()
	l.over = true
	if err := l.ring.Close(); err != nil {
		l.cfg.Logger.Error("ring did not close", "err", err)
	}
	for i := range l.conns {
		if c := &l.conns[i]; c.state != stateFree {
			unix.Close(c.fd)
			c.pend = 0 // the ring is closed
			if c.ahead.orphan {
				l.releaseFile(c.ahead.file)
			}
			l.dropResponse(c)
			c.state, c.opening = stateFree, nil
		}
	}
	l.budget.Add(int64(l.accepting.singles))
	l.accepting.setAside(-l.accepting.singles)
	for _, fd := range []*int{&l.listen, &l.accepting.reserve} {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1
		}
	}
	l.files.Purge(l.opener.CloseFile)
	if l.bufs != nil {
		l.bufs.Free()
	}
	for _, s := range []*uring.Slabs{l.slabs, l.raws, l.ins.slabs, l.page} {
		if s != nil {
			s.Free()
		}
	}
	l.mail.awake() // mail that still comes is not to wake anybody
	l.counters.end(l.snapshot())
}

// seedOf spreads the request ids of rings and restarts apart.
func seedOf(random []byte) uint64 { return binary.LittleEndian.Uint64(random) }
