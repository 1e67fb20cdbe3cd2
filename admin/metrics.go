package admin

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
)

// A family is one metric; exactly one of its functions is set. Counters of the
// worker are sums over its rings; only what tells one ring from another carries
// a ring label.
type family struct {
	name, help string
	gauge      bool

	sum     func(*Ring) uint64            // one sample
	perRing func(*Ring) uint64            // one sample per ring
	label   string                        // the label of byLabel
	byLabel func(*Ring) map[string]uint64 // one sample per key
}

var families = []family{
	{name: "talon_http_requests_total", help: "Responses completed, by status code.",
		label: "code", byLabel: func(r *Ring) map[string]uint64 { return r.Requests }},
	{name: "talon_sent_bytes_total", help: "Body bytes accepted by client sockets, by the way they took.",
		label: "path", byLabel: func(r *Ring) map[string]uint64 {
			return map[string]uint64{"copy": r.SentCopy, "sendfile": r.SentSendfile}
		}},
	{name: "talon_short_sends_total", help: "Sends of which the socket took only a part.",
		sum: func(r *Ring) uint64 { return r.ShortSends }},

	{name: "talon_connections", help: "Client connections open now.", gauge: true,
		sum: func(r *Ring) uint64 { return r.Open }},
	{name: "talon_connections_accepted_total", help: "Client connections taken.",
		sum: func(r *Ring) uint64 { return r.Accepted }},
	{name: "talon_connections_closed_total", help: "Client connections closed, by reason.",
		label: "reason", byLabel: func(r *Ring) map[string]uint64 { return r.Closed }},

	{name: "talon_connections_refused_total", help: "Client connections turned away with 503, by what was lacking.",
		label: "reason", byLabel: func(r *Ring) map[string]uint64 {
			return map[string]uint64{"budget": r.RefusedBudget, "descriptors": r.RefusedFiles}
		}},
	{name: "talon_accept_pauses_total", help: "Times a listener rested and left clients in its backlog, by what was lacking.",
		label: "reason", byLabel: func(r *Ring) map[string]uint64 {
			return map[string]uint64{"budget": r.AcceptPausesBudget, "descriptors": r.AcceptPausesFiles}
		}},
	{name: "talon_refusals_held_total", help: "Refusals told later than at once, because there were too many of their tenant.",
		sum: func(r *Ring) uint64 { return r.RefusalsHeld }},
	{name: "talon_starved_total", help: "Requests that waited for memory to answer from.",
		sum: func(r *Ring) uint64 { return r.Starved }},
	{name: "talon_starved", help: "Requests that wait for it now.", gauge: true,
		sum: func(r *Ring) uint64 { return r.StarvedNow }},

	{name: "talon_opener_pending", help: "Lookups with the opener now.", gauge: true,
		sum: func(r *Ring) uint64 { return r.OpensOut }},
	{name: "talon_opener_refused_total", help: "Lookups that the opener had no room for; they were answered 503.",
		sum: func(r *Ring) uint64 { return r.OpensRefused }},

	{name: "talon_open_file_hits_total", help: "Requests served from the cache of open files.",
		sum: func(r *Ring) uint64 { return r.FilesHit }},
	{name: "talon_open_file_misses_total", help: "Names looked up on a ring thread.",
		sum: func(r *Ring) uint64 { return r.FilesMissed }},
	{name: "talon_open_file_deferred_total", help: "Lookups that would have waited for the disk and were handed to the opener.",
		sum: func(r *Ring) uint64 { return r.FilesDeferred }},
	{name: "talon_open_file_changed_total", help: "Files that changed while they were served; their connections were closed.",
		sum: func(r *Ring) uint64 { return r.FilesChanged }},

	{name: "talon_residency_hits_total", help: "Chunks found in the page cache before they were sent.",
		sum: func(r *Ring) uint64 { return r.ResidencyHits }},
	{name: "talon_residency_prefetches_total", help: "Chunks read ahead through the ring.",
		sum: func(r *Ring) uint64 { return r.Prefetches }},
	{name: "talon_residency_parked_total", help: "Responses that waited for the disk.",
		sum: func(r *Ring) uint64 { return r.Parked }},

	{name: "talon_ring_turns_total", help: "Passes of the ring's loop.",
		perRing: func(r *Ring) uint64 { return r.Turns }},
	{name: "talon_ring_enters_total", help: "Calls of io_uring_enter.",
		perRing: func(r *Ring) uint64 { return r.Enters }},
	{name: "talon_ring_waits_total", help: "Of these, how many were allowed to sleep.",
		perRing: func(r *Ring) uint64 { return r.Waits }},
	{name: "talon_ring_submitted_total", help: "Operations given to the kernel.",
		perRing: func(r *Ring) uint64 { return r.Submitted }},
	{name: "talon_ring_completed_total", help: "Completions taken from the kernel.",
		perRing: func(r *Ring) uint64 { return r.Completed }},
	{name: "talon_ring_sq_full_total", help: "Times the submission queue was full and had to be flushed.",
		perRing: func(r *Ring) uint64 { return r.SQFull }},
	{name: "talon_ring_cq_overflow_total", help: "Times the kernel had more completions than the queue holds.",
		perRing: func(r *Ring) uint64 { return r.CQOverflow }},
	{name: "talon_ring_sq_refused_total", help: "Operations that found no room in the submission queue even then.",
		perRing: func(r *Ring) uint64 { return r.Refused }},
	{name: "talon_ring_partial_submits_total", help: "Calls that took fewer operations than there were.",
		perRing: func(r *Ring) uint64 { return r.Partial }},
	{name: "talon_ring_interrupted_total", help: "Calls that a signal ended, mostly the Go scheduler's own.",
		perRing: func(r *Ring) uint64 { return r.Interrupted }},
	{name: "talon_ring_busy_total", help: "Calls that the kernel refused for a moment: EBUSY, EAGAIN or ENOMEM.",
		perRing: func(r *Ring) uint64 { return r.Busy }},
	{name: "talon_ring_accept_rearms_total", help: "Multishot accepts armed again.",
		perRing: func(r *Ring) uint64 { return r.AcceptRearms }},
	{name: "talon_ring_recv_rearms_total", help: "Multishot receives armed again.",
		perRing: func(r *Ring) uint64 { return r.RecvRearms }},
	{name: "talon_ring_recv_pauses_total", help: "Connections not read from while their requests queue up.",
		perRing: func(r *Ring) uint64 { return r.RecvPauses }},
	{name: "talon_ring_recv_buffers_out_total", help: "Receives that found no free buffer.",
		perRing: func(r *Ring) uint64 { return r.BuffersOut }},
	{name: "talon_ring_recv_buffers_held", help: "Receive buffers that hold unread requests now.", gauge: true,
		perRing: func(r *Ring) uint64 { return r.BuffersHeld }},
	{name: "talon_ring_input_slabs_held", help: "Input slabs in use now: connections with an incomplete or waiting request.", gauge: true,
		perRing: func(r *Ring) uint64 { return r.InputsHeld }},
	{name: "talon_ring_send_slabs_held", help: "Send slabs in use now: small responses with the ring.", gauge: true,
		perRing: func(r *Ring) uint64 { return r.SlabsHeld }},
	{name: "talon_ring_stale_completions_total", help: "Completions of a connection that was gone already.",
		perRing: func(r *Ring) uint64 { return r.StaleCompleted }},
}

func (wk Worker) metrics(w http.ResponseWriter, _ *http.Request) {
	var e exposition
	wk.writeWorker(&e)
	writeProcess(&e)
	e.family("talon_io_wq_threads", "gauge", "Kernel threads that run operations which would block a ring.")
	e.sample("talon_io_wq_threads", float64(workQueueThreads("/proc/self/task")))
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(e.Bytes())
}

// writeWorker writes the families of this worker. When a ring does not answer,
// talon_up is 0 and the counters are absent: a partial sum would look like a
// counter that was reset.
func (wk Worker) writeWorker(e *exposition) {
	rings, err := wk.Rings()
	up := 1.0
	if err != nil {
		up, rings = 0, nil
	}
	e.family("talon_build_info", "gauge", "Always 1; the labels name the binary.")
	e.sample("talon_build_info", 1, "version", wk.Build.Version, "commit", wk.Build.Commit, "goversion", wk.Build.Go)
	e.family("talon_up", "gauge", "1 while every ring answers; 0 leaves out the counters of the rings.")
	e.sample("talon_up", up)
	e.family("talon_draining", "gauge", "1 once the worker has begun to stop.")
	e.sample("talon_draining", boolean(wk.Draining()))
	wk.Shared().write(e)
	if err != nil {
		return
	}
	defer wk.writeTenancy(e)
	e.family("talon_rings", "gauge", "io_uring loops of this worker.")
	e.sample("talon_rings", float64(len(rings)))
	for _, f := range families {
		f.write(e, rings)
	}
	const duration = "talon_http_request_duration_seconds"
	e.family(duration, "histogram", "From a request's last byte to the last byte of its response that the socket accepted.")
	e.histogram(duration, sumDurations(rings))
}

func (s Shared) write(e *exposition) {
	e.family("talon_connections_limit", "gauge", "Client connections that the worker takes at most.")
	e.sample("talon_connections_limit", float64(s.ConnectionLimit))
	e.family("talon_connections_free", "gauge", "Of these, how many may still come.")
	e.sample("talon_connections_free", float64(s.ConnectionsFree))
	e.family("talon_open_file_inline_closes_total", "counter", "Files closed on a ring thread because the queue of closes was full.")
	e.sample("talon_open_file_inline_closes_total", float64(s.InlineCloses))
	e.family("talon_access_log_dropped_total", "counter", "Lines of the access log that were dropped because it is not written fast enough.")
	e.sample("talon_access_log_dropped_total", float64(s.AccessDropped))
}

func (f family) write(e *exposition, rings []Ring) {
	kind := "counter"
	if f.gauge {
		kind = "gauge"
	}
	e.family(f.name, kind, f.help)
	switch {
	case f.sum != nil:
		var total uint64
		for i := range rings {
			total += f.sum(&rings[i])
		}
		e.sample(f.name, float64(total))
	case f.perRing != nil:
		for i := range rings {
			e.sample(f.name, float64(f.perRing(&rings[i])), "ring", strconv.Itoa(i))
		}
	default:
		total := map[string]uint64{}
		for i := range rings {
			for k, n := range f.byLabel(&rings[i]) {
				total[k] += n
			}
		}
		for _, k := range slices.Sorted(maps.Keys(total)) {
			e.sample(f.name, float64(total[k]), f.label, k)
		}
	}
}

func sumDurations(rings []Ring) Histogram {
	var sum Histogram
	for i := range rings {
		d := &rings[i].Duration
		if sum.Count == nil {
			sum = Histogram{Upper: d.Upper, Count: make([]uint64, len(d.Count))}
		}
		for j, n := range d.Count {
			sum.Count[j] += n
		}
		sum.Sum += d.Sum
	}
	return sum
}

func boolean(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
