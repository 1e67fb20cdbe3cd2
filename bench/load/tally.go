package load

import (
	"fmt"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The latency histogram spans a microsecond to two minutes at three digits, in nanoseconds.
const (
	histMin    = 1_000
	histMax    = 120_000_000_000
	histDigits = 3
)

// Fault is why a request or a connection failed.
type Fault int

const (
	FaultConnect Fault = iota // connection refused or not made
	FaultSend                 // the request could not be written
	FaultRecv                 // reading failed
	FaultEOF                  // the server closed with a response owed
	FaultHead                 // a response that cannot be delimited
	FaultStatus               // another status than the request must yield
	FaultLength               // another Content-Length than the request must yield
	FaultTimeout              // no complete response in time
	numFaults
)

var faultNames = [numFaults]string{"connect", "send", "recv", "eof", "head", "status", "length", "timeout"}

func (f Fault) String() string { return faultNames[f] }

// span is the part of a connection's time that lies in the measured window.
type span struct {
	done  int64 // responses completed in the window
	bytes int64 // body bytes received in the window
	busy  int64 // ns with a request in flight, cut to the window
}

// tally adds up one stream on one thread. It has no clock: times are nanoseconds of any one clock.
type tally struct {
	from, to int64 // the window; from < 0 before it opens, to < 0 while it is open
	hist     *hdrhistogram.Histogram
	done     int64   // good responses completed in the window
	bytes    int64   // body bytes received in the window, of any response
	part     float64 // responses cut by the window's edges, by the share of their body inside
	latSum   int64   // ns, of the done
	latMax   int64
	ageMax   int64 // ns, of the requests that the closing window cut
	allDone  int64 // since the start, warm-up included
	allBytes int64
	faults   [numFaults]int64 // since the start: an error in the warm-up is one too
	statuses [1000]int64      // faulty ones, by code
	redials  int64            // connections closed by the server with nothing owed

	slices     []int64 // body bytes received, by slice of the window
	slice      int64   // ns, length of one
	refused    int64   // refusals completed in the window
	refusedSum int64   // ns, of the refused
	refusedMax int64
	retried    int64 // requests sent again in the window
	givenUp    int64 // requests that stayed refused or lost after all their retries, in the window
	withheld   int64 // requests that the client's failure detector kept back in the window
}

func newTally(slices int, slice int64) *tally {
	return &tally{from: -1, to: -1, hist: hdrhistogram.New(histMin, histMax, histDigits), slices: make([]int64, slices), slice: slice}
}

// turnedAway records a refusal that took from start to end.
func (t *tally) turnedAway(s *span, start, end int64) {
	if t.from < 0 {
		return
	}
	t.refused++
	t.refusedSum += end - start
	t.refusedMax = max(t.refusedMax, end-start)
	s.busy += end - max(start, t.from)
}

// inWindow counts in n what happens while the window is open.
func (t *tally) inWindow(n *int64) {
	if t.from >= 0 && t.to < 0 {
		*n++
	}
}

// completed records a good response that took from start to end.
func (t *tally) completed(s *span, start, end int64) {
	t.allDone++
	if t.from < 0 {
		return
	}
	lat := end - start
	t.done++
	t.latSum += lat
	t.latMax = max(t.latMax, lat)
	t.hist.RecordValue(min(max(lat, histMin), histMax))
	s.done++
	s.busy += end - max(start, t.from)
}

// received counts body bytes that have arrived between since, when the thread looked last, and now. They are spread evenly over the slices from the one
// to the other: a thread that was kept from its core finds at once what has come all the while.
func (t *tally) received(s *span, n, since, now int64) {
	t.allBytes += n
	if t.from < 0 {
		return
	}
	t.bytes += n
	s.bytes += n
	if t.slice == 0 {
		return
	}
	from := min(max(since-t.from, 0)/t.slice, (now-t.from)/t.slice)
	k := (now-t.from)/t.slice - from + 1
	for i := range k {
		if at := from + i; at >= 0 && at < int64(len(t.slices)) {
			t.slices[at] += n*(i+1)/k - n*i/k
		}
	}
}

// edge accounts for a request that is in flight while the window opens (sign -1) or closes (sign +1);
// share is the part of its body that has arrived.
func (t *tally) edge(sign float64, share float64) { t.part += sign * share }

// pending adds the time in flight of a request that the closing window cuts.
func (t *tally) pending(s *span, start int64) {
	s.busy += t.to - max(start, t.from)
	t.ageMax = max(t.ageMax, t.to-start)
}

// stop adds the time in flight of a request that failed at end.
func (t *tally) stop(s *span, start, end int64) {
	if t.from >= 0 {
		s.busy += end - max(start, t.from)
	}
}

// seconds is the length of the closed window.
func (t *tally) seconds() float64 { return float64(t.to-t.from) / 1e9 }

// littleTolerance is how far rate x latency may be from the number of connections.
const littleTolerance = 0.05

// little is one closed-loop row in the terms of Little's law: rate x mean latency = requests in flight.
type little struct {
	conns   int
	stalled int     // connections without a single response in the window
	seconds float64 // length of the window
	latSum  float64 // s, over responses and refusals completed in the window
	edge    float64 // s, the longest that a request can straddle an edge: longest latency, or age when cut
	busy    float64 // s in flight, cut to the window, of the connections that are not stalled
}

// product is rate x mean latency of the responses that completed in the window.
func (l little) product() float64 { return l.latSum / l.seconds }

// inFlight is the same with the requests that straddle an edge counted by their part inside.
func (l little) inFlight() float64 { return l.busy / l.seconds }

// check returns why the row must not be quoted, or "".
//
// Two forms are checked, because each is blind where the other sees. The plain product is what the
// printed figures multiply to, yet each connection may gain or lose one request at the edges, so long
// ones in a short window widen its tolerance by exactly that much. The cut form has no edges and
// gets 5 % whatever the latencies: it falls when connections are dead or idle between requests.
func (l little) check() string {
	n := float64(l.conns)
	if d := l.inFlight()/n - 1; d < -littleTolerance || d > littleTolerance {
		return fmt.Sprintf("Little's law: %.2f requests in flight on average with %d connections (%+.1f %%, %d of them without a response)",
			l.inFlight(), l.conns, 100*d, l.stalled)
	}
	tol := littleTolerance + l.edge/l.seconds
	if d := l.product()/n - 1; d < -tol || d > tol {
		return fmt.Sprintf("Little's law: rate x mean latency is %.2f with %d connections (%+.1f %%, allowed %.1f %%)",
			l.product(), l.conns, 100*d, 100*tol)
	}
	return ""
}
