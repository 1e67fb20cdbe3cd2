package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

var (
	logLevels = []string{"debug", "info", "warn", "error"}
	// logFormats are the values of --log-format; auto is text on a terminal.
	logFormats = []string{"auto", "text", "json"}
)

// newLogger logs to w what is at least as grave as level, which may be changed
// at any time. Nothing is logged per request at any level.
func newLogger(w io.Writer, level *slog.LevelVar, format string) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if format == "text" || format == "auto" && isTerminal(w) {
		return slog.New(slog.NewTextHandler(w, options))
	}
	return slog.New(slog.NewJSONHandler(w, options))
}

// parseLevel takes the four names, in any case, and not slog's "info+2".
func parseLevel(text string) (l slog.Level, err error) {
	if err := l.UnmarshalText([]byte(text)); err != nil || strings.ContainsAny(text, "+-") {
		return l, fmt.Errorf("%q is none of %s", text, strings.Join(logLevels, ", "))
	}
	return l, nil
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
