package origin

import (
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// An Opener is a few goroutines that do what could wait for a disk: opening a
// file whose name is not in memory, and closing one. (Closing the last
// descriptor of a large unlinked file frees its blocks before close(2) returns.)
//
// One goroutine only closes, so that a long line of closes delays no open, and
// opens stuck on a bad disk do not keep descriptors from coming back.
type Opener struct {
	dir     *Dir
	opens   chan *OpenRequest
	closes  chan int
	workers sync.WaitGroup

	// gate orders Submit and CloseFile (readers) against Stop (the writer): while it
	// is held for reading, stopped is settled and the channels are not closed.
	gate    sync.RWMutex
	stopped atomic.Bool

	inlineCloses atomic.Int64
}

// OpenRequest is one open. Its memory belongs to the caller, who embeds it and
// uses it again; from Submit until Done it belongs to the Opener.
type OpenRequest struct {
	// Done is called once for each accepted Submit, on a goroutine of the Opener, when
	// the result is in place. It must not wait: it posts to the ring's mailbox.
	Done func(*OpenRequest)

	// The result. FD is the receiver's to close, and -1 when Err is set; Err is
	// never ErrWouldBlock.
	FD   int
	Info Info
	Err  error

	key    [MaxKey]byte
	keyLen int
}

// SetKey copies the key to open. A key that is too long names no file: ErrNotExist.
func (r *OpenRequest) SetKey(key []byte) error {
	if len(key) > MaxKey {
		return ErrNotExist
	}
	r.keyLen = copy(r.key[:], key)
	return nil
}

// Key is the key that SetKey copied. It is valid until the next SetKey.
func (r *OpenRequest) Key() []byte { return r.key[:r.keyLen] }

// NewOpener starts workers goroutines that open and one that closes; at most
// queue requests, and as many closes, wait for them. Both numbers are at least 1.
func NewOpener(d *Dir, workers, queue int) *Opener {
	workers, queue = max(workers, 1), max(queue, 1)
	o := &Opener{
		dir:    d,
		opens:  make(chan *OpenRequest, queue),
		closes: make(chan int, queue),
	}
	for range workers {
		o.workers.Go(o.openLoop)
	}
	o.workers.Go(o.closeLoop)
	return o
}

// Submit hands r over, or says ErrBusy at once when the queue is full or the
// Opener has stopped; r.Done is then not called. For ring threads: it does not
// wait, and allocates nothing.
func (o *Opener) Submit(r *OpenRequest) error {
	o.gate.RLock()
	defer o.gate.RUnlock()
	if o.stopped.Load() {
		return ErrBusy
	}
	select {
	case o.opens <- r:
		return nil
	default:
		return ErrBusy
	}
}

// CloseFile closes fd soon, on another goroutine. With the queue full it closes
// on this one, and counts that (InlineCloses): a stall is better than a descriptor
// lost. A negative fd is nothing to close, so Files' answers can be passed as they are.
func (o *Opener) CloseFile(fd int) {
	if fd >= 0 && !o.queueClose(fd) {
		o.inlineCloses.Add(1)
		unix.Close(fd) // not raw: if it takes long, the other goroutines go on
	}
}

func (o *Opener) queueClose(fd int) bool {
	o.gate.RLock()
	defer o.gate.RUnlock()
	if o.stopped.Load() {
		return false
	}
	select {
	case o.closes <- fd:
		return true
	default:
		return false
	}
}

// InlineCloses counts the descriptors that CloseFile had to close on the
// caller's thread.
func (o *Opener) InlineCloses() int64 { return o.inlineCloses.Load() }

// Stop answers what is queued with ErrBusy, closes what is to be closed, and
// waits for the goroutines; an open that has begun is waited for, and answered
// with its result. Submit and CloseFile may still be called afterwards. A second
// Stop does nothing.
func (o *Opener) Stop() {
	o.gate.Lock()
	if !o.stopped.Swap(true) {
		close(o.opens)
		close(o.closes)
	}
	o.gate.Unlock()
	o.workers.Wait()
}

func (o *Opener) openLoop() {
	var s Scratch
	for r := range o.opens {
		r.FD, r.Info, r.Err = -1, Info{}, ErrBusy
		if !o.stopped.Load() {
			r.FD, r.Info, r.Err = o.dir.open(&s, r.Key())
		}
		r.Done(r)
	}
}

func (o *Opener) closeLoop() {
	for fd := range o.closes {
		unix.Close(fd)
	}
}
