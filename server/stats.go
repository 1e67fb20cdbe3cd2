package server

import (
	"math/bits"

	"github.com/talon-worker/talon/uring"
)

// Stats are one ring's counters since start, or the sum of several rings'. The
// loop increments plain fields; names and labels live in admin.
type Stats struct {
	Accepted           uint64                  // connections taken
	Closed             [numCloseReasons]uint64 // connections closed, by CloseReason
	Open               uint64                  // connections open now
	Requests           [numStatuses]uint64     // responses completed, by the index of Statuses
	SentCopy           uint64                  // body bytes accepted by sockets through a copy
	SentSendfile       uint64                  // body bytes accepted by sockets through sendfile
	ShortSends         uint64                  // sends the socket took only part of
	FilesHit           uint64                  // requests served from the open-file cache
	FilesMissed        uint64                  // names looked up on the ring thread
	FilesDeferred      uint64                  // lookups handed to the opener: not in the dentry cache
	FilesChanged       uint64                  // files that changed while they were served
	ProbeHits          uint64                  // chunks known or found resident
	Prefetches         uint64                  // chunks read ahead through the ring
	Parked             uint64                  // responses that waited for the disk
	RefusedBudget      uint64                  // connections turned away, not among Accepted: the budget was spent
	RefusedFiles       uint64                  // ... no descriptor was left
	AcceptPausesBudget uint64                  // times the listener rested because the budget was spent
	AcceptPausesFiles  uint64                  // ... because there was no descriptor, or no memory, for another connection
	AcceptRearms       uint64                  // multishot accepts armed again
	RecvRearms         uint64                  // multishot receives armed again
	RecvPauses         uint64                  // connections not read from while their requests queue up
	BuffersOut         uint64                  // receives that found no free buffer
	StaleCompleted     uint64                  // completions of a connection already gone
	RefusalsHeld       uint64                  // refusals told later than at once, because there are too many of their tenant
	Starved            uint64                  // requests that waited for a send slab
	StarvedNow         uint64                  // ... now
	BuffersHeld        uint64                  // receive buffers that hold unread requests now
	InputsHeld         uint64                  // input slabs in use now
	SlabsHeld          uint64                  // send slabs in use now
	OpensOut           uint64                  // lookups that the opener has not answered yet
	OpensRefused       uint64                  // lookups that it had no room for: 503
	Turns              uint64                  // passes of the loop
	Duration           Histogram               // from a request's last byte to its response's last accepted byte
	Ring               uring.Stats             // the ring's own
}

// Add sums o into s.
func (s *Stats) Add(o *Stats) {
	for _, f := range []struct{ to, from *uint64 }{
		{&s.Accepted, &o.Accepted}, {&s.RefusedBudget, &o.RefusedBudget}, {&s.RefusedFiles, &o.RefusedFiles},
		{&s.AcceptPausesBudget, &o.AcceptPausesBudget}, {&s.AcceptPausesFiles, &o.AcceptPausesFiles}, {&s.Open, &o.Open},
		{&s.SentCopy, &o.SentCopy}, {&s.SentSendfile, &o.SentSendfile}, {&s.ShortSends, &o.ShortSends},
		{&s.FilesHit, &o.FilesHit}, {&s.FilesMissed, &o.FilesMissed}, {&s.FilesDeferred, &o.FilesDeferred},
		{&s.FilesChanged, &o.FilesChanged}, {&s.ProbeHits, &o.ProbeHits}, {&s.Prefetches, &o.Prefetches},
		{&s.Parked, &o.Parked}, {&s.AcceptRearms, &o.AcceptRearms}, {&s.RecvRearms, &o.RecvRearms},
		{&s.RecvPauses, &o.RecvPauses}, {&s.BuffersOut, &o.BuffersOut},
		{&s.StaleCompleted, &o.StaleCompleted}, {&s.RefusalsHeld, &o.RefusalsHeld}, {&s.Starved, &o.Starved}, {&s.StarvedNow, &o.StarvedNow},
		{&s.BuffersHeld, &o.BuffersHeld}, {&s.InputsHeld, &o.InputsHeld}, {&s.SlabsHeld, &o.SlabsHeld},
		{&s.OpensOut, &o.OpensOut}, {&s.OpensRefused, &o.OpensRefused}, {&s.Turns, &o.Turns},
	} {
		*f.to += *f.from
	}
	for i := range s.Closed {
		s.Closed[i] += o.Closed[i]
	}
	for i := range s.Requests {
		s.Requests[i] += o.Requests[i]
	}
	s.Duration.Add(&o.Duration)
	s.Ring.Add(&o.Ring)
}

// Shared is what a worker's rings have in common, now.
type Shared struct {
	ConnectionLimit uint64 // Config.MaxConnections
	ConnectionsFree uint64 // of these, how many may still come
	InlineCloses    uint64 // files closed on a ring thread, since start: the queue of closes was full
	AccessDropped   uint64 // lines of the access log that found no room, since start
}

// Shared reads it; unlike Stats it asks no ring.
func (s *Server) Shared() Shared {
	free := s.worker.budget.Load()
	for _, l := range s.loops {
		free += l.accepting.aside.Load()
	}
	return Shared{
		ConnectionLimit: uint64(s.cfg.MaxConnections),
		ConnectionsFree: uint64(max(free, 0)),
		AccessDropped:   s.AccessDropped(),
		InlineCloses:    uint64(s.opener.InlineCloses()),
	}
}

// Statuses are the status codes this server answers with; Stats.Requests is
// counted by their index.
var Statuses = [...]int{200, 204, 206, 304, 400, 401, 403, 404, 405, 408, 412, 414, 416, 417, 429, 431, 500, 503, 505}

const numStatuses = len(Statuses)

// statusIndex maps a status code to its index in Statuses.
var statusIndex = func() (t [600]uint8) {
	for i, s := range Statuses {
		t[s] = uint8(i)
	}
	return t
}()

// CloseReason says why a connection ended.
type CloseReason uint8

// The reasons, in the order in which a connection can meet them.
const (
	ClosedByPeer     CloseReason = iota // the client closed, between requests
	ClosedAfter                         // asked for by Connection: close or HTTP/1.0
	ClosedBadRequest                    // refused framing
	ClosedIdle                          // idle timeout
	ClosedHeaderTime                    // header deadline
	ClosedSlow                          // under the minimum drain rate
	ClosedReset                         // the socket failed
	ClosedFile                          // the object shrank, changed or could not be read
	ClosedForRoom                       // waited longest when newcomers needed its place
	ClosedBuffers                       // held receive buffers that others needed
	ClosedDrain                         // the worker is stopping
	ClosedBanned                        // its tenant is banned, and its policy says to close
	ClosedRefused                       // its tenant is refused too often to be told each time
	numCloseReasons  = int(iota)
)

var closeReasonNames = [numCloseReasons]string{"peer", "after_response", "bad_request", "idle", "header_timeout",
	"slow_reader", "reset", "file", "made_room", "recv_buffers", "drain", "banned", "refused"}

// String is the label value under which the reason is exported.
func (r CloseReason) String() string { return closeReasonNames[r] }

// CloseReasons lists all reasons in order.
func CloseReasons() []CloseReason {
	all := make([]CloseReason, numCloseReasons)
	for i := range all {
		all[i] = CloseReason(i)
	}
	return all
}

// HistogramBuckets is the number of buckets of a Histogram.
const HistogramBuckets = 32

// Histogram counts durations in buckets of powers of two: bucket i holds those
// of less than 2^i microseconds (and at least half that); the last holds the
// rest, over 17 minutes.
type Histogram struct {
	Count [HistogramBuckets]uint64
	Sum   uint64 // nanoseconds
}

// Observe counts one duration of ns nanoseconds; a negative one counts as 0.
func (h *Histogram) Observe(ns int64) {
	ns = max(ns, 0)
	h.Count[min(bits.Len64(uint64(ns)/1000), HistogramBuckets-1)]++
	h.Sum += uint64(ns)
}

// Add sums o into h.
func (h *Histogram) Add(o *Histogram) {
	for i := range h.Count {
		h.Count[i] += o.Count[i]
	}
	h.Sum += o.Sum
}
