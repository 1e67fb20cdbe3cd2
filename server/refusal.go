package server

import "fmt"

// limit names what a tenant's request met that kept it from being served.
type limit uint8

const (
	limitWorker        limit = iota // nothing of the tenant's: the worker is at its own
	limitReadIOPS                   // requests per second, qos.ReadIOPS
	limitEgress                     // bytes per second, qos.ClientEgressBytes
	limitQueueRequests              // Tenant.QueueRequests
	limitQueueBytes                 // Tenant.QueueBytes
	limitInflight                   // Tenant.MaxInflight
	limitConnections                // Tenant.MaxConnections
	numLimits
)

// limitNames are what headers, logs and metrics call them, and the unit in which
// RateLimit-Policy counts them: "" is requests.
var limitNames = [numLimits]struct{ name, unit string }{
	limitWorker:        {"worker", ""},
	limitReadIOPS:      {"read_iops", ""},
	limitEgress:        {"client_egress_bytes", "content-bytes"},
	limitQueueRequests: {"queue_requests", "concurrent-requests"},
	limitQueueBytes:    {"queue_bytes", "content-bytes"},
	limitInflight:      {"max_inflight", "concurrent-requests"},
	limitConnections:   {"max_connections", ""},
}

func (l limit) String() string { return limitNames[l].name }

// ofRate reports whether the limit is one over time: its quota is per second.
func (l limit) ofRate() bool { return l == limitReadIOPS || l == limitEgress }

// why says what was wrong with the limit, or with waiting for it.
type why uint8

const (
	whyNone          why = iota
	whyExhausted         // used up, and the request has waited as long as it may, or must not wait
	whyBanned            // the tenant is banned for having asked for far too much
	whyTooLarge          // one charge is more than the limit can ever hold
	whyStaleView         // the limit's owner is not heard of
	whyUnknownPolicy     // no policy is known for it
	whyLimitsFull        // the worker's table of limits is full
	whyFull              // as many as may wait or be here are
	whyPredicted         // it would wait longer than it may
	whyDeadline          // it has waited as long as it may
	whyShed              // the queue stood too long and was cut down
	whyMemory            // no memory to wait in
	numWhys
)

// whyTable holds for each reason its name, the status it is answered with (429 for the
// tenant's own excess, 503 for what the worker lacks), and what the client is told.
var whyTable = [numWhys]struct {
	name   string
	status int
	text   string
}{
	whyNone:          {"none", 503, ""},
	whyExhausted:     {"exhausted", 429, "the tenant has used up its limit"},
	whyBanned:        {"banned", 429, "the tenant asked for far more than its limit and is banned for a while"},
	whyTooLarge:      {"too_large", 429, "the response is larger than the tenant's limit can ever admit"},
	whyStaleView:     {"stale_view", 503, "the worker has lost sight of what the tenant may still use"},
	whyUnknownPolicy: {"unknown_policy", 503, "the worker knows no policy for the tenant"},
	whyLimitsFull:    {"limits_full", 503, "the worker keeps as many limits as it can"},
	whyFull:          {"full", 429, "the tenant has as many here as it may have at a time"},
	whyPredicted:     {"predicted_wait", 503, "the request would wait longer than it may"},
	whyDeadline:      {"deadline", 503, "the request has waited as long as it may"},
	whyShed:          {"shed", 503, "the tenant's requests wait too long; those that waited longest are let go"},
	whyMemory:        {"no_memory", 503, "the worker has no memory left for waiting requests"},
}

func (w why) String() string { return whyTable[w].name }

// refusal is one "not now": which limit, why, and when to come again.
type refusal struct {
	limit      limit
	why        why
	generation uint64 // of the policy that the limit comes from
	quota      int64  // what the limit is, in its unit; 0 where there is no unit for it, or nothing that a client could keep to
	wait       int64  // ns until it may be otherwise
	dialect    Dialect
}

func (r *refusal) status() int {
	if r.dialect == DialectS3 {
		return 503
	}
	return whyTable[r.why].status
}

// Retry-After is at least 1 s, as it has no fractions, and at most an hour.
const maxRetryAfter = 3600 // seconds

// retryAfter is when the client should come again, in whole seconds: the wait, rounded
// up, and up to half of it more (1 s at least), as random says: whoever is refused at the same
// time must not come again at the same time.
func (r *refusal) retryAfter(random uint64) int64 {
	seconds := min(max((r.wait+1e9-1)/1e9, 1), maxRetryAfter)
	return seconds + int64(random%uint64(max(seconds/2, 1)+1))
}

// problems are the parts of a refusal that depend on nothing but the dialect, the limit
// and the reason: the last header lines and the body.
var problems = func() (t [numDialects][numLimits][numWhys]problem) {
	for l := range numLimits {
		for w := range numWhys {
			t[DialectPlain][l][w], t[DialectS3][l][w] = makeProblem(l, w), makeSlowDown(l, w)
		}
	}
	return t
}()

// problem is rendered text.
type problem struct {
	throttle string // Talon-Throttle up to the tenant's name
	head     string // Content-Type and all that follows in the head
	body     string
}

// makeSlowDown is a refusal as S3 words it; what was wrong is in the message, where people look.
func makeSlowDown(l limit, w why) problem {
	body := fmt.Sprintf("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>SlowDown</Code><Message>Please reduce your request rate. %s: %s</Message></Error>\n", l, whyTable[w].text)
	return problem{
		throttle: fmt.Sprintf("Talon-Throttle: limit=%s; reason=%s; policy=", l, w),
		head:     fmt.Sprintf("\r\nContent-Type: application/xml\r\nContent-Length: %d\r\n\r\n", len(body)),
		body:     body,
	}
}

// The problem types are those of draft-ietf-httpapi-ratelimit-headers-10.
func makeProblem(l limit, w why) problem {
	kind, title := "quota-exceeded", "Request cannot be satisfied as assigned quota has been exceeded"
	switch {
	case whyTable[w].status == 503:
		kind, title = "temporary-reduced-capacity", "Request cannot be satisfied due to temporary server capacity constraints"
	case w == whyBanned:
		kind, title = "abnormal-usage-detected", "Request cannot be satisfied because abnormal usage has been detected"
	}
	body := fmt.Sprintf(`{"type":"https://iana.org/assignments/http-problem-types#%s","title":"%s","status":%d,"detail":"%s: %s","violated-policies":["%s"]}`+"\n",
		kind, title, whyTable[w].status, l, whyTable[w].text, l)
	return problem{
		throttle: fmt.Sprintf("Talon-Throttle: limit=%s; reason=%s; policy=", l, w),
		head:     fmt.Sprintf("\r\nContent-Type: application/problem+json\r\nContent-Length: %d\r\n\r\n", len(body)),
		body:     body,
	}
}

// appendRefusal appends a whole response that refuses a request of the tenant called
// id for now. RateLimit-Policy and RateLimit are those of the same draft: they tell
// the limit, and that nothing of it is left for as long as Retry-After says. Nothing in it is
// of the request.
func appendRefusal(b []byte, h *head, id string, r *refusal, m method) []byte {
	again := r.retryAfter(h.requestID)
	b = appendCommon(b, h, r.status())
	b = appendNumber(append(b, "Retry-After: "...), again)
	if r.dialect == DialectS3 {
		b = appendNumber(append(b, "\r\nx-amz-retry-after: "...), again)
	}
	if r.quota > 0 {
		name := &limitNames[r.limit]
		b = append(append(b, "\r\nRateLimit-Policy: \""...), name.name...)
		b = appendNumber(append(b, "\";q="...), r.quota)
		if r.limit.ofRate() {
			b = append(b, ";w=1"...)
		}
		if name.unit != "" {
			b = append(append(append(b, ";qu=\""...), name.unit...), '"')
		}
		b = append(append(b, "\r\nRateLimit: \""...), name.name...)
		b = appendNumber(append(b, "\";r=0;t="...), again)
	}
	p := &problems[r.dialect][r.limit][r.why]
	b = append(append(append(b, "\r\n"...), p.throttle...), id...)
	b = appendNumber(append(b, '@'), int64(r.generation))
	b = append(b, p.head...)
	if m == methodHead {
		return b
	}
	return append(b, p.body...)
}
