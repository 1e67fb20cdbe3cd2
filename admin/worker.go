package admin

import "time"

// Worker is what the port shows: facts that do not change while the process
// runs, and functions that fetch those that do. The functions are called from
// several goroutines at once.
type Worker struct {
	Build   Build
	Addr    string    // data port, with the port the kernel chose
	Origin  string    // as the operator would write it
	Started time.Time // when the data port was bound

	// Rings asks every ring for its counters. An error means that one did not
	// answer in time and names it.
	Rings func() ([]Ring, error)

	// Tenants says who requests are counted as.
	Tenants func() Tenants

	// Policy returns the policy in force. nil = this worker has none.
	Policy func() Policy

	// Tenancy asks the rings and the limiter for the tenants. An error means that one of them did not answer. nil = there is
	// neither /api/v1/tenants nor a family of theirs.
	Tenancy func() (Tenancy, error)

	// Peers says who the other workers are. nil = there are none.
	Peers func() Peers

	// Keys lists the limits that this worker meters. nil = it has no limits.
	Keys func() []Key

	// Tenants with series of their own on the metrics page: so many of those that have sent most, and these in any case.
	TopTenants    int
	AlwaysTenants []string

	series *series // of the metrics page; made by Serve

	// Shared reads what the rings have in common, without asking them.
	Shared func() Shared

	// Draining reports whether the worker has begun to stop.
	Draining func() bool

	// OriginReadable returns why objects cannot be read now, or nil.
	OriginReadable func() error

	// ConfigStale returns why the configuration file, read again, was not taken
	// over, or nil. It is shown in /readyz?verbose and never a reason for 503:
	// what runs is good. nil = not shown.
	ConfigStale func() error

	// SetLogLevel sets the least level that is logged (debug, info, warn, error)
	// and returns the one before. nil = there is no /api/v1/loglevel.
	SetLogLevel func(level string) (was string, err error)
}

// Build names the binary.
type Build struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
}

// Tenants says how a request is given its tenant.
type Tenants struct {
	Mode      string `json:"mode"`                // "policy": those of a policy; "anonymous": everybody is one tenant; "none": nobody is, all answers are 401
	Anonymous string `json:"anonymous,omitempty"` // who comes without credentials
	Note      string `json:"note"`                // the same in a sentence
}

// Shared is what the rings have in common, now.
type Shared struct {
	ConnectionLimit uint64 `json:"connections_limit"`
	ConnectionsFree uint64 `json:"connections_free"`
	InlineCloses    uint64 `json:"open_file_inline_closes"` // since start
	AccessDropped   uint64 `json:"access_log_dropped"`      // lines of the access log that found no room, since start
}

// Ring is one ring's counters since start. Fields without a unit in their
// comment count events.
type Ring struct {
	Accepted uint64            `json:"connections_accepted"`
	Open     uint64            `json:"connections"` // open now
	Closed   map[string]uint64 `json:"connections_closed"`
	Requests map[string]uint64 `json:"requests"` // by status code

	SentCopy     uint64 `json:"sent_copy_bytes"`
	SentSendfile uint64 `json:"sent_sendfile_bytes"`
	ShortSends   uint64 `json:"short_sends"`

	FilesHit      uint64 `json:"open_file_hits"`
	FilesMissed   uint64 `json:"open_file_misses"`
	FilesDeferred uint64 `json:"open_file_deferred"`
	FilesChanged  uint64 `json:"open_file_changed"`

	ResidencyHits uint64 `json:"residency_hits"`
	Prefetches    uint64 `json:"residency_prefetches"`
	Parked        uint64 `json:"residency_parked"`

	RefusedBudget      uint64 `json:"connections_refused_budget"`
	RefusedFiles       uint64 `json:"connections_refused_descriptors"`
	AcceptPausesBudget uint64 `json:"accept_pauses_budget"`
	AcceptPausesFiles  uint64 `json:"accept_pauses_descriptors"`

	RefusalsHeld uint64 `json:"refusals_held"`
	Starved      uint64 `json:"starved"`
	StarvedNow   uint64 `json:"starved_now"`
	BuffersHeld  uint64 `json:"recv_buffers_held"`
	InputsHeld   uint64 `json:"input_slabs_held"`
	SlabsHeld    uint64 `json:"send_slabs_held"`
	OpensOut     uint64 `json:"opener_pending"`
	OpensRefused uint64 `json:"opener_refused"`

	AcceptRearms   uint64 `json:"accept_rearms"`
	RecvRearms     uint64 `json:"recv_rearms"`
	RecvPauses     uint64 `json:"recv_pauses"`
	BuffersOut     uint64 `json:"recv_buffers_out"`
	StaleCompleted uint64 `json:"stale_completions"`
	Turns          uint64 `json:"turns"`

	Enters      uint64 `json:"enters"`
	Waits       uint64 `json:"waits"`
	Submitted   uint64 `json:"submitted"`
	Completed   uint64 `json:"completed"`
	SQFull      uint64 `json:"sq_full"`
	Refused     uint64 `json:"sq_refused"`
	Partial     uint64 `json:"partial_submits"`
	CQOverflow  uint64 `json:"cq_overflow"`
	Interrupted uint64 `json:"interrupted"`
	Busy        uint64 `json:"busy"`

	Duration Histogram `json:"-"`
}

// Histogram counts durations; Count[i] are those of at most Upper[i] seconds
// and more than Upper[i-1]. Count has one element more than Upper: the rest.
// All rings share the same Upper.
type Histogram struct {
	Upper []float64
	Count []uint64
	Sum   float64 // seconds
}
