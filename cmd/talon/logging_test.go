package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestLogFormat(t *testing.T) {
	for format, isJSON := range map[string]bool{"json": true, "text": false, "auto": true /* a buffer is no terminal */} {
		var b bytes.Buffer
		log := newLogger(&b, new(slog.LevelVar), format)
		log.Info("hello", "rings", 2)
		if json.Valid(b.Bytes()) != isJSON || !strings.Contains(b.String(), "hello") {
			t.Errorf("--log-format=%s printed %q", format, b.String())
		}
	}
}

func TestLogLevel(t *testing.T) {
	for level, want := range map[string]int{"debug": 3, "info": 2, "warn": 1, "error": 0, "WARN": 1} {
		var b bytes.Buffer
		least := new(slog.LevelVar)
		log := newLogger(&b, least, "text") // a level may change afterwards
		l, err := parseLevel(level)
		if err != nil {
			t.Fatal(err)
		}
		least.Set(l)
		log.Debug("d")
		log.Info("i")
		log.Warn("w")
		if got := strings.Count(b.String(), "\n"); got != want {
			t.Errorf("--log-level=%s let %d of 3 lines through, want %d", level, got, want)
		}
	}
	for _, level := range []string{"", "loud", "info+2", "-4"} {
		if _, err := parseLevel(level); err == nil {
			t.Errorf("--log-level=%s was taken", level)
		}
	}
}

func TestTerminalGetsText(t *testing.T) {
	terminal, err := openTerminal()
	if err != nil {
		t.Skipf("no pseudo terminal here: %v", err)
	}
	defer func() { _ = terminal.Close() }()
	if !isTerminal(terminal) {
		t.Error("a terminal was not recognised")
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	if isTerminal(null) {
		t.Error("/dev/null was taken for a terminal")
	}
}

// openTerminal opens a pseudo terminal; its control side is a terminal as well
// (pty(7)).
func openTerminal() (*os.File, error) {
	return os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
}
