package load

import (
	"fmt"
	"slices"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Result is what a run measured. Rates are per second of the measured window.
type Result struct {
	Seconds float64        `json:"seconds"` // length of the window
	From    int64          `json:"from_ns"` // when it opened, by the machine's clock (Unix time): where results of several runs are put together
	Threads int            `json:"threads"`
	Streams []StreamResult `json:"streams"`

	// ClientIdle is the share of the window that the generator's threads had nothing to do.
	ClientIdle float64 `json:"client_idle"`
	// Server is the CPU of Config.ServerPIDs, nil if there were none.
	Server *ServerCPU `json:"server,omitempty"`
	// Refused says why the figures must not be quoted; empty if they may.
	Refused []string `json:"refused,omitempty"`
}

// ServerCPU is the CPU time of the server's processes in the window.
type ServerCPU struct {
	Busy       float64 `json:"busy"`           // cores in use
	Waiting    float64 `json:"waiting"`        // cores' worth of being runnable and not running
	PerRequest float64 `json:"us_per_request"` // microseconds, over all streams
}

// StreamResult is one stream's row.
type StreamResult struct {
	Name       string           `json:"name"`
	Conns      int              `json:"conns"`
	Requests   int64            `json:"requests"`     // completed in the window
	Rate       float64          `json:"req_per_s"`    // those cut by an edge count by their part inside
	GBps       float64          `json:"gb_per_s"`     // 1e9 bytes of bodies
	MeanUS     float64          `json:"mean_us"`      //
	P50US      float64          `json:"p50_us"`       //
	P90US      float64          `json:"p90_us"`       //
	P99US      float64          `json:"p99_us"`       //
	P999US     float64          `json:"p999_us"`      //
	MaxUS      float64          `json:"max_us"`       //
	InFlight   float64          `json:"in_flight"`    // mean
	LittleConn float64          `json:"little_conns"` // rate x mean latency
	Offered    float64          `json:"offered_per_s,omitempty"`
	Behind     int64            `json:"behind,omitempty"` // open loop: due and unsent at the end
	Redials    int64            `json:"redials,omitempty"`
	Errors     int64            `json:"errors"` // since the start of the run, warm-up included
	ByFault    map[string]int64 `json:"errors_by_kind,omitempty"`
	ByStatus   map[int]int64    `json:"errors_by_status,omitempty"`
	Stalled    int              `json:"stalled,omitempty"` // connections without a response
	Fair       float64          `json:"jain"`              // Jain's index of bytes per connection
	PerConn    []ConnResult     `json:"per_conn,omitempty"`
	AllBytes   int64            `json:"all_bytes"` // since the start of the run

	Slices       []int64 `json:"slices,omitempty"`        // body bytes by slice of the window, see Config.SliceS
	RefusedRate  float64 `json:"refused_per_s,omitempty"` // Stream.Refusals
	RefusedMean  float64 `json:"refused_mean_us,omitempty"`
	RetriedRate  float64 `json:"retried_per_s,omitempty"`
	GivenUpRate  float64 `json:"given_up_per_s,omitempty"` // refused or lost after all retries
	WithheldRate float64 `json:"withheld_per_s,omitempty"` // kept back by the client's failure detector
}

// ConnResult is one connection's part of the window.
type ConnResult struct {
	Requests int64   `json:"requests"`
	MBps     float64 `json:"mb_per_s"`
}

// collect merges the workers, which have ended.
func collect(c *Config, ws []*worker) *Result {
	r := &Result{Threads: len(ws), From: ws[0].base.UnixNano() + ws[0].streams[0].tally.from}
	for _, w := range ws {
		sec := w.streams[0].tally.seconds()
		r.Seconds += sec / float64(len(ws))
		r.ClientIdle += float64(w.idleNS) / 1e9 / sec / float64(len(ws))
	}
	rate := 0.0
	for i := range c.Streams {
		s, refused := collectStream(&c.Streams[i], i, ws)
		r.Streams = append(r.Streams, s)
		rate += s.Rate
		if refused != "" {
			r.Refused = append(r.Refused, s.Name+": "+refused)
		}
	}
	r.server(ws[0].meter, rate)
	return r
}

func (r *Result) server(m *cpuMeter, rate float64) {
	if m == nil {
		return
	}
	if m.err != nil {
		r.Refused = append(r.Refused, m.err.Error())
		return
	}
	sec := m.to.Sub(m.from).Seconds()
	r.Server = &ServerCPU{Busy: float64(m.cpu) / 1e9 / sec, Waiting: float64(m.queue) / 1e9 / sec}
	if rate > 0 {
		r.Server.PerRequest = r.Server.Busy * 1e6 / rate
	}
}

func collectStream(cfg *Stream, i int, ws []*worker) (StreamResult, string) {
	s := StreamResult{Name: cfg.Name, Conns: cfg.Conns, Offered: cfg.Rate, ByFault: map[string]int64{}, ByStatus: map[int]int64{}}
	hist := hdrhistogram.New(histMin, histMax, histDigits)
	l := little{conns: cfg.Conns}
	for _, w := range ws {
		s.add(w.streams[i], hist)
		l.add(w, w.streams[i], len(ws))
		s.addConns(w, w.streams[i])
	}
	s.latencies(hist)
	s.means(ws, i)
	s.InFlight, s.LittleConn, s.Stalled = l.inFlight(), (s.Rate*s.MeanUS+s.RefusedRate*s.RefusedMean)/1e6, l.stalled
	s.Fair = jain(s.PerConn)
	return s, s.refusal(cfg, l)
}

// means divides the latencies of the good responses and of the refusals by their numbers.
func (s *StreamResult) means(ws []*worker, i int) {
	var good, refused, n float64
	for _, w := range ws {
		t := w.streams[i].tally
		good, refused, n = good+float64(t.latSum), refused+float64(t.refusedSum), n+float64(t.refused)
	}
	if s.Requests > 0 {
		s.MeanUS = good / float64(s.Requests) / 1e3
	}
	if n > 0 {
		s.RefusedMean = refused / n / 1e3
	}
}

// refusal says why the row must not be quoted. A stream that may be refused may be refused always.
func (s *StreamResult) refusal(cfg *Stream, l little) string {
	switch {
	case s.Requests == 0 && len(cfg.Refusals) == 0:
		return ErrNoResponse.Error() + s.faultList()
	case s.Offered == 0:
		return l.check()
	}
	return "" // an open loop that falls behind is a finding: Behind and the latencies say it
}

func (s *StreamResult) add(w *streamWork, hist *hdrhistogram.Histogram) {
	t := w.tally
	sec := t.seconds()
	s.Requests += t.done
	s.Rate += (float64(t.done) + t.part) / sec
	s.GBps += float64(t.bytes) / 1e9 / sec
	s.Behind += w.behind
	s.Redials += t.redials
	s.RefusedRate += float64(t.refused) / sec
	s.RetriedRate += float64(t.retried) / sec
	s.GivenUpRate += float64(t.givenUp) / sec
	s.WithheldRate += float64(t.withheld) / sec
	if s.Slices == nil && len(t.slices) > 0 {
		s.Slices = make([]int64, len(t.slices))
	}
	for i, n := range t.slices {
		s.Slices[i] += n
	}
	s.AllBytes += t.allBytes
	s.MaxUS = max(s.MaxUS, float64(t.latMax)/1e3)
	hist.Merge(t.hist)
	for f, n := range t.faults {
		if n > 0 {
			s.Errors += n
			s.ByFault[Fault(f).String()] += n
		}
	}
	for code, n := range t.statuses {
		if n > 0 {
			s.ByStatus[code] += n
		}
	}
}

func (s *StreamResult) addConns(w *worker, sw *streamWork) {
	for i := range w.conns {
		if c := &w.conns[i]; c.stream == sw {
			s.PerConn = append(s.PerConn, ConnResult{c.span.done, float64(c.span.bytes) / 1e6 / sw.tally.seconds()})
		}
	}
}

func (l *little) add(w *worker, sw *streamWork, workers int) {
	l.seconds += sw.tally.seconds() / float64(workers)
	l.latSum += float64(sw.tally.latSum+sw.tally.refusedSum) / 1e9
	l.edge = max(l.edge, float64(max(sw.tally.latMax, sw.tally.refusedMax, sw.tally.ageMax))/1e9)
	for i := range w.conns {
		c := &w.conns[i]
		switch {
		case c.stream != sw:
		case c.span.done == 0 && len(sw.cfg.Refusals) == 0:
			l.stalled++
		default:
			l.busy += float64(c.span.busy) / 1e9
		}
	}
}

func (s *StreamResult) latencies(h *hdrhistogram.Histogram) {
	at := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) / 1e3 }
	s.P50US, s.P90US, s.P99US, s.P999US = at(50), at(90), at(99), at(99.9)
}

func (s *StreamResult) faultList() string {
	out := ""
	for _, f := range faultNames {
		if n := s.ByFault[f]; n > 0 {
			out += fmt.Sprintf(", %d %s errors", n, f)
		}
	}
	for _, code := range sortedKeys(s.ByStatus) {
		out += fmt.Sprintf(", %d times status %d", s.ByStatus[code], code)
	}
	return out
}

func sortedKeys(m map[int]int64) []int {
	keys := make([]int, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// jain is Jain's fairness index, (Σx)²/(nΣx²): 1 if all got the same, 1/n if one got everything.
func jain(conns []ConnResult) float64 {
	sum, squares := 0.0, 0.0
	for _, c := range conns {
		sum += c.MBps
		squares += c.MBps * c.MBps
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(conns)) * squares)
}
