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

// wireCases decide every case of request framing that is known to have split
// two servers apart, and the plain ones. want is the fault; faultNone means the
// request is accepted.
var wireCases = []struct {
	name, in string
	want     fault
	why      string
}{
	{"plain", "GET /b/k HTTP/1.1\r\nHost: h\r\n\r\n", faultNone, "the common request"},
	{"head", "HEAD /b/k HTTP/1.1\r\nHost: h\r\n\r\n", faultNone, "the same without a body"},
	{"options", "OPTIONS /b/k HTTP/1.1\r\nHost: h\r\n\r\n", faultNone, "asks what is allowed"},
	{"options *", "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", faultNone, "RFC 9112 §3.2.4"},
	{"options *?", "OPTIONS *?a HTTP/1.1\r\nHost: h\r\n\r\n", faultTargetForm, "* has no query"},
	{"get *", "GET * HTTP/1.1\r\nHost: h\r\n\r\n", faultTargetForm, "* is for OPTIONS only"},
	{"query", "GET /k?a=%zz?b HTTP/1.1\r\nHost: h\r\n\r\n", faultNone, "a query is opaque"},
	{"empty query", "GET /k? HTTP/1.1\r\nHost: h\r\n\r\n", faultNone, "a query may be empty"},
	{"utf-8", "GET /\xc3\xa9 HTTP/1.1\r\nHost: h\r\n\r\n", faultNone, "a key is opaque bytes"},
	{"backslash", "GET /b/a\\..\\b HTTP/1.1\r\nHost: h\r\n\r\n", faultNone, "a literal key"},

	{"CL+TE", "GET /b/k HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /b/other HTTP/1.1\r\n", faultContentLength, "CVE-2022-23959, CVE-2026-2835"},
	{"TE+CL", "GET /b/k HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n", faultTransferEncoding, "the same, turned round"},
	{"TE chunked", "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", faultTransferEncoding, "a read has no body"},
	{"TE on HEAD", "HEAD / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", faultTransferEncoding, "a read has no body"},
	{"TE on OPTIONS", "OPTIONS / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", faultTransferEncoding, "nor has OPTIONS"},
	{"TE xchunked", "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n", faultTransferEncoding, "unknown codings too"},
	{"TE list", "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, identity\r\n\r\n", faultTransferEncoding, ""},
	{"TE comma", "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: , chunked\r\n\r\n", faultTransferEncoding, ""},
	{"TE VT", "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: \x0bchunked\r\n\r\n", faultFieldValue, "a control byte, found first"},
	{"TE case", "GET / HTTP/1.1\r\nHost: h\r\ntrANSFER-eNCODING: chunKed\r\n\r\n", faultTransferEncoding, "names have no case"},
	{"TE twice", "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n", faultTransferEncoding, ""},
	{"TE in 1.0", "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", faultTransferEncoding, ""},
	{"TE empty", "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\r\n\r\n", faultTransferEncoding, ""},
	{"TE identity", "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: identity\r\n\r\n", faultTransferEncoding, ""},

	{"CL 0", "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", faultNone, "provably empty"},
	{"CL 0 blanks", "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: \t0 \r\n\r\n", faultNone, "blanks are not part of the value"},
	{"CL empty", "GET / HTTP/1.1\r\nHost: h\r\nContent-Length:\r\n\r\n", faultContentLength, "CVE-2023-40225"},
	{"CL +5", "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: +5\r\n\r\n", faultContentLength, ""},
	{"CL -0", "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: -0\r\n\r\n", faultContentLength, ""},
	{"CL 0x0", "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 0x0\r\n\r\n", faultContentLength, ""},
	{"CL 0 0", "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 0 0\r\n\r\n", faultContentLength, ""},
	{"CL 0,0", "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 0,0\r\n\r\n", faultContentLength, ""},
	{"CL 5, 6", "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 5, 6\r\n\r\n", faultContentLength, ""},
	{"CL 00", "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 00\r\n\r\n", faultContentLength, ""},
	{"CL 007", "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 007\r\n\r\n", faultContentLength, ""},
	{"CL twice", "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n", faultContentLength, "two, though equal"},
	{"CL 20 digits", "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 18446744073709551616\r\n\r\n", faultContentLength, "0 modulo 2^64"},
	{"CL body", "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 43\r\n\r\nGET /b/other HTTP/1.1\r\nHost: h\r\nX: yyyyyyy\r\n\r\n", faultContentLength, "CVE-2025-4366"},

	{"LF request line", "GET / HTTP/1.1\nHost: h\r\n\r\n", faultBareLF, "CVE-2025-22871"},
	{"LF header", "GET / HTTP/1.1\r\nHost: h\n\r\n", faultBareLF, ""},
	{"LF end", "GET / HTTP/1.1\r\nHost: h\r\n\n", faultBareLF, ""},
	{"LF first", "\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", faultBareLF, ""},
	{"LF name", "GET / HTTP/1.1\r\nHost: h\r\nX\n\r\n", faultBareLF, ""},
	{"CR in value", "GET / HTTP/1.1\r\nHost: h\r\nX: a\rb\r\n\r\n", faultBareCR, ""},
	{"CR CR LF", "GET / HTTP/1.1\r\nHost: h\r\r\n\r\n", faultBareCR, ""},
	{"CR CR LF request line", "GET / HTTP/1.1\r\r\nHost: h\r\n\r\n", faultBareCR, ""},
	{"CR end", "GET / HTTP/1.1\r\nHost: h\r\n\rX", faultBareCR, ""},
	{"CR first", "\rGET / HTTP/1.1\r\nHost: h\r\n\r\n", faultBareCR, ""},
	{"empty line first", "\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", faultNone, "RFC 9112 §2.2"},
	{"two empty lines first", "\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", faultMethod, "one is enough"},

	{"fold", "GET / HTTP/1.1\r\nHost: h\r\n evil\r\n\r\n", faultFold, "RFC 9112 §5.2"},
	{"fold TE", "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\r\n chunked\r\n\r\n", faultTransferEncoding, "its empty line is enough"},
	{"fold X", "GET / HTTP/1.1\r\nHost: h\r\nX:\r\n\tchunked\r\n\r\n", faultFold, ""},
	{"fold first", "GET / HTTP/1.1\r\n Host: h\r\n\r\n", faultFold, ""},
	{"tab Host", "GET / HTTP/1.1\r\n\tHost: h\r\n\r\n", faultFold, ""},

	{"space colon", "GET / HTTP/1.1\r\nHost : h\r\n\r\n", faultFieldColon, "RFC 9112 §5.1"},
	{"tab colon", "GET / HTTP/1.1\r\nHost\t: h\r\n\r\n", faultFieldColon, ""},
	{"no name", "GET / HTTP/1.1\r\nHost: h\r\n: x\r\n\r\n", faultFieldName, "CVE-2023-25725"},
	{"no colon", "GET / HTTP/1.1\r\nHost: h\r\nX\r\n\r\n", faultFieldColon, ""},
	{"name NUL", "GET / HTTP/1.1\r\nHost: h\r\nX\x00: y\r\n\r\n", faultFieldName, ""},
	{"name 0x80", "GET / HTTP/1.1\r\nHost: h\r\nX\x80: y\r\n\r\n", faultFieldName, ""},
	{"name underscore", "GET / HTTP/1.1\r\nHost: h\r\nContent_Length: 5\r\n\r\n", faultFieldName, "gateways fold _ into -"},
	{"name parenthesis", "GET / HTTP/1.1\r\nHost: h\r\nX(y): y\r\n\r\n", faultFieldName, ""},
	{"value NUL", "GET / HTTP/1.1\r\nHost: h\r\nX: a\x00\r\n\r\n", faultFieldValue, ""},
	{"value DEL", "GET / HTTP/1.1\r\nHost: h\r\nX: aaaaaaaaaaaaa\x7f\r\n\r\n", faultFieldValue, ""},
	{"value ESC", "GET / HTTP/1.1\r\nHost: h\r\nX: aaaaaaaaaaaaa\x1b[0m\r\n\r\n", faultFieldValue, ""},
	{"value tab", "GET / HTTP/1.1\r\nHost: h\r\nX: aaaa\taaaaaaaa\tb\t\r\n\r\n", faultNone, "tabs are blanks"},
	{"value latin", "GET / HTTP/1.1\r\nHost: h\r\nX: a\xe9\xff\r\n\r\n", faultNone, "obs-text, RFC 9110 §5.5"},
	{"value empty", "GET / HTTP/1.1\r\nHost: h\r\nX:\r\nY: \t \r\n\r\n", faultNone, ""},

	{"no Host", "GET / HTTP/1.1\r\n\r\n", faultHostMissing, "RFC 9112 §3.2"},
	{"no Host 1.0", "GET / HTTP/1.0\r\n\r\n", faultNone, ""},
	{"two Hosts", "GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n", faultHostRepeated, "though equal"},
	{"two Hosts 1.0", "GET / HTTP/1.0\r\nHost: h\r\nHost: g\r\n\r\n", faultHostRepeated, ""},
	{"Host list", "GET / HTTP/1.1\r\nHost: h, h2\r\n\r\n", faultHost, ""},
	{"Host comma", "GET / HTTP/1.1\r\nHost: h,h2\r\n\r\n", faultHost, "a reg-name, and a trap"},
	{"Host path", "GET / HTTP/1.1\r\nHost: h/p\r\n\r\n", faultHost, "CVE-2026-2836"},
	{"Host user", "GET / HTTP/1.1\r\nHost: u@h\r\n\r\n", faultHost, ""},
	{"Host empty", "GET / HTTP/1.1\r\nHost:\r\n\r\n", faultHost, ""},
	{"Host port", "GET / HTTP/1.1\r\nHost: h:8080\r\n\r\n", faultNone, ""},
	{"Host empty port", "GET / HTTP/1.1\r\nHost: h:\r\n\r\n", faultNone, "RFC 3986 §3.2.3"},
	{"Host bad port", "GET / HTTP/1.1\r\nHost: h:80a\r\n\r\n", faultHost, ""},
	{"Host large port", "GET / HTTP/1.1\r\nHost: h:65536\r\n\r\n", faultHost, ""},
	{"Host IPv6", "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", faultNone, ""},
	{"Host bad IPv6", "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", faultHost, ""},
	{"Host zone", "GET / HTTP/1.1\r\nHost: [fe80::1%25eth0]\r\n\r\n", faultHost, "a zone means nothing to us"},

	{"absolute", "GET http://h/b/k?q HTTP/1.1\r\nHost: h\r\n\r\n", faultNone, "RFC 9112 §3.2.2"},
	{"absolute case", "GET HTTP://H:80/b/k HTTP/1.1\r\nHost: h:80\r\n\r\n", faultNone, ""},
	{"absolute 1.0", "GET http://h/b/k HTTP/1.0\r\n\r\n", faultNone, ""},
	{"absolute no path", "GET http://h HTTP/1.1\r\nHost: h\r\n\r\n", faultNone, "the path is /"},
	{"absolute query", "GET http://h?q HTTP/1.1\r\nHost: h\r\n\r\n", faultNone, ""},
	{"absolute other", "GET http://g/b/k HTTP/1.1\r\nHost: h\r\n\r\n", faultAuthority, "two hosts"},
	{"absolute no Host", "GET http://h/ HTTP/1.1\r\n\r\n", faultHostMissing, ""},
	{"absolute user", "GET http://u@h/ HTTP/1.1\r\nHost: h\r\n\r\n", faultHost, ""},
	{"absolute empty", "GET http:///k HTTP/1.1\r\nHost: h\r\n\r\n", faultHost, ""},
	{"absolute nothing", "GET http:// HTTP/1.1\r\nHost: h\r\n\r\n", faultTargetForm, ""},
	{"absolute https", "GET https://h HTTP/1.1\r\nHost: h\r\n\r\n", faultTargetForm, "VSV00018"},
	{"CONNECT", "CONNECT h:443 HTTP/1.1\r\nHost: h\r\n\r\n", faultTargetForm, "no tunnels"},
	{"relative", "GET b/k HTTP/1.1\r\nHost: h\r\n\r\n", faultTargetForm, ""},
	{"fragment", "GET /k#f HTTP/1.1\r\nHost: h\r\n\r\n", faultTarget, "not part of a target"},
	{"query fragment", "GET /k?a#f HTTP/1.1\r\nHost: h\r\n\r\n", faultTarget, ""},
	{"target NUL", "GET /b\x00 HTTP/1.1\r\nHost: h\r\n\r\n", faultTarget, ""},
	{"target tab", "GET /b\tc HTTP/1.1\r\nHost: h\r\n\r\n", faultTarget, ""},
	{"target DEL", "GET /b\x7f HTTP/1.1\r\nHost: h\r\n\r\n", faultTarget, ""},
	{"target space", "GET /b c HTTP/1.1\r\nHost: h\r\n\r\n", faultVersionSyntax, ""},

	{"1.2", "GET / HTTP/1.2\r\nHost: h\r\n\r\n", faultVersion, ""},
	{"2.0", "GET / HTTP/2.0\r\nHost: h\r\n\r\n", faultVersion, ""},
	{"0.9 named", "GET / HTTP/0.9\r\n\r\n", faultVersion, ""},
	{"0.9", "GET /\r\n", faultRequestLine, ""},
	{"0.9 LF", "GET /\n", faultRequestLine, ""},
	{"h2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", faultTargetForm, "* is for OPTIONS only"},
	{"1.10", "GET / HTTP/1.10\r\nHost: h\r\n\r\n", faultVersionSyntax, ""},
	{"1.", "GET / HTTP/1.\r\nHost: h\r\n\r\n", faultVersionSyntax, ""},
	{"x.1", "GET / HTTP/x.1\r\nHost: h\r\n\r\n", faultVersionSyntax, ""},
	{"lower case", "GET / http/1.1\r\nHost: h\r\n\r\n", faultVersionSyntax, ""},
	{"space after version", "GET / HTTP/1.1 \r\nHost: h\r\n\r\n", faultVersionSyntax, ""},
	{"double space", "GET  / HTTP/1.1\r\nHost: h\r\n\r\n", faultRequestLine, ""},
	{"double space 2", "GET /  HTTP/1.1\r\nHost: h\r\n\r\n", faultVersionSyntax, ""},
	{"tab", "GET\t/ HTTP/1.1\r\nHost: h\r\n\r\n", faultMethod, ""},
	{"space first", " GET / HTTP/1.1\r\nHost: h\r\n\r\n", faultMethod, ""},
	{"TLS", "\x16\x03\x01\x02\x00\x01\x00", faultTLS, "the most common mistake"},

	{"Expect CL 0", "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nExpect: 100-Continue\r\n\r\n", faultNone, "no body: nothing to wait for"},
	{"Expect other", "GET / HTTP/1.1\r\nHost: h\r\nExpect: 200-ok\r\n\r\n", faultExpect, "RFC 9110 §10.1.1"},
	{"Expect list", "GET / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue, x\r\n\r\n", faultExpect, ""},
	{"Upgrade", "GET / HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x00", faultNone, "CVE-2026-2833: ignored, what follows is a request"},

	{"PUT", "PUT /k HTTP/1.1\r\nHost: h\r\n\r\n", faultNone, "405 later, and the connection lives"},
	{"lower case method", "get /k HTTP/1.1\r\nHost: h\r\n\r\n", faultNone, "a method of another name: 405"},
	{"PUT body", "PUT /k HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello", faultMethodBody, "405 and close"},
	{"POST chunked", "POST /k HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", faultMethodBody, "405 and close"},
	{"POST CL 0", "POST /k HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", faultNone, "405 later"},
	{"POST LF", "POST /k HTTP/1.1\r\nHost: h\r\nContent-Length: 5\n\r\nhello", faultBareLF, ""},

	{"two Ranges", "GET / HTTP/1.1\r\nHost: h\r\nRange: bytes=0-1\r\nRange: bytes=2-3\r\n\r\n", faultRepeated, ""},
	{"two If-Ranges", "GET / HTTP/1.1\r\nHost: h\r\nIf-Range: \"a\"\r\nIf-Range: \"b\"\r\n\r\n", faultRepeated, ""},
	{"two If-Matches", "GET / HTTP/1.1\r\nHost: h\r\nIf-Match: \"a\"\r\nIf-Match: \"b\"\r\n\r\n", faultRepeated, "see request"},
	{"two If-None-Matches", "GET / HTTP/1.1\r\nHost: h\r\nIf-None-Match: \"a\"\r\nIf-None-Match: \"b\"\r\n\r\n", faultRepeated, "see request"},
	{"two If-Modified-Sinces", "GET / HTTP/1.1\r\nHost: h\r\nIf-Modified-Since: a\r\nIf-Modified-Since: a\r\n\r\n", faultRepeated, ""},
	{"two If-Unmodified-Sinces", "GET / HTTP/1.1\r\nHost: h\r\nIf-Unmodified-Since: a\r\nIf-Unmodified-Since: a\r\n\r\n", faultRepeated, ""},
	{"two Authorizations", "GET / HTTP/1.1\r\nHost: h\r\nAuthorization: a\r\nAuthorization:\r\n\r\n", faultRepeated, "who is it?"},

	{"request line 8192", "GET /" + strings.Repeat("k", 8192-16) + " HTTP/1.1\r\nHost: h\r\n\r\n", faultNone, "the limit itself"},
	{"request line 8193", "GET /" + strings.Repeat("k", 8193-16) + " HTTP/1.1\r\nHost: h\r\n\r\n", faultRequestLineSize, ""},
	{"long method", strings.Repeat("M", 9000) + " / HTTP/1.1\r\nHost: h\r\n\r\n", faultRequestLineSize, ""},
	{"header 16384", "GET / HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("x", 16384-16) + "\r\n\r\n", faultNone, "the limit itself"},
	{"header 16385", "GET / HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("x", 16385-16) + "\r\n\r\n", faultHeaderSize, ""},
	{"long name", "GET / HTTP/1.1\r\nHost: h\r\n" + strings.Repeat("x", 20000), faultHeaderSize, ""},
	{"many headers", "GET / HTTP/1.1\r\nHost: h\r\n" + strings.Repeat("a:\r\n", 10000), faultHeaderSize, ""},
	{"1 MiB header", "GET / HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n", faultHeaderSize, ""},
}

func TestWireCases(t *testing.T) {
	for _, c := range wireCases {
		var r request
		n := consumeRequest([]byte(c.in), &r)
		if r.fault != c.want || n == 0 || n < 0 != (c.want != faultNone) {
			t.Errorf("%s: consumeRequest = %d, %q; want %q (%s)", c.name, n, r.fault.text(), c.want.text(), c.why)
		}
		if n < 0 && (-n != c.want.status() || !c.want.closes()) {
			t.Errorf("%s: status %d, want %d and a close", c.name, -n, c.want.status())
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
// accept, or reads otherwise. There are two exceptions, by design: the one empty line
// before the request line, which net/http does not forgive, and a broken escape
// in the path, which consumeRequest leaves to decodeKey.
func agreesWithNetHTTP(t interface {
	Helper()
	Fatalf(string, ...any)
}, in []byte) {
	t.Helper()
	var r request
	n := consumeRequest(in, &r)
	if n <= 0 {
		return
	}
	if _, status := decodeKey(nil, r.path); status == 400 && r.path[0] == '/' {
		return
	}
	skip := 0
	if in[0] == '\r' {
		skip = 2
	}
	src := bytes.NewReader(in[skip:])
	buffered := bufio.NewReader(src)
	std, err := http.ReadRequest(buffered)
	if err != nil {
		t.Fatalf("%q: accepted, net/http: %v", in[:n], err)
	}
	if std.Body != nil {
		if body, err := io.ReadAll(std.Body); len(body) != 0 || err != nil {
			t.Fatalf("%q: net/http sees a body of %d bytes, %v", in[:n], len(body), err)
		}
	}
	used := len(in) - src.Len() - buffered.Buffered()
	names := map[string]method{"GET": methodGet, "HEAD": methodHead, "OPTIONS": methodOptions}
	path := std.RequestURI
	if r.authority != nil {
		path = path[len("http://")+len(std.URL.Host):]
		if !strings.HasPrefix(path, "/") {
			path = "/" + path
		}
	}
	ours := string(r.path)
	if r.query != nil {
		ours += "?" + string(r.query)
	}
	switch {
	case used != n:
		t.Fatalf("%q: consumed %d, net/http %d", in, n, used)
	case names[std.Method] != r.method:
		t.Fatalf("%q: method %d, net/http %s", in[:n], r.method, std.Method)
	case path != ours:
		t.Fatalf("%q: target %q, net/http %q", in[:n], ours, path)
	case !strings.EqualFold(std.Host, string(r.host)):
		t.Fatalf("%q: host %q, net/http %q", in[:n], r.host, std.Host)
	case std.Close == r.keepAlive:
		t.Fatalf("%q: keepAlive %v, net/http closes %v", in[:n], r.keepAlive, std.Close)
	case std.Header.Get("Range") != string(r.rang):
		t.Fatalf("%q: range %q, net/http %q", in[:n], r.rang, std.Header.Get("Range"))
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
