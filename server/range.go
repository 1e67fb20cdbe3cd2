package server

import (
	"bytes"
	"math"
)

// rangeKind is what a Range header comes to for an object of a known size.
type rangeKind uint8

const (
	rangeNone          rangeKind = iota // serve the whole, 200
	rangePart                           // serve [off, off+n), 206; n > 0
	rangeUnsatisfiable                  // 416 with Content-Range: bytes */size
)

// parseRange judges the value of a Range header for an object of size bytes.
// RFC 9110 §14.1.2, §14.2.
//
// One range is served, the last position and a suffix clamped to the object.
// Several ranges, however many, are answered with the whole: a server may, and
// a multipart answer is a lever for the client (CVE-2011-3192). Another unit, bad
// syntax and first > last are ignored as the RFC asks. A suffix of an empty
// object is satisfiable and yet has no Content-Range: the whole, too.
//
// Numbers may have any length; they saturate, as no object has 2^63 bytes.
// For rangePart 0 <= off, 0 < n and off+n <= size hold.
func parseRange(h []byte, size int64) (off, n int64, kind rangeKind) {
	const unit = "bytes="
	if len(h) < len(unit) || h[5] != '=' || !foldEqual(h[:5], unit[:5]) {
		return 0, size, rangeNone
	}
	spec, ok := onlyElement(h[len(unit):])
	if !ok {
		return 0, size, rangeNone
	}
	first, last, ok := cutRange(spec)
	switch {
	case !ok:
		return 0, size, rangeNone
	case len(first) == 0:
		return suffixRange(last, size)
	}
	return intRange(first, last, size)
}

// cutRange splits "first-last" at the hyphen; either may be empty, but not
// both, and nothing but digits is in them.
func cutRange(spec []byte) (first, last []byte, ok bool) {
	dash := digits(spec)
	if dash == len(spec) || spec[dash] != '-' {
		return nil, nil, false
	}
	first, last = spec[:dash], spec[dash+1:]
	return first, last, len(spec) > 1 && digits(last) == len(last)
}

// onlyElement returns the element of a list that has but one. Empty elements
// do not count, RFC 9110 §5.6.1.2; blanks belong to commas, so there are
// none at the start.
func onlyElement(list []byte) (only []byte, ok bool) {
	if len(list) > 0 && isBlank(list[0]) {
		return nil, false
	}
	for len(list) > 0 {
		var e []byte
		e, list = cutElement(list)
		if len(e) == 0 {
			continue
		}
		if only != nil {
			return nil, false
		}
		only = e
	}
	return only, only != nil
}

// suffixRange is "-n": the last n bytes.
func suffixRange(last []byte, size int64) (off, n int64, kind rangeKind) {
	switch n = decimal(last); {
	case n == 0:
		return 0, 0, rangeUnsatisfiable
	case size == 0:
		return 0, 0, rangeNone
	}
	n = min(n, size)
	return size - n, n, rangePart
}

// intRange is "first-last" or "first-".
func intRange(first, last []byte, size int64) (off, n int64, kind rangeKind) {
	off, end := decimal(first), size-1
	if len(last) > 0 {
		asked := decimal(last)
		if asked < off || asked == math.MaxInt64 && decimalLess(last, first) {
			return 0, size, rangeNone
		}
		end = min(end, asked)
	}
	if off >= size {
		return 0, 0, rangeUnsatisfiable
	}
	return off, end - off + 1, rangePart
}

// digits returns how many digits b starts with.
func digits(b []byte) (n int) {
	for n < len(b) && b[n]-'0' <= 9 {
		n++
	}
	return n
}

// decimal is the value of some digits, or MaxInt64 if it is more than that.
func decimal(b []byte) (v int64) {
	for _, c := range b {
		d := int64(c - '0')
		if v > math.MaxInt64/10-1 && v > (math.MaxInt64-d)/10 {
			return math.MaxInt64
		}
		v = v*10 + d
	}
	return v
}

// decimalLess compares digits of any length: saturated values look equal, and
// whether last < first decides between 200 and 416.
func decimalLess(a, b []byte) bool {
	a, b = bytes.TrimLeft(a, "0"), bytes.TrimLeft(b, "0")
	if len(a) != len(b) {
		return len(a) < len(b)
	}
	return bytes.Compare(a, b) < 0
}
