package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/talon-worker/talon/bench/load"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// talonLoad runs the command. A row that breaks Little's law is refused, which on a
// machine that is busy with other things happens to good runs too: those are
// repeated.
func talonLoad(t *testing.T, stdin string, args ...string) (code int, out, errOut string) {
	t.Helper()
	for range 20 {
		var o, e bytes.Buffer
		code = run(context.Background(), args, strings.NewReader(stdin), &o, &e)
		out, errOut = o.String(), e.String()
		if code != exitRefused || !strings.Contains(errOut, "Little's law") {
			break
		}
	}
	return code, out, errOut
}

func startServer(t *testing.T, h http.HandlerFunc) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func TestJSON(t *testing.T) {
	url := startServer(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })
	code, out, errOut := talonLoad(t, "", "-c", "2", "-d", "100ms", "--warmup", "10ms", "--block", "--json", "--per-conn", url+"/a", url+"/b")
	var r load.Result
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != exitOK {
		t.Fatalf("exit %d, %v, stderr %s", code, err, errOut)
	}
	if s := r.Streams[0]; s.Requests == 0 || s.Errors != 0 || s.Conns != 2 || len(s.PerConn) != 2 {
		t.Errorf("got %+v", s)
	}
}

func TestExitCodes(t *testing.T) {
	var some atomic.Int64
	url := startServer(t, func(w http.ResponseWriter, req *http.Request) {
		if req.Method == http.MethodGet && (req.URL.Path == "/bad" || req.URL.Path == "/some" && some.Add(1)%50 == 2) {
			w.WriteHeader(503)
		}
		io.WriteString(w, "hello")
	})
	quick := []string{"-c", "1", "-d", "50ms", "--warmup", "0s", "--block"}
	tests := []struct {
		name string
		args []string
		code int
		say  string
	}{
		{"good", append(quick, url+"/good"), exitOK, ""},
		{"some errors", append(quick, "-d", "300ms", url+"/some"), exitErrors, ""}, // few, or their share breaks Little's law
		{"only errors", append(quick, url+"/bad"), exitRefused, "503"},
		{"no URL", quick, exitUsage, "at least one URL"},
		{"two hosts", []string{"http://a/", "http://b/"}, exitUsage, "one host"},
		{"bad range", append(quick, "--range", "9-1", url), exitUsage, "--range"},
		{"bad cpu", append(quick, "--cpu", "x", url), exitUsage, "--cpu"},
		{"offline cpu", append(quick, "--cpu", "1023", url), exitFailed, "pin to cpu 1023"},
	}
	for _, tt := range tests {
		code, _, errOut := talonLoad(t, "", slices.Clone(tt.args)...)
		if code != tt.code || !strings.Contains(errOut, tt.say) {
			t.Errorf("%s: exit %d, stderr %q; want %d and %q", tt.name, code, errOut, tt.code, tt.say)
		}
	}
}

func TestConfigFromStdin(t *testing.T) {
	url := startServer(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })
	in := `{"target":"` + url + `","duration_s":0.5,"block":true,"streams":[{"name":"a","conns":1,"keys":["/a"]},{"name":"b","conns":1,"keys":["/b"]}]}`
	code, out, errOut := talonLoad(t, in, "--config", "-")
	if code != exitOK || !strings.Contains(out, "\nb ") {
		t.Errorf("exit %d, stderr %q, stdout:\n%s", code, errOut, out)
	}
	if code, _, errOut := talonLoad(t, `{"tarjet":1}`, "--config", "-"); code != exitUsage || !strings.Contains(errOut, "tarjet") {
		t.Errorf("a misspelt field: exit %d, stderr %q", code, errOut)
	}
}

func TestParseRange(t *testing.T) {
	tests := map[string]load.Range{
		"":                   {},
		"0-99":               {Kind: "fixed", Length: 100},
		"10-10":              {Kind: "fixed", First: 10, Length: 1},
		"random:1MiB":        {Kind: "random", Length: 1 << 20},
		"random:4096,64KiB":  {Kind: "random", Length: 4096, Align: 64 << 10},
		"random:2GiB,512":    {Kind: "random", Length: 2 << 30, Align: 512},
		"random:":            {Kind: "bad"},
		"random:1TiB":        {Kind: "bad"},
		"5":                  {Kind: "bad"},
		"-5":                 {Kind: "bad"},
		"random:9000000GiB0": {Kind: "bad"},
	}
	for in, want := range tests {
		got, err := parseRange(in)
		if want.Kind == "bad" {
			if err == nil {
				t.Errorf("%q: accepted as %+v", in, got)
			}
		} else if err != nil || got != want {
			t.Errorf("%q: got %+v, %v; want %+v", in, got, err, want)
		}
	}
}

func TestReadKeysEscapes(t *testing.T) {
	name := t.TempDir() + "/keys"
	if err := os.WriteFile(name, []byte("a b\n/c?d\n\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := readKeys(name, []string{"/base/"})
	if want := []string{"/base/a%20b", "/base/c%3Fd"}; err != nil || !slices.Equal(keys, want) {
		t.Errorf("got %q, %v; want %q", keys, err, want)
	}
}
