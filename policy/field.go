package policy

import (
	"strings"
	"time"

	"github.com/talon-worker/talon/qos"
)

// kind is how a field is written.
type kind uint8

const (
	count       kind = iota // a whole number
	size                    // bytes
	requestRate             // 500/s
	byteRate                // 100MiB/s
	span                    // 500ms
	word                    // one of a few
	toggle                  // true or false
	prefixes                // a list of paths
)

// field is a row of the table of fields: something that a tenant, a class or the defaults may write. docs/policy.md is made from the rows.
type field struct {
	path     string // from the tenant down, with dots
	kind     kind
	min, max int64    // inclusive; of counts, sizes and rates in their units, of spans in nanoseconds
	words    []string // of a word; its value is the index
	none     bool     // the word "none" may stand for a value
	unset    string   // what holds when neither tenant, class nor defaults write it
	meaning  string
}

// tenantFields are those outside of limits. Each is inherited by itself.
var tenantFields = []field{
	{path: "weight", kind: count, min: 1, max: 1000, unset: "`--tenant-weight`",
		meaning: "share of the worker while others want it, too"},
	{path: "allow", kind: prefixes, unset: "nothing may be read",
		meaning: "prefixes of paths that may be read; `/` is everything. A list replaces the one inherited, `[]` allows nothing"},
	{path: "dialect", kind: word, words: []string{"plain", "s3"}, unset: "`plain`",
		meaning: "how a request is refused: plain is 429 for the tenant's own excess and 503 for the worker's, with a problem in JSON; s3 is 503 SlowDown in XML for either"},
	{path: "queue.requests", kind: count, min: 1, max: 1 << 20, unset: "`--tenant-queue-requests`",
		meaning: "requests that wait in one worker; one more is refused"},
	{path: "queue.bytes", kind: size, min: 1, max: 1 << 40, unset: "`--tenant-queue-bytes`",
		meaning: "bytes of their responses together"},
	{path: "queue.deadline", kind: span, min: int64(time.Millisecond), max: int64(time.Hour), unset: "`--tenant-queue-deadline`",
		meaning: "longest wait of a request; one that would wait longer is refused at once"},
	{path: "queue.target", kind: span, min: int64(time.Millisecond), max: int64(time.Hour), unset: "`--tenant-queue-target`",
		meaning: "a wait that stays above it, and that the tenant's own limit has not caused, shortens the queue"},
	{path: "max_inflight", kind: count, min: 1, max: 1 << 20, unset: "`--tenant-max-inflight`",
		meaning: "requests that one worker has at a time, waiting or being answered"},
	{path: "max_connections", kind: count, min: 1, max: 1 << 20, unset: "`--tenant-max-connections`",
		meaning: "connections of one worker"},
}

// limitFields are those of one limit, the same for every metric; an amount is a count for requests and a size for bytes.
var limitFields = []field{
	{path: "rate", kind: byteRate, min: 1, max: qos.MaxRate, unset: "an error",
		meaning: "target rate R of the whole cluster"},
	{path: "burst", kind: size, min: 1, max: qos.MaxBurst, unset: "an error",
		meaning: "global burst B: what may be used at once after a pause"},
	{path: "local_burst", kind: size, min: 1, max: qos.MaxBurst, unset: "an error",
		meaning: "local burst cap b, at most the burst: what one worker may use before it has heard from the limit's owner, and the N x b of the bound"},
	{path: "soft_rate", kind: byteRate, min: 1, max: qos.MaxRate, none: true, unset: "none",
		meaning: "over it nothing changes for the client; the tenant is listed as a violator until it has been under it for a second. `none` undoes an inherited one"},
	{path: "enabled", kind: toggle, unset: "`true`",
		meaning: "false: counted, not limited; the way to lift an inherited limit"},
	{path: "mode", kind: word, words: []string{"enforce", "shadow", "off"}, unset: "`enforce`",
		meaning: "shadow decides and counts and changes no response; off is as `enabled: false`"},
	{path: "on_limit", kind: word, words: []string{"pace", "reject", "ban"}, unset: "`pace`",
		meaning: "pace: wait in the queue until its deadline, then be refused; reject: be refused at once; ban: see `ban`"},
	{path: "ban.for", kind: span, min: int64(time.Millisecond), max: int64(24 * time.Hour), unset: "an error with `on_limit: ban`",
		meaning: "with `on_limit: ban`, for how long everything is refused once the cluster has wanted more than the rate in one second"},
	{path: "ban.mode", kind: word, words: []string{"error", "close"}, unset: "`error`",
		meaning: "error answers every request of a banned tenant with the refusal, close closes its connections"},
}

// fields holds every row by its whole path, groups every mapping on the way to one ("queue", "limits.read_iops.ban"), with its members.
var fields, groups = func() (map[string]field, map[string][]string) {
	fields, groups := map[string]field{}, map[string][]string{}
	var place func(path string) // into the groups above it
	place = func(path string) {
		above, name := "", path
		if i := strings.LastIndexByte(path, '.'); i >= 0 {
			above, name = path[:i], path[i+1:]
			if groups[above] == nil {
				place(above)
			}
		}
		groups[above] = append(groups[above], name)
	}
	for _, f := range tenantFields {
		fields[f.path] = f
		place(f.path)
	}
	for _, m := range qos.Metrics {
		for _, f := range limitFields {
			if m.Requests() {
				switch f.kind {
				case byteRate:
					f.kind = requestRate
				case size:
					f.kind = count
				}
			}
			f.path = "limits." + m.String() + "." + f.path
			fields[f.path] = f
			place(f.path)
		}
	}
	return fields, groups
}()
