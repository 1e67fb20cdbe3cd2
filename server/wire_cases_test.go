package server

import (
	"crypto/sha256"
	"strings"
	"time"
)

// wireCase is one input and what becomes of it.
type wireCase struct {
	name string
	in   string // what the client sends, over a connection of its own
	// answer is what it gets: the responses in order, with ";" between them. A
	// response is its status, the range that it tells, and "close" if the
	// connection ends with it.
	answer string
	want   fault // of the first request; faultNone if it gets its object
	why    string
}

// wireTable decides every case of request framing that is known to have split
// two servers apart, every limit, and the plain ones. The parser's tests, the
// tests on the socket, the fuzzer, the differential run and docs/http.md all take
// it from here. Its objects are wireObjects.
var wireTable = []struct {
	title string
	cases []wireCase
}{
	{"Plain requests", []wireCase{
		{"plain", "GET /b/k HTTP/1.1\r\nHost: h\r\n\r\n", "200", faultNone, "the common request"},
		{"head", "HEAD /b/k HTTP/1.1\r\nHost: h\r\n\r\n", "200", faultNone, "the same without a body"},
		{"options", "OPTIONS /b/k HTTP/1.1\r\nHost: h\r\n\r\n", "204", faultNone, "asks what is allowed"},
		{"options *", "OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n", "204", faultNone, "RFC 9112 §3.2.4"},
		{"options *?", "OPTIONS *?a HTTP/1.1\r\nHost: h\r\n\r\n", "400, close", faultTargetForm, "* has no query"},
		{"get *", "GET * HTTP/1.1\r\nHost: h\r\n\r\n", "400, close", faultTargetForm, ""},
		{"query", "GET /k?a=%zz?b HTTP/1.1\r\nHost: h\r\n\r\n", "200", faultNone, "a query is opaque"},
		{"empty query", "GET /k? HTTP/1.1\r\nHost: h\r\n\r\n", "200", faultNone, "a query may be empty"},
		{"utf-8", "GET /\xc3\xa9 HTTP/1.1\r\nHost: h\r\n\r\n", "200", faultNone, "a key is opaque bytes"},
		{"backslash", "GET /b/a\\..\\b HTTP/1.1\r\nHost: h\r\n\r\n", "404", faultNotFound, "a literal key"},
	}},
	{"Transfer-Encoding", []wireCase{
		{"CL+TE", "GET /b/k HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /b/other HTTP/1.1\r\n", "400, close", faultContentLength, "CVE-2022-23959, CVE-2026-2835"},
		{"TE+CL", "GET /b/k HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 6\r\n\r\n", "400, close", faultTransferEncoding, "the same, turned round"},
		{"TE chunked", "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", "400, close", faultTransferEncoding, ""},
		{"TE on HEAD", "HEAD / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", "400, close", faultTransferEncoding, ""},
		{"TE on OPTIONS", "OPTIONS / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", "400, close", faultTransferEncoding, "nor has OPTIONS"},
		{"TE xchunked", "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n", "400, close", faultTransferEncoding, "unknown codings too"},
		{"TE list", "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, identity\r\n\r\n", "400, close", faultTransferEncoding, ""},
		{"TE comma", "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: , chunked\r\n\r\n", "400, close", faultTransferEncoding, ""},
		{"TE VT", "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: \x0bchunked\r\n\r\n", "400, close", faultFieldValue, "a control byte, found first"},
		{"TE case", "GET / HTTP/1.1\r\nHost: h\r\ntrANSFER-eNCODING: chunKed\r\n\r\n", "400, close", faultTransferEncoding, "names have no case"},
		{"TE twice", "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n\r\n", "400, close", faultTransferEncoding, ""},
		{"TE in 1.0", "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", "400, close", faultTransferEncoding, ""},
		{"TE empty", "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\r\n\r\n", "400, close", faultTransferEncoding, ""},
		{"TE identity", "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: identity\r\n\r\n", "400, close", faultTransferEncoding, ""},
		{"TE and a request", "GET /b/k HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /k HTTP/1.1\r\nHost: h\r\n\r\n", "400, close", faultTransferEncoding, "the second request is never looked at"},
		{"TE extension", "GET /k HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1;a=b\n\r\nx\r\n0\r\n\r\n", "400, close", faultTransferEncoding, "CVE-2023-39326: no chunk is ever parsed"},
		{"TE quoted", "GET /k HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: \"chunked\"\r\n\r\n", "400, close", faultTransferEncoding, ""},
		{"TE space", "GET /k HTTP/1.1\r\nHost: h\r\nTransfer-Encoding : chunked\r\n\r\n", "400, close", faultFieldColon, ""},
		{"TE underscore", "GET /k HTTP/1.1\r\nHost: h\r\nTransfer_Encoding: chunked\r\n\r\n", "400, close", faultFieldName, ""},
		{"TE last", "GET /k HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n", "400, close", faultTransferEncoding, "no length makes it good"},
	}},
	{"Content-Length", []wireCase{
		{"CL 0", "GET /k HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", "200", faultNone, "provably empty"},
		{"CL 0 blanks", "GET /k HTTP/1.1\r\nHost: h\r\nContent-Length: \t0 \r\n\r\n", "200", faultNone, "blanks are not part of the value"},
		{"CL empty", "GET / HTTP/1.1\r\nHost: h\r\nContent-Length:\r\n\r\n", "400, close", faultContentLength, "CVE-2023-40225"},
		{"CL +5", "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: +5\r\n\r\n", "400, close", faultContentLength, ""},
		{"CL -0", "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: -0\r\n\r\n", "400, close", faultContentLength, ""},
		{"CL 0x0", "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 0x0\r\n\r\n", "400, close", faultContentLength, ""},
		{"CL 0 0", "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 0 0\r\n\r\n", "400, close", faultContentLength, ""},
		{"CL 0,0", "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 0,0\r\n\r\n", "400, close", faultContentLength, ""},
		{"CL 5, 6", "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 5, 6\r\n\r\n", "400, close", faultContentLength, ""},
		{"CL 00", "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 00\r\n\r\n", "400, close", faultContentLength, ""},
		{"CL 007", "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 007\r\n\r\n", "400, close", faultContentLength, ""},
		{"CL twice", "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nContent-Length: 0\r\n\r\n", "400, close", faultContentLength, "two, though equal"},
		{"CL 20 digits", "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 18446744073709551616\r\n\r\n", "400, close", faultContentLength, "0 modulo 2^64"},
		{"CL body", "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 43\r\n\r\nGET /b/other HTTP/1.1\r\nHost: h\r\nX: yyyyyyy\r\n\r\n", "400, close", faultContentLength, "CVE-2025-4366"},
		{"CL 0 and a request", "GET /k HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\nGET /b/k HTTP/1.1\r\nHost: h\r\n\r\n", "200; 200", faultNone, "what follows an empty body is a request"},
		{"CL 0 and garbage", "GET /k HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n{}\r\n", "200; 400, close", faultNone, "what follows is no request"},
		{"CL on HEAD", "HEAD /b/k HTTP/1.1\r\nHost: h\r\nContent-Length: 43\r\n\r\nGET /b/other HTTP/1.1\r\nHost: h\r\nX: yyyyyyy\r\n\r\n", "400, close", faultContentLength, "CVE-2025-4366"},
		{"CL on OPTIONS", "OPTIONS * HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx", "400, close", faultContentLength, ""},
		{"CL in 1.0", "GET /k HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello", "400, close", faultContentLength, ""},
		{"CL 0 and 5", "GET /k HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\ncontent-length: 5\r\n\r\nhello", "400, close", faultContentLength, ""},
		{"CL VT", "GET /k HTTP/1.1\r\nHost: h\r\nContent-Length: \v0\r\n\r\n", "400, close", faultFieldValue, ""},
		{"CL space", "GET /k HTTP/1.1\r\nHost: h\r\nContent-Length : 0\r\n\r\n", "400, close", faultFieldColon, ""},
	}},
	{"Line ends", []wireCase{
		{"LF request line", "GET / HTTP/1.1\nHost: h\r\n\r\n", "400, close", faultBareLF, "CVE-2025-22871"},
		{"LF header", "GET / HTTP/1.1\r\nHost: h\n\r\n", "400, close", faultBareLF, ""},
		{"LF end", "GET / HTTP/1.1\r\nHost: h\r\n\n", "400, close", faultBareLF, ""},
		{"LF first", "\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", "400, close", faultBareLF, ""},
		{"LF name", "GET / HTTP/1.1\r\nHost: h\r\nX\n\r\n", "400, close", faultBareLF, ""},
		{"CR in value", "GET / HTTP/1.1\r\nHost: h\r\nX: a\rb\r\n\r\n", "400, close", faultBareCR, ""},
		{"CR CR LF", "GET / HTTP/1.1\r\nHost: h\r\r\n\r\n", "400, close", faultBareCR, ""},
		{"CR CR LF request line", "GET / HTTP/1.1\r\r\nHost: h\r\n\r\n", "400, close", faultBareCR, ""},
		{"CR end", "GET / HTTP/1.1\r\nHost: h\r\n\rX", "400, close", faultBareCR, ""},
		{"CR first", "\rGET / HTTP/1.1\r\nHost: h\r\n\r\n", "400, close", faultBareCR, ""},
		{"empty line first", "\r\nGET /k HTTP/1.1\r\nHost: h\r\n\r\n", "200", faultNone, "RFC 9112 §2.2"},
		{"two empty lines first", "\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", "400, close", faultMethod, "one is enough"},
		{"LF hides a length", "GET /k HTTP/1.1\r\nHost: h\r\nX: a\nContent-Length: 5\r\n\r\nhello", "400, close", faultBareLF, ""},
		{"CR hides a length", "GET /k HTTP/1.1\r\nHost: h\r\nX: a\rContent-Length: 5\r\n\r\nhello", "400, close", faultBareCR, ""},
		{"LF everywhere", "GET /k HTTP/1.1\nHost: h\n\n", "400, close", faultBareLF, ""},
	}},
	{"Folded lines", []wireCase{
		{"fold", "GET / HTTP/1.1\r\nHost: h\r\n evil\r\n\r\n", "400, close", faultFold, "RFC 9112 §5.2"},
		{"fold TE", "GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:\r\n chunked\r\n\r\n", "400, close", faultTransferEncoding, "its empty line is enough"},
		{"fold X", "GET / HTTP/1.1\r\nHost: h\r\nX:\r\n\tchunked\r\n\r\n", "400, close", faultFold, ""},
		{"fold first", "GET / HTTP/1.1\r\n Host: h\r\n\r\n", "400, close", faultFold, ""},
		{"tab Host", "GET / HTTP/1.1\r\n\tHost: h\r\n\r\n", "400, close", faultFold, ""},
	}},
	{"Header names and values", []wireCase{
		{"space colon", "GET / HTTP/1.1\r\nHost : h\r\n\r\n", "400, close", faultFieldColon, "RFC 9112 §5.1"},
		{"tab colon", "GET / HTTP/1.1\r\nHost\t: h\r\n\r\n", "400, close", faultFieldColon, ""},
		{"no name", "GET / HTTP/1.1\r\nHost: h\r\n: x\r\n\r\n", "400, close", faultFieldName, "CVE-2023-25725"},
		{"no colon", "GET / HTTP/1.1\r\nHost: h\r\nX\r\n\r\n", "400, close", faultFieldColon, ""},
		{"name NUL", "GET / HTTP/1.1\r\nHost: h\r\nX\x00: y\r\n\r\n", "400, close", faultFieldName, ""},
		{"name 0x80", "GET / HTTP/1.1\r\nHost: h\r\nX\x80: y\r\n\r\n", "400, close", faultFieldName, ""},
		{"name underscore", "GET / HTTP/1.1\r\nHost: h\r\nContent_Length: 5\r\n\r\n", "400, close", faultFieldName, "gateways fold _ into -"},
		{"name parenthesis", "GET / HTTP/1.1\r\nHost: h\r\nX(y): y\r\n\r\n", "400, close", faultFieldName, ""},
		{"value NUL", "GET / HTTP/1.1\r\nHost: h\r\nX: a\x00\r\n\r\n", "400, close", faultFieldValue, ""},
		{"value DEL", "GET / HTTP/1.1\r\nHost: h\r\nX: aaaaaaaaaaaaa\x7f\r\n\r\n", "400, close", faultFieldValue, ""},
		{"value ESC", "GET / HTTP/1.1\r\nHost: h\r\nX: aaaaaaaaaaaaa\x1b[0m\r\n\r\n", "400, close", faultFieldValue, ""},
		{"value tab", "GET /k HTTP/1.1\r\nHost: h\r\nX: aaaa\taaaaaaaa\tb\t\r\n\r\n", "200", faultNone, "tabs are blanks"},
		{"value latin", "GET /k HTTP/1.1\r\nHost: h\r\nX: a\xe9\xff\r\n\r\n", "200", faultNone, "obs-text, RFC 9110 §5.5"},
		{"value empty", "GET /k HTTP/1.1\r\nHost: h\r\nX:\r\nY: \t \r\n\r\n", "200", faultNone, ""},
		{"name space", "GET /k HTTP/1.1\r\nHost: h\r\nTransfer -Encoding: chunked\r\n\r\n", "400, close", faultFieldColon, ""},
		{"name quote", "GET /k HTTP/1.1\r\nHost: h\r\n\"X\": y\r\n\r\n", "400, close", faultFieldName, ""},
	}},
	{"Host", []wireCase{
		{"no Host", "GET / HTTP/1.1\r\n\r\n", "400, close", faultHostMissing, "RFC 9112 §3.2"},
		{"no Host 1.0", "GET /k HTTP/1.0\r\n\r\n", "200, close", faultNone, ""},
		{"two Hosts", "GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n", "400, close", faultHostRepeated, "though equal"},
		{"two Hosts 1.0", "GET / HTTP/1.0\r\nHost: h\r\nHost: g\r\n\r\n", "400, close", faultHostRepeated, ""},
		{"Host list", "GET / HTTP/1.1\r\nHost: h, h2\r\n\r\n", "400, close", faultHost, ""},
		{"Host comma", "GET / HTTP/1.1\r\nHost: h,h2\r\n\r\n", "400, close", faultHost, "a reg-name, and a trap"},
		{"Host path", "GET / HTTP/1.1\r\nHost: h/p\r\n\r\n", "400, close", faultHost, "CVE-2026-2836"},
		{"Host user", "GET / HTTP/1.1\r\nHost: u@h\r\n\r\n", "400, close", faultHost, ""},
		{"Host empty", "GET / HTTP/1.1\r\nHost:\r\n\r\n", "400, close", faultHost, ""},
		{"Host port", "GET /k HTTP/1.1\r\nHost: h:8080\r\n\r\n", "200", faultNone, ""},
		{"Host empty port", "GET /k HTTP/1.1\r\nHost: h:\r\n\r\n", "200", faultNone, "RFC 3986 §3.2.3"},
		{"Host bad port", "GET / HTTP/1.1\r\nHost: h:80a\r\n\r\n", "400, close", faultHost, ""},
		{"Host large port", "GET / HTTP/1.1\r\nHost: h:65536\r\n\r\n", "400, close", faultHost, ""},
		{"Host IPv6", "GET /k HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", "200", faultNone, ""},
		{"Host bad IPv6", "GET / HTTP/1.1\r\nHost: [::1\r\n\r\n", "400, close", faultHost, ""},
		{"Host zone", "GET / HTTP/1.1\r\nHost: [fe80::1%25eth0]\r\n\r\n", "400, close", faultHost, "a zone means nothing to us"},
	}},
	{"Request target", []wireCase{
		{"absolute", "GET http://h/b/k?q HTTP/1.1\r\nHost: h\r\n\r\n", "200", faultNone, "RFC 9112 §3.2.2"},
		{"absolute case", "GET HTTP://H:80/b/k HTTP/1.1\r\nHost: h:80\r\n\r\n", "200", faultNone, ""},
		{"absolute 1.0", "GET http://h/b/k HTTP/1.0\r\n\r\n", "200, close", faultNone, ""},
		{"absolute no path", "GET http://h HTTP/1.1\r\nHost: h\r\n\r\n", "404", faultNotFound, "the path is /"},
		{"absolute query", "GET http://h?q HTTP/1.1\r\nHost: h\r\n\r\n", "404", faultNotFound, ""},
		{"absolute other", "GET http://g/b/k HTTP/1.1\r\nHost: h\r\n\r\n", "400, close", faultAuthority, "two hosts"},
		{"absolute no Host", "GET http://h/ HTTP/1.1\r\n\r\n", "400, close", faultHostMissing, ""},
		{"absolute user", "GET http://u@h/ HTTP/1.1\r\nHost: h\r\n\r\n", "400, close", faultHost, ""},
		{"absolute empty", "GET http:///k HTTP/1.1\r\nHost: h\r\n\r\n", "400, close", faultHost, ""},
		{"absolute nothing", "GET http:// HTTP/1.1\r\nHost: h\r\n\r\n", "400, close", faultTargetForm, ""},
		{"absolute https", "GET https://h HTTP/1.1\r\nHost: h\r\n\r\n", "400, close", faultTargetForm, "VSV00018"},
		{"CONNECT", "CONNECT h:443 HTTP/1.1\r\nHost: h\r\n\r\n", "400, close", faultTargetForm, "no tunnels"},
		{"relative", "GET b/k HTTP/1.1\r\nHost: h\r\n\r\n", "400, close", faultTargetForm, ""},
		{"fragment", "GET /k#f HTTP/1.1\r\nHost: h\r\n\r\n", "400, close", faultTarget, "not part of a target"},
		{"query fragment", "GET /k?a#f HTTP/1.1\r\nHost: h\r\n\r\n", "400, close", faultTarget, ""},
		{"target NUL", "GET /b\x00 HTTP/1.1\r\nHost: h\r\n\r\n", "400, close", faultTarget, ""},
		{"target tab", "GET /b\tc HTTP/1.1\r\nHost: h\r\n\r\n", "400, close", faultTarget, ""},
		{"target DEL", "GET /b\x7f HTTP/1.1\r\nHost: h\r\n\r\n", "400, close", faultTarget, ""},
		{"target space", "GET /b c HTTP/1.1\r\nHost: h\r\n\r\n", "400, close", faultVersionSyntax, ""},
	}},
	{"Version and request line", []wireCase{
		{"1.2", "GET / HTTP/1.2\r\nHost: h\r\n\r\n", "505, close", faultVersion, ""},
		{"2.0", "GET / HTTP/2.0\r\nHost: h\r\n\r\n", "505, close", faultVersion, ""},
		{"0.9 named", "GET / HTTP/0.9\r\n\r\n", "505, close", faultVersion, ""},
		{"0.9", "GET /\r\n", "400, close", faultRequestLine, ""},
		{"0.9 LF", "GET /\n", "400, close", faultRequestLine, ""},
		{"h2 preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "400, close", faultTargetForm, ""},
		{"1.10", "GET / HTTP/1.10\r\nHost: h\r\n\r\n", "400, close", faultVersionSyntax, ""},
		{"1.", "GET / HTTP/1.\r\nHost: h\r\n\r\n", "400, close", faultVersionSyntax, ""},
		{"x.1", "GET / HTTP/x.1\r\nHost: h\r\n\r\n", "400, close", faultVersionSyntax, ""},
		{"lower case", "GET / http/1.1\r\nHost: h\r\n\r\n", "400, close", faultVersionSyntax, ""},
		{"space after version", "GET / HTTP/1.1 \r\nHost: h\r\n\r\n", "400, close", faultVersionSyntax, ""},
		{"double space", "GET  / HTTP/1.1\r\nHost: h\r\n\r\n", "400, close", faultRequestLine, ""},
		{"double space 2", "GET /  HTTP/1.1\r\nHost: h\r\n\r\n", "400, close", faultVersionSyntax, ""},
		{"tab", "GET\t/ HTTP/1.1\r\nHost: h\r\n\r\n", "400, close", faultMethod, ""},
		{"space first", " GET / HTTP/1.1\r\nHost: h\r\n\r\n", "400, close", faultMethod, ""},
		{"TLS", "\x16\x03\x01\x02\x00\x01\x00", "400, close", faultTLS, "the most common mistake"},
	}},
	{"Expect and Upgrade", []wireCase{
		{"Expect CL 0", "GET /k HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\nExpect: 100-Continue\r\n\r\n", "200", faultNone, "no body: nothing to wait for"},
		{"Expect other", "GET / HTTP/1.1\r\nHost: h\r\nExpect: 200-ok\r\n\r\n", "417, close", faultExpect, "RFC 9110 §10.1.1"},
		{"Expect list", "GET / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue, x\r\n\r\n", "417, close", faultExpect, ""},
		{"Upgrade", "GET /k HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x00", "200; 400, close", faultNone, "CVE-2026-2833: ignored, what follows is a request"},
		{"Expect", "GET /k HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n\r\n", "200", faultNone, "no 100 is sent, no body waited for"},
		{"Expect and CL", "GET /k HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n", "400, close", faultContentLength, "refused before the body is sent"},
		{"Upgrade and a request", "GET /k HTTP/1.1\r\nHost: h\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nGET /b/k HTTP/1.1\r\nHost: h\r\n\r\n", "200; 200", faultNone, ""},
		{"Upgrade h2c", "GET /k HTTP/1.1\r\nHost: h\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n", "200", faultNone, "ignored"},
	}},
	{"Methods", []wireCase{
		{"PUT", "PUT /k HTTP/1.1\r\nHost: h\r\n\r\n", "405", faultMethodNotAllowed, "405 later, and the connection lives"},
		{"lower case method", "get /k HTTP/1.1\r\nHost: h\r\n\r\n", "405", faultMethodNotAllowed, "a method of another name: 405"},
		{"PUT body", "PUT /k HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\nhello", "405, close", faultMethodBody, "405 and close"},
		{"POST chunked", "POST /k HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "405, close", faultMethodBody, "405 and close"},
		{"POST CL 0", "POST /k HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n", "405", faultMethodNotAllowed, "405 later"},
		{"POST LF", "POST /k HTTP/1.1\r\nHost: h\r\nContent-Length: 5\n\r\nhello", "400, close", faultBareLF, ""},
		{"PUT and a request", "PUT /k HTTP/1.1\r\nHost: h\r\n\r\nGET /k HTTP/1.1\r\nHost: h\r\n\r\n", "405; 200", faultMethodNotAllowed, ""},
		{"TRACE", "TRACE /k HTTP/1.1\r\nHost: h\r\nCookie: a\r\n\r\n", "405", faultMethodNotAllowed, "nothing of a request is echoed"},
	}},
	{"Repeated fields", []wireCase{
		{"two Ranges", "GET / HTTP/1.1\r\nHost: h\r\nRange: bytes=0-1\r\nRange: bytes=2-3\r\n\r\n", "400, close", faultRepeated, ""},
		{"two If-Ranges", "GET / HTTP/1.1\r\nHost: h\r\nIf-Range: \"a\"\r\nIf-Range: \"b\"\r\n\r\n", "400, close", faultRepeated, ""},
		{"two If-Matches", "GET / HTTP/1.1\r\nHost: h\r\nIf-Match: \"a\"\r\nIf-Match: \"b\"\r\n\r\n", "400, close", faultRepeated, "see request"},
		{"two If-None-Matches", "GET / HTTP/1.1\r\nHost: h\r\nIf-None-Match: \"a\"\r\nIf-None-Match: \"b\"\r\n\r\n", "400, close", faultRepeated, "see request"},
		{"two If-Modified-Sinces", "GET / HTTP/1.1\r\nHost: h\r\nIf-Modified-Since: a\r\nIf-Modified-Since: a\r\n\r\n", "400, close", faultRepeated, ""},
		{"two If-Unmodified-Sinces", "GET / HTTP/1.1\r\nHost: h\r\nIf-Unmodified-Since: a\r\nIf-Unmodified-Since: a\r\n\r\n", "400, close", faultRepeated, ""},
		{"two Authorizations", "GET / HTTP/1.1\r\nHost: h\r\nAuthorization: a\r\nAuthorization:\r\n\r\n", "400, close", faultRepeated, "who is it?"},
		{"two of another", "GET /k HTTP/1.1\r\nHost: h\r\nX: a\r\nX: b\r\nAccept: */*\r\nAccept: */*\r\n\r\n", "200", faultNone, "means nothing to a read"},
	}},
	{"Sizes", []wireCase{
		{"request line 8192", "GET /" + strings.Repeat("k", 8192-16) + " HTTP/1.1\r\nHost: h\r\n\r\n", "414", faultKeySize, "the limit itself; as a key it is too long"},
		{"request line 8193", "GET /" + strings.Repeat("k", 8193-16) + " HTTP/1.1\r\nHost: h\r\n\r\n", "414, close", faultRequestLineSize, ""},
		{"long method", strings.Repeat("M", 9000) + " / HTTP/1.1\r\nHost: h\r\n\r\n", "414, close", faultRequestLineSize, ""},
		{"header 16384", "GET /k HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("x", 16384-16) + "\r\n\r\n", "200", faultNone, "the limit itself"},
		{"header 16385", "GET / HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("x", 16385-16) + "\r\n\r\n", "431, close", faultHeaderSize, ""},
		{"long name", "GET / HTTP/1.1\r\nHost: h\r\n" + strings.Repeat("x", maxHead), "431, close", faultHeaderSize, ""},
		{"many headers", "GET / HTTP/1.1\r\nHost: h\r\n" + strings.Repeat("a:\r\n", 10000), "431, close", faultHeaderSize, ""},
		{"1 MiB header", "GET / HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n", "431, close", faultHeaderSize, ""},
		{"long query", "GET /k?" + strings.Repeat("q", 9000) + " HTTP/1.1\r\nHost: h\r\n\r\n", "414, close", faultRequestLineSize, ""},
		{"64 KiB of headers", "GET /k HTTP/1.1\r\nHost: h\r\n" + strings.Repeat("X-Header: some value\r\n", 3000) + "\r\n", "431, close", faultHeaderSize, "memory per connection is fixed"},
	}},
	{"Pipelining and keep-alive", []wireCase{
		{"three", "GET /k HTTP/1.1\r\nHost: h\r\n\r\nGET /nope HTTP/1.1\r\nHost: h\r\n\r\nGET /b/k HTTP/1.1\r\nHost: h\r\n\r\n", "200; 404; 200", faultNone, "answered in order"},
		{"empty lines between", "GET /k HTTP/1.1\r\nHost: h\r\n\r\n\r\nGET /b/k HTTP/1.1\r\nHost: h\r\n\r\n", "200; 200", faultNone, "RFC 9112 §2.2: an old client's CR LF behind a body"},
		{"HEAD, GET", "HEAD /k HTTP/1.1\r\nHost: h\r\n\r\nGET /b/k HTTP/1.1\r\nHost: h\r\n\r\n", "200; 200", faultNone, "a HEAD's answer has no body"},
		{"416, 304, 412", "GET /ten HTTP/1.1\r\nHost: h\r\nRange: bytes=10-\r\n\r\nGET /ten HTTP/1.1\r\nHost: h\r\nIf-None-Match: *\r\n\r\nGET /ten HTTP/1.1\r\nHost: h\r\nIf-Match: \"x\"\r\n\r\nGET /ten HTTP/1.1\r\nHost: h\r\n\r\n", "416 */10; 304; 412; 200", faultRange, "nothing of a request survives to the next"},
		{"large, small", "GET /large HTTP/1.1\r\nHost: h\r\n\r\nGET /k HTTP/1.1\r\nHost: h\r\n\r\n", "200; 200", faultNone, "sent by sendfile, and by a copy"},
		{"close", "GET /k HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\nGET /b/k HTTP/1.1\r\nHost: h\r\n\r\n", "200, close", faultNone, "what comes after is discarded"},
		{"1.0 keep-alive", "GET /k HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /b/k HTTP/1.0\r\n\r\n", "200; 200, close", faultNone, ""},
		{"good, bad", "GET /k HTTP/1.1\r\nHost: h\r\n\r\nGET /k HTTP/1.1\r\n\r\nGET /b/k HTTP/1.1\r\nHost: h\r\n\r\n", "200; 400, close", faultNone, "the good one is answered first"},
		{"404, bad", "GET /nope HTTP/1.1\r\nHost: h\r\n\r\nGET /k HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n", "404; 400, close", faultNotFound, ""},
	}},
	{"Keys", []wireCase{
		{"escape", "GET /%62/%6B HTTP/1.1\r\nHost: h\r\n\r\n", "200", faultNone, "b/k, decoded once"},
		{"escaped slash", "GET /b%2Fk HTTP/1.1\r\nHost: h\r\n\r\n", "200", faultNone, "b/k: a key is bytes, whichever way they are written"},
		{"plus", "GET /a+b%20c HTTP/1.1\r\nHost: h\r\n\r\n", "200", faultNone, "a plus is a plus"},
		{"dots", "GET /b/../../etc/passwd HTTP/1.1\r\nHost: h\r\n\r\n", "404", faultNotFound, "a literal key that no file can have"},
		{"dots to an object", "GET /b/../k HTTP/1.1\r\nHost: h\r\n\r\n", "404", faultNotFound, "never another key's object"},
		{"dot to an object", "GET /b/./k HTTP/1.1\r\nHost: h\r\n\r\n", "404", faultNotFound, ""},
		{"escaped dots", "GET /b/%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\nHost: h\r\n\r\n", "404", faultNotFound, ""},
		{"half escaped dots", "GET /b/.%2e/k HTTP/1.1\r\nHost: h\r\n\r\n", "404", faultNotFound, ""},
		{"twice escaped dots", "GET /b/%252e%252e/k HTTP/1.1\r\nHost: h\r\n\r\n", "404", faultNotFound, "CVE-2021-41773, CVE-2021-42013"},
		{"overlong UTF-8", "GET /b/%c0%ae%c0%ae/k HTTP/1.1\r\nHost: h\r\n\r\n", "404", faultNotFound, ""},
		{"double slash", "GET /b//k HTTP/1.1\r\nHost: h\r\n\r\n", "404", faultNotFound, "not the key b/k"},
		{"slash first", "GET //b/k HTTP/1.1\r\nHost: h\r\n\r\n", "404", faultNotFound, "nor is this"},
		{"slash last", "GET /b/k/ HTTP/1.1\r\nHost: h\r\n\r\n", "404", faultNotFound, "nor this"},
		{"directory", "GET /b HTTP/1.1\r\nHost: h\r\n\r\n", "404", faultNotFound, "only files are objects"},
		{"no key", "GET / HTTP/1.1\r\nHost: h\r\n\r\n", "404", faultNotFound, ""},
		{"link out", "GET /link HTTP/1.1\r\nHost: h\r\n\r\n", "404", faultNotFound, "a symbolic link to /etc/passwd: RESOLVE_BENEATH"},
		{"NUL", "GET /b/%00 HTTP/1.1\r\nHost: h\r\n\r\n", "400", faultKey, ""},
		{"NUL behind a key", "GET /b/k%00.txt HTTP/1.1\r\nHost: h\r\n\r\n", "400", faultKey, ""},
		{"CR LF", "GET /b/a%0d%0aX:%20y HTTP/1.1\r\nHost: h\r\n\r\n", "400", faultKey, "no header is split"},
		{"LF", "GET /b/a%0A HTTP/1.1\r\nHost: h\r\n\r\n", "400", faultKey, ""},
		{"percent", "GET /b/% HTTP/1.1\r\nHost: h\r\n\r\n", "400", faultKey, ""},
		{"percent g1", "GET /b/%g1 HTTP/1.1\r\nHost: h\r\n\r\n", "400", faultKey, ""},
		{"percent cut", "GET /b/%E0%A4%A HTTP/1.1\r\nHost: h\r\n\r\n", "400", faultKey, ""},
		{"1024 bytes", "GET /" + strings.Repeat("k", 1024) + " HTTP/1.1\r\nHost: h\r\n\r\n", "404", faultNotFound, "the limit itself"},
		{"1025 bytes", "GET /" + strings.Repeat("k", 1025) + " HTTP/1.1\r\nHost: h\r\n\r\n", "414", faultKeySize, ""},
		{"broken and long", "GET /" + strings.Repeat("k", 1025) + "% HTTP/1.1\r\nHost: h\r\n\r\n", "400", faultKey, ""},
	}},
	{"Range, of ten bytes", []wireCase{
		{"first byte", "GET /ten HTTP/1.1\r\nHost: h\r\nRange: bytes=0-0\r\n\r\n", "206 0-0/10", faultNone, ""},
		{"last byte", "GET /ten HTTP/1.1\r\nHost: h\r\nRange: bytes=9-9\r\n\r\n", "206 9-9/10", faultNone, ""},
		{"from 9", "GET /ten HTTP/1.1\r\nHost: h\r\nRange: bytes=9-\r\n\r\n", "206 9-9/10", faultNone, ""},
		{"from 10", "GET /ten HTTP/1.1\r\nHost: h\r\nRange: bytes=10-\r\n\r\n", "416 */10", faultRange, ""},
		{"suffix 0", "GET /ten HTTP/1.1\r\nHost: h\r\nRange: bytes=-0\r\n\r\n", "416 */10", faultRange, ""},
		{"suffix 1", "GET /ten HTTP/1.1\r\nHost: h\r\nRange: bytes=-1\r\n\r\n", "206 9-9/10", faultNone, ""},
		{"long suffix", "GET /ten HTTP/1.1\r\nHost: h\r\nRange: bytes=-99999999999999\r\n\r\n", "206 0-9/10", faultNone, "CVE-2017-7529: clamped"},
		{"two suffixes", "GET /ten HTTP/1.1\r\nHost: h\r\nRange: bytes=-17208,-9223372036854758792\r\n\r\n", "200", faultNone, "CVE-2017-7529: several ranges are answered with the whole"},
		{"to 2^64-1", "GET /ten HTTP/1.1\r\nHost: h\r\nRange: bytes=0-18446744073709551615\r\n\r\n", "206 0-9/10", faultNone, "CVE-2015-1635"},
		{"from 18 to 2^64-1", "GET /ten HTTP/1.1\r\nHost: h\r\nRange: bytes=18-18446744073709551615\r\n\r\n", "416 */10", faultRange, "CVE-2015-1635"},
		{"from 2^64", "GET /ten HTTP/1.1\r\nHost: h\r\nRange: bytes=18446744073709551616-\r\n\r\n", "416 */10", faultRange, "0 modulo 2^64"},
		{"1300 ranges", "GET /ten HTTP/1.1\r\nHost: h\r\nRange: bytes=0-" + strings.Repeat(",5-0", 1300) + "\r\n\r\n", "200", faultNone, "CVE-2011-3192: never more than one part"},
		{"two ranges", "GET /ten HTTP/1.1\r\nHost: h\r\nRange: bytes=0-1,4-5\r\n\r\n", "200", faultNone, "the whole"},
		{"first after last", "GET /ten HTTP/1.1\r\nHost: h\r\nRange: bytes=5-2\r\n\r\n", "200", faultNone, "not a range: ignored"},
		{"letters", "GET /ten HTTP/1.1\r\nHost: h\r\nRange: bytes=a-b\r\n\r\n", "200", faultNone, "ignored"},
		{"blanks", "GET /ten HTTP/1.1\r\nHost: h\r\nRange: bytes = 0-1\r\n\r\n", "200", faultNone, "ignored"},
		{"empty", "GET /ten HTTP/1.1\r\nHost: h\r\nRange:\r\n\r\n", "200", faultNone, "ignored"},
		{"upper case", "GET /ten HTTP/1.1\r\nHost: h\r\nRange: BYTES=0-1\r\n\r\n", "206 0-1/10", faultNone, "RFC 9110 §14.1"},
		{"another unit", "GET /ten HTTP/1.1\r\nHost: h\r\nRange: items=0-1\r\n\r\n", "200", faultNone, "ignored"},
		{"empty object", "GET /empty HTTP/1.1\r\nHost: h\r\nRange: bytes=0-\r\n\r\n", "416 */0", faultRange, ""},
		{"suffix of an empty object", "GET /empty HTTP/1.1\r\nHost: h\r\nRange: bytes=-5\r\n\r\n", "200", faultNone, "satisfiable, but no Content-Range can say so"},
		{"HEAD", "HEAD /ten HTTP/1.1\r\nHost: h\r\nRange: bytes=0-1\r\n\r\n", "200", faultNone, "RFC 9110 §14.2: only GET has ranges"},
		{"of nothing", "GET /nope HTTP/1.1\r\nHost: h\r\nRange: bytes=0-1\r\n\r\n", "404", faultNotFound, ""},
		{"in a large object", "GET /large HTTP/1.1\r\nHost: h\r\nRange: bytes=262143-262144\r\n\r\n", "206 262143-262144/300000", faultNone, "across a transfer chunk"},
		{"of a large object", "GET /large HTTP/1.1\r\nHost: h\r\nRange: bytes=1-\r\n\r\n", "206 1-299999/300000", faultNone, ""},
	}},
	{"Conditions", []wireCase{
		{"If-None-Match", "GET /ten HTTP/1.1\r\nHost: h\r\nIf-None-Match: \"a-ae1b981bc490a00\"\r\n\r\n", "304", faultNone, "the ETag: size and mtime in ns, hexadecimal"},
		{"If-None-Match weak", "GET /ten HTTP/1.1\r\nHost: h\r\nIf-None-Match: \"x\", W/\"a-ae1b981bc490a00\"\r\n\r\n", "304", faultNone, "compared weakly"},
		{"If-None-Match other", "GET /ten HTTP/1.1\r\nHost: h\r\nIf-None-Match: \"x\"\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n", "200", faultNone, "the date does not count beside it"},
		{"If-None-Match and Range", "GET /ten HTTP/1.1\r\nHost: h\r\nIf-None-Match: *\r\nRange: bytes=0-1\r\n\r\n", "304", faultNone, "conditions come first"},
		{"If-Modified-Since", "GET /ten HTTP/1.1\r\nHost: h\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n\r\n", "304", faultNone, ""},
		{"If-Modified-Since earlier", "GET /ten HTTP/1.1\r\nHost: h\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n\r\n", "200", faultNone, ""},
		{"If-Modified-Since no date", "GET /ten HTTP/1.1\r\nHost: h\r\nIf-Modified-Since: yesterday\r\n\r\n", "200", faultNone, "ignored"},
		{"If-Match", "GET /ten HTTP/1.1\r\nHost: h\r\nIf-Match: \"a-ae1b981bc490a00\"\r\nRange: bytes=0-1\r\n\r\n", "206 0-1/10", faultNone, ""},
		{"If-Match weak", "GET /ten HTTP/1.1\r\nHost: h\r\nIf-Match: W/\"a-ae1b981bc490a00\"\r\n\r\n", "412", faultPrecondition, "compared strongly"},
		{"If-Match other", "GET /ten HTTP/1.1\r\nHost: h\r\nIf-Match: \"x\"\r\nIf-None-Match: *\r\n\r\n", "412", faultPrecondition, "comes before If-None-Match"},
		{"If-Match, nothing there", "GET /nope HTTP/1.1\r\nHost: h\r\nIf-Match: *\r\n\r\n", "404", faultNotFound, ""},
		{"If-Unmodified-Since", "GET /ten HTTP/1.1\r\nHost: h\r\nIf-Unmodified-Since: Sun, 06 Nov 1994 08:49:36 GMT\r\n\r\n", "412", faultPrecondition, ""},
		{"If-Range", "GET /ten HTTP/1.1\r\nHost: h\r\nIf-Range: \"a-ae1b981bc490a00\"\r\nRange: bytes=0-1\r\n\r\n", "206 0-1/10", faultNone, ""},
		{"If-Range stale", "GET /ten HTTP/1.1\r\nHost: h\r\nIf-Range: \"x\"\r\nRange: bytes=0-1\r\n\r\n", "200", faultNone, "the whole of the new one"},
		{"If-Range stale, beyond the end", "GET /ten HTTP/1.1\r\nHost: h\r\nIf-Range: \"x\"\r\nRange: bytes=10-\r\n\r\n", "200", faultNone, ""},
		{"If-Range weak", "GET /ten HTTP/1.1\r\nHost: h\r\nIf-Range: W/\"a-ae1b981bc490a00\"\r\nRange: bytes=0-1\r\n\r\n", "200", faultNone, "weak tags are not enough for parts"},
		{"If-Range date", "GET /ten HTTP/1.1\r\nHost: h\r\nIf-Range: Sun, 06 Nov 1994 08:49:37 GMT\r\nRange: bytes=0-1\r\n\r\n", "206 0-1/10", faultNone, ""},
	}},
	{"Credentials", []wireCase{
		{"a token", "GET /k HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer all.the-secret\r\n\r\n", "200", faultNone, "of a tenant that may read everything"},
		{"scheme case", "GET /k HTTP/1.1\r\nHost: h\r\nauthorization: bEARER   all.the-secret\r\n\r\n", "200", faultNone, "RFC 9110 §11.1: a scheme has no case"},
		{"its prefix", "GET /b/k HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer b.1.2.3\r\n\r\n", "200", faultNone, "of a tenant that may read /b/; a secret may have dots"},
		{"its prefix escaped", "GET /%62%2fk HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer b.1.2.3\r\n\r\n", "200", faultNone, "the decoded key counts"},
		{"not its prefix", "GET /k HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer b.1.2.3\r\n\r\n", "403", faultNotAllowed, ""},
		{"not its prefix, missing", "GET /nope HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer b.1.2.3\r\n\r\n", "403", faultNotAllowed, "whether it exists is not told"},
		{"dots around a prefix", "GET /b/../k HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer b.1.2.3\r\n\r\n", "404", faultNotFound, "a literal key"},
		{"HEAD outside", "HEAD /k HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer b.1.2.3\r\n\r\n", "403", faultNotAllowed, ""},
		{"condition outside", "GET /k HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer b.1.2.3\r\nIf-None-Match: *\r\n\r\n", "403", faultNotAllowed, "authorisation comes before conditions"},
		{"nothing allowed", "GET /b/k HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer none.s\r\n\r\n", "403", faultNotAllowed, "a tenant without prefixes reads nothing"},
		{"unknown token", "GET /k HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer a.b\r\n\r\n", "401", faultUnauthorized, "never served as the anonymous tenant"},
		{"wrong secret", "GET /k HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer all.the-secreT\r\n\r\n", "401", faultUnauthorized, ""},
		{"another's secret", "GET /k HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer b.the-secret\r\n\r\n", "401", faultUnauthorized, ""},
		{"id case", "GET /k HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer ALL.the-secret\r\n\r\n", "401", faultUnauthorized, "ids have case"},
		{"id alone", "GET /k HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer all\r\n\r\n", "401", faultUnauthorized, ""},
		{"no secret", "GET /k HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer all.\r\n\r\n", "401", faultUnauthorized, ""},
		{"no id", "GET /k HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer .the-secret\r\n\r\n", "401", faultUnauthorized, ""},
		{"no credential", "GET /k HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer\r\n\r\n", "401", faultUnauthorized, ""},
		{"empty", "GET /k HTTP/1.1\r\nHost: h\r\nAuthorization:\r\n\r\n", "401", faultUnauthorized, "an empty credential is one"},
		{"two credentials", "GET /k HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer all.the-secret all.the-secret\r\n\r\n", "401", faultUnauthorized, "no blanks in it"},
		{"tab", "GET /k HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer\tall.the-secret\r\n\r\n", "401", faultUnauthorized, ""},
		{"long secret", "GET /k HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer all." + strings.Repeat("s", 8000) + "\r\n\r\n", "401", faultUnauthorized, "at most 128 bytes are hashed"},
		{"another scheme", "GET /k HTTP/1.1\r\nHost: h\r\nAuthorization: Basic YTpi\r\n\r\n", "401", faultUnauthorized, ""},
		{"unknown, with a method that is not served", "DELETE /k HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer a.b\r\n\r\n", "401", faultUnauthorized, "who it is comes first"},
		{"none of the next", "GET /k HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer a.b\r\n\r\nGET /k HTTP/1.1\r\nHost: h\r\n\r\n", "401; 200", faultUnauthorized, "credentials are those of one request"},
		{"three tenants", "GET /k HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer all.the-secret\r\n\r\nGET /k HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer b.1.2.3\r\n\r\nGET /k HTTP/1.1\r\nHost: h\r\n\r\n", "200; 403; 200", faultNone, "nor are anybody's rights"},
	}},
}

// wireCases are those of all sections.
var wireCases = func() (all []wireCase) {
	for _, section := range wireTable {
		all = append(all, section.cases...)
	}
	return all
}()

// tableRequests are the requests of the table that the parser accepts, as seeds of
// what comes after it.
func tableRequests() (all []request) {
	for _, c := range wireCases {
		var r request
		if consumeRequest([]byte(c.in), &r) > 0 {
			all = append(all, r)
		}
	}
	return all
}

// refused reports whether the parser itself refuses the first request.
func (c *wireCase) refused() bool { return c.want.closes() }

// wireTenants are who the table's requests come from: whoever shows no credentials is
// "public". Their requests may wait for ever, however slow the machine is.
var wireTenants = must(NewTenants(patient([]Tenant{
	{ID: "public", Allow: []string{"/"}},
	{ID: "everything", Allow: []string{"/x", "/"}, Tokens: []Token{{"all", sha256.Sum256([]byte("the-secret"))}}},
	{ID: "folder", Allow: []string{"/b/"}, Tokens: []Token{{"unused", sha256.Sum256([]byte("x"))}, {"b", sha256.Sum256([]byte("1.2.3"))}}},
	{ID: "nothing", Tokens: []Token{{"none", sha256.Sum256([]byte("s"))}}},
})))

// patient lets the tenants' requests wait for an hour.
func patient(tenants []Tenant) []Tenant {
	for i := range tenants {
		tenants[i].QueueDeadline, tenants[i].QueueTarget = time.Hour, time.Hour
	}
	return tenants
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// wireObjects are what the table's requests find, all changed last at testMtime.
var wireObjects = map[string][]byte{
	"k":      []byte("the object k\n"),
	"b/k":    []byte("the object b/k, another one\n"),
	"a+b c":  []byte("the object a+b c\n"),
	"\u00e9": []byte("UTF-8\n"),
	"ten":    []byte("0123456789"),
	"empty":  nil,
	"large":  pattern(300_000, 1),
	"probe":  []byte("the connection is in step"),
}
