package qos

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestAdvice(t *testing.T) {
	const chunk = 256 << 10
	cfg := DefaultConfig()
	slow := cfg
	slow.SyncMax, slow.Advance = 15*cfg.Trip, cfg.Trip
	for _, tt := range []struct {
		name               string
		cfg                Config
		metric             Metric
		rate, burst, local int64
		need               int64
		want               []string // parts of one line each
	}{
		{"good", cfg, ClientEgressBytes, 400 << 20, 64 << 20, 8 << 20, chunk, nil},
		{"good requests", cfg, ReadIOPS, 20_000, 2000, 500, 1, nil},
		{"burst of one chunk", cfg, ClientEgressBytes, 50 << 20, chunk, chunk, chunk, []string{"want at least 524288"}},
		{"burst of half of what is used between three reports", cfg, ReadIOPS, 100_000, 240, 240, 1, []string{"less than 480, the refill between three reports of a worker that uses the limit alone (4.8ms)"}},
		{"just enough", cfg, ReadIOPS, 100_000, 480, 480, 1, nil},
		{"burst under a sync without much advance", slow, ReadIOPS, 100_000, 1000, 500, 1, []string{"less than 1500"}},
		{"local burst under a chunk of a slow limit", cfg, OriginReadBytes, 1 << 20, 1 << 20, 4096, chunk, []string{"one worker may hold 25067", "under the bootstrap"}},
		{"local burst under the bootstrap", cfg, ReadIOPS, 1000, 100, 2, 1, []string{"under the bootstrap allowance 4"}},
	} {
		p := Policy{Tenant: "t", Metric: tt.metric, Generation: 1, Rate: tt.rate, Burst: tt.burst, LocalBurst: tt.local, Enabled: true}
		check(t, p.Validate())
		got := tt.cfg.Advice(&p, Use{Need: tt.need, Workers: 1})
		if len(got) != len(tt.want) {
			t.Errorf("%s: %q, want %d lines", tt.name, got, len(tt.want))
			continue
		}
		for i := range got {
			if !strings.Contains(got[i], tt.want[i]) || !strings.HasPrefix(got[i], "t/") {
				t.Errorf("%s: %q, want %q in it", tt.name, got[i], tt.want[i])
			}
		}
	}
}

// TestAdviceForUse: what is little for many workers, or for requests that do not wait, and enough with what the advice asks for.
func TestAdviceForUse(t *testing.T) {
	cfg := DefaultConfig()
	slow := cfg
	slow.TTL, slow.Advance = 30*time.Millisecond, 0
	const deadline = 20 * time.Millisecond
	for _, tt := range []struct {
		name        string
		cfg         Config
		onLimit     OnLimit
		rate, burst int64
		use         Use
		want        string // in the only line
		enough      int64  // burst that the advice asks for
	}{
		{"reject, few charges a worker", cfg, Reject, 100, 31, Use{1, 8, 0}, "burst 31 is little for 8 workers that do not let requests wait", 32},
		{"reject, 3 x 11 ms less the advance of 8", cfg, Reject, 10_000, 249, Use{1, 8, 0}, "between two reports (up to 10ms)", 250},
		{"ban is no better", cfg, Ban, 10_000, 249, Use{1, 8, 0}, "or on_limit: pace", 250},
		{"reject, 3 x 16 ms", slow, Reject, 10_000, 479, Use{1, 8, 0}, "(up to 15ms)", 480},
		{"turns that come too late", cfg, Pace, 100, 9, Use{1, 8, deadline}, "requests wait for 20ms at most, and a turn that comes too late may lie with its worker for 26ms", 10},
	} {
		p := Policy{Tenant: "t", Metric: ReadIOPS, Generation: 1, Rate: tt.rate, Burst: tt.burst, LocalBurst: 4, Enabled: true, OnLimit: tt.onLimit, BanFor: time.Second}
		if got := tt.cfg.Advice(&p, tt.use); len(got) != 1 || !strings.Contains(got[0], tt.want) || !strings.Contains(got[0], fmt.Sprintf("at least %d", tt.enough)) {
			t.Errorf("%s: %q", tt.name, got)
		}
		p.Burst = tt.enough
		if got := tt.cfg.Advice(&p, tt.use); len(got) > 0 {
			t.Errorf("%s, with enough: %q", tt.name, got)
		}
		if p.Burst = tt.burst; tt.onLimit != Pace {
			p.OnLimit = Pace
		} else {
			tt.use.Deadline = 26 * time.Millisecond
		}
		if got := tt.cfg.Advice(&p, tt.use); len(got) > 0 {
			t.Errorf("%s, mended the other way: %q", tt.name, got)
		}
		p.OnLimit = tt.onLimit
		if tt.use.Workers = 1; len(tt.cfg.Advice(&p, tt.use)) > 0 {
			t.Errorf("%s: one worker alone is told, too", tt.name)
		}
	}
}
