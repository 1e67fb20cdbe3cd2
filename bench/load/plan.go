package load

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
)

// expect is what a good response to a request looks like.
type expect struct {
	status int
	length int64 // bytes of the body
}

// plan writes the requests of one stream on one thread. It has no clock and does no I/O.
type plan struct {
	keys []planKey
	rng  Range
	rand *rand.Rand
	turn int  // next key of the round robin
	dice bool // keys in random order
}

// planKey is a key with its request rendered: complete, or up to the value of Range.
type planKey struct {
	size int64
	wire []byte
}

// newPlan renders the requests for keys of the given sizes. Thread numbers make the round robins of
// several threads start at different keys and their dice differ.
func newPlan(c *Config, s *Stream, host string, sizes []int64, thread int) (*plan, error) {
	p := &plan{
		rng:  s.Range,
		rand: rand.New(rand.NewPCG(c.Seed, uint64(thread)+1)),
		turn: thread % len(s.Keys),
		dice: s.Order == "random",
	}
	extra := ""
	for _, h := range slices.Concat(c.Headers, s.Headers) {
		extra += h + "\r\n"
	}
	for i, k := range s.Keys {
		if s.Range.Kind != "" && sizes[i] <= s.Range.First {
			return nil, fmt.Errorf("stream %s: %s has %d bytes, no range can start at %d", s.Name, k, sizes[i], s.Range.First)
		}
		wire := "GET " + k + " HTTP/1.1\r\nHost: " + host + "\r\n" + extra
		if s.Range.Kind != "" {
			wire += "Range: bytes="
		} else {
			wire += "\r\n"
		}
		p.keys = append(p.keys, planKey{sizes[i], []byte(wire)})
	}
	return p, nil
}

// next returns the next request, which is valid until buf is used again, and what it must yield.
func (p *plan) next(buf []byte) (wire []byte, want expect) {
	k := &p.keys[p.pick()]
	if p.rng.Kind == "" {
		return k.wire, expect{200, k.size}
	}
	first, length := p.pickRange(k.size)
	buf = append(buf[:0], k.wire...)
	buf = strconv.AppendInt(buf, first, 10)
	buf = append(buf, '-')
	buf = strconv.AppendInt(buf, first+length-1, 10)
	return append(buf, "\r\n\r\n"...), expect{206, length}
}

func (p *plan) pick() int {
	if p.dice {
		return p.rand.IntN(len(p.keys))
	}
	k := p.turn
	p.turn++
	if p.turn == len(p.keys) {
		p.turn = 0
	}
	return k
}

// pickRange never asks for bytes beyond the end, so that the length of the answer is known.
func (p *plan) pickRange(size int64) (first, length int64) {
	first, length = p.rng.First, min(p.rng.Length, size-p.rng.First)
	if p.rng.Kind == "random" {
		places := (size-first-length)/p.rng.Align + 1
		first += p.rand.Int64N(places) * p.rng.Align
	}
	return first, length
}
