package load

import "testing"

// A story: the server fails, is left alone but for probes, answers one, and is asked again.
func TestDetector(t *testing.T) {
	const ms = int64(1e6)
	j := newJudge(Detector{Threshold: 0.95, Least: 20, IntervalS: 1, RecoverS: 0.5})
	for i := range int64(19) {
		j.note(i*ms, false)
	}
	if !j.allows(19 * ms) {
		t.Fatal("judged before the least number of requests")
	}
	j.note(20*ms, false)
	if j.allows(21*ms) || j.allows(519*ms) {
		t.Error("down, and still asked before the first probe is due")
	}
	if !j.allows(520*ms) || j.allows(521*ms) {
		t.Error("one probe after RecoverS, not more")
	}
	j.note(530*ms, false)
	if j.allows(1019*ms) || !j.allows(1020*ms) {
		t.Error("after a probe that failed, the next one RecoverS later")
	}
	j.note(1021*ms, true)
	if !j.allows(1022*ms) || j.all != 0 {
		t.Error("a probe that succeeds starts a new interval")
	}
	for i := range int64(100) {
		j.note(1100*ms+i*ms, i%20 != 0)
	}
	if !j.allows(1300 * ms) {
		t.Error("95 % of successes is not below 95 %")
	}
	j.note(1300*ms, false)
	if j.allows(1301 * ms) {
		t.Error("one more failure is")
	}
}

// Failures of an interval that is over do not count in the next.
func TestDetectorForgets(t *testing.T) {
	j := newJudge(Detector{Threshold: 0.5, Least: 10, IntervalS: 1, RecoverS: 1})
	for i := range int64(5) {
		for k := range int64(9) {
			j.note(i*1e9+k, false)
		}
	}
	if !j.allows(5e9) {
		t.Error("nine failures a second with a least of ten took the server down")
	}
}
