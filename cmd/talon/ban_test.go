package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// ask is get where the server may also close the connection without an answer: code 0.
func ask(t *testing.T, url string) (code int, throttle string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		return 0, ""
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.Copy(io.Discard, res.Body) // only the head is wanted
	return res.StatusCode, res.Header.Get("Talon-Throttle")
}

// TestBan: a tenant that wants more than its rate in one second is banned in the way that its policy names, is listed, and is let in again when
// the policy is changed.
func TestBan(t *testing.T) {
	for mode, banned := range map[string]int{"error": 429, "close": 0} {
		t.Run(mode, func(t *testing.T) {
			policy := func(enabled bool) string {
				return fmt.Sprintf("tenants:\n- id: public\n  allow: [/]\n  limits: {read_iops: {rate: 1/s, burst: 10, local_burst: 10, soft_rate: 1/s, on_limit: ban, ban: {for: 1h, mode: %s}, enabled: %v}}\n", mode, enabled)
			}
			g := startGoverned(t, policy(true), "")
			object(t, g.dir, "x", 100)
			for end := time.Now().Add(patience); ; {
				code, throttle := ask(t, g.data+"/x")
				if code == banned && (code == 0 || strings.Contains(throttle, "reason=banned")) {
					break
				}
				if code != 200 && !strings.Contains(throttle, "reason=exhausted") || time.Now().After(end) {
					t.Fatalf("got %d %q before the ban, or no ban", code, throttle)
				}
			}
			var list struct {
				Violators []struct {
					Tenant, Metric string
					BanSeconds     float64 `json:"ban_seconds"`
				}
			}
			_, _, body := get(t, g.admin+"/api/v1/violators")
			if err := json.Unmarshal(body, &list); err != nil || len(list.Violators) != 1 || list.Violators[0].Tenant != "public" ||
				list.Violators[0].Metric != "read_iops" || list.Violators[0].BanSeconds < 3000 {
				t.Errorf("%v in %s", err, body)
			}
			_, _, body = get(t, g.admin+"/metrics")
			mustContain(t, string(body), "\ntalon_violators 1\n")
			rename(t, g.policy, policy(false))
			g.number(2)
			if code, throttle := ask(t, g.data+"/x"); code != 200 {
				t.Errorf("got %d %q after the limit was lifted", code, throttle)
			}
			g.stop()
		})
	}
}

// TestShadow: a limit in shadow refuses nothing and counts what it would have refused.
func TestShadow(t *testing.T) {
	g := startGoverned(t, "tenants:\n- id: public\n  allow: [/]\n  limits: {read_iops: {rate: 1/s, burst: 1, local_burst: 1, mode: shadow, on_limit: reject}}\n", "")
	object(t, g.dir, "x", 100)
	for end := time.Now().Add(patience); ; {
		code, header, _ := get(t, g.data+"/x")
		if code != 200 || header.Get("Talon-Throttle") != "" || header.Get("RateLimit") != "" {
			t.Fatalf("a limit in shadow shows: %d %v", code, header)
		}
		_, _, page := get(t, g.admin+"/metrics")
		if strings.Contains(string(page), "\n"+`talon_admission_total{outcome="shadow_denied",limit="read_iops"} `) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("what the limit would have refused is not counted")
		}
	}
	g.stop()
}

// TestEgressRate: --egress-rate holds without a policy, too.
func TestEgressRate(t *testing.T) {
	dir := t.TempDir()
	p := startProcess(t, dir, "--egress-rate=4MiB/s")
	want := object(t, dir, "x", 12<<20)
	begin := time.Now()
	_, _, body := get(t, p.data+"/x")
	took := time.Since(begin)
	sameBytes(t, "x", body, want)
	// Later on a slow machine, never sooner: a few chunks may go ahead.
	if most := 4<<20 + 4<<20*took.Seconds(); float64(len(body)) > most {
		t.Errorf("%d bytes in %v, at most %.0f were due", len(body), took, most)
	}
}
