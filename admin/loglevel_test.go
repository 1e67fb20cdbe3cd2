package admin

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestSetLogLevel(t *testing.T) {
	level := "info"
	w := testWorker()
	w.SetLogLevel = func(next string) (was string, err error) {
		if next != "debug" && next != "info" {
			return "", errors.New("no such level")
		}
		was, level = level, next
		return was, nil
	}
	for _, c := range []struct {
		method, body string
		code         int
		answer       string
		level        string
	}{
		{"PUT", "debug", 200, "log level debug, was info; until the next SIGHUP or restart\n", "debug"},
		{"PUT", " info\n", 200, "log level info, was debug; until the next SIGHUP or restart\n", "info"},
		{"PUT", "loud", 400, "no such level\n", "info"},
		{"PUT", "", 400, "no such level\n", "info"},
		{"PUT", strings.Repeat("x", maxLevel+1), 400, "the body is a level: debug, info, warn or error\n", "info"},
		{"GET", "", 405, "Method Not Allowed\n", "info"},
		{"POST", "debug", 405, "Method Not Allowed\n", "info"},
		{"DELETE", "", 405, "Method Not Allowed\n", "info"},
	} {
		rec := httptest.NewRecorder()
		routes(w).ServeHTTP(rec, httptest.NewRequest(c.method, "/api/v1/loglevel", strings.NewReader(c.body)))
		if rec.Code != c.code || rec.Body.String() != c.answer || level != c.level {
			t.Errorf("%s %.20q: got %d %q, level %s; want %d %q, %s", c.method, c.body, rec.Code, rec.Body, level, c.code, c.answer, c.level)
		}
	}
	if rec := get(testWorker(), "/api/v1/loglevel"); rec.Code != http.StatusNotFound {
		t.Errorf("a worker whose level is fixed answers %d", rec.Code)
	}
}

// TestStaleConfig: the note is for people and never a reason to send requests
// elsewhere.
func TestStaleConfig(t *testing.T) {
	var stale error
	w := testWorker()
	w.Policy = nil
	w.ConfigStale = func() error { return stale }
	const rest = "[+] serving ok\n[+] rings ok\n[+] origin ok\n"
	if rec := get(w, "/readyz?verbose"); rec.Code != 200 || rec.Body.String() != rest+"[+] config ok\n" {
		t.Errorf("got %d %q", rec.Code, rec.Body)
	}
	stale = errors.New("talon.yaml:3: rings: many is not a whole number")
	if rec := get(w, "/readyz?verbose"); rec.Code != 200 ||
		rec.Body.String() != rest+"[!] config: not read again, running as before: talon.yaml:3: rings: many is not a whole number\n" {
		t.Errorf("got %d %q", rec.Code, rec.Body)
	}
	if rec := get(w, "/readyz"); rec.Code != 200 || rec.Body.String() != "ok\n" {
		t.Errorf("got %d %q", rec.Code, rec.Body)
	}
}
