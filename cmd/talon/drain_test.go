package main

import (
	"log/slog"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// TestDrainPhases: signals at these times stop the data port at those, with that
// timeout.
func TestDrainPhases(t *testing.T) {
	type stop struct{ at, timeout time.Duration }
	const s = time.Second
	for name, tt := range map[string]struct {
		delay   time.Duration
		signals []time.Duration
		ends    time.Duration
		want    []stop
	}{
		"one signal":                     {5 * s, []time.Duration{1 * s}, 60 * s, []stop{{6 * s, 30 * s}}},
		"no delay":                       {0, []time.Duration{1 * s}, 60 * s, []stop{{1 * s, 30 * s}}},
		"a second one in the delay":      {5 * s, []time.Duration{1 * s, 3 * s}, 60 * s, []stop{{3 * s, 30 * s}}},
		"a second one after it":          {5 * s, []time.Duration{1 * s, 8 * s}, 60 * s, []stop{{6 * s, 30 * s}, {8 * s, 0}}},
		"three":                          {5 * s, []time.Duration{1 * s, 2 * s, 3 * s}, 60 * s, []stop{{2 * s, 30 * s}, {3 * s, 0}}},
		"no signal, a ring fails":        {5 * s, nil, 2 * s, nil},
		"a ring fails in the delay":      {5 * s, []time.Duration{1 * s}, 2 * s, nil},
		"all done before the second one": {0, []time.Duration{1 * s}, 2 * s, []stop{{1 * s, 30 * s}}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var got []stop
				d := &drain{times: func() (_, _ time.Duration) { return tt.delay, 30 * s }, log: slog.New(slog.DiscardHandler),
					stop: func(timeout time.Duration) { got = append(got, stop{time.Since(began), timeout}) }}
				signals, ended := make(chan os.Signal, 4), make(chan struct{})
				for i, at := range tt.signals {
					time.AfterFunc(at, func() {
						if d.begun.Load() != (i > 0) {
							t.Errorf("at signal %d: begun is %v", i, d.begun.Load())
						}
						signals <- unix.SIGTERM
					})
				}
				time.AfterFunc(tt.ends, func() { close(ended) })
				d.on(signals, ended)
				if !slices.Equal(got, tt.want) {
					t.Errorf("stops %v, want %v", got, tt.want)
				}
				time.Sleep(time.Minute)
				if d.begun.Load() != (len(tt.signals) > 0) {
					t.Errorf("begun is %v", d.begun.Load())
				}
			})
		})
	}
}

// TestDrainDelay: from the signal on /readyz is 503, and until the delay is over
// new clients are served as before.
func TestDrainDelay(t *testing.T) {
	dir := t.TempDir()
	small := object(t, dir, "small", 1000)
	p := startProcess(t, dir, "--drain-delay=1h")
	p.signal(unix.SIGTERM)
	mustContain(t, string(until(t, p.admin+"/readyz", 503)), "draining")
	code, header, body := get(t, p.data+"/small")
	if code != 200 || header.Get("Connection") == "close" {
		t.Errorf("in the delay: %d, %v", code, header)
	}
	sameBytes(t, "small", body, small)
	_, _, page := get(t, p.admin+"/metrics")
	mustContain(t, string(page), "\ntalon_up 1\n")
	mustContain(t, string(page), "\ntalon_draining 1\n")
	p.signal(unix.SIGTERM) // enough of the delay
	if code := p.exitCode(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}
