package main

import (
	"errors"
	"fmt"
	"strings"
)

// source is where the value of a setting comes from.
type source struct {
	kind sourceKind
	at   string // "FILE:LINE" or the variable's name; otherwise empty
}

type sourceKind string

// From the weakest to the strongest.
const (
	fromDefault sourceKind = "default"
	fromFile    sourceKind = "file"
	fromEnv     sourceKind = "env"
	fromFlag    sourceKind = "flag"
)

// subject names a setting as whoever wrote it sees it.
func (s source) subject(name string) string {
	switch s.kind {
	case fromFile:
		return s.at + ": " + name
	case fromEnv:
		return s.at
	}
	return "--" + name
}

// problem is something in the configuration that cannot stay, in one line.
type problem struct {
	text string
	flag bool // the command line's help tells more
}

func (p problem) Error() string { return p.text }

func problemAt(at source, name string, err error) error {
	colon := ": "
	if errors.Is(err, errMissing) {
		colon = " "
	}
	return problem{at.subject(name) + colon + err.Error(), at.kind == fromDefault || at.kind == fromFlag}
}

func problemf(format string, args ...any) error {
	return problem{text: fmt.Sprintf(format, args...)}
}

// problems are all that is wrong, so that one look mends it.
type problems []error

func (p problems) Error() string {
	lines := make([]string, len(p))
	for i, err := range p {
		lines[i] = err.Error()
	}
	return strings.Join(lines, "; ")
}

func (p problems) Unwrap() []error { return p }
