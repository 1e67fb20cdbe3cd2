package server

import (
	"math"

	"github.com/talon-worker/talon/origin"
)

// state is where a connection stands; doc.go draws the transitions.
type state uint8

const (
	stateFree      state = iota // not a connection
	stateReading                // waits for a request, or the rest of one
	stateQueued                 // waits at the door for its tenant's read_iops
	stateHeld                   // refused, and not told yet: see hold
	stateOpening                // the opener looks its object up
	stateStarved                // its response is due, or a request is here; a send slab is not
	stateFilling                // a ring READ fetches a small body
	stateVerifying              // all is read; the file is looked at once more
	stateSending                // the slab's bytes are with a ring SEND
	stateReady                  // with the scheduler: its next piece is due
	stateBlocked                // the socket is full: POLLOUT is armed
	stateParked                 // the next chunk's pages are being read
	stateLingering              // answered, FIN sent, discarding input
	stateClosing                // shut down, waiting for completions
)

// op names an operation in a completion's user data.
type op uint8

const (
	opAccept op = iota + 1
	opAcceptOne
	opWake
	opIgnore // its completion says nothing that another does not
	opRecv
	opSend
	opRead
	opPoll
	opPrefetch
	opCancel // of the receive
	opCancelSend
	opCancelPoll
)

// pending is the set of a connection's operations that the kernel still holds.
// The slot is free only when it is empty. Cancellations are counted apart, for a
// paused receive and a close may both have one out.
type pending uint8

func (p pending) has(o op) bool { return p&(1<<(o-opRecv)) != 0 }
func (p *pending) add(o op)     { *p |= 1 << (o - opRecv) }
func (p *pending) remove(o op)  { *p &^= 1 << (o - opRecv) }

// conn is one connection: its socket, the request bytes not yet consumed and the
// one response in progress. It is a slot of its loop, reused from connection to
// connection; nothing but slot, gen and fd outlives a request that does not say
// so.
type conn struct {
	slot uint32
	gen  uint32 // grows when the slot is freed; a completion of another gen is stale
	fd   int

	state   state
	pend    pending
	cancels uint8       // cancellations out
	reason  CloseReason // once closing or lingering
	paused  bool        // the receive is cancelled until held input is consumed
	peerEOF bool        // the client has sent its FIN
	heading bool        // the first bytes of a request are here, its deadline runs
	opening *openTicket // the lookup in progress

	in input // bytes received and not consumed

	// What the request in progress is to its tenant, to admission and to the scheduler.
	owner    *account // whose connection this is: of the latest request's tenant; nil before the first
	seat     *seat    // its tenant on this ring, from admission until all is settled
	admitted bool     // until leave
	flow     bool     // the scheduler has a flow of it
	flying   bool     // and that is in flight: with a ring SEND, or between reading and that
	unsent   bool     // counted in loop.unsent
	filled   bool     // the slab holds a small response that the ring has read
	raw      uint32   // slab of the bytes of a request that waits unopened, or noSlab
	rawLen   int      // how many
	door     link     // its neighbours: in seat.door in stateQueued, in seat.refused in stateHeld
	payload  int64    // body bytes of the piece in flight
	refusal  refusal  // what a refused request is told
	holder   *seat    // in whose queue it waits for that, in stateHeld

	// The response in progress.
	resp      response
	file      *origin.File // one reference held, nil if none
	openErr   error        // what the opener said, for the request it was asked for
	slab      uint32       // the send slab, or noSlab
	sendOff   int          // slab bytes already accepted by the socket
	sendEnd   int          // slab bytes in all; Invariant: 0 <= sendOff <= sendEnd <= len(slab)
	fillEnd   int          // slab bytes filled so far, while filling
	ahead     ahead        // what the outstanding prefetch reads
	heldSince int64        // mono ns, in stateHeld
	taken     int64        // of the response, what the client had when the drain window began; or unknown
	sending   int64        // mono ns at which the ring got the slab to send
	linger    int          // bytes discarded while lingering
}

// ahead is a piece of a file that a prefetch is bringing into memory. The prefetch
// may outlive the response it was for, and its file's reference then passes to
// it: a file whose descriptor the kernel still knows is never closed.
type ahead struct {
	file   *origin.File
	off    int64
	n      int
	orphan bool // the reference is ours
}

// response is what is being answered. It is zeroed per request.
type response struct {
	head
	method  method
	tenant  TenantContext
	planned bool  // what it will be is decided: only sending is left
	fault   fault // if planned: what it says instead of the object
	refused bool  // it says conn.refusal, out of turn
	counted bool  // one read_iops is charged for it
	queued  int64 // ns from admission to its first turn
	started bool  // it has had that
	opened  bool  // its head is out: the fixed part of client_egress_bytes is spent
	fixed   int64 // of that part, what is charged and not spent yet
	paid    int64 // body bytes of the piece in hand that are charged to client_egress_bytes
	start   int64 // mono ns of the turn that consumed the request
	off     int64 // next byte of the object to send
	end     int64 // one past the last; Invariant: off <= end <= file size
	bodyLen int64 // bytes of object body in all, for the account
	fetched int64 // up to here the object has been fetched for this very response
	headOut bool  // the head of a large body is with the socket
	cold    bool  // a chunk of it was not in memory: read ahead
}

// unknown is no number of bytes.
const unknown = math.MinInt64

// sent returns how far the response has come, in bytes; it only has to move when
// the socket takes something.
func (c *conn) sent() int64 { return c.resp.off + int64(c.sendOff) }
