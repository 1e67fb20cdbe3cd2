package coordinator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// Follow is of Source. It begins with the copy on disk, if there is one, so that a worker comes up while the cluster is away. Then it reads everything at
// one revision and watches from there; after a compaction, an error of the watch, or a minute, it reads everything again.
func (e *Etcd) Follow(ctx context.Context, apply func(State), failed func(error)) {
	f := &follower{e: e, apply: apply, failed: failed}
	f.begin()
	for ctx.Err() == nil {
		err := f.round(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			f.tell(err)
			select {
			case <-ctx.Done():
			case <-time.After(backOff):
				f.e.knock()
			}
		}
	}
}

// follower is one Follow.
type follower struct {
	e      *Etcd
	apply  func(State)
	failed func(error)
	said   State
	wrong  string // what failed was last told
}

func (f *follower) begin() {
	s, err := readCopy(f.e.cfg.StateDir)
	switch {
	case err != nil:
		f.tell(err)
	case s.Policy != nil && s.Book.Generation > 0:
		f.said = s
		f.apply(s)
	}
}

// tell passes an error on, or that there is none any more, once.
func (f *follower) tell(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != f.wrong {
		f.wrong = text
		f.failed(err)
	}
}

// round reads everything and follows the changes for as long as fullRead, or until something is wrong.
func (f *follower) round(ctx context.Context) error {
	c, err := f.e.read(ctx)
	if err != nil {
		return err
	}
	f.tell(f.take(c))
	ctx, cancel := context.WithTimeout(ctx, fullRead)
	defer cancel()
	watch := f.e.client.Watch(clientv3.WithRequireLeader(ctx), f.e.key(""), clientv3.WithPrefix(), clientv3.WithRev(c.revision+1))
	alive := time.NewTicker(probeEvery)
	defer alive.Stop()
	for {
		select {
		case <-alive.C: // a watch waits in silence for a cluster that is away
			if err := f.e.probe(ctx); err != nil && ctx.Err() == nil {
				return err
			}
		case resp, ok := <-watch:
			switch err := resp.Err(); {
			case !ok || ctx.Err() != nil:
				return nil
			case errors.Is(err, rpctypes.ErrCompacted):
				return nil // what lies between is gone: read everything
			case err != nil:
				return f.e.silent(err, "the watch has ended")
			}
			if err := f.events(c, resp.Events); err != nil {
				return err
			}
		}
	}
}

// events takes in what a watch has brought; all events of one revision come together.
func (f *follower) events(c *contents, events []*clientv3.Event) error {
	for _, ev := range events {
		name := strings.TrimPrefix(string(ev.Kv.Key), f.e.cfg.Prefix)
		if ev.Type == clientv3.EventTypeDelete {
			c.drop(name)
		} else if err := c.put(name, ev.Kv); err != nil {
			return err
		}
	}
	if len(events) > 0 {
		f.tell(f.take(c))
	}
	return nil
}

// take applies what is new. A policy that cannot be read leaves the last good one in force, and the rest is applied.
func (f *follower) take(c *contents) error {
	next, err := c.state()
	if err != nil {
		next.Book, next.Policy = f.said.Book, f.said.Policy
		err = fmt.Errorf("etcd: policy of generation %d: %w; generation %d stays in force", c.head.Generation, err, f.said.Book.Generation)
	}
	next, stale := f.said.after(next)
	if len(stale) > 0 {
		err = errors.Join(err, fmt.Errorf("etcd: what %s has is older than what is in force (%s): not taken; was it restored from a backup?", f.e.cfg.Prefix, strings.Join(stale, ", ")))
	}
	if f.said.Policy != nil && f.said.same(&next) {
		return err
	}
	// On disk before it is acted upon: a worker that is killed in between must not come back to something older.
	if werr := writeCopy(f.e.cfg.StateDir, next); werr != nil {
		err = errors.Join(err, fmt.Errorf("the copy of the policy and the ring: %w", werr))
	}
	f.said = next
	f.apply(next)
	return err
}
