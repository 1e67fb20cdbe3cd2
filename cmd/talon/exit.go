package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/talon-worker/talon/uring"
)

// Exit codes; README.md lists them for those who write unit files.
const (
	exitOK     = 0 // asked for and done; also a drain, finished or cut short
	exitCannot = 1 // the configuration is right and the world is not: port taken, origin missing
	exitUsage  = 2 // the command line or the configuration is wrong: starting again will not help
)

// cannotError is a failure that is not the configuration's.
type cannotError struct{ err error }

func (e cannotError) Error() string { return e.err.Error() }
func (e cannotError) Unwrap() error { return e.err }

func cannot(format string, args ...any) error {
	return cannotError{fmt.Errorf(format, args...)}
}

// explain returns the exit code of err and a line for each thing that is wrong.
// Of several codes the one that no new start mends wins: 2, then 69, then 1.
func explain(err error, command string) (code int, lines []string) {
	var several problems
	if !errors.As(err, &several) {
		code, line := explainOne(err, command)
		return code, []string{line}
	}
	codes := map[int]bool{}
	for _, err := range several {
		code, line := explainOne(err, command)
		codes[code] = true
		lines = append(lines, line)
	}
	for _, code := range []int{exitUsage, uring.ExitUnavailable} {
		if codes[code] {
			return code, lines
		}
	}
	return exitCannot, lines
}

// explainOne: an error without a type of ours is from cobra, and so about usage.
func explainOne(err error, command string) (code int, line string) {
	var unavailable *uring.Unavailable
	if errors.As(err, &unavailable) {
		return uring.ExitUnavailable, oneLine(unavailable.Error())
	}
	var failed cannotError
	if errors.As(err, &failed) {
		return exitCannot, oneLine(failed.Error())
	}
	var p problem
	if errors.As(err, &p) && !p.flag {
		return exitUsage, oneLine(p.text)
	}
	return exitUsage, oneLine(fmt.Sprintf("%v (see %s --help)", err, command))
}

// oneLine keeps a multi-line error, from wherever, one line in a log.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
