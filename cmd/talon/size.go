package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// size is a flag in bytes: "65536", "64KiB", "1MB". Binary (KiB, MiB, GiB) and
// decimal (kB, MB, GB) units are told apart; "64K" could be either and is
// refused. It is a whole number, never negative.
type size int64

// rate is a size per second: "1KiB/s"; without "/s" it means the same.
type rate int64

// units are ordered so that the first that divides a value prints it.
var units = []struct {
	name  string
	bytes int64
}{
	{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1},
}

func (s *size) Set(text string) error {
	n, err := parseSize(text)
	*s = size(n)
	return err
}

func (s *size) Type() string   { return "size" }
func (s *size) String() string { return formatSize(int64(*s)) }

func (r *rate) Set(text string) error {
	n, err := parseSize(strings.TrimSuffix(text, "/s"))
	*r = rate(n)
	return err
}

func (r *rate) Type() string   { return "rate" }
func (r *rate) String() string { return formatSize(int64(*r)) + "/s" }

func parseSize(text string) (int64, error) {
	end := strings.IndexFunc(text, func(c rune) bool { return c < '0' || c > '9' })
	if end < 0 {
		end = len(text)
	}
	n, err := strconv.ParseInt(text[:end], 10, 64)
	if err != nil && end > 0 {
		return 0, fmt.Errorf("%s is more than 8EiB", text)
	}
	unit, known := unitBytes(strings.TrimSpace(text[end:]))
	switch {
	case err != nil || !known:
		return 0, fmt.Errorf("%q is not a size; write bytes (65536) or a whole number of KiB, MiB, GiB, kB, MB or GB (64KiB)", text)
	case n > math.MaxInt64/unit:
		return 0, fmt.Errorf("%s is more than 8EiB", text)
	}
	return n * unit, nil
}

func unitBytes(name string) (int64, bool) {
	if name == "" {
		return 1, true
	}
	for _, u := range units {
		if strings.EqualFold(name, u.name) {
			return u.bytes, true
		}
	}
	return 0, false
}

// formatSize prints n in the largest binary unit that divides it, or in bytes.
func formatSize(n int64) string {
	for _, u := range units[:3] {
		if n != 0 && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}
