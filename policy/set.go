package policy

import (
	"time"

	"github.com/talon-worker/talon/qos"
)

// Bounds of a policy file. What is over is an error that names the bound.
const (
	MaxFile    = 4 << 20 // bytes; ten thousand tenants with two limits each take half of it
	MaxTenants = 10_000  // with six limits each they fit into qos.Config.MaxLimits
	MaxClasses = 256
	MaxTokens  = 32   // of one tenant: two are enough to change one, the rest is for its applications
	MaxAllow   = 256  // prefixes of one tenant
	MaxPrefix  = 1024 // bytes of one prefix, as of an object's key
	MaxPeers   = 10_000
)

// Set is one policy file: everything is valid and inheritance is resolved.
type Set struct {
	Tenants   []Tenant // as in the file; ids differ
	RingEpoch uint64   // of Peers, at least 1; 0: no peers
	Peers     []Peer   // ids and addresses differ
}

// Tenant is one tenant with what it has inherited. In every number and duration zero means that the file leaves it open.
type Tenant struct {
	ID             string
	Class          string   // empty: none
	Weight         int      // 1 to 1000
	Allow          []string // prefixes of paths, each beginning with a slash; none: nothing may be read
	Tokens         []Token  // ids differ, also from those of other tenants
	Dialect        Dialect
	Queue          Queue
	MaxInflight    int // requests of one worker
	MaxConnections int // of one worker

	// Limits in the order of qos.Metrics, at most one of each. Generation is 0: Versions.Next gives it.
	Limits []qos.Policy
}

// Dialect is how a tenant's requests are refused. Its value is the index of its word.
type Dialect uint8

const (
	Plain Dialect = iota // 429 and 503, with a problem in JSON
	S3                   // 503 SlowDown in XML
)

// Queue bounds what of a tenant waits in one worker.
type Queue struct {
	Requests int
	Bytes    int64
	Deadline time.Duration // longest wait of a request
	Target   time.Duration // wait above which, if it lasts, the queue is shortened
}

// Token is a credential: its id is shown by whoever uses it, of the secret only the hash is known.
type Token struct {
	ID     string
	SHA256 [32]byte
}

// Peer is a member of the ring of owners.
type Peer struct {
	ID   string
	Addr string // host:port
}

// Limit returns the tenant's limit of a metric, or nil.
func (t *Tenant) Limit(m qos.Metric) *qos.Policy {
	for i := range t.Limits {
		if t.Limits[i].Metric == m {
			return &t.Limits[i]
		}
	}
	return nil
}

// Find returns the tenant with that id, or nil.
func (s *Set) Find(id string) *Tenant {
	for i := range s.Tenants {
		if s.Tenants[i].ID == id {
			return &s.Tenants[i]
		}
	}
	return nil
}
