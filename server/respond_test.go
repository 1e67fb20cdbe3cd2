package server

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

var testDate = []byte("Mon, 30 Nov 2026 12:00:00 GMT")

func testObject() objectHead {
	return makeObjectHead(make([]byte, 0, objectHeadLen), "text/plain; charset=utf-8", 1024, testMtime*1e9+5)
}

func TestAppendHead(t *testing.T) {
	o := testObject()
	const common = "\r\nServer: talon\r\nDate: Mon, 30 Nov 2026 12:00:00 GMT\r\nX-Request-Id: 000000000000beef\r\n"
	const object = "Content-Type: text/plain; charset=utf-8\r\nAccept-Ranges: bytes\r\n"
	const cached = "Last-Modified: Sun, 06 Nov 1994 08:49:37 GMT\r\nETag: "
	const tag = "\"400-ae1b981bc490a05\"\r\n"
	for _, c := range []struct {
		name string
		h    head
		want string
	}{
		{"200", head{status: 200, minor: 1, contentLength: 1024, object: &o},
			"HTTP/1.1 200 OK" + common + object + cached + tag + "Content-Length: 1024\r\n\r\n"},
		{"200 weak, close", head{status: 200, minor: 1, close: true, weak: true, contentLength: 1024, object: &o},
			"HTTP/1.1 200 OK" + common + "Connection: close\r\n" + object + cached + "W/" + tag + "Content-Length: 1024\r\n\r\n"},
		{"206, 1.0", head{status: 206, minor: 0, rangeOff: 10, contentLength: 5, size: 1024, object: &o},
			"HTTP/1.1 206 Partial Content" + common + "Connection: keep-alive\r\n" + object + cached + tag + "Content-Range: bytes 10-14/1024\r\nContent-Length: 5\r\n\r\n"},
		{"304", head{status: 304, minor: 1, contentLength: 1024, object: &o},
			"HTTP/1.1 304 Not Modified" + common + cached + tag + "\r\n"},
		{"304 weak", head{status: 304, minor: 1, weak: true, object: &o},
			"HTTP/1.1 304 Not Modified" + common + cached + "W/" + tag + "\r\n"},
		{"204", head{status: 204, minor: 1},
			"HTTP/1.1 204 No Content" + common + "Allow: GET, HEAD, OPTIONS\r\n\r\n"},
	} {
		c.h.date, c.h.requestID = testDate, 0xbeef
		if got := string(appendHead([]byte("x"), &c.h)); got != "x"+c.want {
			t.Errorf("%s:\n%s\nwant:\n%s", c.name, got, c.want)
		}
	}
}

// TestAppendFault reads every fault's response with net/http: it is complete,
// says what is wrong in one line, and carries the header its status needs.
func TestAppendFault(t *testing.T) {
	extra := map[int][2]string{
		401: {"WWW-Authenticate", `Bearer realm="talon"`},
		405: {"Allow", "GET, HEAD, OPTIONS"},
		416: {"Content-Range", "bytes */77"},
		503: {"Retry-After", "1"},
	}
	for f := faultNone + 1; f < faultCount; f++ {
		h := head{date: testDate, minor: 1, size: 77, close: f.closes()}
		full := appendFault(nil, &h, f, methodGet)
		if len(full) > maxHeadOut {
			t.Errorf("fault %d takes %d bytes, bound %d", f, len(full), maxHeadOut)
		}
		r := bufio.NewReader(bytes.NewReader(full))
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatalf("fault %d: %v", f, err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || r.Buffered() != 0 {
			t.Errorf("fault %d: body %q, %v, %d bytes left over", f, body, err, r.Buffered())
		}
		if resp.StatusCode != f.status() || http.StatusText(f.status()) == "" || !strings.HasSuffix(resp.Status, http.StatusText(f.status())) && f.status() != 414 && f.status() != 416 {
			t.Errorf("fault %d: status %q, want %d %s", f, resp.Status, f.status(), http.StatusText(f.status()))
		}
		if len(body) < 10 || bytes.IndexByte(body, '\n') != len(body)-1 {
			t.Errorf("fault %d: body %q is not one line", f, body)
		}
		if resp.Close != h.close || resp.Header.Get("Date") == "" || resp.Header.Get("Server") != "talon" || len(resp.Header.Get("X-Request-Id")) != 16 {
			t.Errorf("fault %d: %v", f, resp.Header)
		}
		if want := extra[f.status()]; want[0] != "" && resp.Header.Get(want[0]) != want[1] {
			t.Errorf("fault %d: %s is %q, want %q", f, want[0], resp.Header.Get(want[0]), want[1])
		}
		if head := appendFault(nil, &h, f, methodHead); !bytes.Equal(head, full[:len(full)-len(body)]) {
			t.Errorf("fault %d: HEAD differs from GET", f)
		}
	}
}

// TestObjectRoundTrip serves any object's head, reads it with net/http and
// comes back with its tag and date: 304.
func TestObjectRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size, mtime := rapid.Int64Range(0, 1<<63-1).Draw(t, "size"), rapid.Int64().Draw(t, "mtime")
		weak := rapid.Bool().Draw(t, "weak")
		buf := make([]byte, 0, objectHeadLen)
		o := makeObjectHead(buf, strings.Repeat("t", maxType), size, mtime)
		if &o.lines[0] != &buf[:1][0] {
			t.Fatalf("%d bytes do not fit in %d", len(o.lines), objectHeadLen)
		}
		h := head{status: 206, minor: 0, close: true, weak: weak, date: testDate, requestID: 1<<64 - 1, rangeOff: size / 2, contentLength: size - size/2, size: size, object: &o}
		b := appendHead(nil, &h)
		if len(b) > maxHeadOut {
			t.Fatalf("the head takes %d bytes, bound %d", len(b), maxHeadOut)
		}
		resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(b)), &http.Request{Method: "HEAD"})
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(resp.Header.Get("ETag"), "W/") != weak {
			t.Fatalf("ETag %s, weak %v", resp.Header.Get("ETag"), weak)
		}
		v := o.validator(weak)
		r := conditions{"-", "-", resp.Header.Get("ETag"), "-", "-", "-"}.request()
		if got := evaluate(&r, &v); got != notModified {
			t.Fatalf("If-None-Match %s: verdict %d", r.ifNoneMatch, got)
		}
		r = conditions{"-", "-", "-", resp.Header.Get("Last-Modified"), "bytes=0-1", resp.Header.Get("Last-Modified")}.request()
		if got := evaluate(&r, &v); got != notModified {
			t.Fatalf("If-Modified-Since %s: verdict %d", r.ifModifiedSince, got)
		}
	})
}

func TestNumbersAgreeWithFmt(t *testing.T) {
	check := func(v uint64) {
		if got, want := string(appendNumber(nil, int64(v>>1))), fmt.Sprint(v>>1); got != want {
			t.Fatalf("appendNumber(%s) = %s", want, got)
		}
		if got, want := string(appendHex16(nil, v)), fmt.Sprintf("%016x", v); got != want {
			t.Fatalf("appendHex16(%s) = %s", want, got)
		}
	}
	for v := range uint64(20002) { // all quarters and halves of a group
		check(2 * v)
		check(2 * v * 10000)
	}
	for shift := range 64 {
		for d := range uint64(5) {
			check(1<<shift + d - 2)
		}
	}
	for p := uint64(1); p < 1e18; p *= 10 {
		check(2 * p)
		check(2*p - 2)
	}
	rapid.Check(t, func(t *rapid.T) { check(rapid.Uint64().Draw(t, "v")) })
}

func TestAppendHeadAllocs(t *testing.T) {
	buf, lines := make([]byte, 0, maxHeadOut), make([]byte, 0, objectHeadLen)
	n := testing.AllocsPerRun(100, func() {
		o := makeObjectHead(lines, defaultType, 1<<20, testMtime*1e9)
		h := head{status: 206, minor: 1, date: testDate, contentLength: 100, size: 1 << 20, object: &o}
		appendHead(buf, &h)
		appendFault(buf, &h, faultRange, methodGet)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAppendHead(b *testing.B) {
	o := testObject()
	for _, c := range []struct {
		name string
		h    head
	}{
		{"200", head{status: 200, minor: 1, contentLength: 1024, object: &o}},
		{"206", head{status: 206, minor: 1, rangeOff: 1048576, contentLength: 1048576, size: 67108864, object: &o}},
		{"304", head{status: 304, minor: 1, object: &o}},
	} {
		b.Run(c.name, func(b *testing.B) {
			buf := make([]byte, 0, maxHeadOut)
			c.h.date = testDate
			defer reportCPU(b)()
			for b.Loop() {
				c.h.requestID++
				appendHead(buf, &c.h)
			}
		})
	}
}

// BenchmarkRequest is what one request costs before its first byte is read:
// parse, key, conditions, range, head.
func BenchmarkRequest(b *testing.B) {
	for _, c := range []struct{ name, in string }{{"wrk", wrkRequest}, {"curl", curlRequest}, {"token", tokenRequest}} {
		b.Run(c.name, func(b *testing.B) {
			const size = 64 << 20
			o := testObject()
			in, key, out := []byte(c.in), make([]byte, 0, maxKey), make([]byte, 0, maxHeadOut)
			h := head{status: 206, minor: 1, date: testDate, size: size, object: &o}
			var r request
			defer reportCPU(b)()
			for b.Loop() {
				if consumeRequest(in, &r) != len(in) {
					b.Fatal("refused")
				}
				if _, why := decodeKey(key, r.path); why != faultNone {
					b.Fatal(why)
				}
				v := o.validator(false)
				h.status, h.rangeOff, h.contentLength = 200, 0, size
				if evaluate(&r, &v) == proceed && r.rang != nil {
					var kind rangeKind
					if h.rangeOff, h.contentLength, kind = parseRange(r.rang, size); kind == rangePart {
						h.status = 206
					}
				}
				h.requestID++
				appendHead(out, &h)
			}
		})
	}
}
