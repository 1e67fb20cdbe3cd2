package qos

import (
	"math"
	"testing"
)

// TestGoodbyeThatIsRepeatedEnds: on a slow network each report is repeated before its answer is in, and so is the one that gives back. What its other answers
// say is nothing to be given back in its turn, nor a newer snapshot to be named dead in a newer report: there would be no end to it.
func TestGoodbyeThatIsRepeatedEnds(t *testing.T) {
	for delay := ms; delay <= 9*ms; delay += ms { // and back, within the TTL of 20 ms
		c := newCluster(t, 1, goodPolicy())
		c.delay, c.now = delay, perSecond
		w := c.workers[0]
		c.ask(0, 5)
		for end := c.now + 2*perSecond; c.now < end; c.step(ms) {
		}
		if w.went != 5 {
			t.Errorf("%d ms each way: %d of 5 served", delay/ms, w.went)
		}
		if sent := w.rep.Stats.Reports; w.rep.Next() != math.MaxInt64 {
			t.Errorf("%d ms each way: after %d reports in 2 s the worker is not silent", delay/ms, sent)
		}
	}
}
