package load

import (
	"bytes"
	"errors"
	"fmt"
)

// maxHead bounds the head of one response, in bytes.
const maxHead = 8 << 10

// The ways in which a response can be unreadable. After any of them the connection is of no use.
var (
	errHeadTooLong = errors.New("response head longer than 8 KiB")
	errBadHead     = errors.New("malformed response head")
	errNoLength    = errors.New("response without a usable Content-Length")
	errTrailing    = errors.New("bytes after the end of the response")
)

// head is what a load generator needs to know of a response head.
type head struct {
	status int
	length int64 // Content-Length
	close  bool  // Connection: close, or HTTP/1.0
}

// consumeHead reads one response head from the front of b. n is its size in bytes; n == 0 without an
// error means that the head is not complete yet (RFC 9112, section 2.1).
func consumeHead(b []byte) (h head, n int, err error) {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		if len(b) >= maxHead {
			return head{}, 0, errHeadTooLong
		}
		return head{}, 0, nil
	}
	if end+4 > maxHead {
		return head{}, 0, errHeadTooLong
	}
	lines := b[:end+2]
	h, rest, err := consumeStatus(lines)
	if err != nil {
		return head{}, 0, err
	}
	if err := h.fields(rest); err != nil {
		return head{}, 0, err
	}
	return h, end + 4, nil
}

// consumeStatus reads "HTTP/1.x NNN reason".
func consumeStatus(b []byte) (h head, rest []byte, err error) {
	eol := bytes.IndexByte(b, '\n')
	if eol < 13 || string(b[:7]) != "HTTP/1." || b[8] != ' ' {
		return head{}, nil, errBadHead
	}
	for _, c := range b[9:12] {
		if c < '0' || c > '9' {
			return head{}, nil, errBadHead
		}
		h.status = h.status*10 + int(c-'0')
	}
	h.close = b[7] == '0'
	h.length = -1
	return h, b[eol+1:], nil
}

func (h *head) fields(b []byte) error {
	for len(b) > 0 {
		eol := bytes.IndexByte(b, '\n')
		line := bytes.TrimSuffix(b[:eol], []byte("\r"))
		b = b[eol+1:]
		if err := h.field(line); err != nil {
			return err
		}
	}
	if h.length < 0 {
		return errNoLength
	}
	return nil
}

// field looks at the length of a name first: most lines are let go after one comparison.
func (h *head) field(line []byte) error {
	colon := bytes.IndexByte(line, ':')
	if colon <= 0 {
		return errBadHead
	}
	name, value := line[:colon], bytes.TrimSpace(line[colon+1:])
	switch {
	case len(name) == len("content-length") && bytes.EqualFold(name, []byte("content-length")):
		v, ok := decimal(value)
		if !ok || h.length >= 0 && h.length != v {
			return errNoLength
		}
		h.length = v
	case len(name) == len("transfer-encoding") && bytes.EqualFold(name, []byte("transfer-encoding")):
		return errNoLength
	case len(name) == len("connection") && bytes.EqualFold(name, []byte("connection")):
		h.close = h.close || bytes.EqualFold(value, []byte("close"))
	}
	return nil
}

// decimal parses up to 18 digits, which cannot overflow an int64.
func decimal(b []byte) (v int64, ok bool) {
	if len(b) == 0 || len(b) > 18 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		v = v*10 + int64(c-'0')
	}
	return v, true
}

// frame follows one response over any split of its bytes. The zero value waits for a head.
type frame struct {
	head head
	part []byte // head bytes seen so far when a head came split; its memory is kept for the next one
	left int64  // body bytes to come; means nothing until body
	body bool   // the head is complete
}

// feed takes the next bytes of the connection and says whether the response is complete.
// One request is in flight, so bytes beyond the end of its response are an error.
func (f *frame) feed(b []byte) (done bool, err error) {
	if !f.body {
		b, err = f.feedHead(b)
		if err != nil || !f.body {
			return false, err
		}
	}
	if int64(len(b)) > f.left {
		return false, fmt.Errorf("%w: %d", errTrailing, int64(len(b))-f.left)
	}
	return f.skip(int64(len(b))), nil
}

func (f *frame) feedHead(b []byte) (rest []byte, err error) {
	split := len(f.part) > 0
	if split {
		f.part = append(f.part, b...)
		b = f.part
	}
	h, n, err := consumeHead(b)
	if err != nil {
		return nil, err
	}
	if n == 0 {
		if !split {
			f.part = append(f.part, b...)
		}
		return nil, nil
	}
	f.head, f.left, f.body = h, h.length, true
	return b[n:], nil
}

// skip accounts for n body bytes that nobody has to look at; n must not exceed left.
func (f *frame) skip(n int64) (done bool) {
	f.left -= n
	return f.left == 0
}

// got is the number of body bytes seen so far.
func (f *frame) got() int64 {
	if !f.body {
		return 0
	}
	return f.head.length - f.left
}

// reset makes f ready for the next response.
func (f *frame) reset() {
	*f = frame{part: f.part[:0]}
}
