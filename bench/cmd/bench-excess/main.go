// Command bench-excess measures how well several workers keep limits together. Real workers on this machine share a policy file (--coordinator
// file:), or an etcd that is started for it (--etcd); each tenant asks every worker for more than its whole limit. There are two witnesses, and the
// bound is held against both: the workers' admission logs, merged, to the byte and nanosecond; and the clients' own count of what they received, slice by
// slice, which knows nothing of what the workers think they have let through.
//
// With --faults it breaks the cluster while it serves: SIGKILL and a restart at the same address, also just before what was metered is acknowledged; SIGSTOP
// for up to ten seconds; drains; a ring that is left and joined again and again; a rate that is cut in half; black holes between workers, both ways and
// one way; late and reset connections; and with --etcd that is killed, or cut off and compacted. Each is aimed at any worker, or at the owner of a
// limit. After each episode of faults that overlap all is mended, and within F + 1 s (--patience) a second must begin in which every tenant is delivered what it is due.
//
//	go run ./bench/cmd/bench-excess                          # four workers, twenty seconds
//	go run ./bench/cmd/bench-excess --workers 8 --seconds 10
//	go run ./bench/cmd/bench-excess --faults 60 --tenants 2 --seed 7     # some minutes
//	go run ./bench/cmd/bench-excess --faults 10 --only "partition,SIGSTOP" --verbose
//
// Exit codes: 0 measured; 1 it could not run; 2 bad usage; 4 the bound was passed, or nothing came any more after the last fault, or with
// --strict less was delivered than is due.
package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/talon-worker/talon/bench/bed"
)

type options struct {
	Workers    int           `json:"workers"`
	Tenants    int           `json:"tenants"`
	Rate       int64         `json:"rate"` // bytes/s, of the first tenant
	Burst      int64         `json:"burst"`
	LocalBurst int64         `json:"local_burst"`
	TTL        time.Duration `json:"snapshot_ttl"`
	Conns      int           `json:"conns_per_worker"`
	Skew       bool          `json:"skew,omitempty"`
	Seconds    float64       `json:"seconds"` // without faults
	Slice      time.Duration `json:"slice"`
	Faults     int           `json:"faults"`
	Seed       uint64        `json:"seed"`
	Etcd       bool          `json:"etcd"`
	Longest    time.Duration `json:"longest_pause"`
	Patience   time.Duration `json:"patience"`
	Only       []string      `json:"only,omitempty"`

	bed.Runner `json:"-"`
	logs       string
	verbose    bool
}

// rate is a tenant's: each has half of that of the one before it.
func (o *options) rate(tenant int) int64 { return o.Rate >> tenant }

func main() { bed.Main("bench-excess", parse, (*options).run) }

func parse(args []string) (*options, error) {
	o := &options{}
	fs := o.FlagSet("bench-excess")
	fs.IntVar(&o.Workers, "workers", 4, "workers that share the limit, 2 to 8")
	fs.IntVar(&o.Tenants, "tenants", 1, "tenants, 1 to 4, each with a limit of its own and half of the rate of the one before it")
	fs.Int64Var(&o.Rate, "rate", 40<<20, "the first limit's rate R in bytes/s, of all workers together")
	fs.Int64Var(&o.Burst, "burst", 4<<20, "its burst B in bytes")
	fs.Int64Var(&o.LocalBurst, "local-burst", 1<<20, "its local burst b in bytes")
	fs.DurationVar(&o.TTL, "snapshot-ttl", 0, "of the workers; 0 is their default of 20ms, with faults 200ms: busy workers on few cores miss 20ms for want of a core")
	fs.IntVar(&o.Conns, "conns", 4, "connections of each tenant to each worker")
	fs.BoolVar(&o.Skew, "skew", false, "ask the first worker for all that it gives, and the others together for a fifth of each rate; else all of them for all they give")
	fs.Float64Var(&o.Seconds, "seconds", 20, "length of the run without faults")
	fs.DurationVar(&o.Slice, "slice", 5*time.Millisecond, "how finely clients count time")
	fs.IntVar(&o.Faults, "faults", 0, "break workers so many times; the run takes as long as they need")
	fs.BoolVar(&o.Etcd, "etcd", false, "an etcd, started for it, is the coordinator in place of a file")
	fs.Uint64Var(&o.Seed, "seed", 1, "of the faults")
	fs.DurationVar(&o.Longest, "longest-pause", 10*time.Second, "longest SIGSTOP, and, up to 3s, longest hole in the network")
	fs.DurationVar(&o.Patience, "patience", healTime, "after each episode: within this a second must begin in which what is due is delivered")
	only := fs.String("only", "", "only these `kinds` of faults, separated by commas; of "+strings.Join(kindNames[:], ", "))
	fs.StringVar(&o.logs, "logs", "", "directory that every worker's log is appended in; empty: they are not kept")
	fs.BoolVar(&o.verbose, "verbose", false, "print each fault as it is begun")
	fs.BoolVar(&o.Strict, "strict", false, "exit 4 if less was delivered than is due, too: without faults, or within --patience after them")
	if err := o.Parse(fs, args); err != nil {
		return nil, err
	}
	if *only != "" {
		o.Only = strings.Split(*only, ",")
		for _, k := range o.Only {
			if !slices.Contains(kindNames[:], k) {
				return nil, fmt.Errorf("--only: %q is no kind of fault; they are %s", k, strings.Join(kindNames[:], ", "))
			}
		}
		if len(o.kinds()) == 0 {
			return nil, fmt.Errorf("--only %s: that needs --etcd", *only)
		}
	}
	if o.TTL == 0 {
		if o.TTL = 20 * time.Millisecond; o.Faults > 0 {
			o.TTL = 200 * time.Millisecond
		}
	}
	switch {
	case o.Workers < 2 || o.Workers > 8:
		return nil, fmt.Errorf("--workers %d: want 2 to 8", o.Workers)
	case o.Tenants < 1 || o.Tenants > 4:
		return nil, fmt.Errorf("--tenants %d: want 1 to 4", o.Tenants)
	case o.Patience < healTime || o.Patience > time.Minute:
		return nil, fmt.Errorf("--patience %v: want %v, which is promised, to 1m", o.Patience, healTime)
	case o.Rate < 1<<20 || o.Rate > 1<<33 || o.Burst < 1<<20 || o.Burst > 1<<32 || o.LocalBurst < 1 || o.LocalBurst > o.Burst:
		return nil, fmt.Errorf("rate %d, burst %d, local burst %d: want rate and burst of at least 1 MiB, at most 8 and 4 GiB, and a local burst up to the burst",
			o.Rate, o.Burst, o.LocalBurst)
	case o.Conns < 1 || o.Conns > 1000 || o.Seconds < 3 || o.Seconds > 300 || o.Slice < time.Millisecond || o.Slice > time.Second:
		return nil, fmt.Errorf("%d connections, %gs, slices of %v: want 1 to 1000, 3 to 300 s, and 1ms to 1s", o.Conns, o.Seconds, o.Slice)
	case o.Faults < 0 || o.Faults > 100 || o.Longest <= shortestPause || o.Longest > 10*time.Second:
		return nil, fmt.Errorf("%d faults, the longest pause %v: want up to 100, and %v to 10s", o.Faults, o.Longest, shortestPause)
	}
	return o, nil
}

func (o *options) run(ctx context.Context) (int, error) {
	site, err := o.Prepare(objectKey)
	if err != nil {
		return 1, err
	}
	defer site.Remove()
	c, err := newCluster(ctx, o, site)
	if c != nil {
		defer c.down()
	}
	if err != nil {
		return 1, err
	}
	return o.report(ctx, c)
}
