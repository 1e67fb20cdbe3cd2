package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
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
	kinds
)

func (k kind) String() string { return [...]string{"kill -9", "SIGSTOP", "rate halved"}[k] }

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
	spreadTime    = 2 * time.Second           // a change of the file is in force everywhere
)

// plan draws episodes with so many faults together.
func plan(r *rand.Rand, n, workers int, longest time.Duration) (out []episode) {
	for n > 0 {
		var e episode
		free := r.Perm(workers)
		policy, owner := true, true
		for range min(n, 1+r.IntN(mostAtOnce)) {
			f := fault{Kind: kind(r.IntN(int(kinds))), Worker: free[len(free)-1], After: time.Duration(r.Int64N(int64(500 * time.Millisecond)))}
			if f.Kind == halved && !policy {
				f.Kind = killed
			}
			switch f.Kind {
			case halved:
				policy, f.Hold = false, spreadTime+time.Duration(r.Int64N(int64(time.Second)))
			case stopped:
				f.Hold = time.Duration(float64(shortestPause) * math.Pow(float64(longest)/float64(shortestPause), r.Float64()))
			case killed:
				f.Hold = time.Duration(r.Int64N(int64(time.Second)))
			}
			if f.Kind != halved {
				if free = free[:len(free)-1]; owner && r.IntN(2) == 0 {
					f.Owner, owner = true, false
				}
				if len(free) == 0 {
					free = []int{f.Worker} // two workers, both taken: the next that is not about the policy waits for its turn
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
	locks := make([]sync.Mutex, len(c.servers))
	var done sync.WaitGroup
	for i, f := range e {
		done.Go(func() {
			if errs[i] = pause(ctx, f.After); errs[i] != nil {
				return
			}
			if f.Kind == halved {
				errs[i] = c.halve(ctx, f.Hold)
				return
			}
			locks[f.Worker].Lock()
			defer locks[f.Worker].Unlock()
			errs[i] = c.breakWorker(ctx, f)
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
			if k != i && e[k].Kind != halved && e[k].Worker == owner {
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
	s.Kill()
	if err := pause(ctx, f.Hold); err != nil {
		return err
	}
	c.happened(excess.Event{Born: 1})
	return c.start(ctx, f.Worker)
}

// halve cuts the rate for that long. While a change spreads the larger rate counts.
func (c *cluster) halve(ctx context.Context, hold time.Duration) error {
	if err := c.setRate(c.o.Rate / 2); err != nil {
		return err
	}
	err := pause(ctx, spreadTime)
	c.happened(excess.Event{Rate: c.o.Rate / 2})
	err = errors.Join(err, pause(ctx, hold))
	c.happened(excess.Event{Rate: c.o.Rate})
	return errors.Join(err, c.setRate(c.o.Rate))
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
func longestRun(all []episode) time.Duration {
	sum := time.Duration(0)
	for _, e := range all {
		most := time.Duration(0)
		for _, f := range e {
			d := f.After + f.Hold
			switch f.Kind {
			case halved:
				d += spreadTime
			case killed:
				d += time.Second
			}
			most = max(most, d)
		}
		sum += most + settleTime + lookTime
	}
	return sum
}

func (f fault) String() string {
	switch {
	case f.Kind == halved:
		return f.Kind.String()
	case f.Owner:
		return fmt.Sprintf("%v of the owner", f.Kind)
	}
	return f.Kind.String()
}
