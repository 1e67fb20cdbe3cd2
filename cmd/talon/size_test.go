package main

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestSize(t *testing.T) {
	for in, want := range map[string]int64{
		"0": 0, "1": 1, "65536": 65536, "64KiB": 64 << 10, "64 KiB": 64 << 10, "64kib": 64 << 10,
		"1MiB": 1 << 20, "3GiB": 3 << 30, "5kB": 5000, "5MB": 5e6, "5GB": 5e9, "7B": 7,
		"9223372036854775807": 1<<63 - 1,
	} {
		var s size
		if err := s.Set(in); err != nil || int64(s) != want {
			t.Errorf("size %q = %d, %v; want %d", in, int64(s), err, want)
		}
	}
	for _, in := range []string{
		"", "KiB", "-1", "+1", "1.5MiB", "64K", "64M", "1Mbit", "0x10", "1e6", "1KiB/s", "1 2",
		"9223372036854775808", "8589934592GiB",
	} {
		var s size
		if err := s.Set(in); err == nil {
			t.Errorf("size %q was taken as %d", in, int64(s))
		} else if !strings.Contains(err.Error(), in) {
			t.Errorf("the error for %q does not show it: %v", in, err)
		}
	}
}

func TestRate(t *testing.T) {
	for in, want := range map[string]int64{"0": 0, "1024": 1024, "1KiB/s": 1024, "1KiB": 1024, "2MB/s": 2e6} {
		var r rate
		if err := r.Set(in); err != nil || int64(r) != want {
			t.Errorf("rate %q = %d, %v; want %d", in, int64(r), err, want)
		}
	}
	var r rate
	if err := r.Set("1KiB/m"); err == nil {
		t.Error("rate 1KiB/m was taken: only a second is a unit of time here")
	}
}

// What help and docs/configuration.md print must be accepted again, unchanged.
func TestSizePrintsWhatItParses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Min(0).Draw(t, "bytes")
		n <<= rapid.SampledFrom([]uint{0, 10, 20, 30}).Draw(t, "shift")
		n &= 1<<63 - 1
		s, back := size(n), size(0)
		if err := back.Set(s.String()); err != nil || back != s {
			t.Fatalf("%d prints as %s and reads as %d, %v", n, s.String(), back, err)
		}
	})
}
