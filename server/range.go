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
	first, firstLen := consumeDecimal(spec)
	if firstLen == len(spec) || spec[firstLen] != '-' {
		return 0, size, rangeNone
	}
	last, lastLen := consumeDecimal(spec[firstLen+1:])
	switch {
	case firstLen+1+lastLen != len(spec) || len(spec) == 1:
		return 0, size, rangeNone
	case firstLen == 0:
		return suffixRange(last, size)
	case lastLen == 0:
		last = math.MaxInt64
	case last < first || last == math.MaxInt64 && decimalLess(spec[firstLen+1:], spec[:firstLen]):
		return 0, size, rangeNone
	}
	if first >= size {
		return 0, 0, rangeUnsatisfiable
	}
	return first, min(last, size-1) - first + 1, rangePart
}

// onlyElement returns the element of a list that has but one. Empty elements
// do not count, RFC 9110 §5.6.1.2; blanks belong to commas, so there are
// none at the start.
func onlyElement(list []byte) (only []byte, ok bool) {
	if len(list) == 0 || isBlank(list[0]) {
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
func suffixRange(n, size int64) (off, length int64, kind rangeKind) {
	switch {
	case n == 0:
		return 0, 0, rangeUnsatisfiable
	case size == 0:
		return 0, 0, rangeNone
	}
	n = min(n, size)
	return size - n, n, rangePart
}

// consumeDecimal reads the digits that b starts with: how many, and their
// value, or MaxInt64 if it is more than that.
func consumeDecimal(b []byte) (v int64, n int) {
	const tenth, lastDigit = math.MaxInt64 / 10, math.MaxInt64 % 10
	for ; n < len(b) && b[n]-'0' <= 9; n++ {
		d := int64(b[n] - '0')
		if v > tenth || v == tenth && d > lastDigit {
			v = math.MaxInt64
			continue
		}
		v = v*10 + d
	}
	return v, n
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
