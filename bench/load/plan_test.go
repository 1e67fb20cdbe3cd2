package load

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"testing"

	"pgregory.net/rapid"
)

func newTestPlan(t interface{ Fatal(...any) }, s Stream, sizes ...int64) *plan {
	c := &Config{Headers: []string{"Authorization: Bearer x"}, Seed: 7}
	for i := range sizes {
		s.Keys = append(s.Keys, fmt.Sprintf("/k%d", i))
	}
	if err := s.Range.validate(); err != nil {
		t.Fatal(err)
	}
	p, err := newPlan(c, &s, "h:1", sizes, 0)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPlanRoundRobin(t *testing.T) {
	p := newTestPlan(t, Stream{}, 10, 20)
	for i, want := range []string{"/k0", "/k1", "/k0"} {
		wire, exp := p.next(nil)
		text := "GET " + want + " HTTP/1.1\r\nHost: h:1\r\nAuthorization: Bearer x\r\n\r\n"
		if string(wire) != text {
			t.Errorf("request %d: got %q, want %q", i, wire, text)
		}
		if length := []int64{10, 20, 10}[i]; exp != (expect{200, length}) {
			t.Errorf("request %d: expects %+v, want 200 and %d bytes", i, exp, length)
		}
	}
}

func TestPlanFixedRangeIsClippedAtTheEnd(t *testing.T) {
	p := newTestPlan(t, Stream{Range: Range{Kind: "fixed", First: 90, Length: 50}}, 100)
	wire, exp := p.next(nil)
	if !bytes.Contains(wire, []byte("\r\nRange: bytes=90-99\r\n\r\n")) || exp != (expect{206, 10}) {
		t.Errorf("got %q, %+v; want bytes=90-99 and 10 bytes", wire, exp)
	}
}

func TestPlanRangeBeyondTheEndIsRefused(t *testing.T) {
	s := Stream{Name: "s", Keys: []string{"/k"}, Range: Range{Kind: "fixed", First: 100, Length: 1, Align: 1}}
	if _, err := newPlan(&Config{}, &s, "h", []int64{100}, 0); err == nil {
		t.Error("a range that starts at the end was accepted")
	}
}

// Every random range lies inside the object, is aligned, and is what the expectation says.
func TestPlanRandomRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int64Range(1, 1<<40).Draw(t, "size")
		r := Range{Kind: "random", Length: rapid.Int64Range(1, 1<<21).Draw(t, "length"), Align: rapid.Int64Range(1, 1<<16).Draw(t, "align")}
		p := newTestPlan(t, Stream{Range: r, Order: "random"}, size)
		wire, exp := p.next(nil)
		req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(wire)))
		if err != nil {
			t.Fatal(err)
		}
		var first, last int64
		if _, err := fmt.Sscanf(req.Header.Get("Range"), "bytes=%d-%d", &first, &last); err != nil {
			t.Fatal(err)
		}
		if first%r.Align != 0 || first > last || last >= size || last-first+1 != exp.length || exp.length != min(r.Length, size) {
			t.Fatalf("bytes=%d-%d of %d, aligned %d, expecting %d bytes", first, last, size, r.Align, exp.length)
		}
	})
}

func TestPlanAllocs(t *testing.T) {
	p := newTestPlan(t, Stream{Range: Range{Kind: "random", Length: 10}}, 1000)
	buf := make([]byte, 0, 512)
	if n := testing.AllocsPerRun(100, func() { p.next(buf) }); n != 0 {
		t.Errorf("%v allocations per request, want 0", n)
	}
}
