package server

import (
	"bufio"
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

func testRefusal(l limit, w why) refusal {
	return refusal{limit: l, why: w, generation: 7, quota: 20_000, wait: 5e9}
}

func testRefusalHead() *head {
	return &head{date: []byte("Sun, 06 Nov 1994 08:49:37 GMT"), requestID: 0x123456789abcdef0, minor: 1}
}

// A refusal in full, as the pages on limits show it.
func TestRefusalInFull(t *testing.T) {
	r := testRefusal(limitEgress, whyExhausted)
	got := string(appendRefusal(nil, testRefusalHead(), "serving", &r, methodGet))
	want := "HTTP/1.1 429 Too Many Requests\r\n" +
		"Server: talon\r\n" +
		"Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n" +
		"X-Request-Id: 123456789abcdef0\r\n" +
		"Retry-After: 5\r\n" +
		"RateLimit-Policy: \"client_egress_bytes\";q=20000;w=1;qu=\"content-bytes\"\r\n" +
		"RateLimit: \"client_egress_bytes\";r=0;t=5\r\n" +
		"Talon-Throttle: limit=client_egress_bytes; reason=exhausted; policy=serving@7\r\n" +
		"Content-Type: application/problem+json\r\n" +
		"Content-Length: 270\r\n\r\n" +
		`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded",` +
		`"status":429,"detail":"client_egress_bytes: the tenant has used up its limit","violated-policies":["client_egress_bytes"]}` + "\n"
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// The dialect of S3 is 503 SlowDown whatever was wrong, in XML that a client can read, and fits its slab.
func TestRefusalS3(t *testing.T) {
	for l := range numLimits {
		for w := whyNone + 1; w < numWhys; w++ {
			r := testRefusal(l, w)
			r.dialect = DialectS3
			out := appendRefusal(nil, testRefusalHead(), strings.Repeat("x", maxTenantID), &r, methodGet)
			resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(out)), nil)
			if err != nil || len(out) > maxHeadOut {
				t.Fatalf("%v, %v: %d bytes, %v", l, w, len(out), err)
			}
			var doc struct {
				XMLName xml.Name `xml:"Error"`
				Code    string
				Message string
			}
			body, err := io.ReadAll(resp.Body)
			if err := errors.Join(err, xml.Unmarshal(body, &doc)); err != nil || doc.Code != "SlowDown" || !strings.Contains(doc.Message, l.String()) {
				t.Errorf("%v, %v: %v: %s", l, w, err, body)
			}
			if resp.StatusCode != 503 || r.status() != 503 || resp.Header.Get("Retry-After") != resp.Header.Get("X-Amz-Retry-After") || resp.Header.Get("Content-Type") != "application/xml" {
				t.Errorf("%v, %v: status %d, %v", l, w, resp.StatusCode, resp.Header)
			}
		}
	}
}

var rateLimitPolicy = regexp.MustCompile(`^"([a-z_]+)";q=([0-9]+)(;w=1)?(;qu="[a-z-]+")?$`)

// Every limit with every reason is valid HTTP and JSON, fits its slab, and says the
// same in all its parts.
func TestEveryRefusal(t *testing.T) {
	id := strings.Repeat("x", maxTenantID)
	for l := range numLimits {
		for w := whyNone + 1; w < numWhys; w++ {
			for _, m := range []method{methodGet, methodHead} {
				r := refusal{limit: l, why: w, generation: math.MaxInt64, quota: 1e15 - 1, wait: math.MaxInt64 / 2}
				h := testRefusalHead()
				h.close = true
				out := appendRefusal(nil, h, id, &r, m)
				why := fmt.Sprintf("%v, %v", l, w)
				if len(out) > maxHeadOut {
					t.Fatalf("%s: %d bytes, a slab's head has %d", why, len(out), maxHeadOut)
				}
				name := map[method]string{methodGet: "GET", methodHead: "HEAD"}[m]
				resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(out)), &http.Request{Method: name})
				if err != nil {
					t.Fatalf("%s: %v", why, err)
				}
				body, err := io.ReadAll(resp.Body)
				if err != nil || resp.StatusCode != r.status() || !resp.Close {
					t.Errorf("%s: status %d, close %v, %v", why, resp.StatusCode, resp.Close, err)
				}
				again, err := strconv.Atoi(resp.Header.Get("Retry-After"))
				if err != nil || again < maxRetryAfter || again > maxRetryAfter*3/2 {
					t.Errorf("%s: Retry-After %q", why, resp.Header.Get("Retry-After"))
				}
				if p := rateLimitPolicy.FindStringSubmatch(resp.Header.Get("RateLimit-Policy")); p == nil || p[1] != l.String() || p[2] != "999999999999999" || (p[3] != "") != l.ofRate() {
					t.Errorf("%s: RateLimit-Policy %q", why, resp.Header.Get("RateLimit-Policy"))
				}
				if got, want := resp.Header.Get("RateLimit"), fmt.Sprintf(`"%v";r=0;t=%d`, l, again); got != want {
					t.Errorf("%s: RateLimit %q, want %q", why, got, want)
				}
				if got, want := resp.Header.Get("Talon-Throttle"), fmt.Sprintf("limit=%v; reason=%v; policy=%s@%d", l, w, id, int64(math.MaxInt64)); got != want {
					t.Errorf("%s: Talon-Throttle %q, want %q", why, got, want)
				}
				if m == methodHead {
					if len(body) != 0 {
						t.Errorf("%s: a HEAD has a body", why)
					}
					continue
				}
				var doc struct {
					Type, Title, Detail string
					Status              int
					Violated            []string `json:"violated-policies"`
				}
				if err := json.Unmarshal(body, &doc); err != nil || doc.Status != r.status() || len(doc.Violated) != 1 || doc.Violated[0] != l.String() ||
					doc.Detail == "" || doc.Title == "" || !strings.HasPrefix(doc.Type, "https://iana.org/assignments/http-problem-types#") {
					t.Errorf("%s: %v: %s", why, err, body)
				}
			}
		}
	}
}

// What a client cannot keep to is not told as a quota.
func TestRefusalWithoutQuota(t *testing.T) {
	r := refusal{limit: limitWorker, why: whyDeadline}
	out := string(appendRefusal(nil, testRefusalHead(), "a", &r, methodGet))
	if strings.Contains(out, "RateLimit") || !strings.HasPrefix(out, "HTTP/1.1 503 ") || !strings.Contains(out, "\r\nRetry-After: 1\r\n") {
		t.Errorf("got %q", out)
	}
}

// Retry-After is never 0, never before the wait is over, and spread.
func TestRetryAfter(t *testing.T) {
	for _, tt := range []struct{ wait, least, most int64 }{
		{-5, 1, 2}, {0, 1, 2}, {1, 1, 2}, {1e9, 1, 2}, {1e9 + 1, 2, 3}, {5e9, 5, 7}, {100e9, 100, 150}, {1e18, 3600, 5400},
	} {
		r := refusal{wait: tt.wait}
		seen := map[int64]bool{}
		for random := range uint64(10_000) {
			seen[r.retryAfter(random*0x9e3779b97f4a7c15)] = true
		}
		for s := range seen {
			if s < tt.least || s > tt.most {
				t.Errorf("wait %d ns: Retry-After %d, want %d to %d", tt.wait, s, tt.least, tt.most)
			}
		}
		if len(seen) != int(tt.most-tt.least)+1 {
			t.Errorf("wait %d ns: %d different values, want %d", tt.wait, len(seen), tt.most-tt.least+1)
		}
	}
}

func TestRefusalDoesNotAllocate(t *testing.T) {
	b, h, r := make([]byte, 0, maxHeadOut), testRefusalHead(), testRefusal(limitReadIOPS, whyExhausted)
	if n := testing.AllocsPerRun(100, func() { appendRefusal(b, h, "serving", &r, methodGet) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRefusal(b *testing.B) {
	buf, h, r := make([]byte, 0, maxHeadOut), testRefusalHead(), testRefusal(limitReadIOPS, whyExhausted)
	defer reportCPU(b)()
	for b.Loop() {
		appendRefusal(buf, h, "serving", &r, methodGet)
	}
}
