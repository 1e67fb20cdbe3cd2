package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/talon-worker/talon/bench/excess"
)

// A kind is one way to break a cluster.
type kind int

const (
	killed  kind = iota // SIGKILL, and started again at the same address
	stopped             // SIGSTOP, and SIGCONT
	halved              // the policy file has half of the rate, and then the whole again
	drained             // SIGTERM, and started again when it has ended
	noEtcd              // SIGKILL of etcd, and started again on its data; only with one
)

func (k kind) String() string {
	return [...]string{"kill -9", "SIGSTOP", "rate halved", "drain", "kill -9 of etcd"}[k]
}

// onWorker reports whether a kind is done to one of the workers.
func (k kind) onWorker() bool { return k != halved && k != noEtcd }

// fault is one of them.
type fault struct {
	Kind   kind          `json:"kind"`
	Worker int           `json:"worker"`
	Owner  bool          `json:"owner"` // whoever owns the limit then, in place of Worker
	After  time.Duration `json:"after"` // from the beginning of its episode
	Hold   time.Duration `json:"hold"`  // until it is mended
}

// An episode is faults that overlap, on different things; after it all is mended.
type episode []fault

const (
	shortestPause = 100 * time.Millisecond
	mostAtOnce    = 3
	settleTime    = ringConfirm + time.Second // after an episode: by then the cluster must deliver again
	lookTime      = time.Second               // and for so long it is looked at
)

// spreadTime is when a change of the policy must be in force everywhere: until then the larger rate counts.
func (o *options) spreadTime() time.Duration {
	if o.Etcd {
		return time.Second
	}
	return 2 * time.Second
}

// plan draws episodes with so many faults together. The kinds are dealt like cards, so that each comes up before one comes up twice more than another.
func (o *options) plan() (out []episode) {
	r := rand.New(rand.NewPCG(o.Seed, 0))
	kinds := []kind{killed, stopped, halved, drained}
	if o.Etcd {
		kinds = append(kinds, noEtcd)
	}
	var deck []kind
	for n := o.Faults; n > 0; {
		var e episode
		free := r.Perm(o.Workers)
		once, owner := map[kind]bool{}, true
		for range min(n, 1+r.IntN(mostAtOnce)) {
			if len(deck) == 0 {
				deck = slices.Clone(kinds)
				r.Shuffle(len(deck), func(i, k int) { deck[i], deck[k] = deck[k], deck[i] })
			}
			k := deck[0]
			if k.onWorker() && len(free) == 0 || once[halved] && k == noEtcd || once[noEtcd] && k == halved || once[k] && !k.onWorker() {
				break // the next episode begins with it
			}
			deck, once[k] = deck[1:], true
			f := fault{Kind: k, After: time.Duration(r.Int64N(int64(500 * time.Millisecond))), Hold: time.Duration(r.Int64N(int64(time.Second)))}
			if k == stopped {
				f.Hold = time.Duration(float64(shortestPause) * math.Pow(float64(o.Longest)/float64(shortestPause), r.Float64()))
			}
			if k.onWorker() {
				f.Worker, free = free[0], free[1:]
				if owner && r.IntN(2) == 0 {
					f.Owner, owner = true, false
				}
			}
			e = append(e, f)
			n--
		}
		out = append(out, e)
	}
	return out
}

// took is an episode as it was.
type took struct {
	Faults episode `json:"faults"`
	From   int64   `json:"from_ns"`
	Mended int64   `json:"mended_ns"`
	Due    float64 `json:"delivered"` // of what was due in lookTime, settleTime after Mended
	Relief float64 `json:"relief_s"`  // from Mended until a second began in which what was due was delivered; NaN: not before the next episode
}

// run carries an episode out.
func (e episode) run(ctx context.Context, c *cluster) (took, error) {
	t := took{Faults: e, From: time.Now().UnixNano()}
	owner, err := c.owner(ctx)
	if err != nil {
		return t, err
	}
	e.aim(owner)
	errs := make([]error, len(e))
	var done sync.WaitGroup
	for i, f := range e {
		done.Go(func() {
			if errs[i] = pause(ctx, f.After); errs[i] != nil {
				return
			}
			switch f.Kind {
			case halved:
				errs[i] = c.halve(ctx, f.Hold)
			case noEtcd:
				c.etcd.kill()
				errs[i] = errors.Join(pause(ctx, f.Hold), c.etcd.up())
			default:
				errs[i] = c.breakWorker(ctx, f)
			}
		})
	}
	done.Wait()
	t.Mended = time.Now().UnixNano()
	return t, errors.Join(errs...)
}

// aim gives the fault for the owner the owner, and whoever had it that one's worker.
func (e episode) aim(owner int) {
	for i := range e {
		if !e[i].Owner {
			continue
		}
		for k := range e {
			if k != i && e[k].Kind.onWorker() && e[k].Worker == owner {
				e[k].Worker = e[i].Worker
			}
		}
		e[i].Worker = owner
	}
}

func (c *cluster) breakWorker(ctx context.Context, f fault) error {
	s := c.servers[f.Worker]
	if f.Kind == stopped {
		s.Pause()
		defer s.Resume()
		return pause(ctx, f.Hold)
	}
	if f.Kind == drained {
		s.Down()
	} else {
		s.Kill()
	}
	if err := pause(ctx, f.Hold); err != nil {
		return err
	}
	c.happened(excess.Event{Born: 1})
	return c.start(ctx, f.Worker)
}

// halve cuts the rate, lets it spread, and gives it back after that long. While a change spreads the larger rate counts.
func (c *cluster) halve(ctx context.Context, hold time.Duration) error {
	half, from := c.o.Rate/2, time.Now()
	if err := c.setRate(ctx, half); err != nil {
		return err
	}
	by := time.Now().Add(c.o.spreadTime())
	c.spread(ctx, half, from, by)
	err := pause(ctx, time.Until(by))
	c.happened(excess.Event{Rate: half})
	err = errors.Join(err, pause(ctx, hold))
	c.happened(excess.Event{Rate: c.o.Rate})
	return errors.Join(err, c.setRate(ctx, c.o.Rate))
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// longest is how long the episodes may take, with what workers need to start.
func (o *options) longestRun(all ...episode) time.Duration {
	sum := time.Duration(0)
	for _, e := range all {
		most := time.Duration(0)
		for _, f := range e {
			d := f.After + f.Hold
			switch f.Kind {
			case halved:
				d += o.spreadTime() + time.Second/2
			case killed, noEtcd:
				d += time.Second
			case drained:
				d += 3 * time.Second
			}
			most = max(most, d)
		}
		sum += most + settleTime + lookTime
	}
	return sum
}

func (f fault) String() string {
	switch {
	case f.Owner:
		return fmt.Sprintf("%v of the owner", f.Kind)
	}
	return f.Kind.String()
}
