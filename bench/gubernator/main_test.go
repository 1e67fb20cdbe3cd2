package main

import (
	"testing"
	"time"
)

// A small cluster admits no more than was offered and no less than the limit, and its peers talk to each other meanwhile.
func TestOffer(t *testing.T) {
	o, err := parse([]string{"-peers", "3", "-offered", "1000", "-limit", "100", "-sync", "20ms", "-seconds", "0.5"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := start(o.peers, o.sync)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.warm(o); err != nil {
		t.Fatal(err)
	}
	before, err := c.messages()
	if err != nil || before == 0 {
		t.Fatalf("%g calls between peers after the warm-up, %v", before, err)
	}
	out, err := c.offer(o)
	if err != nil {
		t.Fatal(err)
	}
	admitted := int64(0)
	for _, n := range out.Admitted {
		admitted += n
	}
	if admitted < o.limit || admitted+out.Refused > out.Offered || len(out.Admitted) != 100 || out.Slice != int64(5*time.Millisecond) {
		t.Errorf("%d admitted: %+v", admitted, out)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, args := range [][]string{{"-peers", "0"}, {"-limit", "0"}, {"-algorithm", "sieve"}, {"-offered", "0"}, {"-slice", "1us"}, {"x"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
