package server

import (
	"encoding/binary"
	"math/bits"
	"strconv"
)

// serverName is the value of Server.
const serverName = "talon"

// maxHeadOut bounds what appendHead and appendFault append: the lines that
// are always there, an object's lines, and the longest text.
const maxHeadOut = 1024

// head is what the head of one response depends on.
//
// Everything in it is a number or made by us: no byte of a request, a key
// least of all, reaches a response head.
type head struct {
	status        int         // 200, 204, 206, 304; appendFault brings its own
	date          []byte      // the time now as an IMF-fixdate, dateLen bytes, rendered once a second
	requestID     uint64      // written as 16 hexadecimal digits
	minor         uint8       // HTTP/1.minor of the request: 1.0 is told when the connection is kept
	close         bool        // the connection ends after this response
	weak          bool        // the object is too young for a strong ETag
	contentLength int64       // of the body that a GET gets, for HEAD too; not written for 204 and 304
	rangeOff      int64       // 206: the first byte
	size          int64       // 206, 416: of the whole object
	object        *objectHead // 200, 206, 304
}

// objectHead holds the header lines of an object that are the same in each
// response. It is rendered once, when the file is opened.
//
//	Content-Type: text/plain; charset=utf-8
//	Accept-Ranges: bytes
//	Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT
//	ETag: "400-17c5d0a2b3c4d5e6"
//
// The ETag is last so that one block serves both its forms: the strong one is
// the block, the weak one has W/ put in at tag.
type objectHead struct {
	lines  []byte
	cached int // where the lines that a 304 repeats start
	tag    int // where the opening quote of the ETag is
	mtime  int64
}

// objectHeadLen is the most that an objectHead takes.
const objectHeadLen = len("Content-Type: \r\nAccept-Ranges: bytes\r\nLast-Modified: \r\nETag: \r\n") + maxType + dateLen + maxETag

// makeObjectHead renders the lines into buf[:0], which belongs to the caller
// and should have a capacity of objectHeadLen.
func makeObjectHead(buf []byte, contentType string, size, mtimeNs int64) (o objectHead) {
	b := append(buf[:0], "Content-Type: "...)
	b = append(b, contentType...)
	b = append(b, "\r\nAccept-Ranges: bytes\r\n"...)
	o.cached = len(b)
	o.mtime = floorSeconds(mtimeNs)
	b = append(b, "Last-Modified: "...)
	b = appendDate(b, o.mtime)
	b = append(b, "\r\nETag: "...)
	o.tag = len(b)
	b = appendETag(b, size, mtimeNs)
	o.lines = append(b, "\r\n"...)
	return o
}

// floorSeconds rounds nanoseconds down to seconds, before 1970 too.
func floorSeconds(ns int64) int64 {
	s := ns / 1e9
	if ns%1e9 < 0 {
		s--
	}
	return s
}

// validator returns what the conditions of a request are held against. It
// points into the lines.
func (o *objectHead) validator(weak bool) validator {
	return validator{etag: o.lines[o.tag : len(o.lines)-2], weak: weak, mtime: o.mtime}
}

// maxETag is the most that appendETag appends.
const maxETag = len(`"0123456789abcdef-0123456789abcdef"`)

// appendETag appends the strong form of the tag of a file: its size and its
// time of modification in nanoseconds, both in hexadecimal, quoted.
func appendETag(b []byte, size, mtimeNs int64) []byte {
	b = append(b, '"')
	b = strconv.AppendUint(b, uint64(size), 16)
	b = append(b, '-')
	b = strconv.AppendUint(b, uint64(mtimeNs), 16)
	return append(b, '"')
}

// appendHead appends the head of a response that is no fault: 200 and 206 of an
// object, 304, and 204 for OPTIONS.
func appendHead(b []byte, h *head) []byte {
	b = appendCommon(b, h, h.status)
	switch h.status {
	case 304:
		b = h.object.append(b, h.object.cached, h.weak)
	case 204:
		b = append(b, "Allow: "+allowedMethods+"\r\n"...)
	default:
		b = h.object.append(b, 0, h.weak)
		if h.status == 206 {
			b = appendContentRange(b, h)
		}
		b = appendNumber(append(b, "Content-Length: "...), h.contentLength)
		b = append(b, "\r\n"...)
	}
	return append(b, "\r\n"...)
}

// appendCommon appends the status line and what every response has.
func appendCommon(b []byte, h *head, status int) []byte {
	b = append(b, preamble(status)...)
	b = append(b, h.date...)
	b = append(b, "\r\nX-Request-Id: "...)
	b = appendHex16(b, h.requestID)
	switch {
	case h.close:
		return append(b, "\r\nConnection: close\r\n"...)
	case h.minor == 0:
		return append(b, "\r\nConnection: keep-alive\r\n"...)
	}
	return append(b, "\r\n"...)
}

// append appends the lines from one on, with the strong or the weak tag.
func (o *objectHead) append(b []byte, from int, weak bool) []byte {
	if !weak {
		return append(b, o.lines[from:]...)
	}
	b = append(b, o.lines[from:o.tag]...)
	b = append(b, "W/"...)
	return append(b, o.lines[o.tag:]...)
}

// appendContentRange appends the range that a 206 holds, RFC 9110 §14.4.
func appendContentRange(b []byte, h *head) []byte {
	b = appendNumber(append(b, "Content-Range: bytes "...), h.rangeOff)
	b = appendNumber(append(b, '-'), h.rangeOff+h.contentLength-1)
	b = appendNumber(append(b, '/'), h.size)
	return append(b, "\r\n"...)
}

// appendFault appends a whole response, head and body, that says what is
// wrong; a HEAD gets the head alone, which is the same. h.status and h.object do not matter.
func appendFault(b []byte, h *head, f fault, m method) []byte {
	status := f.status()
	b = appendCommon(b, h, status)
	switch status {
	case 401:
		b = append(b, "WWW-Authenticate: Bearer realm=\""+serverName+"\"\r\n"...)
	case 405:
		b = append(b, "Allow: "+allowedMethods+"\r\n"...)
	case 416:
		b = appendNumber(append(b, "Content-Range: bytes */"...), h.size)
		b = append(b, "\r\n"...)
	case 503:
		b = append(b, "Retry-After: 1\r\n"...)
	}
	b = append(b, "Content-Type: text/plain; charset=utf-8\r\nContent-Length: "...)
	b = appendNumber(b, int64(len(f.text())+len("\n")))
	b = append(b, "\r\n\r\n"...)
	if m == methodHead {
		return b
	}
	b = append(b, f.text()...)
	return append(b, '\n')
}

// appendNumber appends v >= 0 in decimal, eight digits at a time.
func appendNumber(b []byte, v int64) []byte {
	const group = 100_000_000
	if v >= group {
		b = appendNumber(b, v/group)
		return binary.LittleEndian.AppendUint64(b, eightDigits(uint64(v%group))|lanes*'0')
	}
	d := eightDigits(uint64(v))
	zeros := min(bits.TrailingZeros64(d)/8, 7)
	b = binary.LittleEndian.AppendUint64(b, (d|lanes*'0')>>(8*zeros))
	return b[:len(b)-zeros]
}

// eightDigits spreads v < 10^8 over the eight bytes of a word, the first digit
// lowest: into halves of four digits, quarters of two, bytes of one. The
// multiplications divide by 100 and by 10; they are exact for what they get.
func eightDigits(v uint64) uint64 {
	v = v/10000 | v%10000<<32
	q := v * 10486 >> 20 & 0x0000007f_0000007f
	v = q | (v-q*100)<<16
	q = v * 103 >> 10 & 0x000f_000f_000f_000f
	return q | (v-q*10)<<8
}

// appendHex16 appends v as 16 hexadecimal digits.
func appendHex16(b []byte, v uint64) []byte {
	b = binary.LittleEndian.AppendUint64(b, hex8(uint32(v>>32)))
	return binary.LittleEndian.AppendUint64(b, hex8(uint32(v)))
}

// hex8 spreads v over the eight bytes of a word as hexadecimal digits, the
// first lowest.
func hex8(v uint32) uint64 {
	w := uint64(bits.ReverseBytes32(v))
	w = (w | w<<16) & 0x0000ffff_0000ffff
	w = (w | w<<8) & 0x00ff_00ff_00ff_00ff
	w = w>>4&0x000f_000f_000f_000f | w<<8&0x0f00_0f00_0f00_0f00
	over9 := (w + lanes*(0x80-10)) >> 7 & lanes
	return w + lanes*'0' + over9*('a'-'0'-10)
}

// afterStatus is what every response has between its status and its date.
const afterStatus = "\r\nServer: " + serverName + "\r\nDate: "

// preamble returns all that comes before the date for a status that Talon
// answers with. The version is the server's own whatever the request's, RFC
// 9112 §2.3.
func preamble(status int) string {
	switch status {
	case 200:
		return "HTTP/1.1 200 OK" + afterStatus
	case 206:
		return "HTTP/1.1 206 Partial Content" + afterStatus
	case 304:
		return "HTTP/1.1 304 Not Modified" + afterStatus
	case 204:
		return "HTTP/1.1 204 No Content" + afterStatus
	case 400:
		return "HTTP/1.1 400 Bad Request" + afterStatus
	case 401:
		return "HTTP/1.1 401 Unauthorized" + afterStatus
	case 403:
		return "HTTP/1.1 403 Forbidden" + afterStatus
	case 404:
		return "HTTP/1.1 404 Not Found" + afterStatus
	case 405:
		return "HTTP/1.1 405 Method Not Allowed" + afterStatus
	case 408:
		return "HTTP/1.1 408 Request Timeout" + afterStatus
	case 412:
		return "HTTP/1.1 412 Precondition Failed" + afterStatus
	case 414:
		return "HTTP/1.1 414 URI Too Long" + afterStatus
	case 416:
		return "HTTP/1.1 416 Range Not Satisfiable" + afterStatus
	case 417:
		return "HTTP/1.1 417 Expectation Failed" + afterStatus
	case 429:
		return "HTTP/1.1 429 Too Many Requests" + afterStatus
	case 431:
		return "HTTP/1.1 431 Request Header Fields Too Large" + afterStatus
	case 503:
		return "HTTP/1.1 503 Service Unavailable" + afterStatus
	case 505:
		return "HTTP/1.1 505 HTTP Version Not Supported" + afterStatus
	}
	return "HTTP/1.1 500 Internal Server Error" + afterStatus
}
