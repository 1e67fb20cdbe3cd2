package load

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Run asks for the size of every key, carries the load and returns what it measured. An error means
// that there is no result; a result that must not be quoted says so in Refused.
// Whoever calls it should leave the Go scheduler one processor more than the run has threads.
func Run(ctx context.Context, c Config) (*Result, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	ws, err := newWorkers(ctx, &c)
	if err != nil {
		return nil, err
	}
	var stop atomic.Bool
	defer context.AfterFunc(ctx, func() { stop.Store(true) })()
	if err := runAll(ws, &stop); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil && !(c.UntilStopped && slices.IndexFunc(ws, func(w *worker) bool { return w.streams[0].tally.to < 0 }) < 0) {
		return nil, fmt.Errorf("stopped before the window closed: %w", err)
	}
	return collect(&c, ws), nil
}

// runAll starts the workers together and waits for all of them; if one cannot start, all stop.
func runAll(ws []*worker, stop *atomic.Bool) error {
	errs := make([]error, len(ws))
	base := time.Now()
	var wg sync.WaitGroup
	for i, w := range ws {
		w.base, w.stop = base, stop
		wg.Go(func() {
			if errs[i] = w.run(); errs[i] != nil {
				stop.Store(true)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func newWorkers(ctx context.Context, c *Config) ([]*worker, error) {
	host, err := c.host()
	if err != nil {
		return nil, err
	}
	sizes, err := askSizes(ctx, c)
	if err != nil {
		return nil, err
	}
	ws := make([]*worker, c.Threads)
	for i := range ws {
		addr, family, err := sockaddr(host) // one for each thread: unix.Connect writes into it
		if err != nil {
			return nil, err
		}
		w := &worker{cfg: c, cpu: -1, addr: addr, family: family, copyBody: c.Copy, sweepAt: sweepEvery,
			buf: make([]byte, copyBuffer), events: make([]unix.EpollEvent, maxEvents), patience: new(unix.Timespec)}
		if len(c.CPUs) > 0 {
			w.cpu = c.CPUs[i]
		}
		if err := w.addStreams(host, sizes, i); err != nil {
			return nil, err
		}
		ws[i] = w
	}
	if len(c.ServerPIDs) > 0 {
		ws[0].meter = &cpuMeter{pids: c.ServerPIDs}
	}
	return ws, nil
}

// addStreams gives the worker its share of each stream's connections and rate.
func (w *worker) addStreams(host string, sizes [][]int64, thread int) error {
	for i := range w.cfg.Streams {
		s := &w.cfg.Streams[i]
		p, err := newPlan(w.cfg, s, host, sizes[i], thread)
		if err != nil {
			return err
		}
		n := s.Conns / w.cfg.Threads
		if thread < s.Conns%w.cfg.Threads {
			n++
		}
		sw := &streamWork{cfg: s, plan: p, tally: newTally(w.cfg.slices(), int64(w.cfg.SliceS*1e9)), open: s.Rate > 0, conns: n}
		if sw.open {
			sw.pace = newPace(0, s.Rate/float64(w.cfg.Threads))
			sw.free = make([]*conn, 0, n)
			sw.owed = make([]owed, 0, maxOwed)
		}
		if s.Detector != nil {
			sw.detector = newJudge(*s.Detector)
		}
		w.streams = append(w.streams, sw)
		for range n {
			w.conns = append(w.conns, conn{fd: -1, slot: int32(len(w.conns)), stream: sw, buf: make([]byte, 0, 1<<10)})
		}
	}
	return nil
}

// askSizes sends a HEAD for every key: a response can only be checked against a length that is known.
func askSizes(ctx context.Context, c *Config) ([][]int64, error) {
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	client := &http.Client{Transport: tr, Timeout: time.Duration(c.TimeoutS * float64(time.Second)),
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	known := map[string]int64{}
	sizes := make([][]int64, len(c.Streams))
	for i := range c.Streams {
		headers := slices.Concat(c.Headers, c.Streams[i].Headers)
		for _, k := range c.Streams[i].Keys {
			size, ok := known[k]
			if !ok {
				var err error
				if size, err = askSize(ctx, client, trimSlash(c.Target)+k, headers); err != nil {
					return nil, err
				}
				known[k] = size
			}
			sizes[i] = append(sizes[i], size)
		}
	}
	return sizes, nil
}

func askSize(ctx context.Context, client *http.Client, url string, headers []string) (int64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, url, nil)
	if err != nil {
		return 0, fmt.Errorf("%q: %w", url, err)
	}
	for _, h := range headers {
		name, value := splitHeader(h)
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.ContentLength < 0 {
		return 0, fmt.Errorf("HEAD %s: status %d, Content-Length %d; want 200 and a length", url, resp.StatusCode, resp.ContentLength)
	}
	return resp.ContentLength, nil
}
