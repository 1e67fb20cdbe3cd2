package qos

import "testing"

// The answer to a reporter's last report may be lost, and the report come again, from a base that is older than what was applied. The simulator
// found that its refunds were then given back twice.
func TestALastReportThatComesAgainIsNotAppliedAgain(t *testing.T) {
	b := newOwnerBench(t, nil)
	b.ask("w1", 50, 0, 0)
	last := *b.report("w1", 5, 20, 0, 0)
	last.Final, last.Base = true, Total{}
	last.IopsDelta = last.Total.Used()
	b.apply(&last)
	level := b.meter().level.Now()
	for range 3 {
		again := last
		again.Stamp++
		b.apply(&again)
	}
	if got := b.meter().level.Now(); got != level {
		t.Errorf("level %d, was %d", got, level)
	}
}
