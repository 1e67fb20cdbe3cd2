package policy

import (
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/talon-worker/talon/qos"
)

// A line is one field of a tenant as it would be written in a file: what is compared, and what is shown.
type line struct{ field, value string }

// own are the lines of a tenant without its limits, inherited or not. What is left open has none.
func (t *Tenant) own() (lines []line) {
	number := func(path string, n int64) {
		if n != 0 {
			f := fields[path]
			lines = append(lines, line{path, f.print(n)})
		}
	}
	number("weight", int64(t.Weight))
	lines = append(lines, line{"allow", list(t.Allow)})
	number("dialect", int64(t.Dialect))
	for _, k := range t.Tokens {
		lines = append(lines, line{"token " + k.ID, hex.EncodeToString(k.SHA256[:])})
	}
	number("queue.requests", int64(t.Queue.Requests))
	number("queue.bytes", t.Queue.Bytes)
	number("queue.deadline", int64(t.Queue.Deadline))
	number("queue.target", int64(t.Queue.Target))
	number("max_inflight", int64(t.MaxInflight))
	number("max_connections", int64(t.MaxConnections))
	return lines
}

// limitLines are the lines of one limit; nil has none.
func limitLines(l *qos.Policy) (lines []line) {
	if l == nil {
		return nil
	}
	number := func(name string, n int64) {
		f := fields["limits."+l.Metric.String()+"."+name]
		lines = append(lines, line{l.Metric.String() + "." + name, f.print(n)})
	}
	number("rate", l.Rate)
	number("burst", l.Burst)
	number("local_burst", l.LocalBurst)
	if l.SoftRate != 0 {
		number("soft_rate", l.SoftRate)
	}
	enabled := int64(0)
	if l.Enabled {
		enabled = 1
	}
	number("enabled", enabled)
	number("mode", int64(l.Mode))
	number("on_limit", int64(l.OnLimit))
	if l.OnLimit == qos.Ban {
		number("ban.for", int64(l.BanFor))
		number("ban.mode", int64(l.BanMode))
	}
	return lines
}

// list writes prefixes as a file takes them.
func list(all []string) string {
	quoted := make([]string, len(all))
	for i, s := range all {
		quoted[i] = strconv.Quote(s)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
