package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const (
	testMtime = 784111777
	atMtime   = "Sun, 06 Nov 1994 08:49:37 GMT"
	before    = "Sun, 06 Nov 1994 08:49:36 GMT"
	after     = "Sun, 06 Nov 1994 08:49:38 GMT"
)

// conditions are the header values of one case; "-" is an absent one, since an
// empty one is present.
type conditions struct{ match, unmodified, none, modified, rang, ifRange string }

func (c conditions) request() (r request) {
	for _, f := range []struct {
		dst *[]byte
		s   string
	}{{&r.ifMatch, c.match}, {&r.ifUnmodifiedSince, c.unmodified}, {&r.ifNoneMatch, c.none}, {&r.ifModifiedSince, c.modified}, {&r.rang, c.rang}, {&r.ifRange, c.ifRange}} {
		if f.s != "-" {
			*f.dst = append([]byte{}, f.s...)
		}
	}
	r.method = methodGet
	return r
}

func TestEvaluate(t *testing.T) {
	const no, r = "-", "bytes=0-1"
	for _, c := range []struct {
		why  string
		c    conditions
		weak bool
		want verdict
	}{
		{"no condition", conditions{no, no, no, no, no, no}, false, proceed},
		{"a Range alone", conditions{no, no, no, no, r, no}, false, proceed},

		{"If-Match: the tag", conditions{`"a"`, no, no, no, no, no}, false, proceed},
		{"If-Match: in a list", conditions{`"x" ,, W/"y","a"`, no, no, no, no, no}, false, proceed},
		{"If-Match: another", conditions{`"b"`, no, no, no, no, no}, false, preconditionFailed},
		{"If-Match: any", conditions{`*`, no, no, no, no, no}, true, proceed},
		{"If-Match: * stands alone", conditions{`"b", *`, no, no, no, no, no}, false, preconditionFailed},
		{"If-Match: weak never matches", conditions{`W/"a"`, no, no, no, no, no}, false, preconditionFailed},
		{"If-Match: nor does a weak object", conditions{`"a"`, no, no, no, no, no}, true, preconditionFailed},
		{"If-Match: empty", conditions{``, no, no, no, no, no}, false, preconditionFailed},
		{"If-Match: unquoted", conditions{`a`, no, no, no, no, no}, false, preconditionFailed},
		{"If-Match: no comma", conditions{`"x" "a"`, no, no, no, no, no}, false, preconditionFailed},
		{"If-Match: a prefix", conditions{`"a`, no, no, no, no, no}, false, preconditionFailed},
		{"If-Match before If-Unmodified-Since", conditions{`"a"`, before, no, no, no, no}, false, proceed},
		{"If-Match before If-None-Match", conditions{`"b"`, no, `"a"`, no, no, no}, false, preconditionFailed},

		{"If-Unmodified-Since: since before", conditions{no, before, no, no, no, no}, false, preconditionFailed},
		{"If-Unmodified-Since: exactly", conditions{no, atMtime, no, no, no, no}, false, proceed},
		{"If-Unmodified-Since: later", conditions{no, after, no, no, no, no}, false, proceed},
		{"If-Unmodified-Since: no date", conditions{no, "yesterday", no, no, no, no}, false, proceed},
		{"If-Unmodified-Since before If-None-Match", conditions{no, before, `"a"`, no, no, no}, false, preconditionFailed},

		{"If-None-Match: the tag", conditions{no, no, `"a"`, no, no, no}, false, notModified},
		{"If-None-Match: weak matches", conditions{no, no, `W/"a"`, no, no, no}, false, notModified},
		{"If-None-Match: a weak object", conditions{no, no, `"a"`, no, no, no}, true, notModified},
		{"If-None-Match: any", conditions{no, no, `*`, no, no, no}, false, notModified},
		{"If-None-Match: another", conditions{no, no, `"b"`, no, no, no}, false, proceed},
		{"If-None-Match: empty", conditions{no, no, ``, no, no, no}, false, proceed},
		{"If-None-Match before If-Modified-Since", conditions{no, no, `"b"`, after, no, no}, false, proceed},
		{"If-None-Match before Range", conditions{no, no, `"a"`, no, r, `"b"`}, false, notModified},

		{"If-Modified-Since: since before", conditions{no, no, no, before, no, no}, false, proceed},
		{"If-Modified-Since: exactly", conditions{no, no, no, atMtime, no, no}, false, notModified},
		{"If-Modified-Since: later", conditions{no, no, no, after, no, no}, false, notModified},
		{"If-Modified-Since: no date", conditions{no, no, no, "0", no, no}, false, proceed},
		{"If-Modified-Since: RFC 850", conditions{no, no, no, "Sunday, 06-Nov-94 08:49:37 GMT", no, no}, false, notModified},

		{"If-Range: the tag", conditions{no, no, no, no, r, `"a"`}, false, proceed},
		{"If-Range: another", conditions{no, no, no, no, r, `"b"`}, false, proceedIgnoringRange},
		{"If-Range: weak", conditions{no, no, no, no, r, `W/"a"`}, false, proceedIgnoringRange},
		{"If-Range: a weak object", conditions{no, no, no, no, r, `"a"`}, true, proceedIgnoringRange},
		{"If-Range: no list", conditions{no, no, no, no, r, `"a", "b"`}, false, proceedIgnoringRange},
		{"If-Range: no *", conditions{no, no, no, no, r, `*`}, false, proceedIgnoringRange},
		{"If-Range: the date", conditions{no, no, no, no, r, atMtime}, false, proceed},
		{"If-Range: a later date is another", conditions{no, no, no, no, r, after}, false, proceedIgnoringRange},
		{"If-Range: the date of a weak object", conditions{no, no, no, no, r, atMtime}, true, proceedIgnoringRange},
		{"If-Range: empty", conditions{no, no, no, no, r, ``}, false, proceedIgnoringRange},
		{"If-Range without Range", conditions{no, no, no, no, no, `"b"`}, false, proceed},
		{"If-Range after the others", conditions{`"a"`, no, `"b"`, no, r, `"b"`}, false, proceedIgnoringRange},
	} {
		req := c.c.request()
		v := validator{etag: []byte(`"a"`), weak: c.weak, mtime: testMtime}
		if got := evaluate(&req, &v); got != c.want {
			t.Errorf("%s: verdict %d, want %d", c.why, got, c.want)
		}
	}
}

// serveContentVerdict asks net/http.
func serveContentVerdict(c conditions, v validator) verdict {
	req := httptest.NewRequest("GET", "/", nil)
	for name, s := range map[string]string{"If-Match": c.match, "If-Unmodified-Since": c.unmodified, "If-None-Match": c.none, "If-Modified-Since": c.modified, "Range": c.rang, "If-Range": c.ifRange} {
		if s != "-" {
			req.Header.Set(name, s)
		}
	}
	w := httptest.NewRecorder()
	etag := string(v.etag)
	if v.weak {
		etag = "W/" + etag
	}
	w.Header().Set("ETag", etag)
	http.ServeContent(w, req, "k.bin", time.Unix(v.mtime, 0), strings.NewReader("0123456789"))
	switch {
	case w.Code == 304:
		return notModified
	case w.Code == 412:
		return preconditionFailed
	case w.Code == 200 && c.rang != "-":
		return proceedIgnoringRange
	}
	return proceed
}

// TestEvaluateAgreesWithServeContent draws conditions for which the RFC leaves
// no choice. Left out are: empty values, which net/http takes for absent ones;
// "*" inside a list, which is not valid; and the date of If-Range with a weak
// object, which net/http takes for strong.
func TestEvaluateAgreesWithServeContent(t *testing.T) {
	tags := rapid.SampledFrom([]string{"-", "-", "*", `"a"`, `"b"`, `W/"a"`, `"b", "a"`, `W/"b",W/"a"`, `"b" , "c"`, `a`, `"a`, `"b", x, "a"`, `""`, ` "a"`})
	dates := rapid.SampledFrom([]string{"-", "-", before, atMtime, after, "x", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"})
	rapid.Check(t, func(t *rapid.T) {
		c := conditions{
			match: tags.Draw(t, "If-Match"), unmodified: dates.Draw(t, "If-Unmodified-Since"),
			none: tags.Draw(t, "If-None-Match"), modified: dates.Draw(t, "If-Modified-Since"),
			rang:    rapid.SampledFrom([]string{"-", "bytes=0-1"}).Draw(t, "Range"),
			ifRange: rapid.SampledFrom([]string{"-", `"a"`, `"b"`, `W/"a"`, atMtime, after, "x"}).Draw(t, "If-Range"),
		}
		v := validator{etag: []byte(`"a"`), weak: rapid.Bool().Draw(t, "weak"), mtime: testMtime}
		if v.weak && c.ifRange == atMtime {
			return
		}
		req := c.request()
		if got, want := evaluate(&req, &v), serveContentVerdict(c, v); got != want {
			t.Fatalf("%+v, weak %v: verdict %d, net/http %d", c, v.weak, got, want)
		}
	})
}

// FuzzEvaluate holds what must be true of any conditions: a weak object is
// never put together from parts, an If-Match that fails is final, and only the
// tag or * passes it.
func FuzzEvaluate(f *testing.F) {
	f.Add(`"a"`, `W/"b", "a"`, atMtime, `"a"`, true)
	f.Add(`*`, `x`, after, before, false)
	for _, r := range tableRequests() {
		if r.ifMatch != nil || r.ifNoneMatch != nil || r.ifModifiedSince != nil || r.ifUnmodifiedSince != nil || r.ifRange != nil {
			f.Add(string(r.ifMatch), string(r.ifNoneMatch), string(r.ifModifiedSince)+string(r.ifUnmodifiedSince), string(r.ifRange), false)
		}
	}
	f.Fuzz(func(t *testing.T, match, none, date, ifRange string, weak bool) {
		if match == "-" || none == "-" || date == "-" || ifRange == "-" {
			return // stands for an absent header here
		}
		v := validator{etag: []byte(`"a"`), weak: weak, mtime: testMtime}
		r := conditions{match: match, unmodified: "-", none: "-", modified: "-", rang: "bytes=0-1", ifRange: ifRange}.request()
		got := evaluate(&r, &v)
		if got != preconditionFailed && match != "*" && (weak || !strings.Contains(match, `"a"`)) {
			t.Fatalf("If-Match %q passed, weak %v", match, weak)
		}
		if got == proceed && (weak || ifRange != `"a"` && !isDate(ifRange, testMtime)) {
			t.Fatalf("If-Range %q passed, weak %v", ifRange, weak)
		}
		r = conditions{match: "-", unmodified: "-", none: none, modified: date, rang: "-", ifRange: "-"}.request()
		if got := evaluate(&r, &v); got == notModified && none != "*" && !strings.Contains(none, `"a"`) {
			t.Fatalf("If-None-Match %q matched; If-Modified-Since %q must not count", none, date)
		}
		r = conditions{match: "-", unmodified: date, none: "-", modified: date, rang: "-", ifRange: "-"}.request()
		want := proceed
		if at, err := http.ParseTime(date); err == nil {
			if want = notModified; at.Unix() < testMtime {
				want = preconditionFailed
			}
		}
		if got := evaluate(&r, &v); got != want && !(got == proceed && !isDate(date, -1)) {
			t.Fatalf("dates %q: verdict %d, want %d", date, got, want)
		}
	})
}

// isDate reports whether s is a date that we read, and is sec unless that is -1.
func isDate(s string, sec int64) bool {
	got, ok := parseDate([]byte(s))
	return ok && (sec == -1 || got == sec)
}

func TestEvaluateAllocs(t *testing.T) {
	r := conditions{`"x", "a"`, "-", `"b", W/"c"`, "-", "bytes=0-1", atMtime}.request()
	v := validator{etag: []byte(`"a"`), mtime: testMtime}
	if n := testing.AllocsPerRun(100, func() { evaluate(&r, &v) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkEvaluate(b *testing.B) {
	v := validator{etag: []byte(`"a"`), mtime: testMtime}
	for _, c := range []struct {
		name string
		c    conditions
	}{
		{"none", conditions{"-", "-", "-", "-", "bytes=0-1", "-"}},
		{"if-none-match", conditions{"-", "-", `"4000000-17c5d0a2b3c4d5e6"`, "-", "-", "-"}},
		{"if-modified-since", conditions{"-", "-", "-", before, "-", "-"}},
	} {
		b.Run(c.name, func(b *testing.B) {
			r := c.c.request()
			defer reportCPU(b)()
			for b.Loop() {
				if evaluate(&r, &v) != proceed {
					b.Fatal("not proceed")
				}
			}
		})
	}
}
