package qos

import "testing"

// What waits for a limit that is not known, or is refused, waits on a cell that stands in for all such limits. It must not be reported: the report
// would name no limit. The simulator found it when it removed policies.
func TestTheClosedCellIsNeverReported(t *testing.T) {
	l, err := NewLedger(DefaultConfig(), 1)
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewReporter(DefaultConfig(), l, "w", 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	r.SetRing(1, 1, func(Limit) WorkerID { return "o" }, 1)
	c := l.Cell(Limit{"nobody", ReadIOPS})
	if d := c.Admit(1, 1); d.Outcome != Wait || d.Reason != NoPolicy {
		t.Errorf("admitted without a policy: %+v", d)
	}
	c.Await(0, 1, 5)
	c.Refuse(3)
	if out := r.Poll(1e9, nil); len(out) != 0 || r.Urgent() {
		t.Errorf("reports %+v", out)
	}
}
