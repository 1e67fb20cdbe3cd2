package load

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestConsumeHead(t *testing.T) {
	tests := []struct {
		name, in string
		want     head
		n        int
		err      error
	}{
		{"plain", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", head{200, 5, false}, 38, nil},
		{"no reason phrase", "HTTP/1.1 206 \r\ncontent-length:0\r\n\r\n", head{206, 0, false}, 35, nil},
		{"close", "HTTP/1.1 503 Busy\r\nConnection: CLOSE\r\nContent-Length: 1\r\n\r\n", head{503, 1, true}, 59, nil},
		{"HTTP/1.0 closes", "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\n", head{200, 1, true}, 38, nil},
		{"same length twice", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n", head{200, 5, false}, 57, nil},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", head{}, 0, errNoLength},
		{"incomplete", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r", head{}, 0, nil},
		{"empty", "", head{}, 0, nil},
		{"chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", head{}, 0, errNoLength},
		{"no length", "HTTP/1.1 200 OK\r\nServer: x\r\n\r\n", head{}, 0, errNoLength},
		{"length not a number", "HTTP/1.1 200 OK\r\nContent-Length: 5x\r\n\r\n", head{}, 0, errNoLength},
		{"length overflows", "HTTP/1.1 200 OK\r\nContent-Length: 9999999999999999999\r\n\r\n", head{}, 0, errNoLength},
		{"not HTTP", "SSH-2.0-OpenSSH_9.2\r\n\r\n", head{}, 0, errBadHead},
		{"status not a number", "HTTP/1.1 2x0 OK\r\nContent-Length: 5\r\n\r\n", head{}, 0, errBadHead},
		{"field without colon", "HTTP/1.1 200 OK\r\nContent-Length\r\n\r\n", head{}, 0, errBadHead},
		{"too long", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("a", maxHead) + "\r\n\r\n", head{}, 0, errHeadTooLong},
		{"too long, no end", strings.Repeat("a", maxHead), head{}, 0, errHeadTooLong},
	}
	for _, tt := range tests {
		h, n, err := consumeHead([]byte(tt.in))
		if h != tt.want || n != tt.n || !errors.Is(err, tt.err) {
			t.Errorf("%s: got %+v, %d bytes, %v; want %+v, %d bytes, %v", tt.name, h, n, err, tt.want, tt.n, tt.err)
		}
	}
}

// A response must come out the same however the network splits it, with body bytes either shown to
// the frame or skipped in the kernel.
func TestFrameAnySplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := rapid.IntRange(0, 300).Draw(t, "body")
		pad := rapid.IntRange(0, 100).Draw(t, "pad")
		wire := fmt.Sprintf("HTTP/1.1 206 Partial Content\r\nX-Pad: %s\r\nContent-Length: %d\r\n\r\n%s",
			strings.Repeat("p", pad), body, strings.Repeat("b", body))
		var f frame
		for range 2 { // the second response finds what the first one left behind
			f.reset()
			drive(t, &f, []byte(wire))
			if f.head.status != 206 || f.head.length != int64(body) || f.got() != int64(body) {
				t.Fatalf("got %+v and %d body bytes, want status 206 and %d", f.head, f.got(), body)
			}
		}
	})
}

// drive hands wire over in random pieces and demands done exactly at the last byte.
func drive(t *rapid.T, f *frame, wire []byte) {
	for len(wire) > 0 {
		n := rapid.IntRange(1, len(wire)).Draw(t, "piece")
		var done bool
		var err error
		if f.body && rapid.Bool().Draw(t, "skip") {
			done = f.skip(int64(n))
		} else {
			done, err = f.feed(wire[:n])
		}
		wire = wire[n:]
		if err != nil || done != (len(wire) == 0) {
			t.Fatalf("done=%v err=%v with %d bytes to come", done, err, len(wire))
		}
	}
}

func TestFrameTrailingBytes(t *testing.T) {
	var f frame
	if _, err := f.feed([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabc")); !errors.Is(err, errTrailing) {
		t.Errorf("one byte too many: got %v, want %v", err, errTrailing)
	}
}

func TestFrameAllocs(t *testing.T) {
	wire := []byte("HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 3\r\n\r\nabc")
	var f frame
	f.part = make([]byte, 0, maxHead)
	if n := testing.AllocsPerRun(100, func() {
		f.reset()
		f.feed(wire[:20])
		f.feed(wire[20:])
	}); n != 0 {
		t.Errorf("%v allocations per split response, want 0", n)
	}
}

func FuzzConsumeHead(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"))
	f.Add([]byte("HTTP/1.1 200\n\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, n, err := consumeHead(b)
		if n < 0 || n > len(b) || n > 0 && (err != nil || h.length < 0) {
			t.Fatalf("consumeHead(%q) = %+v, %d, %v", b, h, n, err)
		}
		if n > 0 && !bytes.HasSuffix(b[:n], []byte("\r\n\r\n")) {
			t.Fatalf("head of %q ends at %d, not after an empty line", b, n)
		}
	})
}
