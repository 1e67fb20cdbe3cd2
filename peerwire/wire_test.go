package peerwire

import (
	"net"
	"testing"
	"time"

	"github.com/talon-worker/talon/qos"
)

// TestUnreachablePeer: a member that does not answer is tried again and again, its fault can be read, and it is connected when it comes.
func TestUnreachablePeer(t *testing.T) {
	ln := must(net.Listen("tcp", "127.0.0.1:0"))
	addr := ln.Addr().String()
	ln.Close()
	limits := testLimits()
	n := start(t, func(c *Config) { c.Limits, c.Ledger = limits, must(qos.NewLedger(limits, 1)) })
	m := Membership{Epoch: 2, Members: []Member{{ID: "w1"}, {ID: "w2", Addr: addr}}}
	check(t, n.SetRing(m))
	until(t, "two attempts", func() bool { return n.Status().Wire.DialErrors >= 2 })
	s := n.Status()
	if len(s.Peers) != 1 || s.Peers[0].Fault == "" || s.Peers[0].Addr != addr || s.Peers[0].Connected {
		t.Errorf("%+v, want the peer and its fault", s.Peers)
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Skip("somebody else has taken the port")
	}
	other := must(New(Config{Worker: "w2", Epoch: 1, Limits: limits, Ledger: must(qos.NewLedger(limits, 1)), Listener: ln}))
	run(t, other)
	until(t, "the link", func() bool { s := n.Status(); return s.Peers[0].Connected && s.Peers[0].Fault == "" })

	check(t, n.SetRing(Membership{Epoch: 3, Members: []Member{{ID: "w1"}}, Replaces: []qos.Voting{}}))
	if s := n.Status(); len(s.Peers) != 1 || s.Peers[0].Addr != "" {
		t.Errorf("%+v, want the link of a former member, and no more dialing", s.Peers)
	}
}

// TestBackOffIsSpread: no two workers come back at the same time, and none waits more than half longer than it should.
func TestBackOffIsSpread(t *testing.T) {
	seen := map[time.Duration]bool{}
	for range 1000 {
		d := spread(maxBackOff)
		if d < maxBackOff/2 || d >= maxBackOff*3/2 {
			t.Fatalf("%v of %v", d, maxBackOff)
		}
		seen[d] = true
	}
	if len(seen) < 990 {
		t.Errorf("%d different waits of 1,000", len(seen))
	}
}
