// Command gubernator runs a cluster of gubernator daemons on loopback, offers one limit to all of them evenly, and prints as JSON how much they
// admitted, slice by slice. bench-gubernator starts it beside workers of talon.
//
// The daemons are those of gubernator's own cluster package: real ones, with gRPC between them, in one process. A request is a call of the
// daemon's GetRateLimits in the process, one hit each, behaviour GLOBAL: nothing is lost on the way to it, and no client takes the cores from the peers.
//
// It is a module of its own, so that nothing of gubernator's comes near a worker.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/sirupsen/logrus"
)

type options struct {
	peers     int
	offered   float64 // requests/s, of all peers together
	limit     int64   // requests
	duration  time.Duration
	algorithm string
	sync      time.Duration
	seconds   float64
	slice     time.Duration
}

func main() {
	o, err := parse(os.Args[1:])
	if err == nil {
		err = o.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gubernator:", err)
		os.Exit(1)
	}
}

func parse(args []string) (*options, error) {
	o := &options{}
	fs := flag.NewFlagSet("gubernator", flag.ContinueOnError)
	fs.IntVar(&o.peers, "peers", 6, "daemons of the cluster, 1 to 16")
	fs.Float64Var(&o.offered, "offered", 10000, "requests a second, of all together")
	fs.Int64Var(&o.limit, "limit", 1000, "requests in --duration")
	fs.DurationVar(&o.duration, "duration", time.Second, "what --limit is for")
	fs.StringVar(&o.algorithm, "algorithm", "token", "token or leaky")
	fs.DurationVar(&o.sync, "sync", 100*time.Millisecond, "GlobalSyncWait; 100ms is gubernator's default")
	fs.Float64Var(&o.seconds, "seconds", 5, "how long")
	fs.DurationVar(&o.slice, "slice", 5*time.Millisecond, "how finely time is counted")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	_, known := algorithms[o.algorithm]
	switch {
	case fs.NArg() > 0:
		return nil, fmt.Errorf("%q: no arguments beside flags are taken", fs.Arg(0))
	case o.peers < 1 || o.peers > 16 || o.limit < 1 || o.duration < time.Millisecond || o.sync < time.Millisecond:
		return nil, fmt.Errorf("%d peers, %d in %v, sync %v: want 1 to 16 peers, a positive limit, and times of a millisecond or more", o.peers, o.limit, o.duration, o.sync)
	case !known:
		return nil, fmt.Errorf("algorithm %q: want token or leaky", o.algorithm)
	case !(o.offered > 0 && o.offered <= 1e6) || !(o.seconds > 0 && o.seconds <= 300) || o.slice < time.Millisecond || o.slice > time.Second:
		return nil, fmt.Errorf("%g requests/s for %gs in slices of %v: want up to a million a second, 300 s, and slices of 1ms to 1s", o.offered, o.seconds, o.slice)
	}
	return o, nil
}

func (o *options) run() error {
	logrus.SetOutput(io.Discard)
	c, err := start(o.peers, o.sync)
	if err != nil {
		return err
	}
	if err := c.warm(o); err != nil {
		return err
	}
	before, err := c.messages()
	if err != nil {
		return err
	}
	out, err := c.offer(o)
	if err != nil {
		return err
	}
	after, err := c.messages()
	if err != nil {
		return err
	}
	out.Messages = after - before
	return json.NewEncoder(os.Stdout).Encode(out)
}
