package server

import (
	"bytes"
	"math/bits"
)

const (
	maxRequestLine = 8 << 10  // bytes with CR LF; beyond: 414
	maxHeader      = 16 << 10 // bytes of all header lines and the empty one; beyond: 431

	// maxHead is the most that consumeRequest ever looks at: a buffer of this
	// size always gets a verdict.
	maxHead = len("\r\n") + maxRequestLine + maxHeader
)

// request is what the head of a request says. Its slices point into the
// caller's buffer and are valid until that is reused. consumeRequest zeroes it
// first, so nothing of one request survives into the next.
//
// A field that must be alone (all of the slices but path and query) is 400
// when it is repeated. If-Match and If-None-Match are lists, and HTTP would
// allow several lines; they are refused too, since joining lines needs memory,
// honouring only the first would answer wrongly, and nobody sends them.
type request struct {
	method    method
	minor     uint8 // HTTP/1.minor
	keepAlive bool  // after the version's default and every Connection line
	fault     fault // set when consumeRequest returns n < 0

	connClose, connKeep bool // Connection: close, keep-alive
	sawLength           bool // a Content-Length has been seen
	body                bool // a body was announced by a method that is not served

	path  []byte // raw path: "/..." still encoded, or "*" for OPTIONS; never empty
	query []byte // without the question mark; nil when absent
	host  []byte // nil only with HTTP/1.0

	authority []byte // of an absolute-form target; equals host

	rang, ifRange                      []byte // nil when absent
	ifMatch, ifNoneMatch               []byte
	ifModifiedSince, ifUnmodifiedSince []byte
	authorization                      []byte
}

// refuse notes the fault and returns the negative status.
func (r *request) refuse(f fault) int {
	r.fault = f
	return -f.status()
}

// consumeRequest parses the one request head at the start of b. RFC 9112 §2-§5
// but stricter, as a read needs no body and no leniency.
//
// n > 0: the head took n bytes, and as no body is ever accepted, the next
// request starts at b[n:].
//
// n == 0: the head is not complete, and nothing in it is wrong yet.
//
// n < 0: the request is malformed, or is one after which the connection
// cannot go on. Answer with status -n (r.fault has the words) and close.
//
// Bytes are judged in the order of the stream, bytes as they come and elements
// (method, target, version, a header line) when they are complete. The first
// fault wins. So the verdict, once there is one, does not depend on how the input was
// split or on what follows.
//
// The cost is linear in the head. See worthParsing for input that trickles.
func consumeRequest(b []byte, r *request) (n int) {
	*r = request{}
	at := 0
	if len(b) > 0 && b[0] == '\r' { // RFC 9112 §2.2: at least one empty line is forgiven; we forgive one
		if len(b) == 1 {
			return 0
		}
		if b[1] != '\n' {
			return r.refuse(faultBareCR)
		}
		at = 2
	}
	n = consumeRequestLine(b[at:min(len(b), at+maxRequestLine)], r)
	if n <= 0 {
		if n == 0 && len(b) >= at+maxRequestLine {
			return r.refuse(faultRequestLineSize)
		}
		return n
	}
	at += n
	n = consumeHeader(b[at:min(len(b), at+maxHeader)], r)
	if n <= 0 {
		if n == 0 && len(b) >= at+maxHeader {
			return r.refuse(faultHeaderSize)
		}
		return n
	}
	if f := r.finish(); f != faultNone {
		return r.refuse(f)
	}
	return at + n
}

// worthParsing reports whether consumeRequest should be asked about b, of which
// the first had bytes were there when this was last asked, or consumeRequest
// itself, and nothing came of it.
//
// It is when the head is complete (then a verdict is certain), when a bare LF
// came in, when the length has passed a power of two, or when no longer head is
// allowed. If the caller takes note of had each time, each byte is searched once and
// parsed at most about three times, however the input is split: without this,
// a client that sends 24 KiB one by one would have 300 MB parsed. The rejected
// design is a parser that resumes: its state would be a second form of every rule.
func worthParsing(b []byte, had int) bool {
	if bits.Len(uint(len(b))) != bits.Len(uint(had)) || len(b) >= maxHead {
		return true
	}
	for i := had; i < len(b); i++ {
		lf := bytes.IndexByte(b[i:], '\n')
		if lf < 0 {
			return false
		}
		i += lf
		if i == 0 || b[i-1] != '\r' || i >= 2 && b[i-2] == '\n' {
			return true
		}
	}
	return false
}

// consumeRequestLine reads "method SP target SP HTTP/1.x CR LF".
func consumeRequestLine(b []byte, r *request) (n int) {
	m, at := consumeMethod(b)
	switch {
	case at == 0:
		return 0
	case at < 0:
		return r.refuse(methodFault(b))
	}
	r.method = m
	if n = consumeTarget(b[at:], r); n <= 0 {
		return n
	}
	at += n
	if n = consumeVersion(b[at:], r); n <= 0 {
		return n
	}
	return at + n
}

// methodFault names what stands in the place of a method: most often somebody
// who speaks TLS to a plain port.
func methodFault(b []byte) fault {
	const tlsHandshake = 0x16
	switch b[0] {
	case tlsHandshake:
		return faultTLS
	case '\n':
		return faultBareLF
	}
	return faultMethod
}

// consumeVersion reads the version and the end of the line. Another version
// that is well-formed is 505, the preface of HTTP/2 among them; HTTP/1.2 too,
// as nobody knows what it would mean.
func consumeVersion(b []byte, r *request) (n int) {
	const version = "HTTP/1.1\r\n"
	if len(b) >= len(version) && string(b[:len(version)]) == version {
		r.minor = 1
		return len(version)
	}
	for i := range version {
		if i == len(b) {
			return 0
		}
		c := b[i]
		switch digit := c >= '0' && c <= '9'; i {
		case 5:
			if !digit {
				return r.refuse(faultVersionSyntax)
			}
		case 7:
			if !digit {
				return r.refuse(faultVersionSyntax)
			}
			if b[5] != '1' || c > '1' {
				return r.refuse(faultVersion)
			}
		case 8:
			if c == '\n' {
				return r.refuse(faultBareLF)
			}
			if c != '\r' {
				return r.refuse(faultVersionSyntax)
			}
		case 9:
			if c != '\n' {
				return r.refuse(faultBareCR)
			}
		default:
			if c != version[i] {
				return r.refuse(faultVersionSyntax)
			}
		}
	}
	r.minor = b[7] - '0'
	return len(version)
}

// consumeHeader reads header lines up to and with the empty line.
func consumeHeader(b []byte, r *request) (n int) {
	for n < len(b) {
		if b[n] == '\r' {
			switch {
			case n+1 == len(b):
				return 0
			case b[n+1] != '\n':
				return r.refuse(faultBareCR)
			}
			return n + 2
		}
		line := consumeField(b[n:], r)
		if line <= 0 {
			return line
		}
		n += line
	}
	return 0
}

// consumeField reads one header line, "name: value CR LF", and hands it to r.
func consumeField(b []byte, r *request) (n int) {
	name := nameEnd(b)
	if name == len(b) {
		return 0
	}
	if b[name] != ':' || name == 0 {
		return r.refuse(nameFault(b, name))
	}
	start := name + 1
	for start < len(b) && isBlank(b[start]) {
		start++
	}
	end := valueEnd(b, start)
	if end >= len(b)-1 && (end == len(b) || b[end] == '\r') {
		return 0
	}
	if b[end] != '\r' || b[end+1] != '\n' {
		return r.refuse(valueFault(b[end]))
	}
	n = end + 2
	for end > start && isBlank(b[end-1]) {
		end--
	}
	if f := r.field(b[:name], b[start:end]); f != faultNone {
		return r.refuse(f)
	}
	return n
}

// nameByte marks the bytes of a header name: those of a token but for the
// underscore, which gateways fold into a hyphen. Content_Length must not be a
// length to anybody.
var nameByte = func() (t [256]bool) {
	t = tokenByte
	t['_'] = false
	return t
}()

// nameEnd returns the index of the first byte that cannot be in a header name,
// or len(b). Byte by byte: to find letters and hyphens by words takes so many
// steps that it gains nothing on names of this length (measured).
func nameEnd(b []byte) (i int) {
	for i < len(b) && nameByte[b[i]] {
		i++
	}
	return i
}

// nameFault names what is wrong with a header name that stops at b[i].
func nameFault(b []byte, i int) fault {
	switch c := b[i]; {
	case i == 0 && isBlank(c):
		return faultFold
	case isBlank(c) || c == '\r':
		return faultFieldColon
	case c == '\n':
		return faultBareLF
	}
	return faultFieldName
}

func valueFault(c byte) fault {
	switch c {
	case '\n':
		return faultBareLF
	case '\r':
		return faultBareCR
	}
	return faultFieldValue
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// valueEnd returns the index of the first byte at or after i that cannot be
// in a header value, or len(b). Bytes beyond ASCII can, RFC 9110 §5.5.
func valueEnd(b []byte, i int) int {
	for {
		w := load8(b, i)
		m := (below(w, ' ') | above(w, 0x7e)) &^ w & laneHighs
		if m == 0 {
			i += 8
			continue
		}
		if i += firstByte(m); i >= len(b) {
			return len(b)
		}
		if c := b[i]; c < ' ' && c != '\t' || c == 0x7f {
			return i
		}
		i++
	}
}

// field takes one header line. Names that mean nothing to a read are let
// pass: Upgrade, Range's relatives of other methods, everything unknown.
func (r *request) field(name, value []byte) fault {
	switch len(name) {
	case len("host"):
		if foldEqual(name, "host") {
			return r.setHost(value)
		}
	case len("range"):
		if foldEqual(name, "range") {
			return setOnce(&r.rang, value)
		}
	case len("expect"):
		if foldEqual(name, "expect") && !foldEqual(value, "100-continue") {
			return faultExpect
		}
	case len("if-match"):
		if foldEqual(name, "if-match") {
			return setOnce(&r.ifMatch, value)
		}
		if foldEqual(name, "if-range") {
			return setOnce(&r.ifRange, value)
		}
	case len("connection"):
		if foldEqual(name, "connection") {
			r.connection(value)
		}
	case len("if-none-match"):
		if foldEqual(name, "if-none-match") {
			return setOnce(&r.ifNoneMatch, value)
		}
		if foldEqual(name, "authorization") {
			return setOnce(&r.authorization, value)
		}
	case len("content-length"):
		if foldEqual(name, "content-length") {
			return r.contentLength(value)
		}
	case len("if-modified-since"):
		if foldEqual(name, "if-modified-since") {
			return setOnce(&r.ifModifiedSince, value)
		}
		if foldEqual(name, "transfer-encoding") {
			return r.announceBody(faultTransferEncoding)
		}
	case len("if-unmodified-since"):
		if foldEqual(name, "if-unmodified-since") {
			return setOnce(&r.ifUnmodifiedSince, value)
		}
	}
	return faultNone
}

// setOnce keeps value, which is never nil, unless there is one already.
func setOnce(field *[]byte, value []byte) fault {
	if *field != nil {
		return faultRepeated
	}
	*field = value
	return faultNone
}

func (r *request) setHost(value []byte) fault {
	if r.host != nil {
		return faultHostRepeated
	}
	if !validHost(value) {
		return faultHost
	}
	r.host = value
	return faultNone
}

// connection reads the options that matter to us, RFC 9110 §7.6.1. Options
// of several lines add up.
func (r *request) connection(value []byte) {
	for len(value) > 0 {
		var option []byte
		option, value = cutElement(value)
		if foldEqual(option, "close") {
			r.connClose = true
		} else if foldEqual(option, "keep-alive") {
			r.connKeep = true
		}
	}
}

// cutElement splits the first element off a comma-separated list and trims
// the blanks around it. RFC 9110 §5.6.1.
func cutElement(list []byte) (element, rest []byte) {
	element = list
	if comma := bytes.IndexByte(list, ','); comma >= 0 {
		element, rest = list[:comma], list[comma+1:]
	}
	for len(element) > 0 && isBlank(element[0]) {
		element = element[1:]
	}
	for len(element) > 0 && isBlank(element[len(element)-1]) {
		element = element[:len(element)-1]
	}
	return element, rest
}

// contentLength lets a single 0 pass: the only length that no two readers can
// see differently.
func (r *request) contentLength(value []byte) fault {
	again := r.sawLength
	r.sawLength = true
	if again || string(value) != "0" {
		return r.announceBody(faultContentLength)
	}
	return faultNone
}

// announceBody refuses a body. With a method that is not served, the refusal
// waits for the end of the head, where it is 405: true to whoever tries
// to write here, and as final, since the connection is closed all the same.
func (r *request) announceBody(f fault) fault {
	if r.method == methodOther {
		r.body = true
		return faultNone
	}
	return f
}

// finish judges what only the whole head can tell.
func (r *request) finish() fault {
	switch {
	case r.host == nil && r.minor >= 1:
		return faultHostMissing
	case r.authority == nil:
	case r.host == nil:
		r.host = r.authority
	case !sameHost(r.host, r.authority):
		return faultAuthority
	}
	if r.body {
		return faultMethodBody
	}
	r.keepAlive = !r.connClose && (r.minor >= 1 || r.connKeep)
	return faultNone
}
