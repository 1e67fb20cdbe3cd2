package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The whole way with net/http in talon's place: three arms, a verdict, results, nothing left behind.
func TestEndToEnd(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("needs a core for the server and one for the client")
	}
	t.Chdir("../../..")
	dir, results, server := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "server")
	if out, err := exec.Command("go", "build", "-o", server, "./bench/cmd/peer-nethttp").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	o, err := parse([]string{"--talon", server, "--talon-args", "--listen {listen} --dir {dir}", "--noprobe-args", "", "--size", "16M", "--rounds", "1",
		"--window", "0.1", "--warmup", "0.02", "--hot", "1", "--cold", "1", "--hygiene=false", "--dir", dir, "--results", results})
	if err != nil {
		t.Fatal(err)
	}
	if code, err := o.run(context.Background()); err != nil || code != 0 && code != 3 { // 3: a stolen core may refuse a row
		t.Fatalf("exit %d, %v", code, err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%s was left behind", left[0].Name())
	}
	names, _ := filepath.Glob(results + "/*-cold.txt")
	if len(names) != 1 {
		t.Fatalf("results: %v", names)
	}
	text, _ := os.ReadFile(names[0])
	for _, arm := range []string{"probing", "probe off", "hot alone", "hot readers:"} {
		if !strings.Contains(string(text), "\n"+arm) {
			t.Errorf("no line for %q in:\n%s", arm, text)
		}
	}
}
