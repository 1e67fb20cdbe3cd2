package main

import (
	"strconv"

	"github.com/talon-worker/talon/admin"
	"github.com/talon-worker/talon/server"
)

// adminRings copies the server's counters into the admin port's. Both rooms
// keep to themselves; this is the only place that sees both shapes.
func adminRings(all []server.Stats) []admin.Ring {
	rings := make([]admin.Ring, len(all))
	for i := range all {
		rings[i] = adminRing(&all[i])
	}
	return rings
}

func adminRing(s *server.Stats) admin.Ring {
	return admin.Ring{
		Accepted: s.Accepted, Open: s.Open,
		Closed: closedByReason(s), Requests: requestsByCode(s),
		SentCopy: s.SentCopy, SentSendfile: s.SentSendfile, ShortSends: s.ShortSends,
		FilesHit: s.FilesHit, FilesMissed: s.FilesMissed, FilesDeferred: s.FilesDeferred, FilesChanged: s.FilesChanged,
		ResidencyHits: s.ProbeHits, Prefetches: s.Prefetches, Parked: s.Parked,
		AcceptRearms: s.AcceptRearms, RecvRearms: s.RecvRearms, RecvPauses: s.RecvPauses, BuffersOut: s.BuffersOut,
		RefusedBudget: s.RefusedBudget, RefusedFiles: s.RefusedFiles,
		AcceptPausesBudget: s.AcceptPausesBudget, AcceptPausesFiles: s.AcceptPausesFiles,
		RefusalsHeld: s.RefusalsHeld, Starved: s.Starved, StarvedNow: s.StarvedNow, BuffersHeld: s.BuffersHeld, InputsHeld: s.InputsHeld, SlabsHeld: s.SlabsHeld,
		OpensOut: s.OpensOut, OpensRefused: s.OpensRefused,
		StaleCompleted: s.StaleCompleted, Turns: s.Turns,
		Enters: s.Ring.Enters, Waits: s.Ring.Waits, Submitted: s.Ring.Submitted, Completed: s.Ring.Completed,
		SQFull: s.Ring.SQFull, Refused: s.Ring.Refused, Partial: s.Ring.Partial, CQOverflow: s.Ring.CQOverflow,
		Interrupted: s.Ring.Interrupted, Busy: s.Ring.Busy,
		Duration: adminHistogram(&s.Duration),
	}
}

func closedByReason(s *server.Stats) map[string]uint64 {
	m := make(map[string]uint64, len(s.Closed))
	for _, r := range server.CloseReasons() {
		m[r.String()] = s.Closed[r]
	}
	return m
}

func requestsByCode(s *server.Stats) map[string]uint64 {
	m := make(map[string]uint64, len(s.Requests))
	for i, code := range server.Statuses {
		m[strconv.Itoa(code)] = s.Requests[i]
	}
	return m
}

// bucketUppers are the upper bounds of server.Histogram in seconds: bucket i
// ends at 2^i microseconds, and the last has no end.
var bucketUppers = func() []float64 {
	upper := make([]float64, server.HistogramBuckets-1)
	for i := range upper {
		upper[i] = float64(uint64(1)<<i) / 1e6
	}
	return upper
}()

func adminHistogram(h *server.Histogram) admin.Histogram {
	return admin.Histogram{Upper: bucketUppers, Count: h.Count[:], Sum: float64(h.Sum) / 1e9}
}
