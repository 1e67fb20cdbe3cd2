package coordinator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Bounds of one transaction: etcd takes 128 operations and 1.5 MiB unless it is told otherwise.
const (
	maxTxnRecords = 50
	maxTxnBytes   = 512 << 10
)

// Load is of Store.
func (e *Etcd) Load(ctx context.Context) (Book, error) {
	c, err := e.read(ctx)
	if err != nil {
		return Book{}, err
	}
	if c.head.Generation == 0 {
		return Book{}, ErrNoPolicy
	}
	return c.book(), nil
}

// Save is of Store. A change that is too large for one transaction is made in several, each with a generation of its own and each a policy that can
// be: first what is inherited from, then tenants, then what is removed. If one of them meets a conflict, those before it stay.
func (e *Etcd) Save(ctx context.Context, old Book, c Change, by string) (uint64, error) {
	whole := old.Apply(c, old.Generation+1)
	if _, err := whole.Resolve(); err != nil {
		return 0, err
	}
	book := old
	for _, part := range parts(c) {
		next, err := e.save(ctx, book, part, by)
		if err != nil {
			return 0, err
		}
		book = next
	}
	return book.Generation, nil
}

// parts cuts a change into what fits a transaction.
func parts(c Change) (out []Change) {
	if c.Empty() {
		return nil
	}
	out = []Change{{}}
	size := 0
	room := func(n int) *Change {
		last := &out[len(out)-1]
		if k := len(last.Set) + len(last.Remove); k >= maxTxnRecords || k > 0 && size+n > maxTxnBytes {
			out, size = append(out, Change{}), 0
			last = &out[len(out)-1]
		}
		size += n
		return last
	}
	for _, tenants := range []bool{false, true} {
		for _, r := range c.Set {
			if strings.HasPrefix(r.Name, tenantPrefix) == tenants {
				part := room(3 * len(r.Text)) // in the record, in the history, and escaped
				part.Set = append(part.Set, r)
			}
		}
	}
	for _, tenants := range []bool{true, false} {
		for _, name := range c.Remove {
			if strings.HasPrefix(name, tenantPrefix) == tenants {
				part := room(1 << 10)
				part.Remove = append(part.Remove, name)
			}
		}
	}
	return out
}

// save carries out one part in one transaction, which fails if the generation is not the one that was read.
func (e *Etcd) save(ctx context.Context, old Book, c Change, by string) (Book, error) {
	ctx, cancel := ask(ctx)
	defer cancel()
	next := old.Apply(c, old.Generation+1)
	unchanged := clientv3.Compare(clientv3.Value(e.key(headKey)), "=", encode(head{old.Generation}))
	if old.Generation == 0 {
		unchanged = clientv3.Compare(clientv3.CreateRevision(e.key(headKey)), "=", 0)
	}
	do := []clientv3.Op{clientv3.OpPut(e.key(headKey), encode(head{next.Generation}))}
	for _, v := range versions(old, c, next.Generation, by, time.Now()) {
		if v.Removed {
			do = append(do, clientv3.OpDelete(e.key(recordPrefix+v.Name)))
		} else {
			do = append(do, clientv3.OpPut(e.key(recordPrefix+v.Name), encode(v.Record)))
		}
		do = append(do, clientv3.OpPut(e.historyKey(next.Generation)+v.Name, encode(v)))
	}
	if next.Generation > KeptVersions {
		do = append(do, clientv3.OpDelete(e.key(historyPrefix), clientv3.WithRange(e.historyKey(next.Generation-KeptVersions))))
	}
	resp, err := e.client.Txn(ctx).If(unchanged).Then(do...).Commit()
	if err != nil {
		return old, fmt.Errorf("etcd: changing the policy: %w; look whether it has been changed before trying again", err)
	}
	if !resp.Succeeded {
		return old, ErrConflict
	}
	return next, nil
}

func (e *Etcd) historyKey(generation uint64) string {
	return fmt.Sprintf("%s%020d/", e.key(historyPrefix), generation)
}

// History is of Store.
func (e *Etcd) History(ctx context.Context, name string) ([]Version, error) {
	ctx, cancel := ask(ctx)
	defer cancel()
	resp, err := e.client.Get(ctx, e.key(historyPrefix), clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByKey, clientv3.SortDescend))
	if err != nil {
		return nil, fmt.Errorf("etcd: reading the history: %w", err)
	}
	var out []Version
	for _, kv := range resp.Kvs {
		var v Version
		if err := json.Unmarshal(kv.Value, &v); err != nil {
			return nil, fmt.Errorf("etcd: key %s: %w", kv.Key, err)
		}
		if name == "" || v.Name == name {
			out = append(out, v)
		}
	}
	return out, nil
}

// Ring returns the proposed ring, and the newest that was forced.
func (e *Etcd) Ring(ctx context.Context) (Ring, uint64, error) {
	c, err := e.read(ctx)
	if err != nil {
		return Ring{}, 0, err
	}
	s, err := c.state()
	if err != nil { // the policy cannot be read; the ring can
		return c.ring, c.forced, nil
	}
	return s.Ring, s.Forced, nil
}

// Force records that an operator takes it on himself that the rings before the present one are over. It returns the present epoch.
func (e *Etcd) Force(ctx context.Context) (uint64, error) {
	c, err := e.read(ctx)
	if err != nil {
		return 0, err
	}
	if c.ringAt == 0 {
		return 0, errors.New("etcd: there is no ring yet: no worker has enlisted")
	}
	ctx, cancel := ask(ctx)
	defer cancel()
	resp, err := e.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(e.key(ringKey)), "=", c.ringAt)).
		Then(clientv3.OpPut(e.key(forcedKey), strconv.FormatUint(c.ring.Epoch, 10))).Commit()
	if err != nil {
		return 0, fmt.Errorf("etcd: forcing the ring: %w", err)
	}
	if !resp.Succeeded {
		return 0, errors.New("etcd: another ring has been proposed meanwhile; look at it, then force that one")
	}
	return c.ring.Epoch, nil
}

// encode is JSON of what cannot fail to become it.
func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic("coordinator: " + err.Error())
	}
	return string(b)
}
