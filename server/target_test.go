package server

import (
	"bytes"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestDecodeKey(t *testing.T) {
	long := strings.Repeat("k", maxKey)
	for _, c := range []struct {
		path, key string
		status    int
	}{
		{"/", "", 0},
		{"/b/k", "b/k", 0},
		{"/b/../../etc/passwd", "b/../../etc/passwd", 0},
		{"/b/%2e%2e/%2E%2e/x", "b/../../x", 0},
		{"/b/.%2e/", "b/../", 0},
		{"/b/%252e%252e/", "b/%2e%2e/", 0}, // once: CVE-2021-41773, CVE-2021-42013
		{"/b%2Fk", "b/k", 0},
		{"//b//k/", "/b//k/", 0},
		{"/b/%c0%ae%c0%ae/", "b/\xc0\xae\xc0\xae/", 0},
		{"/b/a\\..\\b", "b/a\\..\\b", 0},
		{"/a+b%20c", "a+b c", 0},
		{"/%01%7f%ff", "\x01\x7f\xff", 0},
		{"/tab\there", "tab\there", 0},
		{"/b/%00", "", 400},
		{"/b/a%0d%0aX: y", "", 400},
		{"/b/a%0A", "", 400},
		{"/b/%", "", 400},
		{"/b/%4", "", 400},
		{"/b/%g1", "", 400},
		{"/b/%1g", "", 400},
		{"/b/%E0%A4%A", "", 400},
		{"/raw\x00nul", "", 400},
		{"/raw\r", "", 400},
		{"/raw\n", "", 400},
		{"/0123456789\n", "", 400},
		{"", "", 400},
		{"*", "", 400},
		{"b/k", "", 400},
		{"/" + long, long, 0},
		{"/" + long + "k", "", 414},
		{"/%6b" + long[1:], long, 0},
		{"/%6b" + long, "", 414},
		{"/" + long + "%6b", "", 414},
		{"/" + long + "k%6b", "", 414},
		{"/" + long + "k%6", "", 400}, // broken before too long
		{"/" + long[1:] + "%6b", long, 0},
	} {
		dst := []byte("dst")
		key, why := decodeKey(dst, []byte(c.path))
		status := why.status()
		if want := "dst" + c.key; status != c.status || string(key) != want {
			t.Errorf("decodeKey(%.40q) = %.40q, %d; want %.40q, %d", c.path, key, status, want, c.status)
		}
	}
}

// checkDecodeKey holds decodeKey against url.PathUnescape.
func checkDecodeKey(t interface{ Fatalf(string, ...any) }, path []byte) {
	key, why := decodeKey(nil, path)
	status := why.status()
	var want string
	wantStatus := 400
	if len(path) > 0 && path[0] == '/' {
		if s, err := url.PathUnescape(string(path[1:])); err == nil && !strings.ContainsAny(s, "\x00\r\n") {
			want, wantStatus = s, 0
			if len(s) > maxKey {
				want, wantStatus = "", 414
			}
		}
	}
	if status != wantStatus || string(key) != want {
		t.Fatalf("decodeKey(%q) = %q, %d; want %q, %d", path, key, status, want, wantStatus)
	}
}

func TestDrawnKeys(t *testing.T) {
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{"%", "%2", "%2f", "%0A", "%00", "%zz", "/", "..", "\\", "é", "\t", "\n", "%25"}),
		rapid.StringMatching(`[a-z]{0,20}`),
		rapid.Just(strings.Repeat("k", 500)),
	)
	rapid.Check(t, func(t *rapid.T) {
		checkDecodeKey(t, []byte("/"+strings.Join(rapid.SliceOfN(piece, 0, 8).Draw(t, "pieces"), "")))
	})
}

func FuzzDecodeKey(f *testing.F) {
	f.Add([]byte("/b/%2e%2e/%252e/k"))
	f.Add([]byte("/b/%E0%A4%A"))
	f.Add(append([]byte("/%6b"), bytes.Repeat([]byte("k"), maxKey)...))
	for _, r := range tableRequests() {
		f.Add(r.path)
	}
	f.Fuzz(func(t *testing.T, path []byte) { checkDecodeKey(t, path) })
}

func TestValidHost(t *testing.T) {
	for _, h := range []string{"h", "H.example", "127.0.0.1:80", "a_b-c.d", "h:", "h:0", "h:65535", "[::]", "[1::]", "[1:2:3:4:5:6:7:8]:1", "[::ffff:1.2.3.4]"} {
		if !validHost([]byte(h)) {
			t.Errorf("%q is valid", h)
		}
	}
	for _, h := range []string{"", ":", ":80", "h:65536", "h:99999999999999999999999", "h:+1", "h:1:2", "a b", "a,b", "u@h", "h/", "h?", "%41", "é", "[", "[]", "[::1", "[::1]a", "[:1]", "[1:2:3:4:5:6:7:8:9]", "[::1::]", "[12345::]", "[::%1]", "[1.2.3.4]", "[::1.2.3]", "[::01.2.3.4]", "[v1.a]", "a*"} {
		if validHost([]byte(h)) {
			t.Errorf("%q is not valid", h)
		}
	}
}

// TestIPv6AgreesWithNetip draws addresses close to valid ones.
func TestIPv6AgreesWithNetip(t *testing.T) {
	piece := rapid.SampledFrom([]string{":", "::", "1", "ffff", "0", "1.2.3.4", "12345", "g", "00", "256.1.1.1", "1:2:3:4:5:6", "."})
	rapid.Check(t, func(t *rapid.T) {
		s := strings.Join(rapid.SliceOfN(piece, 0, 10).Draw(t, "pieces"), "")
		a, err := netip.ParseAddr(s)
		if want := err == nil && a.Is6(); validIPv6([]byte(s)) != want {
			t.Fatalf("validIPv6(%q) = %v, netip: %v", s, !want, err)
		}
	})
}

// TestNameEnd puts each byte at each place, and beside each other.
func TestNameEnd(t *testing.T) {
	for c := range 256 {
		for at := range 20 {
			for _, fill := range "aZ-0" {
				b := bytes.Repeat([]byte{byte(fill)}, 20)
				b[at] = byte(c)
				want := len(b)
				if !tokenByte[c] || c == '_' {
					want = at
				}
				if got := nameEnd(b); got != want {
					t.Fatalf("nameEnd of %q = %d, want %d", b, got, want)
				}
				letter := c | 0x20
				host := 'a' <= letter && letter <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '.' || c == '_'
				if want = len(b); !host {
					want = at
				}
				if got := hostEnd(b); got != want {
					t.Fatalf("hostEnd of %q = %d, want %d", b, got, want)
				}
			}
		}
	}
}

// TestTargetEnd compares the eight-byte steps with a plain loop, each byte at
// each place.
func TestTargetEnd(t *testing.T) {
	for c := range 256 {
		for at := range 20 {
			b := bytes.Repeat([]byte{'a'}, 20)
			b[at] = byte(c)
			stops := c <= ' ' || c == 0x7f || c == '#' || c == '?'
			want := len(b)
			if stops {
				want = at
			}
			if got := targetEnd(b, 0, '?'); got != want {
				t.Fatalf("targetEnd with %#x at %d = %d, want %d", c, at, got, want)
			}
			want = len(b)
			if (c < ' ' && c != '\t') || c == 0x7f {
				want = at
			}
			if got := valueEnd(b, 0); got != want {
				t.Fatalf("valueEnd with %#x at %d = %d, want %d", c, at, got, want)
			}
			want = len(b)
			if c <= '\r' || c == '%' {
				want = at
			}
			if got := keyPlain(b); got != want {
				t.Fatalf("keyPlain with %#x at %d = %d, want %d", c, at, got, want)
			}
		}
	}
}

func TestDecodeKeyAllocs(t *testing.T) {
	buf := make([]byte, 0, maxKey)
	plain, escaped, bad := []byte("/bucket/data/part-00017.parquet"), []byte("/bucket/%41/part%20a"), []byte("/bucket/%4")
	if n := testing.AllocsPerRun(100, func() { decodeKey(buf, plain); decodeKey(buf, escaped); decodeKey(buf, bad) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkDecodeKey(b *testing.B) {
	for _, c := range []struct{ name, path string }{{"plain", "/bucket/data/part-00017.parquet"}, {"escaped", "/bucket/data/part%2000017.parquet"}} {
		b.Run(c.name, func(b *testing.B) {
			buf, path := make([]byte, 0, maxKey), []byte(c.path)
			defer reportCPU(b)()
			for b.Loop() {
				if _, why := decodeKey(buf, path); why != faultNone {
					b.Fatal(why)
				}
			}
		})
	}
}
