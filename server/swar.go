package server

import (
	"encoding/binary"
	"math/bits"
)

// Bytes are searched eight at a time. What below and above mark are suspects:
// the high bit of a byte is set where it may be what is sought. None is missed,
// but a borrow or a carry can mark a byte too many, so the caller looks at the
// byte itself. Bytes from 0x80 on are marked at random: mask with &^ w & laneHighs.
const (
	lanes     = 0x0101010101010101
	laneHighs = 0x8080808080808080
)

// below marks the bytes less than n, for n < 0x80.
func below(w uint64, n byte) uint64 { return w - lanes*uint64(n) }

// above marks the bytes greater than n.
func above(w uint64, n byte) uint64 { return w + lanes*uint64(0x7f-n) }

// firstByte returns the index (0..7) of the lowest marked byte.
func firstByte(mask uint64) int { return bits.TrailingZeros64(mask) / 8 }

// load8 reads the eight bytes at b[i:], the first of them lowest. Where b ends
// there are zeros; that a zero stops a search is how it ends.
func load8(b []byte, i int) uint64 {
	if i+8 <= len(b) {
		return binary.LittleEndian.Uint64(b[i:])
	}
	return load8Rest(b, i)
}

// load8Rest reads what is left of b at i, less than eight bytes.
func load8Rest(b []byte, i int) (w uint64) {
	rest := len(b) - i
	if rest > 0 && len(b) >= 8 {
		return binary.LittleEndian.Uint64(b[len(b)-8:]) >> (8 * (8 - rest) & 63)
	}
	for rest--; rest >= 0; rest-- {
		w = w<<8 | uint64(b[i+rest])
	}
	return w
}

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
