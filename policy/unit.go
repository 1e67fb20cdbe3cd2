package policy

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/talon-worker/talon/qos"
)

// units are ordered so that the first that divides a value prints it.
var units = []struct {
	name  string
	bytes int64
}{
	{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1},
}

// ParseSize reads a number of bytes: "65536", "64KiB", "1MB". Binary (KiB, MiB, GiB) and decimal (kB, MB, GB) units are told apart; "64K"
// could be either and is refused. It is a whole number, never negative.
func ParseSize(text string) (int64, error) {
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

// FormatSize prints n in the largest binary unit that divides it, or in bytes.
func FormatSize(n int64) string {
	for _, u := range units[:3] {
		if n != 0 && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// parseCount reads decimal digits, which YAML's own numbers are not: there 010 is eight and 1_0 is ten.
func parseCount(text string) (int64, error) {
	if text == "" || strings.Trim(text, "0123456789") != "" {
		return 0, fmt.Errorf("%q is not a whole number", text)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s is out of range", text)
	}
	return n, nil
}

// amount prints units of a metric as the file takes them.
func amount(m qos.Metric, n int64) string {
	if m.Requests() {
		return strconv.FormatInt(n, 10)
	}
	return sizeText(n)
}

// sizeText prints n in the largest unit, binary or decimal, that divides it.
func sizeText(n int64) string {
	for _, u := range units {
		if n != 0 && n%u.bytes == 0 {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return "0"
}

// FormatLimit writes a limit in short: "read_iops 20000/s", with what it does beside enforcing.
func FormatLimit(p *qos.Policy) string {
	text := p.Metric.String() + " " + amount(p.Metric, p.Rate) + "/s"
	switch {
	case !p.Enabled || p.Mode == qos.Off:
		text += " (off)"
	case p.Mode == qos.Shadow:
		text += " (shadow)"
	}
	return text
}
