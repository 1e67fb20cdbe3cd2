package server

import (
	"encoding/binary"
	"math/bits"
)

// Bytes are judged eight at a time. A mask has the high bit of a byte set
// where the byte was found; only the lowest set bit can be relied on, because
// a borrow may mark the bytes above it. firstByte asks for no more than that,
// and masks may be ORed.
const (
	lanes     = 0x0101010101010101
	laneHighs = 0x8080808080808080
)

// lanesBelow marks the bytes less than n, for n <= 0x80.
func lanesBelow(w uint64, n byte) uint64 { return (w - lanes*uint64(n)) &^ w & laneHighs }

// lanesEqual marks the bytes equal to c.
func lanesEqual(w uint64, c byte) uint64 {
	w ^= lanes * uint64(c)
	return (w - lanes) &^ w & laneHighs
}

// firstByte returns the index (0..7) of the lowest marked byte.
func firstByte(mask uint64) int { return bits.TrailingZeros64(mask) / 8 }

// load8 reads the eight bytes at b[i:], the first of them lowest.
func load8(b []byte, i int) uint64 { return binary.LittleEndian.Uint64(b[i:]) }

// foldEqual reports whether b is lower, which is in lower case, but for the
// case of its letters. lower is of letters, digits and '-', and b is without
// controls: then setting bit 5 makes no other byte equal.
func foldEqual(b []byte, lower string) bool {
	if len(b) != len(lower) {
		return false
	}
	for i, c := range b {
		if c|0x20 != lower[i] {
			return false
		}
	}
	return true
}
