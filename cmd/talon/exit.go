package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/talon-worker/talon/uring"
)

// Exit codes; README.md lists them for those who write unit files.
const (
	exitOK     = 0 // asked for and done; also a drain, finished or cut short
	exitCannot = 1 // the command line is right and the world is not: port taken, origin missing
	exitUsage  = 2 // the command line is wrong: starting again will not help
)

// cannotError is a failure that is not the command line's.
type cannotError struct{ err error }

func (e cannotError) Error() string { return e.err.Error() }
func (e cannotError) Unwrap() error { return e.err }

func cannot(format string, args ...any) error {
	return cannotError{fmt.Errorf(format, args...)}
}

// explain returns the exit code of err and the line that tells it. An error
// without a type of ours is from cobra or from a flag, and so about usage.
func explain(err error, command string) (code int, line string) {
	var unavailable *uring.Unavailable
	if errors.As(err, &unavailable) {
		return uring.ExitUnavailable, oneLine(unavailable.Error())
	}
	var failed cannotError
	if errors.As(err, &failed) {
		return exitCannot, oneLine(failed.Error())
	}
	return exitUsage, oneLine(fmt.Sprintf("%s (see %s --help)", usage(err), command))
}

// usage words a flag's error as the operator sees it: the flag first, and no
// name of a Go function.
func usage(err error) string {
	var invalid *pflag.InvalidValueError
	if !errors.As(err, &invalid) {
		return err.Error()
	}
	cause := errors.Unwrap(invalid)
	reason := cause.Error()
	switch kind := invalid.GetFlag().Value.Type(); {
	case errors.Is(cause, strconv.ErrSyntax):
		reason = fmt.Sprintf("%q is not %s", invalid.GetValue(), map[string]string{"int": "a whole number", "bool": "true or false"}[kind])
	case errors.Is(cause, strconv.ErrRange):
		reason = fmt.Sprintf("%s is out of range", invalid.GetValue())
	case kind == "duration":
		reason = fmt.Sprintf("%q is not a duration; write 500ms, 30s or 2m", invalid.GetValue())
	}
	return fmt.Sprintf("--%s: %s", invalid.GetFlag().Name, reason)
}

// oneLine keeps a multi-line error, from wherever, one line in a log.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
