package server

import "strconv"

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
	b = append(b, statusLine(status)...)
	b = append(b, "Server: "+serverName+"\r\nDate: "...)
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

// appendNumber appends v >= 0 in decimal.
func appendNumber(b []byte, v int64) []byte { return strconv.AppendInt(b, v, 10) }

// appendHex16 appends v as 16 hexadecimal digits.
func appendHex16(b []byte, v uint64) []byte {
	const digit = "0123456789abcdef"
	for shift := 60; shift >= 0; shift -= 4 {
		b = append(b, digit[v>>shift&15])
	}
	return b
}

// statusLine returns the status line of a status that Talon answers with. The
// version is the server's own whatever the request's, RFC 9112 §2.3.
func statusLine(status int) string {
	switch status {
	case 200:
		return "HTTP/1.1 200 OK\r\n"
	case 206:
		return "HTTP/1.1 206 Partial Content\r\n"
	case 304:
		return "HTTP/1.1 304 Not Modified\r\n"
	case 204:
		return "HTTP/1.1 204 No Content\r\n"
	case 400:
		return "HTTP/1.1 400 Bad Request\r\n"
	case 401:
		return "HTTP/1.1 401 Unauthorized\r\n"
	case 403:
		return "HTTP/1.1 403 Forbidden\r\n"
	case 404:
		return "HTTP/1.1 404 Not Found\r\n"
	case 405:
		return "HTTP/1.1 405 Method Not Allowed\r\n"
	case 408:
		return "HTTP/1.1 408 Request Timeout\r\n"
	case 412:
		return "HTTP/1.1 412 Precondition Failed\r\n"
	case 414:
		return "HTTP/1.1 414 URI Too Long\r\n"
	case 416:
		return "HTTP/1.1 416 Range Not Satisfiable\r\n"
	case 417:
		return "HTTP/1.1 417 Expectation Failed\r\n"
	case 431:
		return "HTTP/1.1 431 Request Header Fields Too Large\r\n"
	case 503:
		return "HTTP/1.1 503 Service Unavailable\r\n"
	case 505:
		return "HTTP/1.1 505 HTTP Version Not Supported\r\n"
	}
	return "HTTP/1.1 500 Internal Server Error\r\n"
}
