package server

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// A Tenant is one who is served: how it proves who it is, what it may read, and
// how much of its work may wait here. How much it may have over time is
// Config.Ledger's. Zero fields take the default named beside them.
type Tenant struct {
	// ID names the tenant in policies, headers and logs: 1 to 64 letters, digits,
	// '.', '_' and '-'. Required.
	ID string

	// Generation is the version of the policy that this comes from; it is shown.
	Generation uint64

	// Weight is its share of the worker relative to others', 1 to 1000. 0 = 1.
	Weight int

	// Allow lists the prefixes of the keys that it may read. A key counts with a
	// slash before it: "/" allows all, "/logs/" a folder, and "/log" both /log and
	// /logs/x. None = nothing is allowed.
	Allow []string

	// Tokens are what it authenticates with. None = nobody can.
	Tokens []Token

	// Dialect is how it is told "not now". 0 = DialectPlain.
	Dialect Dialect

	// QueueRequests bounds its requests that wait in this worker for their turn,
	// over all rings. 0 = DefaultQueueRequests.
	QueueRequests int

	// QueueBytes bounds what those are expected to send. 0 = DefaultQueueBytes.
	QueueBytes int64

	// QueueDeadline is how long a request may wait before it is refused.
	// 0 = DefaultQueueDeadline.
	QueueDeadline time.Duration

	// QueueTarget is the wait at which a standing queue is cut down, where the
	// tenant's own limit does not cause it. 0 = DefaultQueueTarget.
	QueueTarget time.Duration

	// MaxInflight bounds its requests that are here at a time, waiting or being
	// answered, over all rings. 0 = no bound of its own.
	MaxInflight int

	// MaxConnections bounds its connections, over all rings. A connection belongs to
	// the tenant of its latest request. 0 = no bound of its own.
	MaxConnections int
}

// Dialect is a way to say "not now".
type Dialect uint8

const (
	// DialectPlain: 429 for the tenant's own excess and 503 for the worker's, with a
	// problem in JSON (RFC 9457).
	DialectPlain Dialect = iota
	// DialectS3: 503 SlowDown in XML for either, as clients of S3 know it: they come
	// again later, and at a slower pace.
	DialectS3
	numDialects
)

// Token is a credential: its public name, and the SHA-256 of its secret.
type Token struct {
	ID     string // 1 to 64 letters, digits, '_' and '-'; of one tenant only
	SHA256 [32]byte
}

// Defaults of Tenant, each with the reason for its value.
const (
	// DefaultQueueRequests: what a client fleet of one tenant asks for at once; more
	// hear a quick no.
	DefaultQueueRequests = 1024
	// DefaultQueueBytes: half a second of a gigabit.
	DefaultQueueBytes = 64 << 20
	// DefaultQueueDeadline: most clients have given up by then; a long wait is worse
	// than a quick no.
	DefaultQueueDeadline = 2 * time.Second
	// DefaultQueueTarget: a queue that never falls below 20 ms is a standing one
	// (DAGOR's threshold for overload).
	DefaultQueueTarget = 20 * time.Millisecond
)

// Fixed bounds of a table of tenants.
const (
	maxTenants     = 1 << 16 // tenants of one worker
	maxTokens      = 1 << 18 // tokens of all of them
	maxTenantID    = 64      // bytes of a tenant's id
	maxTokenID     = 64      // bytes of a token's id
	maxAllow       = 256     // prefixes of one tenant
	maxAllowPrefix = 1 + maxKey
)

// Tenants is an immutable table of who is served: NewTenants makes and checks it,
// SetTenants puts it in force.
type Tenants struct {
	list   []Tenant // defaults filled in
	tokens int
}

// NewTenants checks the table and returns it with all defaults filled in. The error
// lists everything that is wrong.
func NewTenants(tenants []Tenant) (*Tenants, error) {
	t := &Tenants{list: make([]Tenant, 0, len(tenants))}
	var wrong []error
	if len(tenants) > maxTenants {
		return nil, fmt.Errorf("%d tenants: at most %d", len(tenants), maxTenants)
	}
	ids, tokens := map[string]bool{}, map[string]string{}
	for i := range tenants {
		own := tenants[i]
		own.Allow, own.Tokens = append([]string(nil), own.Allow...), append([]Token(nil), own.Tokens...)
		if err := own.check(); err != nil {
			wrong = append(wrong, err)
		}
		if ids[own.ID] {
			wrong = append(wrong, fmt.Errorf("tenant %q is there twice: give every tenant an id of its own", own.ID))
		}
		ids[own.ID] = true
		for _, token := range own.Tokens {
			if of, taken := tokens[token.ID]; taken {
				wrong = append(wrong, fmt.Errorf("token %q of tenant %q is one of tenant %q already: give every token an id of its own", token.ID, own.ID, of))
			}
			tokens[token.ID] = own.ID
		}
		t.list = append(t.list, own.withDefaults())
	}
	if t.tokens = len(tokens); t.tokens > maxTokens {
		wrong = append(wrong, fmt.Errorf("%d tokens: at most %d", t.tokens, maxTokens))
	}
	if len(wrong) > 0 {
		return nil, errors.Join(wrong...)
	}
	return t, nil
}

// Len is the number of tenants.
func (t *Tenants) Len() int { return len(t.list) }

// check reports everything that is wrong with one tenant.
func (t *Tenant) check() error {
	var wrong []error
	say := func(bad bool, format string, args ...any) {
		if bad {
			wrong = append(wrong, fmt.Errorf("tenant %q: "+format, append([]any{t.ID}, args...)...))
		}
	}
	say(!validName(t.ID, maxTenantID, ".-_"), "an id is 1 to %d letters, digits, '.', '_' and '-'", maxTenantID)
	say(t.Weight < 0 || t.Weight > 1000, "weight %d is outside 1..1000", t.Weight)
	say(len(t.Allow) > maxAllow, "%d prefixes in allow: at most %d", len(t.Allow), maxAllow)
	for _, prefix := range t.Allow {
		say(!strings.HasPrefix(prefix, "/"), "allow %q does not begin with a slash; \"/\" allows every key", prefix)
		say(len(prefix) > maxAllowPrefix || strings.ContainsAny(prefix, "\x00\r\n"), "allow %q: no key begins so", prefix)
	}
	for _, token := range t.Tokens {
		say(!validName(token.ID, maxTokenID, "-_"), "token %q: an id is 1 to %d letters, digits, '_' and '-'", token.ID, maxTokenID)
		say(token.SHA256 == [32]byte{}, "token %q has no SHA-256 of its secret", token.ID)
	}
	say(t.QueueRequests < 0 || t.QueueRequests > 1<<20, "queue of %d requests is outside 1..1048576", t.QueueRequests)
	say(t.QueueBytes < 0, "queue of %d bytes is negative", t.QueueBytes)
	say(t.QueueDeadline < 0 || t.QueueDeadline > time.Hour, "queue deadline %v is outside 0..1h", t.QueueDeadline)
	say(t.QueueTarget < 0, "queue target %v is negative", t.QueueTarget)
	say(t.MaxInflight < 0, "max_inflight %d is negative", t.MaxInflight)
	say(t.MaxConnections < 0, "max_connections %d is negative", t.MaxConnections)
	return errors.Join(wrong...)
}

func (t Tenant) withDefaults() Tenant {
	t.Weight = orDefault(t.Weight, 1)
	t.QueueRequests = orDefault(t.QueueRequests, DefaultQueueRequests)
	t.QueueBytes = int64(orDefault(int(t.QueueBytes), DefaultQueueBytes))
	t.QueueDeadline = orDefault(t.QueueDeadline, DefaultQueueDeadline)
	t.QueueTarget = orDefault(t.QueueTarget, DefaultQueueTarget)
	return t
}

// validName reports whether s is 1 to most letters, digits and bytes of more. It is
// what keeps a name from being anything else in a header, a JSON string or a log.
func validName(s string, most int, more string) bool {
	for i := range len(s) {
		if c := s[i]; !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || strings.IndexByte(more, c) >= 0) {
			return false
		}
	}
	return len(s) > 0 && len(s) <= most
}
