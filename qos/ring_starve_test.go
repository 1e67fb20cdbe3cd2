package qos

import "testing"

// A reporter whose view expires while it stands in line leaves the line: a promise made on top of what is expired could never be named dead, and
// nothing would be granted to it again. The simulator found a worker that starved beside a full level.
func TestAnExpiredReporterDoesNotStandInLine(t *testing.T) {
	b := newOwnerBench(t, nil)
	b.ask("w1", 0, 1, 1)
	m := b.meter()
	r := m.reporters["w1"]
	r.need = r.reserved + 5
	m.takeTurn(r)
	m.expire(r)
	if !r.expired || r.in[byTurn] || m.shortfall != 0 {
		t.Fatalf("expired %v, in line %v, shortfall %d", r.expired, r.in[byTurn], m.shortfall)
	}
	if r.high.mark == m.unissued() {
		t.Error("what was never issued cannot be named dead")
	}
}
