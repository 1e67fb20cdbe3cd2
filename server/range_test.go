package server

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseRange(t *testing.T) {
	const whole, unsatisfiable = "whole", "416"
	for _, c := range []struct {
		h    string
		size int64
		want string
	}{
		{"bytes=0-0", 10, "0+1"},
		{"bytes=9-9", 10, "9+1"},
		{"bytes=9-", 10, "9+1"},
		{"bytes=0-", 10, "0+10"},
		{"bytes=10-", 10, unsatisfiable},
		{"bytes=0-99", 10, "0+10"},
		{"bytes=-1", 10, "9+1"},
		{"bytes=-10", 10, "0+10"},
		{"bytes=-11", 10, "0+10"},
		{"bytes=-0", 10, unsatisfiable},
		{"bytes=-000", 10, unsatisfiable},
		{"bytes=007-008", 10, "7+2"},
		{"bytes=5-2", 10, whole},
		{"bytes=a-b", 10, whole},
		{"bytes=-", 10, whole},
		{"bytes=", 10, whole},
		{"bytes=1", 10, whole},
		{"bytes=--1", 10, whole},
		{"bytes=1-2-3", 10, whole},
		{"bytes=+1-2", 10, whole},
		{"bytes=0x1-2", 10, whole},
		{"bytes=1 -2", 10, whole},
		{"bytes = 0-1", 10, whole},
		{"bytes= 0-1", 10, whole},
		{"BYTES=0-1", 10, "0+2"}, // RFC 9110 §14.1
		{"octets=0-1", 10, whole},
		{"bytes", 10, whole},
		{"", 10, whole},
		{"bytes=0-1,", 10, "0+2"}, // RFC 9110 §5.6.1.2
		{"bytes=, ,0-1\t,", 10, "0+2"},
		{"bytes=,", 10, whole},
		{"bytes=0-1,2-3", 10, whole},
		{"bytes=0-1,20-30", 10, whole},
		{"bytes=20-30,40-50", 10, whole},
		{"bytes=0-1,x", 10, whole},
		{"bytes=0-" + strings.Repeat(",5-0", 1300), 10, whole}, // CVE-2011-3192

		{"bytes=-99999999999999", 10, "0+10"}, // CVE-2017-7529
		{"bytes=-17208,-9223372036854758792", 10, whole},
		{"bytes=0-18446744073709551615", 10, "0+10"}, // CVE-2015-1635
		{"bytes=18-18446744073709551615", 10, unsatisfiable},
		{"bytes=0-9223372036854775807", 10, "0+10"},
		{"bytes=0-9223372036854775808", 10, "0+10"},
		{"bytes=18446744073709551616-", 10, unsatisfiable}, // 0 modulo 2^64
		{"bytes=18446744073709551617-18446744073709551616", 10, whole},
		{"bytes=" + strings.Repeat("9", 4000) + "-", 10, unsatisfiable},
		{"bytes=-" + strings.Repeat("9", 4000), 10, "0+10"},

		{"bytes=0-", 0, unsatisfiable},
		{"bytes=0-0", 0, unsatisfiable},
		{"bytes=-1", 0, whole},
		{"bytes=-0", 0, unsatisfiable},
		{"bytes=1-0", 0, whole},
	} {
		if got := rangeString(parseRange([]byte(c.h), c.size)); got != c.want {
			t.Errorf("parseRange(%.60q, %d) = %s, want %s", c.h, c.size, got, c.want)
		}
	}
}

func rangeString(off, n int64, kind rangeKind) string {
	switch kind {
	case rangePart:
		return fmt.Sprintf("%d+%d", off, n)
	case rangeUnsatisfiable:
		return "416"
	}
	return "whole"
}

var (
	modelHeader = regexp.MustCompile(`(?is)^bytes=(.*)$`)
	modelRange  = regexp.MustCompile(`^([0-9]*)-([0-9]*)$`)
)

// rangeModel is RFC 9110 §14.1.2 in regular expressions and big integers.
func rangeModel(h string, size int64) string {
	m := modelHeader.FindStringSubmatch(h)
	if m == nil || strings.HasPrefix(m[1], " ") || strings.HasPrefix(m[1], "\t") {
		return "whole"
	}
	var specs []string
	for _, s := range strings.Split(m[1], ",") {
		if s = strings.Trim(s, " \t"); s != "" {
			specs = append(specs, s)
		}
	}
	if len(specs) != 1 {
		return "whole"
	}
	spec := modelRange.FindStringSubmatch(specs[0])
	if spec == nil || spec[1] == "" && spec[2] == "" {
		return "whole"
	}
	number := func(s string) *big.Int { v, _ := new(big.Int).SetString(s, 10); return v }
	total := big.NewInt(size)
	if spec[1] == "" {
		n := number(spec[2])
		switch {
		case n.Sign() == 0:
			return "416"
		case size == 0:
			return "whole"
		case n.Cmp(total) > 0:
			n = total
		}
		return fmt.Sprintf("%d+%d", new(big.Int).Sub(total, n), n)
	}
	first, last := number(spec[1]), new(big.Int).Sub(total, big.NewInt(1))
	if spec[2] != "" {
		asked := number(spec[2])
		if asked.Cmp(first) < 0 {
			return "whole"
		}
		if asked.Cmp(last) < 0 {
			last = asked
		}
	}
	if first.Cmp(total) >= 0 {
		return "416"
	}
	n := new(big.Int).Sub(last, first)
	return fmt.Sprintf("%d+%d", first, n.Add(n, big.NewInt(1)))
}

func checkRange(t interface{ Fatalf(string, ...any) }, h string, size int64) {
	off, n, kind := parseRange([]byte(h), size)
	if got, want := rangeString(off, n, kind), rangeModel(h, size); got != want {
		t.Fatalf("parseRange(%q, %d) = %s, model: %s", h, size, got, want)
	}
	if kind == rangePart && (off < 0 || n <= 0 || off+n > size || off+n < off) {
		t.Fatalf("parseRange(%q, %d) = [%d, +%d): not of the object", h, size, off, n)
	}
}

func TestDrawnRanges(t *testing.T) {
	number := rapid.OneOf(
		rapid.StringMatching(`[0-9]{0,3}`),
		rapid.SampledFrom([]string{"9223372036854775806", "9223372036854775807", "9223372036854775808", "18446744073709551615", "18446744073709551616", "00"}),
		rapid.StringMatching(`[0-9]{18,22}`),
	)
	spec := rapid.OneOf(
		rapid.Custom(func(t *rapid.T) string { return number.Draw(t, "first") + "-" + number.Draw(t, "last") }),
		rapid.SampledFrom([]string{"", " ", "x", "-", "1", "\t"}),
	)
	size := rapid.OneOf(rapid.Int64Range(0, 20), rapid.Int64Range(0, 1<<62), rapid.Just(int64(1<<63-1)))
	rapid.Check(t, func(t *rapid.T) {
		h := rapid.SampledFrom([]string{"bytes=", "bytes=", "bytes=", "Bytes=", "bytes", "b=", "bytes =", "bytes= "}).Draw(t, "unit") +
			strings.Join(rapid.SliceOfN(spec, 1, 3).Draw(t, "specs"), rapid.SampledFrom([]string{",", ", ", " ,"}).Draw(t, "comma"))
		checkRange(t, h, size.Draw(t, "size"))
	})
}

// TestRangeAgreesWithServeContent compares single, well-formed ranges with
// net/http, where the RFC leaves no choice. The empty object is left out.
func TestRangeAgreesWithServeContent(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		size := 1 + rng.Int64N(20)
		first := rng.IntN(25)
		h := fmt.Sprintf("bytes=%d-%d", first, first+rng.IntN(25)) // first > last: net/http has 416 for some
		switch rng.IntN(3) {
		case 0:
			h = fmt.Sprintf("bytes=%d-", rng.IntN(25))
		case 1:
			h = fmt.Sprintf("bytes=-%d", 1+rng.IntN(25))
		}
		req := httptest.NewRequest("GET", "/", nil)
		req.Header.Set("Range", h)
		w := httptest.NewRecorder()
		http.ServeContent(w, req, "k", time.Time{}, strings.NewReader(strings.Repeat("x", int(size))))
		want := "whole"
		switch w.Code {
		case 206:
			var first, last, total int64
			fmt.Sscanf(w.Header().Get("Content-Range"), "bytes %d-%d/%d", &first, &last, &total)
			want = fmt.Sprintf("%d+%d", first, last-first+1)
		case 416:
			want = "416"
		}
		if got := rangeString(parseRange([]byte(h), size)); got != want {
			t.Fatalf("parseRange(%q, %d) = %s, net/http: %s", h, size, got, want)
		}
	}
}

func FuzzParseRange(f *testing.F) {
	for _, h := range []string{"bytes=0-0", "bytes=-5", "bytes=18446744073709551616-", "Bytes=, 1-2 ,", "bytes=0-1,2-3"} {
		f.Add(h, int64(10))
	}
	for _, r := range tableRequests() {
		if r.rang != nil {
			f.Add(string(r.rang), int64(10))
		}
	}
	f.Fuzz(func(t *testing.T, h string, size int64) { checkRange(t, h, size&(1<<63-1)) })
}

func TestParseRangeAllocs(t *testing.T) {
	h := []byte("bytes=1048576-2097151, ")
	if n := testing.AllocsPerRun(100, func() { parseRange(h, 1<<26) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkParseRange(b *testing.B) {
	h := []byte("bytes=1048576-2097151")
	defer reportCPU(b)()
	for b.Loop() {
		if _, n, _ := parseRange(h, 1<<26); n != 1<<20 {
			b.Fatal(n)
		}
	}
}
