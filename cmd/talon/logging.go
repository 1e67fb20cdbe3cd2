package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// logFormats are the values of --log-format; auto is text on a terminal.
var logFormats = []string{"auto", "text", "json"}

// newLogger logs to w. Nothing is logged per request at any level.
func newLogger(w io.Writer, level, format string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil || strings.ContainsAny(level, "+-") {
		return nil, fmt.Errorf("--log-level: %q is none of debug, info, warn, error", level)
	}
	if !slices.Contains(logFormats, format) {
		return nil, fmt.Errorf("--log-format: %q is none of %s", format, strings.Join(logFormats, ", "))
	}
	options := &slog.HandlerOptions{Level: l}
	if format == "text" || format == "auto" && isTerminal(w) {
		return slog.New(slog.NewTextHandler(w, options)), nil
	}
	return slog.New(slog.NewJSONHandler(w, options)), nil
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}
