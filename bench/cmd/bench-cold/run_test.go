package main

import (
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/talon-worker/talon/bench/bed/bedtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The whole way with net/http in talon's place: three arms, a verdict, results, nothing left behind.
func TestEndToEnd(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("needs a core for the server and one for the client")
	}
	server := filepath.Join(t.TempDir(), "server")
	if out, err := exec.Command("go", "build", "-o", server, "../peer-nethttp").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, _ := bedtest.Run(t, "cold", parse, (*options).run, "--talon", server, "--talon-args", "--listen {listen} --dir {dir}", "--noprobe-args", "", "--size", "16M", "--rounds", "1",
		"--window", "0.1", "--warmup", "0.02", "--hot", "1", "--cold", "1", "--hygiene=false")
	for _, arm := range []string{"probing", "probe off", "hot alone", "hot readers:"} {
		if !strings.Contains(text, "\n"+arm) {
			t.Errorf("no line for %q in:\n%s", arm, text)
		}
	}
}
