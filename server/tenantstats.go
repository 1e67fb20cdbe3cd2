package server

import "github.com/talon-worker/talon/qos"

// tenantCounters are one tenant's on one ring, since start.
type tenantCounters struct {
	Admitted  uint64                     // requests that got past the queue bounds
	Went      [numLimits]uint64          // charges that went, by limit
	Shadow    [numLimits]uint64          // of them, those that a shadow policy would have denied
	Soft      [numLimits]uint64          // of them, those over the soft rate
	Denied    [numLimits]uint64          // charges that had to wait, or were refused
	Refused   [numLimits][numWhys]uint64 // requests that were refused
	Responses uint64                     // completed, refusals apart
	Sent      uint64                     // body bytes of them
	Charged   uint64                     // bytes of client_egress_bytes, for good
	Refunded  uint64                     // bytes that came back
	Uncounted uint64                     // read_iops that came back
	Wait      Histogram                  // of admitted requests until their first turn
}

func (t *tenantCounters) went(l limit, d qos.Decision) {
	t.Went[l]++
	if d.Reason == qos.ShadowDenied {
		t.Shadow[l]++
	}
	if d.Soft {
		t.Soft[l]++
	}
}

// tally counts a finished response to its tenant.
func (l *loop) tally(c *conn) {
	if s := c.seat; s != nil && !c.resp.refused {
		n := c.resp.bodyLen
		s.stats.Responses++
		s.stats.Sent += uint64(n)
		s.mean += (n - s.mean) / 8
	}
}

// add sums o into t.
func (t *tenantCounters) add(o *tenantCounters) {
	t.Admitted += o.Admitted
	t.Responses += o.Responses
	t.Sent += o.Sent
	t.Charged += o.Charged
	t.Refunded += o.Refunded
	t.Uncounted += o.Uncounted
	t.Wait.Add(&o.Wait)
	for l := range numLimits {
		t.Went[l] += o.Went[l]
		t.Shadow[l] += o.Shadow[l]
		t.Soft[l] += o.Soft[l]
		t.Denied[l] += o.Denied[l]
		for w := range o.Refused[l] {
			t.Refused[l][w] += o.Refused[l][w]
		}
	}
}
