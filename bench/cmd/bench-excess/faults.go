package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/talon-worker/talon/bench/bed"
	"github.com/talon-worker/talon/bench/excess"
)

// took is an episode as it was.
type took struct {
	Faults episode   `json:"faults"`
	From   int64     `json:"from_ns"`
	Mended int64     `json:"mended_ns"`
	Relief []float64 `json:"relief_s"` // by tenant: from Mended until a second began in which what was due was delivered; NaN: not before the next episode
}

// run carries an episode out.
func (e episode) run(ctx context.Context, c *cluster) (took, error) {
	t := took{Faults: e, From: time.Now().UnixNano()}
	owners := make([]int, len(c.tenants))
	for i := range owners {
		var err error
		if owners[i], err = c.owner(ctx, i); err != nil {
			return t, err
		}
	}
	e.aim(func(tenant int) int { return owners[tenant] })
	if c.o.verbose {
		for _, f := range e {
			fmt.Printf("%s %8.3f  %s\n", time.Now().Format("15:04:05.000"), time.Since(c.began).Seconds(), f.tell())
		}
	}
	errs := make([]error, len(e))
	var done sync.WaitGroup
	for i, f := range e {
		done.Go(func() {
			if errs[i] = bed.Sleep(ctx, f.After); errs[i] == nil {
				errs[i] = c.carryOut(ctx, f)
			}
		})
	}
	done.Wait()
	t.Mended = time.Now().UnixNano()
	return t, errors.Join(errs...)
}

// carryOut does one fault, and mends it.
func (c *cluster) carryOut(ctx context.Context, f fault) error {
	s := c.servers[f.Worker]
	switch f.Kind {
	case halved:
		return c.halve(ctx, f.Tenant, f.Hold)
	case noEtcd:
		c.etcd.kill()
		return errors.Join(bed.Sleep(ctx, f.Hold), c.etcd.up(), c.etcd.ready(ctx))
	case compacted:
		return c.compact(ctx, f)
	case stopped:
		s.Pause()
		defer s.Resume()
		return bed.Sleep(ctx, f.Hold)
	case killed:
		s.Kill()
		return errors.Join(bed.Sleep(ctx, f.Hold), c.reborn(ctx, f.Worker))
	case untold:
		c.others(f.Worker, func(other string) { c.net.Block(id(f.Worker), other) })
		err := bed.Sleep(ctx, 50*time.Millisecond)
		s.Kill()
		c.others(f.Worker, func(other string) {
			c.net.Cut(id(f.Worker), other) // what it has said and nobody has heard is lost with it
			c.net.Heal(id(f.Worker), other)
		})
		return errors.Join(err, bed.Sleep(ctx, f.Hold), c.reborn(ctx, f.Worker))
	case drained:
		s.Down()
		return errors.Join(bed.Sleep(ctx, f.Hold), c.reborn(ctx, f.Worker))
	case flapping:
		return c.flap(ctx, f)
	case cut:
		for i := range f.Times {
			if i > 0 {
				if err := bed.Sleep(ctx, f.Hold/time.Duration(f.Times)); err != nil {
					return err
				}
			}
			c.others(f.Worker, func(other string) { c.net.Cut(id(f.Worker), other) })
		}
		return nil
	}
	me := id(f.Worker)
	c.others(f.Worker, func(other string) {
		switch f.Kind {
		case apart:
			c.net.Block(me, other)
			c.net.Block(other, me)
		case mute:
			c.net.Block(me, other)
		case deaf:
			c.net.Block(other, me)
		case slow:
			c.net.Delay(me, other, f.Late)
			c.net.Delay(other, me, f.Late)
		}
	})
	defer c.others(f.Worker, func(other string) {
		c.net.Heal(me, other)
		c.net.Heal(other, me)
	})
	return bed.Sleep(ctx, f.Hold)
}

// others calls do with every other worker.
func (c *cluster) others(worker int, do func(other string)) {
	for i := range c.servers {
		if i != worker {
			do(id(i))
		}
	}
}

// reborn starts a worker that has ended.
func (c *cluster) reborn(ctx context.Context, worker int) error {
	c.happened(-1, excess.Event{Born: 1})
	return c.start(ctx, worker)
}

// flap lets a worker leave the ring and come back. A policy file names its peers; in etcd members come and go by themselves.
func (c *cluster) flap(ctx context.Context, f fault) error {
	part := f.Hold / time.Duration(2*f.Times)
	for range f.Times {
		if c.etcd != nil {
			c.servers[f.Worker].Down()
			if err := errors.Join(bed.Sleep(ctx, part), c.reborn(ctx, f.Worker), bed.Sleep(ctx, part)); err != nil {
				return err
			}
			continue
		}
		for _, in := range []bool{false, true} {
			if err := errors.Join(c.change(ctx, func(p *policy) { p.epoch, p.out[f.Worker] = p.epoch+1, !in }), bed.Sleep(ctx, part)); err != nil {
				return err
			}
		}
	}
	return nil
}

// halve cuts a tenant's rate, lets that spread to every worker, and gives it back after so long. While a change spreads the larger rate counts.
func (c *cluster) halve(ctx context.Context, tenant int, hold time.Duration) error {
	whole, half, from := c.o.rate(tenant), c.o.rate(tenant)/2, time.Now()
	if err := c.change(ctx, func(p *policy) { p.rates[tenant] = half }); err != nil {
		return err
	}
	if err := c.spread(ctx, tenant, half, from); err != nil {
		return err
	}
	c.happened(tenant, excess.Event{Rate: half})
	err := bed.Sleep(ctx, hold)
	c.happened(tenant, excess.Event{Rate: whole})
	from = time.Now()
	return errors.Join(err, c.change(ctx, func(p *policy) { p.rates[tenant] = whole }), c.spread(ctx, tenant, whole, from))
}

// compact cuts a worker off from etcd and compacts what the worker has not seen yet: its watch cannot go on, and it must read everything anew.
func (c *cluster) compact(ctx context.Context, f fault) error {
	me := id(f.Worker)
	c.net.Block(me, etcdName)
	c.net.Block(etcdName, me)
	err := c.etcd.compact(ctx)
	err = errors.Join(err, bed.Sleep(ctx, f.Hold), c.etcd.compact(ctx))
	c.net.Heal(me, etcdName)
	c.net.Heal(etcdName, me)
	return err
}
