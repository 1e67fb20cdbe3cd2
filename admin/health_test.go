package admin

import (
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"
)

func TestHealth(t *testing.T) {
	unreadable := testWorker()
	unreadable.OriginReadable = func() error { return errors.New("/srv/objects: permission denied") }
	for _, c := range []struct {
		name string
		w    Worker
		path string
		code int
		body string
	}{
		{"live", testWorker(), "/livez", 200, "ok\n"},
		{"live while draining", draining(testWorker()), "/livez", 200, "draining\n"},
		{"a ring that has drained is silent", draining(deaf(testWorker())), "/livez", 200, "draining\n"},
		{"dead ring", deaf(testWorker()), "/livez", 503, "ring 1 did not answer within 1s\n"},
		{"ready", testWorker(), "/readyz", 200, "ok\n"},
		{"ready, verbose", testWorker(), "/readyz?verbose", 200, "[+] serving ok\n[+] rings ok\n[+] origin ok\n[+] policy ok: number 71 of /etc/policy.yaml\n"},
		{"draining", draining(testWorker()), "/readyz", 503, "[-] serving: draining, no new connections\n"},
		{"draining, verbose", draining(testWorker()), "/readyz?verbose", 503,
			"[-] serving: draining, no new connections\n[+] policy ok: number 71 of /etc/policy.yaml\n"},
		{"draining, and a ring has finished", draining(deaf(testWorker())), "/readyz", 503, "[-] serving: draining, no new connections\n"},
		{"dead ring is not ready", deaf(testWorker()), "/readyz", 503, "[-] rings: ring 1 did not answer within 1s\n"},
		{"origin gone", unreadable, "/readyz", 503, "[-] origin: /srv/objects: permission denied\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rec := get(c.w, c.path)
			if rec.Code != c.code || rec.Body.String() != c.body {
				t.Errorf("got %d %q, want %d %q", rec.Code, rec.Body, c.code, c.body)
			}
			if got := rec.Header().Get("Cache-Control"); got != "no-store" {
				t.Errorf("a proxy may keep the answer: Cache-Control %q", got)
			}
		})
	}
}

func TestRoutes(t *testing.T) {
	for path, code := range map[string]int{
		"/": 200, "/api/v1/status": 200, "/debug/pprof/": 200, "/debug/pprof/goroutine?debug=1": 200,
		"/nothing": 404, "/api/v1/": 404,
	} {
		if got := get(testWorker(), path).Code; got != code {
			t.Errorf("GET %s = %d, want %d", path, got, code)
		}
	}
}

func TestStatus(t *testing.T) {
	body, err := json.MarshalIndent(testWorker().statusAt(started.Add(90*time.Second)), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "status.json", append(body, '\n'))
}

func TestStatusWithoutRings(t *testing.T) {
	rec := get(draining(deaf(testWorker())), "/api/v1/status")
	var s status
	if err := json.Unmarshal(rec.Body.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	if rec.Code != http.StatusOK || !s.Draining || s.Error == "" || len(s.Rings) != 0 {
		t.Errorf("got %d %+v; want 200, draining and the reason why there are no rings", rec.Code, s)
	}
}
