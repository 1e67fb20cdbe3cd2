// Command bench-nginx measures talon side by side with nginx, net/http and a bare C sendfile loop, and
// appends the figures to bench/results. Run it at the top of the repository, as root:
//
//	go run ./bench/cmd/bench-nginx                                # everything, about seven minutes
//	go run ./bench/cmd/bench-nginx --sizes 4K,64K --conns 64      # a quick look, about a minute
//	go run ./bench/cmd/bench-nginx --policy                       # and talon with a tenant, a token and limits
//
// One core serves and another carries the load; see bench/README.md for how to read the tables.
// Exit codes: 0 measured; 1 it could not run; 2 bad usage; 3 rows were refused in every round;
// 4 with --strict, a floor was missed.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/talon-worker/talon/bench/bed"
	"github.com/talon-worker/talon/bench/load"
)

type options struct {
	Sizes   []string `json:"sizes"`
	Conns   []int    `json:"conns"`
	Rounds  int      `json:"rounds"`
	Servers []string `json:"servers"`
	Warmup  float64  `json:"warmup_s"`
	Window  float64  `json:"window_s"`
	Args    string   `json:"talon_args"`
	Headers []string `json:"-"` // may hold credentials
	Copy    bool     `json:"copying_client"`
	Policy  bool     `json:"policy"`

	bed.Runner `json:"-"`
	tenant     bed.Tenant // of withPolicy
}

var allServers = []string{"talon", "nginx", "nginx-nopush", "nginx-512k", "nginx-nopush-512k", "nethttp", "limit"}

func main() { bed.Main("bench-nginx", parse, (*options).run) }

func parse(args []string) (*options, error) {
	o := &options{}
	fs := o.FlagSet("bench-nginx")
	sizes := fs.String("sizes", "1K,4K,16K,64K,256K,1M,16M", "object sizes")
	conns := fs.String("conns", "16,64", "connections")
	servers := fs.String("servers", strings.Join(allServers, ","), "servers to measure")
	fs.IntVar(&o.Rounds, "rounds", 5, "interleaved rounds, the order alternates")
	fs.Float64Var(&o.Warmup, "warmup", 0.1, "seconds before each measured window")
	fs.Float64Var(&o.Window, "window", 0.5, "seconds of each measured window (three times as long from 16M)")
	fs.StringVar(&o.Args, "talon-args", bed.TalonArgs, "talon's arguments")
	extra := fs.String("talon-extra", "", "arguments to add to --talon-args")
	fs.Func("H", "header \"Name: value\" for every request, such as credentials; may be repeated", func(v string) error {
		o.Headers = append(o.Headers, v)
		return nil
	})
	fs.BoolVar(&o.Policy, "policy", false, "measure talon once more, as "+withPolicy+": a tenant with a token, and limits that never bind")
	fs.BoolVar(&o.Copy, "copy", false, "a client that copies bodies instead of discarding them")
	o.PinFlags(fs, "the server", "the client", "every process")
	fs.BoolVar(&o.Strict, "strict", false, "exit 4 if a floor is missed")
	if err := o.Parse(fs, args); err != nil {
		return nil, err
	}
	o.Sizes, o.Servers = strings.Split(*sizes, ","), strings.Split(*servers, ",")
	o.Args = strings.TrimSpace(o.Args + " " + *extra)
	o.tenant = bed.NewTenant("reader", farLimits)
	if o.Policy && !slices.Contains(o.Servers, "talon") {
		return nil, errors.New("--policy: it is compared with talon, which --servers leaves out")
	}
	for c := range strings.SplitSeq(*conns, ",") {
		n, err := strconv.Atoi(c)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("--conns %q: want numbers separated by commas", *conns)
		}
		o.Conns = append(o.Conns, n)
	}
	return o, o.validate()
}

func (o *options) validate() error {
	for _, s := range o.Sizes {
		if _, err := bed.ParseSize(s); err != nil {
			return fmt.Errorf("--sizes: %w", err)
		}
	}
	for _, s := range o.Servers {
		if !slices.Contains(allServers, s) {
			return fmt.Errorf("--servers: %q is none of %s", s, strings.Join(allServers, ","))
		}
	}
	if o.Rounds < 1 || o.Rounds > 100 || o.Window <= 0 || o.Window > 60 || o.Warmup < 0 || o.Warmup > 60 {
		return fmt.Errorf("rounds %d, window %gs, warm-up %gs: want 1-100 rounds, windows up to 60 s", o.Rounds, o.Window, o.Warmup)
	}
	return nil
}

func (o *options) run(ctx context.Context) (int, error) {
	site, err := o.Site(o.Sizes...)
	if err != nil {
		return 1, err
	}
	defer site.Remove()
	servers, err := o.servers(site.Work)
	if err != nil {
		return 1, err
	}
	for _, s := range servers {
		defer s.Down()
		if err := s.Up(ctx, site.Files, site.Work, o.ServerCPU, o.Hygiene, "/"+o.Sizes[0]); err != nil {
			return 1, err
		}
	}
	m := &matrix{o: o, servers: servers, client: site.Client}
	return o.report(ctx, m)
}

// report measures cell by cell, prints each as it is done, and appends the whole at the end. A run
// that is stopped midway appends nothing.
func (o *options) report(ctx context.Context, m *matrix) (int, error) {
	sheet := bed.Describe(o.Hygiene)
	text := header(sheet, o)
	fmt.Print(text)
	var cells []*cell
	for _, size := range o.Sizes {
		for _, conns := range o.Conns {
			c, err := m.measure(ctx, size, conns)
			if err != nil {
				return 1, err
			}
			cells = append(cells, c)
			part := c.table()
			fmt.Print(part)
			text += part
		}
	}
	sum := summary(cells)
	fmt.Print(sum)
	return o.exitCode(cells), o.Record("nginx", sheet, text+sum, map[string]any{"machine": sheet, "settings": o, "cells": cells})
}

func (o *options) exitCode(cells []*cell) int {
	code := 0
	for _, c := range cells {
		for i := range c.Rows {
			if c.Rows[i].good() == 0 {
				return 3
			}
		}
		if v := c.Verdict; o.Strict && v != nil && v.Word == short {
			code = 4
		}
		if v := c.Policy; o.Strict && v != nil && v.Word == short {
			code = 4
		}
	}
	return code
}

// servers makes what was asked for, building and installing what it needs.
func (o *options) servers(work string) (out []*bed.Server, err error) {
	want := func(name string) bool { return slices.Contains(o.Servers, name) }
	if want("talon") {
		if err := o.FindTalon(work); err != nil {
			return nil, fmt.Errorf("%w (or leave talon out of --servers)", err)
		}
		out = append(out, bed.Talon("talon", o.Talon, o.Args))
		if o.Policy {
			s, err := o.withPolicy(work)
			if err != nil {
				return nil, err
			}
			out = append(out, s)
		}
	}
	if slices.ContainsFunc(o.Servers, isNginx) {
		path, err := bed.Install("nginx", bed.FindNginx, "nginx-light")
		if err != nil {
			return nil, err
		}
		for _, s := range bed.Nginx(path) {
			if want(s.Name) {
				out = append(out, s)
			}
		}
	}
	if want("nethttp") {
		path, err := bed.BuildGo(work, "./bench/cmd/peer-nethttp")
		if err != nil {
			return nil, err
		}
		out = append(out, bed.NetHTTP(path))
	}
	if want("limit") {
		path, err := bed.BuildLimit(work)
		if err != nil {
			return nil, err
		}
		out = append(out, bed.Limit(path))
	}
	return out, nil
}

// withPolicy is the name of talon with a policy.
const withPolicy = "talon-policy"

// farLimits never bind on one core, and are charged all the same.
const farLimits = "limits: {read_iops: {rate: 10000000/s, burst: 1000000, local_burst: 200000}, client_egress_bytes: {rate: 100GiB/s, burst: 10GiB, local_burst: 1GiB}}"

// withPolicy makes that server. Its policy is in a directory of its own, which talon watches.
func (o *options) withPolicy(work string) (*bed.Server, error) {
	if err := os.Mkdir(filepath.Join(work, "policy"), 0o755); err != nil {
		return nil, err
	}
	const file = "{work}/policy/policy.yaml"
	s := bed.Talon(withPolicy, o.Talon, o.Args+" --policy "+file)
	s.Files = map[string]string{file: bed.Policy([]bed.Tenant{o.tenant})}
	return s, nil
}

func isNginx(name string) bool { return strings.HasPrefix(name, "nginx") }

// config is one measurement of one server.
func (o *options) config(s *bed.Server, size string, conns int) load.Config {
	window := o.Window
	if n, _ := bed.ParseSize(size); n >= 16<<20 {
		window *= 3 // 64 responses of 16 MiB take a quarter of a second: one window must hold several
	}
	headers := o.Headers
	if s.Name == withPolicy {
		headers = append(slices.Clip(headers), o.tenant.Header())
	}
	return load.Config{Target: s.Target, WarmupS: o.Warmup, DurationS: window, Headers: headers, Copy: o.Copy, ServerPIDs: s.PIDs,
		Streams: []load.Stream{{Name: s.Name, Conns: conns, Keys: []string{"/" + size}}}}
}
