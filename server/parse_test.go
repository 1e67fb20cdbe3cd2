package server

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestWireCases(t *testing.T) {
	for _, c := range wireCases {
		var r request
		n := consumeRequest([]byte(c.in), &r)
		want := c.want
		if !c.refused() {
			want = faultNone
		}
		if r.fault != want || n == 0 || n < 0 != c.refused() {
			t.Errorf("%s: consumeRequest = %d, %q; want %q (%s)", c.name, n, r.fault.text(), c.want.text(), c.why)
		}
		if n < 0 && fmt.Sprintf("%d, close", -n) != c.answer {
			t.Errorf("%s: status %d, want %s", c.name, -n, c.answer)
		}
	}
}

// sameVerdict compares everything that must not depend on how the input
// arrives. Of a refused request that is the status and the words.
func sameVerdict(n int, r *request, m int, q *request) bool {
	if n != m || r.fault != q.fault {
		return false
	}
	if n < 0 {
		return true
	}
	same := r.method == q.method && r.minor == q.minor && r.keepAlive == q.keepAlive
	fields, others := slicesOf(r), slicesOf(q)
	for i, f := range fields {
		same = same && (f == nil) == (others[i] == nil) && bytes.Equal(f, others[i])
	}
	return same
}

func slicesOf(r *request) [11][]byte {
	return [...][]byte{r.path, r.query, r.host, r.authority, r.rang, r.ifRange, r.ifMatch, r.ifNoneMatch, r.ifModifiedSince, r.ifUnmodifiedSince, r.authorization}
}

// checkSplits parses in, and then each of its prefixes: they must be partial
// until the verdict is there, and then agree.
func checkSplits(t interface {
	Helper()
	Fatalf(string, ...any)
}, in []byte, step int) {
	t.Helper()
	var whole, part request
	want := consumeRequest(in, &whole)
	for i := 0; i <= len(in); i += step {
		n := consumeRequest(in[:i:i], &part)
		if n == 0 && part.fault == faultNone {
			continue
		}
		if n > i {
			t.Fatalf("%q: consumed %d of %d bytes", in[:i], n, i)
		}
		if !sameVerdict(n, &part, want, &whole) {
			t.Fatalf("%q cut at %d: %d %+v, whole: %d %+v", in, i, n, part, want, whole)
		}
	}
}

func TestSplitsAgree(t *testing.T) {
	for _, c := range wireCases {
		in := []byte(c.in)
		step := 1
		if len(in) > 2000 {
			step = 97
		}
		checkSplits(t, in, step)
	}
}

// TestTrickle feeds the cases byte by byte through worthParsing, as the loop
// does: the verdict is that of the whole, and the work is bounded.
func TestTrickle(t *testing.T) {
	for _, c := range wireCases {
		in := []byte(c.in)
		var whole, r request
		want := consumeRequest(in, &whole)
		parsed, n := 0, 0
		for i := 1; i <= len(in) && n == 0; i++ {
			if worthParsing(in[:i], i-1) {
				n = consumeRequest(in[:i:i], &r)
				parsed += i
			}
			if parsed > 4*i {
				t.Fatalf("%s: %d bytes parsed after %d arrived", c.name, parsed, i)
			}
		}
		if n == 0 { // no byte follows: the loop would wait for its deadline
			n = consumeRequest(in, &r)
			if n >= 0 {
				t.Errorf("%s: a complete head was not seen", c.name)
			}
		}
		if !sameVerdict(n, &r, want, &whole) {
			t.Errorf("%s: %d %+v, whole: %d %+v", c.name, n, r, want, whole)
		}
	}
}

// TestFullBuffer holds the promise of maxHead: at a limit the verdict is there
// with the last byte, not with the first one beyond.
func TestFullBuffer(t *testing.T) {
	const line = "GET / HTTP/1.1\r\n"
	for _, c := range []struct {
		in   string
		want fault
	}{
		{"GET /" + strings.Repeat("k", maxRequestLine-5), faultRequestLineSize},
		{line + "X: " + strings.Repeat("x", maxHeader-3), faultHeaderSize},
		{"\r\nGET /" + strings.Repeat("k", maxRequestLine-16) + " HTTP/1.1\r\nX: " + strings.Repeat("x", maxHeader-3), faultHeaderSize},
	} {
		var r request
		in := []byte(c.in)
		if n := consumeRequest(in[:len(in)-1], &r); n != 0 {
			t.Errorf("%d bytes: n = %d, want partial", len(in)-1, n)
		}
		if n := consumeRequest(in, &r); r.fault != c.want {
			t.Errorf("%d bytes: n = %d, %q; want %q", len(in), n, r.fault.text(), c.want.text())
		}
		if len(in) > maxHead || len(in) == maxHead && !worthParsing(in, len(in)-1) {
			t.Errorf("%d bytes of %d are not worth parsing", len(in), maxHead)
		}
	}
}

func TestRequestFields(t *testing.T) {
	in := "GET http://H.example:80/b/%20k?x=1 HTTP/1.1\r\nhost:h.EXAMPLE:80\r\nRANGE: bytes=0-1 \r\nIf-Range: \"r\"\r\nif-match:\t*\r\n" +
		"If-None-Match: \"a\", \"b\"\r\nIf-Modified-Since: m\r\nIf-Unmodified-Since: u\r\nAuthorization: Bearer a.b\r\n\r\n"
	var r request
	if n := consumeRequest([]byte(in+"tail"), &r); n != len(in) {
		t.Fatalf("consumed %d of %d", n, len(in))
	}
	for _, f := range []struct {
		name string
		got  []byte
		want string
	}{
		{"path", r.path, "/b/%20k"}, {"query", r.query, "x=1"}, {"host", r.host, "h.EXAMPLE:80"},
		{"range", r.rang, "bytes=0-1"}, {"if-range", r.ifRange, `"r"`}, {"if-match", r.ifMatch, "*"},
		{"if-none-match", r.ifNoneMatch, `"a", "b"`}, {"if-modified-since", r.ifModifiedSince, "m"},
		{"if-unmodified-since", r.ifUnmodifiedSince, "u"}, {"authorization", r.authorization, "Bearer a.b"},
	} {
		if string(f.got) != f.want {
			t.Errorf("%s = %q, want %q", f.name, f.got, f.want)
		}
	}
	if r.method != methodGet || r.minor != 1 || !r.keepAlive {
		t.Errorf("method %d minor %d keepAlive %v", r.method, r.minor, r.keepAlive)
	}

	// The next request has nothing of this one.
	next := "HEAD / HTTP/1.0\r\n\r\n"
	if n := consumeRequest([]byte(next), &r); n != len(next) {
		t.Fatalf("consumed %d", n)
	}
	want := request{method: methodHead, path: r.path}
	if fmt.Sprintf("%+v", r) != fmt.Sprintf("%+v", want) {
		t.Errorf("the next request is %+v", r)
	}
}

func TestKeepAlive(t *testing.T) {
	for _, c := range []struct {
		version, connection string
		want                bool
	}{
		{"1.1", "", true},
		{"1.1", "Connection: close\r\n", false},
		{"1.1", "Connection: CLOSE\r\n", false},
		{"1.1", "Connection: closed\r\n", true},
		{"1.1", "Connection: x,close ,y\r\n", false},
		{"1.1", "Connection: keep-alive, close\r\n", false},
		{"1.1", "Connection: keep-alive\r\nConnection: close\r\n", false},
		{"1.1", "Connection: ,,\r\n", true},
		{"1.0", "", false},
		{"1.0", "Connection: Keep-Alive\r\n", true},
		{"1.0", "Connection: keep-alive, close\r\n", false},
	} {
		var r request
		in := "GET / HTTP/" + c.version + "\r\nHost: h\r\n" + c.connection + "\r\n"
		if n := consumeRequest([]byte(in), &r); n != len(in) || r.keepAlive != c.want {
			t.Errorf("%q: keepAlive %v, want %v", in, r.keepAlive, c.want)
		}
	}
}

// TestPipelined takes requests off one buffer: each ends where the next starts.
func TestPipelined(t *testing.T) {
	b := []byte(strings.Repeat("GET /a HTTP/1.1\r\nHost: h\r\n\r\n", 3))
	var r request
	for i := range 3 {
		n := consumeRequest(b, &r)
		if n <= 0 || string(r.path) != "/a" {
			t.Fatalf("request %d: n = %d", i, n)
		}
		b = b[n:]
	}
	if n := consumeRequest(b, &r); n != 0 {
		t.Errorf("nothing left, and n = %d", n)
	}
}

// agreesWithNetHTTP fails when Talon accepts a request that net/http does not
// accept, or reads otherwise; see netHTTP.
func agreesWithNetHTTP(t interface {
	Helper()
	Fatalf(string, ...any)
}, in []byte) {
	t.Helper()
	var r request
	n := consumeRequest(in, &r)
	if why := newNetHTTP().disagrees(in, &r, n); why != "" {
		t.Fatalf("%q: %s", in, why)
	}
}

func TestAgreesWithNetHTTP(t *testing.T) {
	for _, c := range wireCases {
		agreesWithNetHTTP(t, []byte(c.in))
	}
}

// drawRequest puts a request together of likely and unlikely pieces.
func drawRequest(t *rapid.T) []byte {
	pick := func(name string, of ...string) string { return rapid.SampledFrom(of).Draw(t, name) }
	eol := func() string {
		return pick("eol", "\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\r\n", "\n", "\r", "\r\r\n")
	}
	var b strings.Builder
	b.WriteString(pick("first", "", "", "", "", "\r\n"))
	b.WriteString(pick("method", "GET", "GET", "HEAD", "OPTIONS", "PUT", "get", "G(T", ""))
	b.WriteString(pick("sp", " ", " ", " ", " ", "  ", "\t"))
	b.WriteString(pick("target", "/", "/b/k", "/b/%41?q=%", "*", "http://h", "http://h/k", "http://H:1?x", "http://g/", "/a//../\xff", "//x", "/#", "k", ""))
	b.WriteString(pick("sp", " ", " ", " ", " ", "  "))
	b.WriteString(pick("version", "HTTP/1.1", "HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/1.2", "HTTP/2.0", "http/1.1", ""))
	b.WriteString(eol())
	for range rapid.IntRange(0, 5).Draw(t, "fields") {
		b.WriteString(pick("name", "Host", "Host", "host", "Range", "Connection", "Content-Length", "Transfer-Encoding", "If-Match", "Expect", "X-Any", "Host ", " X", "", "A_B", "Trailer", "Pragma"))
		b.WriteString(pick("colon", ":", ": ", ": ", ": ", ":\t", ""))
		b.WriteString(pick("value", "h", "h", "h:1", "[::1]", "0", "5", "chunked", "close", "keep-alive", "bytes=0-1", "100-continue", "", "a\x00", "\xe9 \t", "u@h"))
		b.WriteString(eol())
	}
	b.WriteString(eol())
	b.WriteString(pick("tail", "", "", "GET / HTTP/1.1\r\n", "\r\n\r\n"))
	return []byte(b.String())
}

func TestDrawnRequests(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawRequest(t)
		checkSplits(t, in, 1)
		agreesWithNetHTTP(t, in)
	})
}

func FuzzConsumeRequest(f *testing.F) {
	for _, c := range wireCases {
		if len(c.in) < 300 {
			f.Add([]byte(c.in))
		}
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		step := 1 + len(in)/256
		checkSplits(t, in, step)
		agreesWithNetHTTP(t, in)
	})
}

func TestConsumeRequestAllocs(t *testing.T) {
	var r request
	in := []byte(curlRequest)
	bad := []byte("GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n")
	if n := testing.AllocsPerRun(100, func() { consumeRequest(in, &r); consumeRequest(bad, &r); worthParsing(in, 60) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

const (
	wrkRequest   = "GET /data/part-00017.bin HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n"
	curlRequest  = "GET /bucket/data/part-00017.parquet HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: curl/7.88.1\r\nAccept: */*\r\nRange: bytes=1048576-2097151\r\n\r\n"
	tokenRequest = "GET /bucket/data/part-00017.parquet HTTP/1.1\r\nHost: storage-17.cluster.example:8080\r\nUser-Agent: Go-http-client/1.1\r\n" +
		"Authorization: Bearer s1.6f1c0a54f2f34a0b9d1c6e2f7a8b9c0d\r\nRange: bytes=1048576-2097151\r\nAccept-Encoding: gzip\r\n\r\n"
)

func BenchmarkConsumeRequest(b *testing.B) {
	for _, c := range []struct{ name, in string }{{"wrk", wrkRequest}, {"curl", curlRequest}, {"token", tokenRequest}} {
		b.Run(c.name, func(b *testing.B) {
			in := []byte(c.in)
			b.SetBytes(int64(len(in)))
			defer reportCPU(b)()
			var r request
			for b.Loop() {
				if n := consumeRequest(in, &r); n != len(in) {
					b.Fatal(n)
				}
			}
		})
	}
}
