package server

import (
	"bytes"
	"testing"
)

// pattern is content in which every 8 bytes tell their offset and the seed.
func pattern(size int, seed byte) []byte {
	b := make([]byte, size+8)
	for i := 0; i < size; i += 8 {
		v := uint64(i)*0x9e3779b97f4a7c15 + uint64(seed)
		for j := range 8 {
			b[i+j] = byte(v >> (8 * j))
		}
	}
	return b[:size]
}

func wantBody(t *testing.T, why string, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	t.Errorf("%s: got %d bytes, want %d; they differ from byte %d on", why, len(got), len(want), i)
}
