package admin

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"time"
)

// Policy is the policy in force.
type Policy struct {
	File     string    `json:"file"`
	Number   uint64    `json:"number"`          // of those that this process has had in force
	Since    time.Time `json:"since"`           // when it was put in force
	Tenants  uint64    `json:"tenants"`         // that it names
	Limits   uint64    `json:"limits"`          // that are enforced or in shadow
	Rejected uint64    `json:"rejected"`        // times that another file was read and not taken
	Stale    string    `json:"stale,omitempty"` // why the file as it is now is not in force
}

// Tenancy is what this worker knows of its tenants, and of their limits, at one moment. Peers and Keys are what Worker's functions of these names say, by
// the same look at the limiter: one look costs its loop time in proportion to the limits.
type Tenancy struct {
	Tenants []Tenant `json:"tenants"`
	Limiter *Limiter `json:"limiter,omitempty"` // nil: there are no limits
	Peers   *Peers   `json:"-"`                 // nil: there are none
	Keys    []Key    `json:"-"`                 // that are metered here
}

// Tenant is one tenant: what is here now, and counters since start.
type Tenant struct {
	ID         string `json:"id"`
	Class      string `json:"class,omitempty"`
	Weight     int    `json:"weight"`
	Generation uint64 `json:"generation"` // of its own part of the policy

	Connections uint64 `json:"connections"`
	Inflight    uint64 `json:"inflight"`     // requests here, waiting or being answered
	Queued      uint64 `json:"queued"`       // of them, waiting for their first turn
	QueuedBytes uint64 `json:"queued_bytes"` // that those are expected to send

	Requests  uint64  `json:"requests"` // answered, refusals included
	SentBytes uint64  `json:"sent_bytes"`
	Waited    uint64  `json:"waited"`            // requests that did not have their first turn at once
	WaitedFor float64 `json:"waited_seconds"`    // how long admitted requests have waited for it, together
	Throttled float64 `json:"throttled_seconds"` // that its client_egress_bytes let it sleep, summed over the rings
	ShareDue  uint64  `json:"share_due_bytes"`   // that its weight was due of the worker's rate while it had work; 0 without such a rate
	ShareGot  uint64  `json:"share_got_bytes"`   // and what it has had

	Denied map[string]map[string]uint64 `json:"denied"`        // requests refused, by the limit or bound, and by reason
	Shadow map[string]uint64            `json:"shadow_denied"` // charges that would have been denied, by limit
	Stale  uint64                       `json:"stale_view"`    // requests refused because no limit's owner was heard of

	Wait Histogram `json:"-"` // of admitted requests, until their first turn

	Limits []Limit `json:"limits"`
}

// Limit is one limit of a tenant. Amounts are requests or bytes, after the metric.
type Limit struct {
	Metric     string `json:"metric"`
	Generation uint64 `json:"generation"`
	Limited    bool   `json:"limited"` // false: counted only
	Mode       string `json:"mode"`
	OnLimit    string `json:"on_limit"`
	Rate       int64  `json:"rate"` // a second
	Burst      int64  `json:"burst"`
	LocalBurst int64  `json:"local_burst"`
	SoftRate   int64  `json:"soft_rate,omitempty"`

	Used    int64    `json:"used"`                  // by this worker since start, less what was given back
	Refused int64    `json:"refused"`               // and what it has refused
	Waiting int64    `json:"waiting"`               // what waits for the limit here
	Room    int64    `json:"room"`                  // what this worker may use at once
	Age     *float64 `json:"age_seconds,omitempty"` // of what it knows from the owner; without a fresh view, none
	Owner   string   `json:"owner"`                 // worker that meters the limit

	Cluster *Cluster `json:"cluster,omitempty"` // what the owner knows; nil: another worker is the owner
}

// Cluster is the state of a limit over all workers.
type Cluster struct {
	Level     int64   `json:"level"`  // what is left of the burst; negative is debt
	Wanted    int64   `json:"wanted"` // in the last second, admitted or not
	Used      int64   `json:"used"`   // since this worker became the owner
	Reserved  int64   `json:"reserved"`
	Reporters int     `json:"reporters"` // active workers
	Waiting   int     `json:"waiting"`   // of them, in line
	Excess    int64   `json:"excess"`    // estimate: the most that use was ahead of an ideal bucket
	Exhausted bool    `json:"exhausted"`
	Violator  bool    `json:"violator"`    // over soft_rate
	BanLeft   float64 `json:"ban_seconds"` // 0: not banned
}

// Limiter is this worker's part in the limits of the cluster.
type Limiter struct {
	Worker  string `json:"worker"`
	Epoch   uint64 `json:"epoch"`
	Alone   bool   `json:"alone"`
	Ring    uint64 `json:"ring_epoch"`
	Members int    `json:"members"`
	Acts    bool   `json:"acts"` // may act as owner

	SnapshotTTL float64 `json:"snapshot_ttl_seconds"` // how old a view may be that is acted upon

	Reports   uint64 `json:"reports"`
	Retries   uint64 `json:"report_retries"`
	Snapshots uint64 `json:"snapshots"`
	Late      uint64 `json:"snapshots_late"`
	Expired   uint64 `json:"views_expired"`
	Applied   uint64 `json:"reports_applied"` // as owner
}

// violator is a row of /api/v1/violators.
type violator struct {
	Tenant   string  `json:"tenant"`
	Metric   string  `json:"metric"`
	SoftRate int64   `json:"soft_rate,omitempty"`
	Rate     int64   `json:"rate"`
	Wanted   int64   `json:"wanted"` // in the last second
	Soft     bool    `json:"over_soft_rate"`
	BanLeft  float64 `json:"ban_seconds"`
}

// violators are the limits over their soft rate, or banned, that this worker meters.
func (t *Tenancy) violators() []violator {
	all := []violator{}
	for i := range t.Tenants {
		for _, l := range t.Tenants[i].Limits {
			if c := l.Cluster; c != nil && (c.Violator || c.BanLeft > 0) {
				all = append(all, violator{t.Tenants[i].ID, l.Metric, l.SoftRate, l.Rate, c.Wanted, c.Violator, c.BanLeft})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b violator) int { return cmp.Compare(a.Tenant, b.Tenant) })
	return all
}

// tenants answers /api/v1/tenants, with ?id= for one of them.
func (wk Worker) tenants(w http.ResponseWriter, r *http.Request) {
	t, err := wk.Tenancy()
	if err != nil {
		plain(w, http.StatusServiceUnavailable, err.Error()+"\n")
		return
	}
	if id := r.URL.Query().Get("id"); id != "" {
		t.Tenants = slices.DeleteFunc(t.Tenants, func(one Tenant) bool { return one.ID != id })
		if len(t.Tenants) == 0 {
			plain(w, http.StatusNotFound, "no such tenant\n")
			return
		}
	}
	if t.Tenants == nil {
		t.Tenants = []Tenant{}
	}
	writeJSON(w, t)
}

func (wk Worker) violators(w http.ResponseWriter, _ *http.Request) {
	t, err := wk.Tenancy()
	if err != nil {
		plain(w, http.StatusServiceUnavailable, err.Error()+"\n")
		return
	}
	writeJSON(w, struct {
		Violators []violator `json:"violators"`
	}{t.violators()})
}

func writeJSON(w http.ResponseWriter, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		plain(w, http.StatusInternalServerError, err.Error()+"\n")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(append(body, '\n')) // the reader may be gone; nobody to tell
}
