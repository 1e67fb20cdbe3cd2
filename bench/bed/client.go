package bed

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"syscall"
	"time"

	"github.com/talon-worker/talon/bench/load"
)

// Client runs the load generator as a process of its own on its own core.
type Client struct {
	Path  string // of talon-load
	CPU   int    // AnyCPU: one thread that shares the cores with the server, and sleeps when it has nothing to do
	Raise bool
}

// Measure runs one measurement. A refused result is returned as such, with Refused set.
func (cl Client) Measure(ctx context.Context, c load.Config) (*load.Result, error) {
	return cl.MeasureUntil(ctx, nil, c)
}

// MeasureUntil is Measure for a run that ends when stop is closed, if that is before its time; see load.Config.UntilStopped.
func (cl Client) MeasureUntil(ctx context.Context, stop <-chan struct{}, c load.Config) (*load.Result, error) {
	c.UntilStopped = stop != nil
	c.CPUs, c.Hygiene = []int{cl.CPU}, cl.Raise
	if cl.CPU == AnyCPU {
		c.CPUs, c.Threads, c.Block = nil, 1, true
	}
	in, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	p, err := Start(Spec{Argv: []string{cl.Path, "--json", "--config", "-"}, CPU: cl.CPU, Raise: cl.Raise, In: bytes.NewReader(in), Out: &out})
	if err != nil {
		return nil, err
	}
	defer p.Stop()
	limit := time.Duration((c.WarmupS + c.DurationS + c.TimeoutS + 10) * float64(time.Second))
	late, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	select {
	case <-p.Done():
	case <-stop:
		syscall.Kill(p.Pid, syscall.SIGTERM)
	case <-late.Done():
	}
	select {
	case <-p.Done():
	case <-late.Done():
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("talon-load did not end within %v; it is %s, and has said %q", limit, p.State(), p.Log())
	}
	var r load.Result
	if json.Unmarshal(out.Bytes(), &r) != nil {
		return nil, fmt.Errorf("talon-load: %v: %s", p.Wait(), p.Log())
	}
	return &r, nil
}
