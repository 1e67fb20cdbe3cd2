package qos

import (
	"strings"
	"testing"
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
		{"burst under a sync without much advance", slow, ReadIOPS, 100_000, 1000, 500, 1, []string{"less than 1500"}},
		{"local burst under a chunk of a slow limit", cfg, OriginReadBytes, 1 << 20, 1 << 20, 4096, chunk, []string{"one worker may hold 25067", "under the bootstrap"}},
		{"local burst under the bootstrap", cfg, ReadIOPS, 1000, 100, 2, 1, []string{"under the bootstrap allowance 4"}},
	} {
		p := Policy{Tenant: "t", Metric: tt.metric, Generation: 1, Rate: tt.rate, Burst: tt.burst, LocalBurst: tt.local, Enabled: true}
		check(t, p.Validate())
		got := tt.cfg.Advice(&p, tt.need)
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
