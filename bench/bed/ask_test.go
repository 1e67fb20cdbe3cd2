package bed

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// A series is known by all that stands before its value, blanks in a label too; an answer that is none is an error.
func TestAsk(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/metrics":
			w.Write([]byte("# HELP up Says so.\n# TYPE up gauge\nup 1\nlinks{why=\"too many\"} 2.5e+06\n"))
		case "/answer":
			w.Write([]byte(`{"n": 7}`))
		default:
			http.NotFound(w, r)
		}
	}))
	defer srv.Close()
	s, ctx := &Server{Name: "w1", Admin: strings.TrimPrefix(srv.URL, "http://")}, context.Background()
	if m, err := s.Metrics(ctx); err != nil || !maps.Equal(m, map[string]float64{"up": 1, `links{why="too many"}`: 2.5e6}) {
		t.Errorf("%v, %v", m, err)
	}
	var answer struct{ N int }
	if err := s.Ask(ctx, "/answer", &answer); err != nil || answer.N != 7 {
		t.Errorf("%+v, %v", answer, err)
	}
	if err := s.Ask(ctx, "/nothing", &answer); err == nil {
		t.Error("no error for a 404")
	}
}

func TestAwait(t *testing.T) {
	tenant, asked := NewTenant("a", ""), 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked++; asked < 3 || r.Method != http.MethodHead || r.URL.Path != "/4K" || "Authorization: "+r.Header.Get("Authorization") != tenant.Header() {
			http.Error(w, "not yet", http.StatusServiceUnavailable)
		}
	}))
	defer srv.Close()
	s := &Server{Target: srv.URL}
	if err := s.Await(context.Background(), http.MethodHead, "4K", tenant, 10*time.Second); err != nil || asked != 3 {
		t.Errorf("asked %d times, %v; want 3", asked, err)
	}
	if err := s.Await(context.Background(), http.MethodHead, "64K", tenant, 0); err == nil {
		t.Error("no error for a server that does not serve it")
	}
}
