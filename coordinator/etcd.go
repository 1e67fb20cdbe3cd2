package coordinator

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/talon-worker/talon/qos"
)

// Keys below the prefix. Values are JSON.
const (
	headKey       = "policy/head"     // head: the generation of the policy
	recordPrefix  = "policy/record/"  // + name: Record
	historyPrefix = "policy/history/" // + generation in 20 digits + "/" + name: Version
	ringKey       = "ring"            // Ring without its epoch, which is the revision of the key
	forcedKey     = "ring-forced"     // decimal epoch
	workerPrefix  = "worker/"         // + id: worker, under its lease
)

// EtcdConfig says which cluster, and where in it.
type EtcdConfig struct {
	Endpoints []string // host:port
	Prefix    string   // of all keys; ends with a slash
	TLS       *tls.Config
	User      string // empty: no authentication
	Password  string

	StateDir string        // of one worker alone: the copy of the last good State, and the worker's last epoch; empty keeps neither
	Lease    time.Duration // how long a silent worker is a member; 0 is DefaultLease
	Logger   *slog.Logger
}

// Defaults and times of an Etcd.
const (
	DefaultLease = 5 * time.Second
	fullRead     = time.Minute     // how often everything is read again, watch or no watch
	longestAsk   = 5 * time.Second // one request
	backOff      = 500 * time.Millisecond
	probeEvery   = 2 * time.Second // whether the cluster is there
)

// Etcd is a policy, a membership and a ring in an etcd cluster of at least version 3.4. Policy records are versioned keys written in transactions;
// a worker is a key under a lease; the epoch of a ring is the revision of the key that proposes it, and the epoch of a worker comes from that of the
// key with which it enlisted. It is a Source and a Store. Its methods may be called from any goroutine.
type Etcd struct {
	cfg    EtcdConfig
	client *clientv3.Client
	start  string // of this process; in its worker's key
	unlock func() // gives the state directory back; nil without one

	mu    sync.Mutex
	lease clientv3.LeaseID // 0: this process is not enlisted
	self  worker           // what the worker's key should say; epoch 0 before Enlist or Resume
}

// worker is the value of a worker's key.
type worker struct {
	Addr  string `json:"addr"`
	Epoch uint64 `json:"epoch"` // 0 until it is known: then it follows from the key's revision
	Start string `json:"start"` // of the process that has written it, at random: whose request etcd has carried out and not answered knows its own again
}

type head struct {
	Generation uint64 `json:"generation"`
}

// OpenEtcd makes a client. It does not connect: a cluster that is away is met when something is asked of it.
func OpenEtcd(cfg EtcdConfig) (*Etcd, error) {
	if len(cfg.Endpoints) == 0 {
		return nil, errors.New("etcd: no endpoint; want etcd://host:port[,...]/prefix")
	}
	if cfg.Lease == 0 {
		cfg.Lease = DefaultLease
	}
	if cfg.Lease < time.Second {
		return nil, fmt.Errorf("etcd: a lease of %v: etcd counts in seconds, want at least 1s", cfg.Lease)
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	e := &Etcd{start: rand.Text()}
	if cfg.StateDir != "" {
		var err error
		if e.unlock, err = lockDir(cfg.StateDir); err != nil {
			return nil, err
		}
	}
	cfg.Prefix = strings.TrimSuffix(cfg.Prefix, "/") + "/"
	var err error
	e.cfg = cfg
	e.client, err = clientv3.New(clientv3.Config{
		Endpoints: cfg.Endpoints, TLS: cfg.TLS, Username: cfg.User, Password: cfg.Password,
		DialTimeout: longestAsk, DialKeepAliveTime: 2 * time.Second, DialKeepAliveTimeout: 2 * time.Second, Logger: zap.NewNop(), // what it would say comes back as errors
	})
	if err != nil {
		e.letGo()
		return nil, fmt.Errorf("etcd: %w", err)
	}
	return e, nil
}

// Close ends the connection. A worker that has not withdrawn stays a member until its lease has run out.
func (e *Etcd) Close() error {
	e.letGo()
	return e.client.Close()
}

// letGo gives the state directory back.
func (e *Etcd) letGo() {
	if e.unlock != nil {
		e.unlock()
		e.unlock = nil
	}
}

// knock lets the client try to connect now. By itself it waits longer after each failure, up to two minutes, and a cluster that is back
// would not be noticed for as long.
func (e *Etcd) knock() { e.client.ActiveConnection().ResetConnectBackoff() }

func (e *Etcd) key(name string) string { return e.cfg.Prefix + name }

// ask bounds one request.
func ask(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, longestAsk)
}

// silent is an error of a cluster that has not answered to what was asked.
func (e *Etcd) silent(err error, what string) error {
	return away{fmt.Errorf("etcd at %s: %s: %w", strings.Join(e.cfg.Endpoints, ","), what, err)}
}

// probe asks whether the cluster answers.
func (e *Etcd) probe(ctx context.Context) error {
	ctx, cancel := ask(ctx)
	defer cancel()
	if _, err := e.client.Get(ctx, e.key(headKey), clientv3.WithCountOnly()); err != nil {
		return e.silent(err, "looking whether it answers")
	}
	return nil
}

// contents is what lies below the prefix, without the history.
type contents struct {
	revision int64
	head     head
	records  map[string]Record
	ring     Ring
	ringAt   int64 // revision of the ring's key
	forced   uint64
	workers  map[qos.WorkerID]enlisted
}

// enlisted is a worker as the cluster sees it.
type enlisted struct {
	worker
	since int64 // revision at which its key was made: who is lowest proposes rings
}

// read reads everything at one revision.
func (e *Etcd) read(ctx context.Context) (*contents, error) {
	ctx, cancel := ask(ctx)
	defer cancel()
	c := &contents{records: map[string]Record{}, workers: map[qos.WorkerID]enlisted{}}
	// The history may be large and is nobody's business here, so what lies on either side of it is read, at one revision.
	from, opts := e.key(""), []clientv3.OpOption{}
	for _, to := range []string{e.key(historyPrefix), clientv3.GetPrefixRangeEnd(e.key(""))} {
		resp, err := e.client.Get(ctx, from, append(opts, clientv3.WithRange(to))...)
		if err != nil {
			return nil, e.silent(err, "reading "+e.cfg.Prefix)
		}
		if c.revision == 0 {
			c.revision = resp.Header.Revision
			opts = append(opts, clientv3.WithRev(c.revision))
		}
		for _, kv := range resp.Kvs {
			if err := c.put(strings.TrimPrefix(string(kv.Key), e.cfg.Prefix), kv); err != nil {
				return nil, err
			}
		}
		from = clientv3.GetPrefixRangeEnd(e.key(historyPrefix))
	}
	return c, nil
}

// put takes in one key.
func (c *contents) put(name string, kv *mvccpb.KeyValue) error {
	var err error
	switch {
	case name == headKey:
		err = json.Unmarshal(kv.Value, &c.head)
	case name == ringKey:
		var r Ring
		if err = json.Unmarshal(kv.Value, &r); err == nil {
			r.Epoch = uint64(kv.ModRevision)
			c.ring, c.ringAt = r, kv.ModRevision
		}
	case name == forcedKey:
		err = json.Unmarshal(kv.Value, &c.forced)
	case strings.HasPrefix(name, recordPrefix):
		var r Record
		if err = json.Unmarshal(kv.Value, &r); err == nil {
			r.Name = name[len(recordPrefix):]
			c.records[r.Name] = r
		}
	case strings.HasPrefix(name, workerPrefix):
		var w worker
		if err = json.Unmarshal(kv.Value, &w); err == nil {
			if w.Epoch == 0 {
				w.Epoch = enlistedEpoch(kv.ModRevision)
			}
			c.workers[qos.WorkerID(name[len(workerPrefix):])] = enlisted{w, kv.CreateRevision}
		}
	}
	if err != nil {
		return fmt.Errorf("etcd: key %s, revision %d: %w: it was not written by talon", kv.Key, kv.ModRevision, err)
	}
	return nil
}

// drop takes out one key.
func (c *contents) drop(name string) {
	switch {
	case strings.HasPrefix(name, recordPrefix):
		delete(c.records, name[len(recordPrefix):])
	case strings.HasPrefix(name, workerPrefix):
		delete(c.workers, qos.WorkerID(name[len(workerPrefix):]))
	case name == headKey || name == ringKey: // somebody has emptied the prefix: what was known stays in force, see State.after
	}
}

// book is the policy.
func (c *contents) book() Book {
	b := Book{Generation: c.head.Generation}
	for _, r := range c.records {
		b.Records = append(b.Records, r)
	}
	slices.SortFunc(b.Records, func(x, y Record) int { return cmp.Compare(x.Name, y.Name) })
	return b
}

// state is what a worker is told. Members are at the address that they enlisted with last.
func (c *contents) state() (State, error) {
	s := State{Book: c.book(), Ring: c.ring, Forced: c.forced}
	s.Ring.Members = slices.Clone(s.Ring.Members)
	for i := range s.Ring.Members {
		if w, ok := c.workers[s.Ring.Members[i].ID]; ok {
			s.Ring.Members[i].Addr = w.Addr
		}
	}
	var err error
	s.Policy, err = s.Book.Resolve()
	return s, err
}

// there are the workers that are members now.
func (c *contents) there() []qos.WorkerID {
	ids := make([]qos.WorkerID, 0, len(c.workers))
	for id := range c.workers {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// first is the worker that has been there longest: it proposes rings.
func (c *contents) first() qos.WorkerID {
	var first qos.WorkerID
	since := int64(0)
	for id, w := range c.workers {
		if first == "" || w.since < since || w.since == since && id < first {
			first, since = id, w.since
		}
	}
	return first
}
