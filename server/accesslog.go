package server

import (
	"encoding/json"
	"io"
	"strconv"
	"sync/atomic"
	"time"
)

// The access log: a ring leaves records in a buffer of its own and never waits for anybody; a goroutine renders them as JSON lines and writes
// them. When the buffer is full, because the sink is slow, records are dropped and counted.
const (
	accessRecords = 4096  // of one ring; 0.9 MB
	accessEvery   = 100e6 // ns between two looks at the buffers
	accessKey     = 128   // bytes of a key that are kept
	accessFlush   = 1e9   // ns that the last write may take when the server ends

	// DefaultAccessSample: of what is served one in so many is logged.
	DefaultAccessSample = 100
)

// accessRecord is one response, as plain values.
type accessRecord struct {
	wall       int64 // ns since 1970, when it ended
	took       int64 // ns since its request was read
	queued     int64 // ns of that until its first turn, or its refusal
	bytes      int64 // of the body
	request    uint64
	generation uint64 // of the policy that refused it, or of its tenant
	tenant     string
	status     uint16
	method     method
	refused    bool
	limit      limit
	why        why
	keyLen     uint8
	keyCut     bool
	key        [accessKey]byte // of what is served; a refused request's object was not looked up
}

// accessBuffer is a queue from one ring to the writer, without a lock.
type accessBuffer struct {
	records []accessRecord // len is a power of two; nil without a log
	head    atomic.Uint64  // the writer's
	tail    atomic.Uint64  // the ring's
	dropped atomic.Uint64
	served  uint64 // what the sample is taken of; the ring's
}

// logAccess leaves a record of a response that ends. What is refused or fails is always recorded, of the rest one in Config.AccessSample.
func (l *loop) logAccess(c *conn) {
	b := &l.access
	if b.records == nil {
		return
	}
	r := &c.resp
	if r.status < 400 {
		if b.served++; b.served%uint64(l.cfg.AccessSample) != 0 {
			return
		}
	}
	tail := b.tail.Load()
	if tail-b.head.Load() == uint64(len(b.records)) {
		b.dropped.Add(1)
		return
	}
	to := &b.records[tail%uint64(len(b.records))]
	to.wall, to.took, to.queued, to.bytes = l.now.wall, l.now.mono-r.start, r.queued, r.bodyLen
	to.request, to.tenant, to.generation = r.requestID, r.tenant.ID(), 0
	to.status, to.method, to.refused = uint16(r.status), r.method, r.refused
	if t := r.tenant.t; t != nil {
		to.generation = t.Generation
	}
	if r.refused {
		to.limit, to.why, to.generation, to.queued = c.refusal.limit, c.refusal.why, c.refusal.generation, to.took
	}
	to.keyLen, to.keyCut = 0, false
	if c.file != nil {
		to.keyLen = uint8(copy(to.key[:], c.file.Key))
		to.keyCut = int(to.keyLen) < len(c.file.Key)
	}
	b.tail.Store(tail + 1)
}

var methodNames = [...]string{methodOther: "other", methodGet: "GET", methodHead: "HEAD", methodOptions: "OPTIONS"}

// appendJSON renders a record as one line.
func (r *accessRecord) appendJSON(b []byte) []byte {
	b = time.Unix(0, r.wall).UTC().AppendFormat(append(b, `{"time":"`...), time.RFC3339Nano)
	b = appendHex16(append(b, `","request_id":"`...), r.request)
	b = append(append(b, `","tenant":"`...), r.tenant...)
	b = append(append(b, `","method":"`...), methodNames[r.method]...)
	b = append(b, '"')
	if r.keyLen > 0 {
		key := string(r.key[:r.keyLen])
		if r.keyCut {
			key += "..."
		}
		quoted, _ := json.Marshal(key) // a string always can be; what is not UTF-8 is replaced
		b = append(append(b, `,"key":`...), quoted...)
	}
	b = strconv.AppendInt(append(b, `,"status":`...), int64(r.status), 10)
	b = strconv.AppendInt(append(b, `,"bytes":`...), r.bytes, 10)
	b = appendMillis(append(b, `,"duration_ms":`...), r.took)
	b = appendMillis(append(b, `,"queue_ms":`...), r.queued)
	decision := "go"
	switch {
	case r.status == 401 || r.status == 403:
		decision = "denied"
	case r.refused:
		decision = r.why.String()
		b = append(append(append(b, `,"limit":"`...), r.limit.String()...), '"')
	}
	b = append(append(append(b, `,"decision":"`...), decision...), '"')
	b = strconv.AppendUint(append(b, `,"policy_generation":`...), r.generation, 10)
	return append(b, "}\n"...)
}

func appendMillis(b []byte, ns int64) []byte {
	return strconv.AppendFloat(b, float64(ns)/1e6, 'f', 3, 64)
}

// drainAccess writes what the loops have left, in as many pieces as there are loops, and returns the buffer for the next time.
func drainAccess(loops []*loop, sink io.Writer, buf []byte) []byte {
	for _, l := range loops {
		b := &l.access
		buf = buf[:0]
		head, tail := b.head.Load(), b.tail.Load()
		for ; head < tail; head++ {
			buf = b.records[head%uint64(len(b.records))].appendJSON(buf)
		}
		b.head.Store(head)
		if len(buf) > 0 {
			_, _ = sink.Write(buf) // whoever cannot write a log can hardly say so in one
		}
	}
	return buf
}

// keepAccessLog writes the access log until stop is closed, and then what is left. It runs on a goroutine of its own: a sink that does not
// return holds up nothing but the log.
func (s *Server) keepAccessLog(stop <-chan struct{}) (done <-chan struct{}) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(accessEvery)
		defer tick.Stop()
		var buf []byte
		for {
			select {
			case <-tick.C:
				buf = drainAccess(s.loops, s.cfg.AccessLog, buf)
			case <-stop:
				drainAccess(s.loops, s.cfg.AccessLog, buf)
				return
			}
		}
	}()
	return ended
}

// AccessDropped is how many records of the access log found no room, since start.
func (s *Server) AccessDropped() (n uint64) {
	for _, l := range s.loops {
		n += l.access.dropped.Load()
	}
	return n
}
