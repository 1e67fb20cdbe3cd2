package server

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// wireRig is a server that has the objects of wireTable, and connections to it that
// an earlier input has left open.
type wireRig struct {
	*rig
	idle  []*client
	abort bool // close by RST: ten thousand connections need not stay in TIME_WAIT
}

func startWireRig(t *testing.T, change func(*Config)) *wireRig {
	t.Helper()
	w := &wireRig{rig: startRig(t, func(c *Config) {
		c.Tenants = wireTenants
		if change != nil {
			change(c)
		}
	})}
	at := time.Unix(testMtime, 0)
	for name, content := range wireObjects {
		w.put(name, content)
		if err := os.Chtimes(filepath.Join(w.dir, name), at, at); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(w.dir, "link")); err != nil {
		t.Fatal(err)
	}
	return w
}

// probe is asked behind an input that leaves the connection open: its answer can
// only come next if the server and we agree where the input ended.
const probe = "GET /probe HTTP/1.1\r\nHost: h\r\n\r\n"

// wireTry is one input on its way: the pieces it is sent in, and the answer it
// must have.
type wireTry struct {
	name   string
	in     string
	asked  []asked
	answer string
	text   string // the body of a refusal, "" if it is not compared
	pieces []string
	fin    bool // half-close behind the last piece
	conn   *client
}

// try makes a try of a case, in pieces cut at the given places.
func (c *wireCase) try(cuts ...int) *wireTry {
	if wireAsked[c.in] == nil {
		wireAsked[c.in] = askedIn(c.in)
	}
	w := &wireTry{name: c.name, in: c.in, asked: wireAsked[c.in], answer: c.answer}
	if c.want != faultNone && !strings.Contains(c.answer, ";") {
		w.text = c.want.text() + "\n"
	}
	w.cut(cuts...)
	return w
}

func (w *wireTry) cut(cuts ...int) {
	w.pieces = nil
	from := 0
	for _, to := range append(cuts, len(w.in)) {
		w.pieces = append(w.pieces, w.in[from:to])
		from = to
	}
}

func (w *wireTry) ends() bool { return strings.HasSuffix(w.answer, "close") }

// why names the try in a message: where it was cut, as that may be what matters.
func (w *wireTry) why() string {
	return fmt.Sprintf("%s (%.60q, in %d pieces, the first of %d bytes)", w.name, w.in, len(w.pieces), len(w.pieces[0]))
}

// wireBatch is how many tries are on their way at one time.
const wireBatch = 128

// check sends all tries, many side by side, and compares what comes back.
func (w *wireRig) check(tries []*wireTry) {
	w.t.Helper()
	for batch := range slices.Chunk(tries, wireBatch) {
		w.send(batch)
		w.receive(batch)
		if w.t.Failed() {
			return
		}
	}
}

// send sends the tries piece by piece. Between two pieces it makes sure that
// the server has taken the first, so that they are two to it as well.
func (w *wireRig) send(batch []*wireTry) {
	for _, try := range batch {
		try.conn = w.connect()
	}
	for i := 0; ; i++ {
		sent := false
		for _, try := range batch {
			if i < len(try.pieces) {
				try.send(i)
				sent = true
			}
		}
		if !sent {
			break
		}
		w.stats() // the loop answers this after all that came before
	}
}

func (w *wireRig) receive(batch []*wireTry) {
	for _, try := range batch {
		if try.receive(w.t) {
			w.idle = append(w.idle, try.conn)
			continue
		}
		if w.abort {
			try.conn.conn.SetLinger(0)
		}
		try.conn.conn.Close()
	}
}

// endHeaderTime lets the time for the heads that are not complete be over now.
func (w *wireRig) endHeaderTime() {
	done := make(chan struct{})
	w.s.loops[0].mail.post(&message{run: func(l *loop) {
		for i := range l.conns {
			if c := &l.conns[i]; c.state == stateReading && c.heading {
				l.expire(c.slot)
			}
		}
		close(done)
	}})
	<-done
}

func (w *wireRig) connect() *client {
	if n := len(w.idle); n > 0 {
		c := w.idle[n-1]
		w.idle = w.idle[:n-1]
		c.conn.SetDeadline(time.Now().Add(waitLong))
		return c
	}
	return w.dial()
}

// send writes piece i. A server that has refused what came before stops reading
// after lingerMax, so only then may a write fail.
func (w *wireTry) send(i int) {
	_, err := io.WriteString(w.conn.conn, w.pieces[i])
	if err == nil && i == len(w.pieces)-1 {
		if w.fin {
			err = w.conn.conn.CloseWrite()
		} else if !w.ends() {
			_, err = io.WriteString(w.conn.conn, probe)
		}
	}
	if err != nil && len(w.in) < lingerMax {
		w.conn.t.Errorf("%s: send: %v", w.why(), err)
	}
}

// receive reads the answer and what follows: the probe's, or the end of the
// connection. It reports whether the connection can be used again.
func (w *wireTry) receive(t *testing.T) (open bool) {
	asked := append(w.asked[:len(w.asked):len(w.asked)], asked{"GET", "probe"})
	want := strings.Split(w.answer, "; ")
	if !w.ends() && !w.fin {
		want = append(want, "200")
	}
	for i, want := range want {
		resp, err := http.ReadResponse(w.conn.r, &http.Request{Method: asked[i].method})
		if err != nil {
			t.Errorf("%s: response %d: %v, want %s", w.why(), i, err, want)
			return false
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Errorf("%s: the body of response %d: %v after %d bytes", w.why(), i, err, len(body))
			return false
		}
		if got := describe(resp); got != want {
			t.Errorf("%s: response %d is %s (%.80q; %s), want %s", w.why(), i, got, body, resp.Header.Get("Talon-Throttle"), want)
			return false
		}
		w.judge(t, resp, body, asked[i])
	}
	if !w.ends() && !w.fin {
		return true
	}
	rest, err := io.ReadAll(w.conn.r)
	if errors.Is(err, unix.ECONNRESET) && len(w.in) >= lingerMax {
		err = nil
	}
	if len(rest) > 0 || err != nil {
		t.Errorf("%s: after the last response %d bytes (%.80q), %v; want the end of the connection", w.why(), len(rest), rest, err)
	}
	return false
}

// describe writes a response as wireCase.answer has it.
func describe(r *http.Response) string {
	s := fmt.Sprint(r.StatusCode)
	if rang, ok := strings.CutPrefix(r.Header.Get("Content-Range"), "bytes "); ok {
		s += " " + rang
	}
	if r.Close {
		s += ", close"
	}
	return s
}

// sentHeaders are all that a response may have.
var sentHeaders = []string{"Accept-Ranges", "Allow", "Connection", "Content-Length", "Content-Range", "Content-Type", "Date", "Etag",
	"Last-Modified", "Retry-After", "Server", "Www-Authenticate", "X-Request-Id"}

// judge holds a response against the object that was asked for, and its head
// against what a head may have in it: nothing of a request, a key least of all.
func (w *wireTry) judge(t *testing.T, resp *http.Response, body []byte, asked asked) {
	for name := range maps.Keys(resp.Header) {
		if !slices.Contains(sentHeaders, name) {
			t.Errorf("%s: a response has the header %s: %q", w.why(), name, resp.Header[name])
		}
	}
	object := wireObjects[asked.key]
	switch resp.StatusCode {
	case 206:
		var first, last, size int
		if n, err := fmt.Sscanf(resp.Header.Get("Content-Range"), "bytes %d-%d/%d", &first, &last, &size); n != 3 || size != len(object) {
			t.Errorf("%s: Content-Range %q of an object of %d bytes: %v", w.why(), resp.Header.Get("Content-Range"), len(object), err)
			return
		}
		object = object[first : last+1]
		fallthrough
	case 200:
		if resp.ContentLength != int64(len(object)) {
			t.Errorf("%s: Content-Length %d, want %d", w.why(), resp.ContentLength, len(object))
		}
		if asked.method != "HEAD" {
			wantBody(t, w.why(), body, object)
		}
	case 204, 304:
	default:
		if w.text != "" && asked.method != "HEAD" && asked.key != "probe" && string(body) != w.text {
			t.Errorf("%s: the body is %q, want %q", w.why(), body, w.text)
		}
	}
}

// asked is what net/http takes a request to be.
type asked struct{ method, key string }

// wireAsked remembers askedIn: an input is sent in hundreds of ways.
var wireAsked = map[string][]asked{}

// askedIn reads the requests of an input with net/http, as a second opinion on what
// is asked. It ends with one that net/http does not understand.
func askedIn(in string) (all []asked) {
	b := bufio.NewReader(strings.NewReader(in))
	for {
		for head, _ := b.Peek(2); string(head) == "\r\n"; head, _ = b.Peek(2) {
			b.Discard(2)
		}
		req, err := http.ReadRequest(b)
		if err == io.EOF {
			return all
		}
		if err != nil {
			method, _, _ := strings.Cut(strings.TrimSpace(in), " ")
			return append(all, asked{method: method})
		}
		key, err := url.PathUnescape(strings.TrimPrefix(req.URL.EscapedPath(), "/"))
		if err != nil {
			key = ""
		}
		all = append(all, asked{req.Method, key})
		io.Copy(io.Discard, req.Body)
	}
}

// longInput is the length from which an input is not cut at every byte: its bytes
// are the same for long stretches.
const longInput = 600

// cutsOf are the places to cut an input at: all of them, or for a long one enough to
// have several receive buffers and both sides of every limit.
func cutsOf(in string) (cuts []int) {
	step := 1
	if len(in) > longInput {
		step = 509
	}
	for i := 1; i < min(len(in), 2*maxHead); i += step {
		cuts = append(cuts, i)
	}
	if len(in) > longInput {
		for _, i := range []int{2, recvSize - 1, recvSize, recvSize + 1, maxRequestLine - 1, maxRequestLine, maxRequestLine + 1, len(in) - 2, len(in) - 1} {
			if i < len(in) {
				cuts = append(cuts, i)
			}
		}
	}
	slices.Sort(cuts)
	return slices.Compact(cuts)
}

// Every input of the table, on a socket: the responses it says and not one more,
// closed where it says so, and open and in step where it does not. The server that
// opens the file anew for each request must not differ from the one that has it
// open; nor the second time from the first.
func TestWireWhole(t *testing.T) {
	opened := map[time.Duration]uint64{}
	for _, valid := range []time.Duration{1, time.Hour} {
		w := startWireRig(t, func(c *Config) { c.OpenFileValid = valid })
		for range 2 {
			var tries []*wireTry
			for i := range wireCases {
				tries = append(tries, wireCases[i].try())
			}
			w.check(tries)
		}
		opened[valid] = w.stats().FilesMissed
	}
	if opened[1] <= opened[time.Hour] {
		t.Errorf("%d lookups where files are opened anew, %d where they are kept open", opened[1], opened[time.Hour])
	}
}

// Every input cut in two at every place, and sent byte by byte, is answered as
// the whole.
func TestWireSplit(t *testing.T) {
	w := startWireRig(t, nil)
	w.abort = true
	some := 1
	if raceEnabled || testing.Short() {
		some = 5 // every fifth cut, another one of each input
	}
	var tries []*wireTry
	for i := range wireCases {
		c := &wireCases[i]
		cuts := cutsOf(c.in)
		for j, cut := range cuts {
			if (i+j)%some == 0 {
				tries = append(tries, c.try(cut))
			}
		}
		tries = append(tries, c.try(cuts...))
	}
	for _, try := range tries {
		try.fin = try.ends() // else the server may rightly wait for the rest of a head that is bad already
	}
	// Tries of few pieces first, so that those of many are side by side.
	slices.SortStableFunc(tries, func(a, b *wireTry) int { return len(a.pieces) - len(b.pieces) })
	t.Logf("%d inputs", len(tries))
	w.check(tries)
}

// A head that is never completed is answered when its time is over: with what is
// wrong in it, however it arrived, and with 408 if nothing is.
func TestWireLate(t *testing.T) {
	w := startWireRig(t, nil)
	var tries []*wireTry
	for i := range wireCases {
		if c := &wireCases[i]; c.refused() && len(c.in) < longInput {
			tries = append(tries, c.try(cutsOf(c.in)...))
		}
	}
	for _, in := range []string{"G", "GET /k HTTP/1.1\r\nHost: h\r\n", "HEAD /k HTTP/1.1\r\nHost: h\r\n\r", "\r"} {
		late := wireCase{name: "late", in: in, answer: "408, close", want: faultHeaderTimeout}
		tries = append(tries, late.try(cutsOf(in)...))
	}
	for batch := range slices.Chunk(tries, wireBatch) {
		w.send(batch)
		w.endHeaderTime()
		w.receive(batch)
	}
	st := w.stats()
	for deadline := time.Now().Add(waitLong); st.Open > 0 && time.Now().Before(deadline); {
		st = w.stats()
	}
	if st.Closed[ClosedHeaderTime] < 1 || st.Closed[ClosedBadRequest] < 10 {
		t.Errorf("closed for time: %d, for bad requests: %d", st.Closed[ClosedHeaderTime], st.Closed[ClosedBadRequest])
	}
}

// A client that half-closes behind its last byte, however slowly the bytes came, is
// answered all the same, and then the connection ends.
func TestWireHalfClose(t *testing.T) {
	w := startWireRig(t, nil)
	var tries []*wireTry
	for i := range wireCases {
		c := &wireCases[i]
		for _, try := range []*wireTry{c.try(), c.try(cutsOf(c.in)...)} {
			try.fin = true
			tries = append(tries, try)
		}
	}
	w.check(tries)
}

// A refusal of the framing does not depend on what is asked for: it comes before
// any file is looked at.
func TestWireRefusedWhateverIsAskedFor(t *testing.T) {
	w := startWireRig(t, nil)
	var tries []*wireTry
	for i := range wireCases {
		c := &wireCases[i]
		method, rest, ok := strings.Cut(c.in, " /")
		_, header, ok2 := strings.Cut(rest, "\r\n")
		if !c.refused() || !ok || !ok2 || strings.ContainsAny(method, "\r\n\t :") {
			continue
		}
		line := rest[:len(rest)-len(header)]
		version := strings.LastIndex(line, " HTTP/1.")
		if version < 0 || version+len(" HTTP/1.1\r\n") != len(line) || strings.Contains(line[:version], " ") || len(line) > 100 || c.want == faultVersion || c.want == faultTarget {
			continue // the request line itself is what is refused
		}
		for _, target := range []struct{ path, lines string }{
			{"/ten", ""}, {"/nope", ""}, {"/large", ""}, {"/b/%", ""}, {"/ten", "Range: bytes=0-1\r\n"}, {"/ten", "Range: bytes=10-\r\n"},
			{"/ten", "If-None-Match: *\r\n"}, {"/ten", "If-Match: \"x\"\r\n"}, {"/ten", "Authorization: Bearer a.b\r\n"},
		} {
			in := method + " " + target.path + line[version:] + target.lines + header
			if c.want == faultFold && target.lines != "" && (header[0] == ' ' || header[0] == '\t') {
				in = method + " " + target.path + line[version:] + header
			}
			of := wireCase{name: c.name + " of " + target.path, in: in, answer: c.answer, want: c.want}
			tries = append(tries, of.try())
		}
	}
	if len(tries) < 500 {
		t.Errorf("only %d inputs", len(tries))
	}
	w.check(tries)
	st := w.stats()
	if st.FilesHit+st.FilesMissed != 0 {
		t.Errorf("%d lookups for requests that are all refused", st.FilesHit+st.FilesMissed)
	}
}

// The table speaks of an object as the server does.
func TestWireObjectsAreServed(t *testing.T) {
	w := startWireRig(t, nil)
	c := w.dial()
	for name, content := range wireObjects {
		resp, body := c.get("/" + (&url.URL{Path: name}).EscapedPath())
		if resp.StatusCode != 200 || !bytes.Equal(body, content) {
			t.Errorf("%q: %d, %d bytes", name, resp.StatusCode, len(body))
		}
	}
}
