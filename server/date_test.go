package server

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestAppendDate(t *testing.T) {
	for _, c := range []struct {
		sec  int64
		want string
	}{
		{784111777, "Sun, 06 Nov 1994 08:49:37 GMT"},
		{0, "Thu, 01 Jan 1970 00:00:00 GMT"},
		{-1, "Wed, 31 Dec 1969 23:59:59 GMT"},
		{951782400, "Tue, 29 Feb 2000 00:00:00 GMT"},
		{4107542400, "Mon, 01 Mar 2100 00:00:00 GMT"},
		{minDate, "Sat, 01 Jan 0000 00:00:00 GMT"},
		{minDate - 1, "Sat, 01 Jan 0000 00:00:00 GMT"},
		{maxDate, "Fri, 31 Dec 9999 23:59:59 GMT"},
		{1<<63 - 1, "Fri, 31 Dec 9999 23:59:59 GMT"},
	} {
		if got := string(appendDate([]byte("x"), c.sec)); got != "x"+c.want {
			t.Errorf("appendDate(%d) = %q, want %q", c.sec, got, c.want)
		}
	}
}

// TestDatesAgreeWithNetHTTP writes any second of the years 0 to 9999 in each
// form and reads it back.
func TestDatesAgreeWithNetHTTP(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sec := rapid.OneOf(rapid.Int64Range(minDate, maxDate), rapid.Int64Range(-1e9, 4e9)).Draw(t, "sec")
		at := time.Unix(sec, 0).UTC()
		fixdate := at.Format(http.TimeFormat)
		if got := string(appendDate(nil, sec)); got != fixdate {
			t.Fatalf("appendDate(%d) = %q, want %q", sec, got, fixdate)
		}
		for _, s := range []string{fixdate, at.Format(time.ANSIC)} {
			if got, ok := parseDate([]byte(s)); !ok || got != sec {
				t.Fatalf("parseDate(%q) = %d, %v; want %d", s, got, ok, sec)
			}
		}
		old := strings.Replace(at.Format(time.RFC850), "UTC", "GMT", 1)
		want, err := http.ParseTime(old)
		if got, ok := parseDate([]byte(old)); err != nil || !ok || got != want.Unix() {
			t.Fatalf("parseDate(%q) = %d, %v; want %v, %v", old, got, ok, want, err)
		}
	})
}

func TestParseDateRefuses(t *testing.T) {
	for _, s := range []string{
		"", "0", "Sun", "Sun,", "now",
		"Sun, 06 Nov 1994 08:49:37 UTC",
		"Sun, 06 Nov 1994 08:49:37 GMT ",
		"Sun, 06 Nov 1994 08:49:37",
		"Sun, 6 Nov 1994 08:49:37 GMT",
		"sun, 06 Nov 1994 08:49:37 GMT",
		"Sun, 06 NOV 1994 08:49:37 GMT",
		"Sun, 06 vJa 1994 08:49:37 GMT",
		"Xyz, 06 Nov 1994 08:49:37 GMT",
		"Sun, 31 Nov 1994 08:49:37 GMT",
		"Sun, 00 Nov 1994 08:49:37 GMT",
		"Sun, 29 Feb 1900 08:49:37 GMT",
		"Sun, 06 Nov 1994 24:00:00 GMT",
		"Sun, 06 Nov 1994 08:60:37 GMT",
		"Sun, 06 Nov 1994 08:49:60 GMT",
		"Sun, 06 Nov -994 08:49:37 GMT",
		"Sunday, 06-Nov-1994 08:49:37 GMT",
		"Sunday, 31-Feb-94 08:49:37 GMT",
		"Someday, 06-Nov-94 08:49:37 GMT",
		"Sun Nov 06 08:49:37 94",
		"Sun Nov x6 08:49:37 1994",
		"Sun Nov  0 08:49:37 1994",
		"Xyz Nov  6 08:49:37 1994",
	} {
		if got, ok := parseDate([]byte(s)); ok {
			t.Errorf("parseDate(%q) = %d, want it refused", s, got)
		}
	}
}

// FuzzParseDate: what is accepted, net/http accepts as the same second.
func FuzzParseDate(f *testing.F) {
	f.Add([]byte("Sun, 06 Nov 1994 08:49:37 GMT"))
	f.Add([]byte("Sunday, 06-Nov-94 08:49:37 GMT"))
	f.Add([]byte("Sun Nov  6 08:49:37 1994"))
	f.Add([]byte("Tue, 29 Feb 2100 00:00:00 GMT"))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, ok := parseDate(b)
		if !ok {
			return
		}
		want, err := http.ParseTime(string(b))
		if err != nil || want.Unix() != got {
			t.Fatalf("parseDate(%q) = %d, net/http: %v, %v", b, got, want, err)
		}
	})
}

func TestDateAllocs(t *testing.T) {
	buf := make([]byte, 0, dateLen)
	dates := [][]byte{[]byte("Sun, 06 Nov 1994 08:49:37 GMT"), []byte("Sunday, 06-Nov-94 08:49:37 GMT"), []byte("Sun Nov  6 08:49:37 1994"), []byte("no date")}
	n := testing.AllocsPerRun(100, func() {
		appendDate(buf, 784111777)
		for _, d := range dates {
			parseDate(d)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAppendDate(b *testing.B) {
	buf := make([]byte, 0, dateLen)
	defer reportCPU(b)()
	for b.Loop() {
		appendDate(buf, 784111777)
	}
}

func BenchmarkParseDate(b *testing.B) {
	d := []byte("Sun, 06 Nov 1994 08:49:37 GMT")
	defer reportCPU(b)()
	for b.Loop() {
		if _, ok := parseDate(d); !ok {
			b.Fatal("refused")
		}
	}
}
