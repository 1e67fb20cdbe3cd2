package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/talon-worker/talon/bench/bed"
)

// An arm is one limiter with its settings, and what it did in every round.
type arm struct {
	name, algorithm string
	sync            time.Duration // gubernator's GlobalSyncWait
	windows         []*window
}

// arms are talon; gubernator as its defaults have it; with a sync as often as talon's; and its other algorithm.
func arms() []*arm {
	return []*arm{
		{name: "talon"},
		{name: "gubernator token 100ms", algorithm: "token", sync: 100 * time.Millisecond},
		{name: "gubernator token 5ms", algorithm: "token", sync: 5 * time.Millisecond},
		{name: "gubernator leaky 100ms", algorithm: "leaky", sync: 100 * time.Millisecond},
	}
}

func (a *arm) talon() bool { return a.algorithm == "" }

// measure is one window of an arm.
func (a *arm) measure(ctx context.Context, o *options, w *workers) (err error) {
	var got *window
	if a.talon() {
		// Its bucket is full again after so long without load.
		if err := bed.Sleep(ctx, time.Duration(float64(o.Burst)/float64(o.Rate)*1.2e9)); err != nil {
			return err
		}
		got, err = w.window(ctx)
	} else {
		got, err = a.gubernator(ctx, o)
	}
	if err == nil {
		a.windows = append(a.windows, got)
	}
	return err
}

// offered is what bench/gubernator prints.
type offered struct {
	From     int64   `json:"from_ns"`
	Slice    int64   `json:"slice_ns"`
	Admitted []int64 `json:"admitted"`
	Offered  int64   `json:"offered"`
	Messages float64 `json:"messages"`
}

// gubernator starts a cluster of it, which offers itself the load, and lets it end.
func (a *arm) gubernator(ctx context.Context, o *options) (*window, error) {
	var out bytes.Buffer
	p, err := bed.Start(bed.Spec{CPU: bed.AnyCPU, Out: &out, Argv: []string{o.peer, "-algorithm", a.algorithm, "-sync", a.sync.String(),
		"-peers", fmt.Sprint(o.Workers), "-limit", fmt.Sprint(o.Burst), "-duration", fmt.Sprintf("%dms", o.Burst*1000/o.Rate),
		"-offered", fmt.Sprint(o.Offered), "-seconds", fmt.Sprint(o.Seconds), "-slice", o.Slice.String()}})
	if err != nil {
		return nil, err
	}
	defer p.Stop()
	patience := time.Duration(o.Seconds*1e9) + 30*time.Second
	select {
	case <-p.Done():
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(patience):
		return nil, fmt.Errorf("%s did not end within %v", a.name, patience)
	}
	if err := p.Wait(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", a.name, err, p.Log())
	}
	var got offered
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		return nil, fmt.Errorf("%s: %w: %.200s", a.name, err, out.Bytes())
	}
	return o.judge([]part{{got.From, got.Slice, got.Admitted}}, float64(got.Offered)/o.Seconds, got.Messages/o.Seconds), nil
}
