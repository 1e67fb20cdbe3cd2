package admin

import (
	"cmp"
	"maps"
	"slices"
	"sync"
)

// other is the tenant label of all who have no series of their own. A tenant of that name never has one.
const other = "other"

// counts are the counters that have a series per tenant.
type counts struct {
	requests, sentBytes, waited, stale, due, got uint64
	throttled                                    float64
	denied, shadow                               map[string]uint64 // by limit
	wait                                         Histogram
}

func countsOf(t *Tenant) counts {
	c := counts{
		requests: t.Requests, sentBytes: t.SentBytes, waited: t.Waited, stale: t.Stale, due: t.ShareDue, got: t.ShareGot, throttled: t.Throttled,
		denied: map[string]uint64{}, shadow: t.Shadow, wait: t.Wait,
	}
	for limit, reasons := range t.Denied {
		for _, n := range reasons {
			c.denied[limit] += n
		}
	}
	return c
}

func (c *counts) add(d counts) {
	c.requests += d.requests
	c.sentBytes += d.sentBytes
	c.waited += d.waited
	c.stale += d.stale
	c.due += d.due
	c.got += d.got
	c.throttled += d.throttled
	c.denied, c.shadow = plus(c.denied, d.denied), plus(c.shadow, d.shadow)
	c.wait = c.wait.plus(d.wait)
}

// since is what has been counted after was; all of it if the tenant began anew.
func (c counts) since(was counts) counts {
	denied, ok1 := minus(c.denied, was.denied)
	shadow, ok2 := minus(c.shadow, was.shadow)
	wait, ok3 := c.wait.minus(was.wait)
	if !ok1 || !ok2 || !ok3 || c.requests < was.requests || c.sentBytes < was.sentBytes || c.waited < was.waited || c.stale < was.stale {
		return c
	}
	return counts{
		c.requests - was.requests, c.sentBytes - was.sentBytes, c.waited - was.waited, c.stale - was.stale,
		// These may be corrected downwards a little.
		c.due - min(c.due, was.due), c.got - min(c.got, was.got), max(c.throttled-was.throttled, 0), denied, shadow, wait,
	}
}

// plus and minus are for histograms of the same bounds; one without any is empty.
func (h Histogram) plus(o Histogram) Histogram {
	if len(h.Count) == 0 {
		return Histogram{o.Upper, slices.Clone(o.Count), o.Sum}
	}
	sum := Histogram{h.Upper, slices.Clone(h.Count), h.Sum + o.Sum}
	for i, n := range o.Count {
		sum.Count[i] += n
	}
	return sum
}

func (h Histogram) minus(o Histogram) (Histogram, bool) {
	left := Histogram{h.Upper, slices.Clone(h.Count), h.Sum - o.Sum}
	for i, n := range o.Count {
		if i >= len(left.Count) || left.Count[i] < n {
			return Histogram{}, false
		}
		left.Count[i] -= n
	}
	return left, left.Sum >= 0
}

func plus(a, b map[string]uint64) map[string]uint64 {
	sum := maps.Clone(a)
	if sum == nil {
		sum = map[string]uint64{}
	}
	for k, n := range b {
		sum[k] += n
	}
	return sum
}

func minus(a, b map[string]uint64) (map[string]uint64, bool) {
	left := map[string]uint64{}
	for k, n := range a {
		if n < b[k] {
			return nil, false
		}
		left[k] = n - b[k]
	}
	return left, true
}

// series bounds the tenants of the metrics page: those that are always shown, then those that have sent most, up to top; the rest is one series.
//
// What is exposed is added up here from the differences between two scrapes: were the sum of the others taken anew each time, it would fall when
// one of them gets a series of its own, which Prometheus takes for a restart and counts twice.
type series struct {
	top    int
	always []string

	mu   sync.Mutex
	last map[string]counts // of every tenant, as they were read
	own  map[string]counts // exposed, of those who have or had a series
	rest counts            // exposed, of the others
	all  counts            // of all there ever were
}

func newSeries(top int, always []string) *series {
	return &series{top: top, always: always, last: map[string]counts{}, own: map[string]counts{}}
}

// shown is one tenant of the page.
type shown struct {
	label  string
	counts counts
	now    []*Tenant // one, or the others
}

// take reads the tenants as they are now and returns what to show, by label, the others last, and the sum of all.
func (s *series) take(tenants []Tenant) (page []shown, all counts) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ranked := make([]*Tenant, len(tenants))
	for i := range tenants {
		ranked[i] = &tenants[i]
	}
	slices.SortFunc(ranked, func(a, b *Tenant) int {
		return cmp.Or(cmp.Compare(b.SentBytes, a.SentBytes), cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.ID, b.ID))
	})
	left, now := s.top, map[string]counts{}
	var hidden []*Tenant
	for _, t := range ranked {
		c := countsOf(t)
		now[t.ID] = c
		d := c.since(s.last[t.ID])
		s.all.add(d)
		switch {
		case t.ID != other && slices.Contains(s.always, t.ID):
		case t.ID != other && left > 0:
			left--
		default:
			s.rest.add(d)
			hidden = append(hidden, t)
			continue
		}
		own := s.own[t.ID]
		own.add(d)
		s.own[t.ID] = own
		page = append(page, shown{t.ID, own, []*Tenant{t}})
	}
	s.last = now
	for id := range s.own {
		if _, here := now[id]; !here {
			delete(s.own, id)
		}
	}
	slices.SortFunc(page, func(a, b shown) int { return cmp.Compare(a.label, b.label) })
	return append(page, shown{other, s.rest, hidden}), s.all
}
