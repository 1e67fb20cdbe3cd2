package main

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// The kinds of a setting's value, beside size and rate. Each is a pflag.Value,
// and what its String prints its Set reads.
type (
	word   string        // any text
	number int           // a whole number
	toggle bool          // true or false
	span   time.Duration // a duration with its unit
)

func (w *word) Set(text string) error { *w = word(text); return nil }
func (w *word) Type() string          { return "string" }
func (w *word) String() string        { return string(*w) }

func (n *number) Set(text string) error {
	v, err := strconv.ParseInt(text, 0, 64)
	*n = number(v)
	return worded(err, text, "a whole number")
}

func (n *number) Type() string   { return "int" }
func (n *number) String() string { return strconv.Itoa(int(*n)) }

func (t *toggle) Set(text string) error {
	v, err := strconv.ParseBool(text)
	*t = toggle(v)
	return worded(err, text, "true or false")
}

func (t *toggle) Type() string   { return "bool" }
func (t *toggle) String() string { return strconv.FormatBool(bool(*t)) }

func (s *span) Set(text string) error {
	v, err := time.ParseDuration(text)
	*s = span(v)
	return worded(err, text, "a duration; write 500ms, 30s or 2m")
}

func (s *span) Type() string   { return "duration" }
func (s *span) String() string { return time.Duration(*s).String() }

// worded says what a text is not, without the name of a Go function.
func worded(err error, text, kind string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, strconv.ErrRange):
		return fmt.Errorf("%s is out of range", text)
	}
	return fmt.Errorf("%q is not %s", text, kind)
}
