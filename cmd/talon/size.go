package main

import (
	"strings"

	"github.com/talon-worker/talon/policy"
)

// size is a flag in bytes, as policy.ParseSize reads it.
type size int64

// rate is a size per second: "1KiB/s"; without "/s" it means the same.
type rate int64

func (s *size) Set(text string) error {
	n, err := policy.ParseSize(text)
	*s = size(n)
	return err
}

func (s *size) Type() string   { return "size" }
func (s *size) String() string { return policy.FormatSize(int64(*s)) }

func (r *rate) Set(text string) error {
	n, err := policy.ParseSize(strings.TrimSuffix(text, "/s"))
	*r = rate(n)
	return err
}

func (r *rate) Type() string   { return "rate" }
func (r *rate) String() string { return policy.FormatSize(int64(*r)) + "/s" }
