package server

import "bytes"

// maxKey is the longest object key in bytes, after decoding: what S3 allows.
// A longer one is 414 rather than S3's 400: the status says what is wrong.
const maxKey = 1024

// rootPath is the path of an absolute-form target that has none.
var rootPath = []byte("/")

// targetEnd returns the index of the first byte at or after i that cannot be
// in a request target, or that is also, or len(b). also is '?', or a byte that
// cannot be in a target anyway.
//
// More is let through than RFC 3986 has in a path: a key is opaque bytes, so
// a backslash, a brace or raw UTF-8 names just that key. Controls, the space
// and '#' never belong to a target.
func targetEnd(b []byte, i int, also byte) int {
	for {
		// All up to '#', and '?' and DEL, which are DEL once bit 6 is set.
		w := load8(b, i)
		m := (below(w, '#'+1) | above(w|lanes*0x40, 0x7e)) &^ w & laneHighs
		if m == 0 {
			i += 8
			continue
		}
		if i += firstByte(m); i >= len(b) {
			return len(b)
		}
		if c := b[i]; c <= ' ' || c == 0x7f || c == '#' || c == also {
			return i
		}
		i++
	}
}

// consumeTarget reads a request target and the one space after it into
// r.path, r.query and, for the absolute form, r.host. n == 0: more bytes are
// needed; n < 0: r.fault says why not. RFC 9112 §3.2.
func consumeTarget(b []byte, r *request) (n int) {
	pathEnd := targetEnd(b, 0, '?')
	end := pathEnd
	if end < len(b) && b[end] == '?' {
		end = targetEnd(b, end+1, '#')
		r.query = b[pathEnd+1 : end]
	}
	if end == len(b) {
		return 0
	}
	switch c := b[end]; {
	case c == '\r' || c == '\n':
		return r.refuse(faultRequestLine) // HTTP/0.9 has no version
	case c != ' ':
		return r.refuse(faultTarget)
	case end == 0:
		return r.refuse(faultRequestLine)
	}
	r.path = b[:pathEnd]
	if b[0] != '/' {
		if f := r.reduceTarget(); f != faultNone {
			return r.refuse(f)
		}
	}
	return end + 1
}

// reduceTarget turns the other two forms into a path: the absolute form of
// http (a proxy's; https is not ours to answer), and the * of OPTIONS. CONNECT's
// authority form is none of a store's business.
func (r *request) reduceTarget() fault {
	const scheme = "http://"
	p := r.path
	switch {
	case len(p) == 1 && p[0] == '*' && r.method == methodOptions && r.query == nil:
		return faultNone
	case len(p) <= len(scheme) || !foldEqual(p[:4], scheme[:4]) || string(p[4:7]) != scheme[4:]:
		return faultTargetForm
	}
	authority := p[len(scheme):]
	r.path = rootPath
	if slash := bytes.IndexByte(authority, '/'); slash >= 0 {
		authority, r.path = authority[:slash], authority[slash:]
	}
	if !validHost(authority) {
		return faultHost
	}
	r.authority = authority
	return faultNone
}

// decodeKey appends the object key that path names to dst: the path without
// its leading slash, percent-decoded exactly once. What it yields is opaque;
// "..", "//" and an encoded slash are bytes of a key like any other.
//
// The fault is faultKey if the path does not start with a slash, has a broken
// escape or holds NUL, CR or LF, encoded or not; or faultKeySize beyond maxKey bytes.
// dst is returned as it was then.
func decodeKey(dst, path []byte) (key []byte, why fault) {
	if len(path) == 0 || path[0] != '/' {
		return dst, faultKey
	}
	path = path[1:]
	plain := keyPlain(path)
	if plain == len(path) {
		if plain > maxKey {
			return dst, faultKeySize
		}
		return append(dst, path...), faultNone
	}
	key, f := appendDecoded(append(dst, path[:min(plain, maxKey)]...), path[plain:], len(dst)+maxKey)
	if f != faultNone {
		return dst, f
	}
	return key, faultNone
}

// keyPlain returns how many bytes from the start are plain: neither '%' nor
// one of those controls among which NUL, CR and LF are.
func keyPlain(path []byte) (i int) {
	for {
		w := load8(path, i)
		m := below(w, '%'+1) &^ w & laneHighs
		if m == 0 {
			i += 8
			continue
		}
		if i += firstByte(m); i >= len(path) {
			return len(path)
		}
		if c := path[i]; c <= '\r' || c == '%' {
			return i
		}
		i++
	}
}

// appendDecoded decodes the rest of a path, byte by byte, to at most limit
// bytes in dst. The whole path is judged even beyond the limit, so that a
// path both broken and too long is always broken.
func appendDecoded(dst, path []byte, limit int) ([]byte, fault) {
	f := faultNone
	for i := 0; i < len(path); i++ {
		c := path[i]
		if c == '%' {
			if i+2 >= len(path) || hexDigit[path[i+1]] < 0 || hexDigit[path[i+2]] < 0 {
				return dst, faultKey
			}
			c = byte(hexDigit[path[i+1]]<<4 | hexDigit[path[i+2]])
			i += 2
		}
		switch {
		case c == 0 || c == '\r' || c == '\n':
			return dst, faultKey
		case len(dst) == limit:
			f = faultKeySize
		default:
			dst = append(dst, c)
		}
	}
	return dst, f
}

// hexDigit holds the value of a hexadecimal digit, -1 for any other byte.
var hexDigit = func() (t [256]int16) {
	for c := range t {
		t[c] = -1
	}
	for i := range int16(16) {
		t["0123456789abcdef"[i]], t["0123456789ABCDEF"[i]] = i, i
	}
	return t
}()

// validHost reports whether h is a host with an optional port as RFC 9110
// §7.2 has it, but narrower: a name of letters, digits, '-', '.' and '_', an
// IPv4 address, or an IPv6 address in brackets without a zone. An empty host, user
// information, a list or a percent-escape in a host is either an attack or a
// mistake.
func validHost(h []byte) bool {
	end := hostEnd(h)
	if end == 0 && len(h) > 0 && h[0] == '[' {
		if end = bytes.IndexByte(h, ']'); end < 0 || !validIPv6(h[1:end]) {
			return false
		}
		end++
	}
	return end > 0 && (end == len(h) || h[end] == ':' && validPort(h[end+1:]))
}

// hostEnd returns the index of the first byte that cannot be in a name or an
// IPv4 address, or len(h).
func hostEnd(h []byte) (i int) {
	for i < len(h) && hostByte[h[i]] {
		i++
	}
	return i
}

var hostByte = func() (t [256]bool) {
	for c := range t {
		letter := c | 0x20
		t[c] = 'a' <= letter && letter <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_'
	}
	return t
}()

// validPort allows the empty port, as RFC 3986 §3.2.3 does.
func validPort(p []byte) bool {
	port := 0
	for _, c := range p {
		if port = port*10 + int(c-'0'); c < '0' || c > '9' || port > 65535 {
			return false
		}
	}
	return true
}

// validIPv6 checks an address as RFC 3986 §3.2.2 writes it: eight groups, of
// which one "::" may stand for one or more, and the last two may be written as an
// IPv4 address.
func validIPv6(a []byte) bool {
	groups, gap := 0, false
	if bytes.HasPrefix(a, []byte("::")) {
		gap, a = true, a[2:]
	}
	for len(a) > 0 {
		n := 0
		for n < len(a) && hexDigit[a[n]] >= 0 {
			n++
		}
		if n < len(a) && a[n] == '.' {
			return validIPv4(a) && fits(groups+2, gap)
		}
		if n == 0 || n > 4 || groups == 8 {
			return false
		}
		groups++
		switch a = a[n:]; {
		case len(a) == 0:
			return fits(groups, gap)
		case len(a) == 1 || a[0] != ':':
			return false
		case a[1] == ':':
			if gap {
				return false
			}
			gap, a = true, a[2:]
		default:
			a = a[1:]
		}
	}
	return gap && groups < 8
}

// fits reports whether so many groups make an address.
func fits(groups int, gap bool) bool { return groups == 8 && !gap || groups < 8 && gap }

func validIPv4(a []byte) bool {
	for part := range 4 {
		n, v := 0, 0
		for n < len(a) && n < 3 && a[n] >= '0' && a[n] <= '9' {
			v = v*10 + int(a[n]-'0')
			n++
		}
		if n == 0 || v > 255 || n > 1 && a[0] == '0' {
			return false
		}
		if a = a[n:]; part < 3 {
			if len(a) == 0 || a[0] != '.' {
				return false
			}
			a = a[1:]
		}
	}
	return len(a) == 0
}

// sameHost compares two valid hosts without regard to case. A default port
// is not supplied: h and h:80 differ, since nobody who writes a target writes
// it otherwise than the Host.
func sameHost(a, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if lowerByte(a[i]) != lowerByte(b[i]) {
			return false
		}
	}
	return true
}

func lowerByte(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c |= 0x20
	}
	return c
}
