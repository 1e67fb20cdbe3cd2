package server

import (
	"fmt"
	"sync"
	"time"

	"github.com/talon-worker/talon/qos"
	"github.com/talon-worker/talon/sched"
)

// TenantStats is what a tenant has met in this worker: since start, unless it says now.
type TenantStats struct {
	ID         string
	Generation uint64

	Connections uint64 // that belong to it now
	Inflight    uint64 // its requests that are here now, waiting or being answered
	Queued      uint64 // of them, those that wait for their first turn
	QueuedBytes uint64 // that those are expected to send

	Admitted  uint64        // requests that got past the bounds of its queue
	Responses uint64        // completed, refusals apart
	SentBytes uint64        // body bytes of them
	Waited    uint64        // admitted requests that did not have their first turn at once
	Wait      Histogram     // of those that had one, until their first turn
	Throttled time.Duration // that its client_egress_bytes let it sleep, summed over the rings
	ShareDue  int64         // bytes that its weight was due of the worker's rate while it had work; 0 without one
	ShareGot  int64         // bytes that it has sent, as the scheduler counts them

	Refused map[string]map[string]uint64 // requests refused, by limit and reason; nil when none
	Shadow  map[string]uint64            // by limit, charges that a shadow policy would have denied; nil when none
	Soft    map[string]uint64            // by limit, charges while over the soft rate; nil when none
	Stale   uint64                       // requests refused because no limit's owner was heard of

	ChargedBytes  uint64 // of client_egress_bytes, for good
	RefundedBytes uint64 // that came back because the socket did not take them
	RefundedReads uint64 // read_iops of requests that were refused after all
}

// tenantCounters are one tenant's on one ring, since start.
type tenantCounters struct {
	Admitted  uint64
	Went      [numLimits]uint64 // charges that went, by limit
	Shadow    [numLimits]uint64 // of them, those that a shadow policy would have denied
	Soft      [numLimits]uint64 // of them, those over the soft rate
	Denied    [numLimits]uint64 // charges that had to wait, or were refused
	Refused   [numLimits][numWhys]uint64
	Responses uint64
	Sent      uint64
	Charged   uint64
	Refunded  uint64
	Uncounted uint64
	Waited    uint64
	Wait      Histogram
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
	t.Waited += o.Waited
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

// sheet is what one ring knows of one tenant.
type sheet struct {
	counters tenantCounters
	flows    int
	sched    sched.Stats
}

func (l *loop) sheetOf(a *account) (s sheet) {
	s.sched = l.flows.Stats(a.flow)
	if seat := a.seats[l.index]; seat != nil {
		s.counters, s.flows = seat.stats, seat.flows
	}
	return s
}

// sheetsAtOnce bounds what one turn copies for those who ask: about 0.3 MB.
const sheetsAtOnce = 256

// tenantAsking is between those who ask for the stats of tenants: one at a time, and a ring that hangs is not asked again.
type tenantAsking struct {
	mu    sync.Mutex
	asked []*sheets // by ring, the last question
}

// sheets is one question to one ring and its reply: written before done is closed.
type sheets struct {
	message
	sheets []sheet
	done   chan struct{}
}

// TenantStats asks every ring about every tenant of the table in force. The error says how many rings did not answer in time; they are
// not in the figures. Any goroutine may call it.
func (s *Server) TenantStats(timeout time.Duration) ([]TenantStats, error) {
	s.asking.mu.Lock()
	defer s.asking.mu.Unlock()
	late := make(chan struct{})
	defer time.AfterFunc(timeout, func() { close(late) }).Stop()
	tenants := s.worker.roster.Load().tenants
	all := make([]TenantStats, len(tenants))
	silent := make([]bool, len(s.loops))
	for from := 0; from < len(tenants); from += sheetsAtOnce {
		batch := tenants[from:min(from+sheetsAtOnce, len(tenants))]
		sum := make([]sheet, len(batch))
		s.askTenants(batch, sum, silent, late)
		for i, t := range batch {
			all[from+i] = sum[i].stats(t)
		}
	}
	n := 0
	for _, is := range silent {
		if is {
			n++
		}
	}
	if n > 0 {
		return all, fmt.Errorf("no answer within %v from %d of %d rings", timeout, n, len(s.loops))
	}
	return all, nil
}

// askTenants asks all rings at once but those that are silent, and adds their replies to sum.
func (s *Server) askTenants(batch []*tenant, sum []sheet, silent []bool, late <-chan struct{}) {
	if s.asking.asked == nil {
		s.asking.asked = make([]*sheets, len(s.loops))
	}
	for i, l := range s.loops {
		old := s.asking.asked[i]
		if silent[i] = silent[i] || old != nil && !closed(old.done) && !closed(l.counters.ended); silent[i] {
			continue
		}
		q := &sheets{sheets: make([]sheet, len(batch)), done: make(chan struct{})}
		q.run = func(l *loop) {
			l.sheetsOf(batch, q.sheets)
			close(q.done)
		}
		s.asking.asked[i] = q
		l.mail.post(&q.message)
	}
	for i, l := range s.loops {
		if silent[i] {
			continue
		}
		q := s.asking.asked[i]
		select {
		case <-q.done:
		case <-l.counters.ended:
			q.sheets = make([]sheet, len(batch))
			l.sheetsOf(batch, q.sheets)
		case <-late:
			silent[i] = true
			continue
		}
		for j := range sum {
			sum[j].add(&q.sheets[j])
		}
	}
}

// sheetsOf copies what the loop knows, on its thread or when it has ended.
func (l *loop) sheetsOf(batch []*tenant, out []sheet) {
	for i, t := range batch {
		out[i] = l.sheetOf(t.account)
	}
}

func (s *sheet) add(o *sheet) {
	s.counters.add(&o.counters)
	s.flows += o.flows
	s.sched.Got += o.sched.Got
	s.sched.Throttled += o.sched.Throttled
}

// stats puts names to a tenant's counters.
func (s *sheet) stats(t *tenant) TenantStats {
	c := &s.counters
	requests, bytes := t.flow.Queued()
	out := TenantStats{
		ID: t.ID, Generation: t.Generation,
		Connections: uint64(max(t.connections.Load(), 0)), Inflight: uint64(max(s.flows, 0)),
		Queued: uint64(max(requests, 0)), QueuedBytes: uint64(max(bytes, 0)),
		Admitted: c.Admitted, Responses: c.Responses, SentBytes: c.Sent, Waited: c.Waited, Wait: c.Wait,
		Throttled: time.Duration(s.sched.Throttled), ShareDue: t.flow.Due(), ShareGot: s.sched.Got,
		ChargedBytes: c.Charged, RefundedBytes: c.Refunded, RefundedReads: c.Uncounted,
	}
	for l := range numLimits {
		for w, n := range c.Refused[l] {
			if n == 0 {
				continue
			}
			if out.Refused == nil {
				out.Refused = map[string]map[string]uint64{}
			}
			if out.Refused[l.String()] == nil {
				out.Refused[l.String()] = map[string]uint64{}
			}
			out.Refused[l.String()][why(w).String()] = n
			if why(w) == whyStaleView {
				out.Stale += n
			}
		}
		out.Shadow = countBy(out.Shadow, l, c.Shadow[l])
		out.Soft = countBy(out.Soft, l, c.Soft[l])
	}
	return out
}

func countBy(m map[string]uint64, l limit, n uint64) map[string]uint64 {
	if n == 0 {
		return m
	}
	if m == nil {
		m = map[string]uint64{}
	}
	m[l.String()] = n
	return m
}
