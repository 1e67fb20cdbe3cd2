package peerwire

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/talon-worker/talon/qos"
)

// Bounds of a greeting.
const (
	greetTime  = 2 * time.Second        // within what a connection must have named itself and been understood
	greetReads = 8                      // reads that it is granted for that; a hello takes one, with TLS three
	greetRest  = 250 * time.Millisecond // before each further one: a hello that trickles is read at our pace
)

// Errors of a greeting.
var (
	errTLS      = errors.New("TLS")
	errIdentity = errors.New("the certificate does not name the worker")
	errStranger = errors.New("not a worker that can be talked to")
	errPlain    = errors.New("without TLS peers are reached on loopback only: give --peer-tls-cert, --peer-tls-key and --peer-tls-ca")
	errTurned   = errors.New("the peer closed the connection")
)

// A greeter turns a fresh connection into a link: TLS, then a hello each way. The side that has called speaks first, so that a stranger is told nothing.
type greeter struct {
	self   qos.WorkerID
	epoch  uint64
	limits sharedLimits
	ring   func() uint64
	tls    atomic.Pointer[tls.Config] // nil: plain, on loopback
}

func (g *greeter) hello(to qos.WorkerID) *hello {
	return &hello{version: protocol, oldest: oldestProtocol, worker: g.self, to: to, epoch: g.epoch, ring: g.ring(), limits: g.limits}
}

// call greets a peer that this worker has dialed.
func (g *greeter) call(ctx context.Context, raw net.Conn, peer qos.WorkerID) (*link, error) {
	raw.SetDeadline(time.Now().Add(greetTime))
	settings := g.tls.Load()
	if settings == nil && !loopback(raw.RemoteAddr()) {
		return nil, errPlain
	}
	conn := raw
	if settings != nil {
		cfg := settings.Clone()
		cfg.ServerName = string(peer)
		t := tls.Client(raw, cfg)
		if err := t.HandshakeContext(ctx); err != nil {
			return nil, fmt.Errorf("%w: %w", errTLS, err)
		}
		conn = t
	}
	if _, err := conn.Write(appendHello(nil, g.hello(peer))); err != nil {
		return nil, err
	}
	in := bufio.NewReaderSize(conn, 8<<10)
	h, err := readHello(in)
	if err != nil {
		return nil, err
	}
	if h.worker != peer {
		return nil, fmt.Errorf("%w: %q answers where %q was expected: check the peers' addresses", errStranger, h.worker, peer)
	}
	if err := g.judge(conn, h); err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Time{})
	return newLink(conn, h, true, in), nil
}

// answer greets somebody who has called. admit is asked last, before this worker names itself.
func (g *greeter) answer(ctx context.Context, raw net.Conn, admit func(*link) error) error {
	raw.SetDeadline(time.Now().Add(greetTime))
	conn, unnamed := raw, &patient{Conn: raw, ctx: ctx}
	if settings := g.tls.Load(); settings != nil {
		t := tls.Server(unnamed, settings)
		if err := t.HandshakeContext(ctx); err != nil {
			return fmt.Errorf("%w: %w", errTLS, err)
		}
		conn = t
	}
	var from io.Reader = conn
	if conn == raw {
		from = unnamed
	}
	in := bufio.NewReaderSize(from, 8<<10)
	h, err := readHello(in)
	if err != nil {
		return err
	}
	unnamed.named = true
	if err = g.judge(conn, h); err == nil && h.to != g.self {
		err = fmt.Errorf("%w: it has called %q, and this is %q: check the peers' addresses", errStranger, h.to, g.self)
	}
	if err == nil {
		l := newLink(conn, h, false, in)
		if err = admit(l); err == nil {
			return nil
		}
	}
	conn.Write(appendGoodbye(nil, err.Error())) // it is told why, if it listens
	return err
}

// patient is a connection that is not read byte by byte by who waits for its name: 256 strangers that sent 200 bytes a second each took 15 % of a core.
type patient struct {
	net.Conn
	ctx   context.Context
	reads int
	named bool // from now on it is read as it comes
}

func (p *patient) Read(b []byte) (int, error) {
	if !p.named {
		if p.reads++; p.reads > greetReads {
			sleep(p.ctx, greetRest)
		}
	}
	return p.Conn.Read(b)
}

// readHello reads the first frame.
func readHello(in *bufio.Reader) (*hello, error) {
	frame, _, err := readFrame(in, nil, maxHello)
	if err != nil {
		return nil, err
	}
	if err := scanFrame(frame); err != nil {
		return nil, err
	}
	var b batch
	h, bye, err := decode(frame, &b)
	switch {
	case err != nil:
		return nil, err
	case bye != "":
		return nil, fmt.Errorf("%w: %.200q", errTurned, bye)
	case h == nil || !b.empty():
		return nil, fmt.Errorf("%w: the first frame is no hello", errFrameBroken)
	}
	return h, nil
}

// judge decides whether a peer may be talked to.
func (g *greeter) judge(conn net.Conn, h *hello) error {
	switch {
	case h.oldest > protocol:
		return fmt.Errorf("%w: it speaks protocol %d and understands none before %d; this worker speaks %d", errStranger, h.version, h.oldest, protocol)
	case h.version < oldestProtocol:
		return fmt.Errorf("%w: it speaks protocol %d; this worker understands none before %d", errStranger, h.version, oldestProtocol)
	case !goodWorkerID(h.worker) || h.epoch == 0:
		return fmt.Errorf("%w: worker id %q, epoch %d", errStranger, h.worker, h.epoch)
	case h.worker == g.self:
		return fmt.Errorf("%w: it has this worker's own id, %q: two processes share it", errStranger, h.worker)
	case h.limits != g.limits:
		return fmt.Errorf("%w: %q has snapshot TTL %v, advance %v, ring confirmation %v, reporter lease %v; this worker has %v, %v, %v, %v: all need the same",
			errStranger, h.worker, time.Duration(h.limits.ttl), time.Duration(h.limits.advance), time.Duration(h.limits.confirm), time.Duration(h.limits.lease),
			time.Duration(g.limits.ttl), time.Duration(g.limits.advance), time.Duration(g.limits.confirm), time.Duration(g.limits.lease))
	}
	if t, ok := conn.(*tls.Conn); ok {
		return identity(t.ConnectionState(), h.worker)
	}
	return nil
}

// identity checks that the certificate, which a trusted authority has signed, was made out to the worker: one of its DNS names is the worker's id, letter
// for letter. No wildcards: a certificate for all workers would let each report for every other.
func identity(s tls.ConnectionState, worker qos.WorkerID) error {
	if len(s.PeerCertificates) == 0 || !slices.Contains(s.PeerCertificates[0].DNSNames, string(worker)) {
		return fmt.Errorf("%w: want a DNS name %q in it", errIdentity, worker)
	}
	return nil
}

func loopback(a net.Addr) bool {
	t, ok := a.(*net.TCPAddr)
	return ok && t.IP.IsLoopback()
}
