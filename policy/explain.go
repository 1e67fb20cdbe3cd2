package policy

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/talon-worker/talon/qos"
)

// Worker is what the meaning of a policy depends on beside the file.
type Worker struct {
	Limits    qos.Config // the limiter's settings, which all workers share
	Chunk     int64      // bytes: the largest charge of one response
	Workers   int        // that share the limits, at least 1
	Anonymous string     // tenant of a request without credentials, or empty
}

// Explain says in words what a policy means.
func Explain(s *Set, w *Worker) string {
	var b strings.Builder
	limits, weights := 0, 0
	for i := range s.Tenants {
		limits += len(s.Tenants[i].Limits)
		weights += max(s.Tenants[i].Weight, 1)
	}
	fmt.Fprintf(&b, "%s, %s", plural(len(s.Tenants), "tenant"), plural(limits, "limit"))
	if len(s.Peers) > 0 {
		fmt.Fprintf(&b, "; a ring of %s, epoch %d", plural(len(s.Peers), "worker"), s.RingEpoch)
	}
	b.WriteString("\n")
	warnings := map[string][]string{}
	for _, one := range Warnings(s, w) {
		warnings[one.Tenant] = append(warnings[one.Tenant], one.Text)
	}
	for i := range s.Tenants {
		t := &s.Tenants[i]
		fmt.Fprintf(&b, "\n%s%s\n", t.ID, inParentheses(t.Class, "class "))
		say := func(name, format string, args ...any) {
			fmt.Fprintf(&b, "  %-20s %s\n", name, fmt.Sprintf(format, args...))
		}
		explainTenant(t, w, weights, say)
		for j := range t.Limits {
			explainLimit(&t.Limits[j], t, w, say)
		}
		for _, text := range warnings[t.ID] {
			say("WARNING", "%s", text)
		}
	}
	for _, text := range warnings[""] {
		fmt.Fprintf(&b, "\nWARNING %s\n", text)
	}
	return b.String()
}

func explainTenant(t *Tenant, w *Worker, weights int, say func(name, format string, args ...any)) {
	weight := max(t.Weight, 1)
	say("weight", "%d: at least %.3g %% of a worker while all tenants want more than they get", weight, 100*float64(weight)/float64(weights))
	switch {
	case len(t.Allow) == 0:
		say("reads", "nothing")
	case len(t.Allow) == 1 && t.Allow[0] == "/":
		say("reads", "everything")
	default:
		say("reads", "%s", strings.Join(t.Allow, ", "))
	}
	who := make([]string, len(t.Tokens))
	for i := range t.Tokens {
		who[i] = t.Tokens[i].ID
	}
	switch credentials := strings.Join(who, ", "); {
	case t.ID == w.Anonymous && credentials == "":
		say("is", "whoever shows no credentials")
	case t.ID == w.Anonymous:
		say("is", "whoever shows no credentials, or token %s", credentials)
	case credentials != "":
		say("is", "whoever shows token %s", credentials)
	default:
		say("is", "nobody")
	}
	var queue []string
	if t.Queue.Requests > 0 {
		queue = append(queue, plural(t.Queue.Requests, "request"))
	}
	if t.Queue.Bytes > 0 {
		queue = append(queue, sizeText(t.Queue.Bytes)+" of responses")
	}
	if t.Queue.Deadline > 0 {
		queue = append(queue, "for at most "+t.Queue.Deadline.String())
	}
	if len(queue) > 0 {
		say("may wait", "%s, in each worker", strings.Join(queue, ", "))
	}
	if t.MaxInflight > 0 {
		say("at a time", "%s in each worker", plural(t.MaxInflight, "request"))
	}
	if t.MaxConnections > 0 {
		say("connections", "%d to each worker", t.MaxConnections)
	}
	iops, egress := t.Limit(qos.ReadIOPS), t.Limit(qos.ClientEgressBytes)
	if iops != nil && egress != nil && iops.Limits() && egress.Limits() {
		mean := egress.Rate / iops.Rate
		say("which limit", "responses under %s on average meet read_iops first, larger ones client_egress_bytes", RoughSize(mean))
	}
}

func explainLimit(l *qos.Policy, t *Tenant, w *Worker, say func(name, format string, args ...any)) {
	m := l.Metric
	switch {
	case !l.Limits():
		say(m.String(), "counted, not limited%s", softly(l))
		return
	case l.Mode == qos.Shadow:
		say(m.String(), "shadow: decided and counted, nothing is held back%s", softly(l))
	default:
		say(m.String(), "%s%s", onLimit(l), softly(l))
	}
	say("", "%s over all workers: %s", perSecondOf(l), inHumanTerms(l))
	say("", "burst %s is %s of the rate: so long it carries twice the rate, and so long it takes to fill again",
		amount(m, l.Burst), seconds(l.Burst, l.Rate))
	one := "one connection alone may have all of it"
	if t.MaxConnections > 1 {
		one += fmt.Sprintf("; %d that all want more have %s each", t.MaxConnections, roughly(m, l.Rate/int64(t.MaxConnections))+"/s")
	}
	say("", "%s", one)
	if w.Workers == 1 {
		say("", "in any t seconds at most %s + %s x t: one worker alone keeps to it exactly", amount(m, l.Burst), perSecondOf(l))
		return
	}
	d := w.Limits.TTL
	lag := int64(float64(l.Rate) * d.Seconds())
	say("", "in any t seconds at most %s + %s x t, and in the worst case N x b + R x d = %d x %s + %s x %v = %s more",
		amount(m, l.Burst), perSecondOf(l), w.Workers, amount(m, l.LocalBurst), perSecondOf(l), d,
		roughly(m, saturating(l.LocalBurst, int64(w.Workers), lag)))
}

// Warning is something that works and is probably not meant.
type Warning struct {
	Tenant string // empty: of the whole file
	Text   string
}

// Warnings lists what in a policy will disappoint, and what to write instead.
func Warnings(s *Set, w *Worker) (all []Warning) {
	for i := range s.Tenants {
		t := &s.Tenants[i]
		say := func(format string, args ...any) { all = append(all, Warning{t.ID, fmt.Sprintf(format, args...)}) }
		if len(t.Allow) == 0 {
			say(`it may read nothing: write  allow: ["/"]  or prefixes`)
		}
		for _, prefix := range t.Allow {
			// A dot in the last part is taken for a file's name.
			if last := prefix[strings.LastIndexByte(prefix, '/')+1:]; last != "" && !strings.Contains(last, ".") {
				say("allow %s allows %sANYTHING, too, not only what is beneath %s/", prefix, prefix, prefix)
			}
		}
		if len(t.Tokens) == 0 && t.ID != w.Anonymous {
			say("nobody can be it: it has no token; talon token new makes one")
		}
		for j := range t.Limits {
			l := &t.Limits[j]
			if l.Metric != qos.ReadIOPS && l.Metric != qos.ClientEgressBytes {
				say("%v: nothing is charged to it in this version, which reads from a directory and takes no writes", l.Metric)
				continue
			}
			need := int64(1)
			if !l.Metric.Requests() {
				need = w.Chunk
			}
			if !l.Limits() {
				continue
			}
			for _, advice := range w.Limits.Advice(l, qos.Use{Need: need, Workers: w.Workers, Deadline: t.Queue.Deadline}) {
				say("%s", strings.TrimPrefix(advice, t.ID+"/"))
			}
			if wait := time.Duration(float64(need) / float64(l.Rate) * 1e9); l.OnLimit == qos.Pace && t.Queue.Deadline > 0 && wait > t.Queue.Deadline {
				say("%v: one charge of %s takes %v at this rate, longer than the queue's deadline, %v: what waits for it is refused",
					l.Metric, amount(l.Metric, need), wait.Round(time.Millisecond), t.Queue.Deadline)
			}
		}
	}
	return all
}

func onLimit(l *qos.Policy) string {
	switch l.OnLimit {
	case qos.Reject:
		return "what is over it is refused at once"
	case qos.Ban:
		how := "every request is refused"
		if l.BanMode == qos.BanClose {
			how = "its connections are closed"
		}
		return fmt.Sprintf("if the cluster wants more than it in one second, %s for %v", how, l.BanFor)
	}
	return "what is over it waits, then is refused"
}

func softly(l *qos.Policy) string {
	if l.SoftRate == 0 {
		return ""
	}
	return fmt.Sprintf("; over %s/s it is listed as a violator", amount(l.Metric, l.SoftRate))
}

func perSecondOf(l *qos.Policy) string { return amount(l.Metric, l.Rate) + "/s" }

// inHumanTerms puts a rate beside what links and bills are measured in.
func inHumanTerms(l *qos.Policy) string {
	if l.Metric.Requests() {
		return fmt.Sprintf("%s requests an hour, %s a day", roughCount(float64(l.Rate)*3600), roughCount(float64(l.Rate)*86400))
	}
	bits, unit := float64(l.Rate)*8, "bit/s"
	for _, next := range []string{"kbit/s", "Mbit/s", "Gbit/s", "Tbit/s"} {
		if bits < 1000 {
			break
		}
		bits, unit = bits/1000, next
	}
	return fmt.Sprintf("%.3g %s, %s a day", bits, unit, RoughSize(int64(min(float64(l.Rate)*86400, math.MaxInt64/2))))
}

// seconds is how long units take at a rate, in three digits.
func seconds(units, rate int64) string {
	s := float64(units) / float64(rate)
	switch {
	case s < 1e-3:
		return fmt.Sprintf("%.3gus", s*1e6)
	case s < 1:
		return fmt.Sprintf("%.3gms", s*1e3)
	case s < 120:
		return fmt.Sprintf("%.3gs", s)
	case s < 7200:
		return fmt.Sprintf("%.3gmin", s/60)
	case s < 48*3600:
		return fmt.Sprintf("%.3gh", s/3600)
	}
	return fmt.Sprintf("%s days", roughCount(s/86400))
}

func roughly(m qos.Metric, n int64) string {
	if m.Requests() {
		return roughCount(float64(n))
	}
	return RoughSize(n)
}

// RoughSize is a size in three digits, for people.
func RoughSize(n int64) string {
	v, unit := float64(n), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"} {
		if v < 1024 {
			break
		}
		v, unit = v/1024, next
	}
	if v >= 100 {
		return fmt.Sprintf("%.0f%s", v, unit)
	}
	return fmt.Sprintf("%.3g%s", v, unit)
}

// roughCount is a number in three digits, with a word for its size.
func roughCount(v float64) string {
	unit := ""
	for _, next := range []string{" thousand", " million", " billion", " trillion"} {
		if v < 1000 {
			break
		}
		v, unit = v/1000, next
	}
	if v >= 100 {
		return strconv.FormatFloat(v, 'f', 0, 64) + unit
	}
	return fmt.Sprintf("%.3g", v) + unit
}

// saturating is b x n + more, at most what fits.
func saturating(b, n, more int64) int64 {
	sum := float64(b)*float64(n) + float64(more)
	return int64(min(sum, math.MaxInt64/2))
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

func inParentheses(text, before string) string {
	if text == "" {
		return ""
	}
	return " (" + before + text + ")"
}
