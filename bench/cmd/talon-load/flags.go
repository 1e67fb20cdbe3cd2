package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/talon-worker/talon/bench/load"
)

type options struct {
	config        load.Config
	json, perConn bool
}

// raw holds the flags that are not a field of the Config as they are typed.
type raw struct {
	config, keys, cpus, pids, rng string
	refusals                      string
	warmup, duration, timeout     time.Duration
	headers                       []string
	stream                        load.Stream
}

func parse(args []string, in io.Reader, errOut io.Writer) (*options, error) {
	var o options
	var r raw
	fs := flag.NewFlagSet("talon-load", flag.ContinueOnError)
	fs.SetOutput(errOut)
	fs.Usage = func() {
		fmt.Fprintln(errOut, "usage: talon-load [flags] URL...   (all URLs of one http://host:port)")
		fs.PrintDefaults()
	}
	o.flags(fs, &r)
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if r.config != "" {
		if fs.NArg() > 0 {
			return nil, errors.New("--config describes the whole run; give no URL beside it")
		}
		return &o, readConfig(r.config, in, &o.config)
	}
	return &o, r.fill(&o.config, fs.Args())
}

func (o *options) flags(fs *flag.FlagSet, r *raw) {
	c, s := &o.config, &r.stream
	fs.IntVar(&s.Conns, "c", 16, "connections")
	fs.DurationVar(&r.duration, "d", time.Second, "length of the measured window")
	fs.DurationVar(&r.warmup, "warmup", 100*time.Millisecond, "time before the window opens")
	fs.DurationVar(&r.timeout, "timeout", 10*time.Second, "a request that takes longer is an error")
	fs.Float64Var(&s.Rate, "rate", 0, "open loop: requests per second; latency counts from the intended time")
	fs.StringVar(&r.refusals, "refusals", "", "statuses that count as refusals and not as errors, such as 429,503")
	fs.IntVar(&s.Retries, "retries", 0, "with --rate: how often a refused or lost request is sent again at once")
	fs.StringVar(&r.keys, "keys", "", "file with a key per line (a path, put behind the URL); - is standard input")
	fs.StringVar(&s.Order, "order", "rr", "order of the keys: rr or random")
	fs.StringVar(&r.rng, "range", "", "FIRST-LAST, or random:LENGTH[,ALIGN] (units KiB, MiB, GiB)")
	fs.Func("H", "header \"Name: value\" for every request; may be repeated", func(v string) error {
		r.headers = append(r.headers, v)
		return nil
	})
	fs.StringVar(&r.cpus, "cpu", "", "CPUs, one pinned thread on each, such as 1 or 2,3")
	fs.IntVar(&c.Threads, "threads", 0, "threads when --cpu is not given (default 1)")
	fs.BoolVar(&c.Block, "block", false, "sleep in epoll_wait instead of polling")
	fs.BoolVar(&c.Copy, "copy", false, "copy bodies to user space instead of discarding them in the kernel")
	fs.BoolVar(&c.Hygiene, "hygiene", false, "nice -20 and autogroup weight -20 (root; start it under setsid)")
	fs.Uint64Var(&c.Seed, "seed", 1, "seed of random keys and ranges")
	fs.StringVar(&r.pids, "server-pid", "", "processes whose CPU time is measured, such as 12,13")
	fs.StringVar(&r.config, "config", "", "read the whole run as JSON (see load.Config); - is standard input")
	fs.BoolVar(&o.json, "json", false, "print JSON")
	fs.BoolVar(&o.perConn, "per-conn", false, "print every connection's throughput")
}

func readConfig(name string, in io.Reader, c *load.Config) error {
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		in = f
	}
	d := json.NewDecoder(in)
	d.DisallowUnknownFields()
	if err := d.Decode(c); err != nil {
		return fmt.Errorf("--config %s: %w", name, err)
	}
	return c.Validate()
}

func (r *raw) fill(c *load.Config, urls []string) (err error) {
	c.WarmupS, c.DurationS, c.TimeoutS = r.warmup.Seconds(), r.duration.Seconds(), r.timeout.Seconds()
	c.Headers = r.headers
	if c.CPUs, err = numbers("--cpu", r.cpus); err != nil {
		return err
	}
	if c.ServerPIDs, err = numbers("--server-pid", r.pids); err != nil {
		return err
	}
	s := r.stream
	s.Name = "load"
	if s.Refusals, err = numbers("--refusals", r.refusals); err != nil {
		return err
	}
	if s.Range, err = parseRange(r.rng); err != nil {
		return err
	}
	if c.Target, s.Keys, err = splitURLs(urls); err != nil {
		return err
	}
	if r.keys != "" {
		if s.Keys, err = readKeys(r.keys, s.Keys); err != nil {
			return err
		}
	}
	c.Streams = []load.Stream{s}
	return c.Validate()
}

// splitURLs returns the common http://host:port and the paths.
func splitURLs(urls []string) (target string, keys []string, err error) {
	if len(urls) == 0 {
		return "", nil, errors.New("give at least one URL, such as http://127.0.0.1:8080/key")
	}
	for _, raw := range urls {
		u, err := url.Parse(raw)
		if err != nil {
			return "", nil, err
		}
		t := u.Scheme + "://" + u.Host
		if target != "" && t != target {
			return "", nil, fmt.Errorf("%s is not of %s: one run loads one host and port", raw, target)
		}
		target = t
		keys = append(keys, u.RequestURI())
	}
	return target, keys, nil
}

// readKeys puts the keys of a file behind the path of the one URL.
func readKeys(name string, base []string) (keys []string, err error) {
	if len(base) != 1 {
		return nil, errors.New("--keys wants exactly one URL, the base of the keys")
	}
	f := os.Stdin
	if name != "-" {
		if f, err = os.Open(name); err != nil {
			return nil, err
		}
		defer f.Close()
	}
	lines := bufio.NewScanner(f)
	for lines.Scan() && len(keys) <= load.MaxKeys {
		if k := strings.TrimSpace(lines.Text()); k != "" {
			u := url.URL{Path: strings.TrimSuffix(base[0], "/") + "/" + strings.TrimPrefix(k, "/")}
			keys = append(keys, u.EscapedPath())
		}
	}
	return keys, lines.Err()
}

func numbers(name, list string) (out []int, err error) {
	if list == "" {
		return nil, nil
	}
	for f := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(f)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%s %q: want numbers separated by commas", name, list)
		}
		out = append(out, n)
	}
	return out, nil
}

func parseRange(v string) (r load.Range, err error) {
	if v == "" {
		return r, nil
	}
	if rest, ok := strings.CutPrefix(v, "random:"); ok {
		length, align, _ := strings.Cut(rest, ",")
		r.Kind = "random"
		if r.Length, err = parseBytes(length); err == nil && align != "" {
			r.Align, err = parseBytes(align)
		}
		return r, err
	}
	first, last, ok := strings.Cut(v, "-")
	a, err1 := strconv.ParseInt(first, 10, 64)
	b, err2 := strconv.ParseInt(last, 10, 64)
	if !ok || err1 != nil || err2 != nil || b < a {
		return r, fmt.Errorf("--range %q: want FIRST-LAST or random:LENGTH[,ALIGN]", v)
	}
	return load.Range{Kind: "fixed", First: a, Length: b - a + 1}, nil
}

func parseBytes(v string) (int64, error) {
	unit := int64(1)
	for suffix, u := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30} {
		if n, ok := strings.CutSuffix(v, suffix); ok {
			v, unit = n, u
		}
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n <= 0 || n > (1<<62)/unit {
		return 0, fmt.Errorf("size %q: want a number of bytes, with KiB, MiB or GiB if you like", v)
	}
	return n * unit, nil
}
