package server

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var (
	diffExecs = flag.Uint64("execs", 50_000, "how many inputs TestDifferential makes")
	diffFirst = flag.Uint64("exec", 0, "the number of the first of them; 0 draws one")
)

// netHTTP is the second reader of a request. Reused, it allocates what
// http.ReadRequest does.
type netHTTP struct {
	src bytes.Reader
	buf *bufio.Reader
	key []byte
}

func newNetHTTP() *netHTTP { return &netHTTP{buf: bufio.NewReader(nil), key: make([]byte, 0, maxKey)} }

// disagrees compares what consumeRequest said of in, n and r, with what net/http
// reads, and returns the difference, or "". Only an accepted request is compared:
// we may refuse more than net/http does. Its method, target, host, persistence and
// Range must be the same, and the number of bytes that it took.
//
// Two things differ by design: the one empty line before the request line, which
// net/http does not forgive, and a broken escape in the path, which is decodeKey's to
// find. Such a path is compared with its percent signs replaced.
func (w *netHTTP) disagrees(in []byte, r *request, n int) string {
	if n <= 0 {
		return ""
	}
	path := r.path
	if _, why := decodeKey(w.key, path); why == faultKey && bytes.IndexByte(path, '%') >= 0 {
		in, path = replacePercent(in, path)
	}
	if in[0] == '\r' {
		in, n = in[2:], n-2
	}
	w.src.Reset(in)
	w.buf.Reset(&w.src)
	std, err := http.ReadRequest(w.buf)
	if err != nil {
		return fmt.Sprintf("accepted, net/http: %v", err)
	}
	if std.Body != nil && std.Body != http.NoBody {
		if body, err := io.ReadAll(std.Body); len(body) != 0 || err != nil {
			return fmt.Sprintf("net/http sees a body of %d bytes, %v", len(body), err)
		}
	}
	used := len(in) - w.src.Len() - w.buf.Buffered()
	switch {
	case used != n:
		return fmt.Sprintf("consumed %d, net/http %d", n, used)
	case methodNamed(std.Method) != r.method:
		return fmt.Sprintf("method %d, net/http %s", r.method, std.Method)
	case !sameTarget(std, r, path):
		return fmt.Sprintf("target %q?%q, net/http %q", path, r.query, std.RequestURI)
	case !strings.EqualFold(std.Host, string(r.host)):
		return fmt.Sprintf("host %q, net/http %q", r.host, std.Host)
	case std.Close == r.keepAlive:
		return fmt.Sprintf("keepAlive %v, net/http closes %v", r.keepAlive, std.Close)
	case std.Header.Get("Range") != string(r.rang):
		return fmt.Sprintf("range %q, net/http %q", r.rang, std.Header.Get("Range"))
	}
	return ""
}

func methodNamed(name string) method {
	switch name {
	case "GET":
		return methodGet
	case "HEAD":
		return methodHead
	case "OPTIONS":
		return methodOptions
	}
	return methodOther
}

// sameTarget compares targets in origin form.
func sameTarget(std *http.Request, r *request, path []byte) bool {
	target := std.RequestURI
	if r.authority != nil {
		target = target[len("http://")+len(std.URL.Host):]
		if !strings.HasPrefix(target, "/") {
			target = "/" + target
		}
	}
	theirs, query, has := strings.Cut(target, "?")
	return theirs == string(path) && has == (r.query != nil) && query == string(r.query)
}

// replacePercent returns a copy of in, and of path in it, without percent signs in
// path.
func replacePercent(in, path []byte) (in2, path2 []byte) {
	at := bytes.Index(in, path)
	in2 = bytes.Clone(in)
	path2 = in2[at : at+len(path)]
	for i, c := range path2 {
		if c == '%' {
			path2[i] = 'x'
		}
	}
	return in2, path2
}

// inputGenerator makes requests that are close to valid ones: composed of likely
// pieces or taken from wireTable, spliced, and changed in a few places. An input
// depends on its number alone.
type inputGenerator struct {
	pcg  rand.PCG
	rnd  *rand.Rand
	buf  []byte
	pool []string // of wireTable, short ones
	long []string
}

func newInputGenerator() *inputGenerator {
	g := &inputGenerator{}
	g.rnd = rand.New(&g.pcg)
	for _, c := range wireCases {
		switch {
		case len(c.in) < longInput:
			g.pool = append(g.pool, c.in)
		case len(c.in) < 2*maxHead:
			g.long = append(g.long, c.in)
		}
	}
	return g
}

// input returns input number exec, valid until the next call.
func (g *inputGenerator) input(exec uint64) []byte {
	g.pcg.Seed(exec, 0x74616c6f6e)
	g.buf = g.buf[:0]
	switch roll := g.rnd.IntN(4096); {
	case roll == 0:
		g.add(g.long)
	case roll < 1200:
		g.add(g.pool)
	default:
		g.compose()
	}
	if g.rnd.IntN(16) == 0 {
		g.splice()
	}
	for g.rnd.IntN(3) == 0 {
		g.mutate()
	}
	return g.buf
}

func (g *inputGenerator) add(from []string) { g.buf = append(g.buf, from[g.rnd.IntN(len(from))]...) }

// The pieces of a composed request: the first half of each list is harmless.
var (
	someMethods  = []string{"GET ", "GET ", "GET ", "GET ", "GET ", "HEAD ", "OPTIONS ", "PUT ", "get ", "PRI ", "G@T ", "GET  ", "GET\t", ""}
	someTargets  = []string{"/", "/k", "/b/k", "/b/%6b?q=1", "/b/k?", "/a/../b//c", "http://h/k", "http://h", "http://h?x", "/\xff\xc3", "/%zz", "/%0a", "*", "http://g/", "https://h/", "//h/k", "/a#b", "k", "", "/\x00", "/?%zz?", "http://h:80/", "http://u@h/", "HTTP://H/k", "/:@!$&'()*+,;=~", "/a[b]{c}|\\^`\"<>", "/k;x=1"}
	someVersions = []string{" HTTP/1.1\r\n", " HTTP/1.1\r\n", " HTTP/1.1\r\n", " HTTP/1.1\r\n", " HTTP/1.1\r\n", " HTTP/1.1\r\n", " HTTP/1.0\r\n", " HTTP/1.2\r\n", " HTTP/2.0\r\n", " http/1.1\r\n", "\r\n", " HTTP/1.1\n", " HTTP/1.1 \r\n"}
	someHosts    = []string{"Host: h\r\n", "Host: h\r\n", "Host: h\r\n", "Host: h\r\n", "host:h\r\n", "HOST:\th \r\n", "Host: H\r\n", "Host: 127.0.0.1:8080\r\n", "Host: [::1]:80\r\n", "Host: h:80\r\n", "", "Host: h, g\r\n", "Host: u@h\r\n", "Host:\r\n", "Host : h\r\n", "Host: h\r\nHost: h\r\n"}
	someFields   = []string{"Range: bytes=0-1\r\n", "range:bytes=-5 \r\n", "Connection: close\r\n", "Connection: keep-alive\r\n", "Connection: x, close ,y\r\n", "Content-Length: 0\r\n", "If-Match: \"a\"\r\n", "If-None-Match: *\r\n", "If-Range: \"a\"\r\n",
		"If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n", "If-Unmodified-Since: x\r\n", "Authorization: Bearer a.b\r\n", "Accept: */*\r\n", "User-Agent: curl/8\r\n", "X-Long: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n", "X:\r\n", "Expect: 100-continue\r\n", "Upgrade: h2c\r\n", "Pragma: no-cache\r\n", "Cookie: a=\xff\tb\r\n", "Proxy-Connection: close\r\n",
		"Content-Length: 5\r\n", "Content-Length:\r\n", "Content-Length: +0\r\n", "Content-Length: 00\r\n", "Transfer-Encoding: chunked\r\n", "Transfer-Encoding: identity\r\n", "Trailer: X\r\n", "TE: trailers\r\n", "Expect: x\r\n", "A_B: c\r\n", ": x\r\n", "X\r\n", " fold\r\n", "X: a\nY: b\r\n", "X: a\rb\r\n", "X : y\r\n", "X: \x00\r\n"}
	someTails   = []string{"", "", "", "GET /next HTTP/1.1\r\nHost: h\r\n\r\n", "5\r\nhello\r\n0\r\n\r\n", "\r\n", "hello", "\x00"}
	someTokens  = []string{"\r\n", "\n", "\r", " ", "\t", ":", ",", "0", "chunked", "close", "\r\n\r\n", "HTTP/1.1", "Host: h\r\n", "Content-Length: ", "Transfer-Encoding:", "%", "?", "/", "//", "#", "*", "@", "\x00", "\x7f", "\x80", "_", "\v", "\"", "[", "]"}
	startOfLine = []byte("\r\n")
)

// harmlessFields are those of someFields with which a request is still accepted.
const harmlessFields = 21

// likely picks from the harmless first half nine times out of ten, or so.
func (g *inputGenerator) likely(from []string) {
	n := len(from)
	if g.rnd.IntN(5) > 0 {
		n = (n + 1) / 2
	}
	g.buf = append(g.buf, from[g.rnd.IntN(n)]...)
}

func (g *inputGenerator) compose() {
	g.likely(someMethods)
	g.likely(someTargets)
	g.likely(someVersions)
	g.likely(someHosts)
	for range g.rnd.IntN(4) {
		n := len(someFields)
		if g.rnd.IntN(8) > 0 {
			n = harmlessFields
		}
		g.buf = append(g.buf, someFields[g.rnd.IntN(n)]...)
	}
	g.buf = append(g.buf, "\r\n"...)
	g.likely(someTails)
}

// splice goes on with the rest of another input, from the start of a line of each.
func (g *inputGenerator) splice() {
	other := g.pool[g.rnd.IntN(len(g.pool))]
	g.buf = append(g.buf[:g.line()], other...)
	if at := strings.Index(other, "\r\n"); at >= 0 && g.rnd.IntN(2) == 0 {
		cut := len(g.buf) - len(other)
		g.buf = append(g.buf[:cut], other[at+2:]...)
	}
}

// line returns where some line starts.
func (g *inputGenerator) line() int {
	from := g.rnd.IntN(len(g.buf) + 1)
	if at := bytes.Index(g.buf[from:], startOfLine); at >= 0 {
		return from + at + len(startOfLine)
	}
	return 0
}

// mutate changes one thing.
func (g *inputGenerator) mutate() {
	if len(g.buf) == 0 {
		return
	}
	at := g.rnd.IntN(len(g.buf))
	switch g.rnd.IntN(9) {
	case 0:
		g.buf[at] ^= 1 << g.rnd.IntN(8)
	case 1:
		g.buf[at] = byte(g.rnd.IntN(256))
	case 2:
		g.buf[at] = someTokens[g.rnd.IntN(len(someTokens))][0]
	case 3:
		g.insert(at, someTokens[g.rnd.IntN(len(someTokens))])
	case 4:
		g.insert(g.line(), someFields[g.rnd.IntN(len(someFields))])
	case 5:
		n := min(1+g.rnd.IntN(4), len(g.buf)-at)
		g.buf = append(g.buf[:at], g.buf[at+n:]...)
	case 6: // lose a line
		from := g.line()
		if n := bytes.Index(g.buf[from:], startOfLine); n >= 0 {
			g.buf = append(g.buf[:from], g.buf[from+n+2:]...)
		}
	case 7: // say a line again
		from := g.line()
		if n := bytes.Index(g.buf[from:], startOfLine); n >= 0 {
			g.insert(g.line(), string(g.buf[from:from+n+2]))
		}
	case 8:
		g.buf = g.buf[:at]
	}
}

func (g *inputGenerator) insert(at int, s string) {
	n := len(g.buf)
	g.buf = append(g.buf, s...)
	copy(g.buf[at+len(s):], g.buf[at:n])
	copy(g.buf[at:], s)
}

// diffTally is what became of the inputs.
type diffTally struct {
	execs, accepted, partial uint64
	refused                  [faultCount]uint64
	wrong                    []string
}

func (d *diffTally) add(o *diffTally) {
	d.execs += o.execs
	d.accepted += o.accepted
	d.partial += o.partial
	for f, n := range o.refused {
		d.refused[f] += n
	}
	d.wrong = append(d.wrong, o.wrong...)
}

// run takes the inputs first, first+step and so on, below end.
func (d *diffTally) run(first, end, step uint64) {
	g, w := newInputGenerator(), newNetHTTP()
	var r, part request
	for exec := first; exec < end && len(d.wrong) < 3; exec += step {
		in := g.input(exec)
		n := consumeRequest(in, &r)
		d.execs++
		switch {
		case n > 0:
			d.accepted++
		case n == 0:
			d.partial++
		default:
			d.refused[r.fault]++
		}
		why := w.disagrees(in, &r, n)
		cut := g.rnd.IntN(len(in) + 1)
		if m := consumeRequest(in[:cut:cut], &part); m != 0 && (m != n || part.fault != r.fault) {
			why = fmt.Sprintf("%d (%q), and of the first %d bytes %d (%q)", n, r.fault.text(), cut, m, part.fault.text())
		}
		if why != "" {
			d.wrong = append(d.wrong, fmt.Sprintf("%q: %s; replay: go test ./server -run '^TestDifferential$' -args -execs=1 -exec=%d", in, why, exec))
		}
	}
}

// TestDifferential gives made-up inputs to consumeRequest and to net/http: whatever
// we accept, net/http accepts, with the same method, target, host and end. make long
// runs 1e8 of them (-execs).
func TestDifferential(t *testing.T) {
	first, workers := *diffFirst, uint64(runtime.GOMAXPROCS(0))
	if first == 0 {
		first = uint64(time.Now().UnixNano())
	}
	began, tallies := cpuTime(), make([]diffTally, workers)
	var group sync.WaitGroup
	for i := range workers {
		group.Go(func() { tallies[i].run(first+i, first+*diffExecs, workers) })
	}
	group.Wait()
	var d diffTally
	for i := range tallies {
		d.add(&tallies[i])
	}
	t.Logf("%d executions, %d accepted, %d incomplete, %d refused, %d disagreements; %.0f per CPU second; replay: go test ./server -run '^TestDifferential$' -v -args -execs=%d -exec=%d",
		d.execs, d.accepted, d.partial, d.execs-d.accepted-d.partial, len(d.wrong), float64(d.execs)/(cpuTime()-began).Seconds(), *diffExecs, first)
	for f := faultNone + 1; f.closes(); f++ {
		t.Logf("%10d  %d %s", d.refused[f], f.status(), f.text())
		// Of 50,000 inputs the rarest of these faults has dozens.
		if d.refused[f] == 0 && d.execs >= 50_000 && f != faultHeaderTimeout && f != faultRequestLineSize && f != faultHeaderSize {
			t.Errorf("no input was refused because %s", f.text())
		}
	}
	if share := d.accepted * 100 / max(d.execs, 1); d.execs >= 1000 && (share < 30 || share > 70) {
		t.Errorf("%d %% of the inputs are accepted: too many of one kind to find much", share)
	}
	for _, why := range d.wrong {
		t.Error(why)
	}
}

// cpuTime is what this process has used.
func cpuTime() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
