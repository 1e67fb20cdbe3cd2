package qos

import (
	"strings"
	"testing"
	"time"
)

func goodPolicy() Policy {
	return Policy{Tenant: "t", Metric: ReadIOPS, Generation: 1, Rate: 1000, Burst: 100, LocalBurst: 20, Enabled: true}
}

func TestPolicyValidate(t *testing.T) {
	for _, tt := range []struct {
		name string
		mend func(*Policy)
		want string // part of the error; "" none
	}{
		{"good", func(p *Policy) {}, ""},
		{"no tenant", func(p *Policy) { p.Tenant = "" }, "name one"},
		{"no metric", func(p *Policy) { p.Metric = 0 }, "read_iops"},
		{"metric 7", func(p *Policy) { p.Metric = 7 }, "metric(7)"},
		{"generation 0", func(p *Policy) { p.Generation = 0 }, "start at 1"},
		{"zero rate", func(p *Policy) { p.Rate = 0 }, "enabled: false"},
		{"negative rate", func(p *Policy) { p.Rate = -1 }, "want 1 to"},
		{"rate above the bound", func(p *Policy) { p.Rate = MaxRate + 1 }, "want 1 to"},
		{"largest rate", func(p *Policy) { p.Rate = MaxRate }, ""},
		{"zero burst", func(p *Policy) { p.Burst = 0 }, "burst 0"},
		{"local burst above burst", func(p *Policy) { p.LocalBurst = 101 }, "to the burst, 100"},
		{"zero local burst", func(p *Policy) { p.LocalBurst = 0 }, "local_burst 0"},
		{"mode", func(p *Policy) { p.Mode = 3 }, "want enforce"},
		{"on_limit", func(p *Policy) { p.OnLimit = 3 }, "want pace"},
		{"soft", func(p *Policy) { p.SoftRate = -1 }, "soft_rate -1"},
		{"ban without time", func(p *Policy) { p.OnLimit = Ban }, "more than 0"},
		{"ban", func(p *Policy) { p.OnLimit, p.BanFor = Ban, time.Second }, ""},
		{"ban mode", func(p *Policy) { p.BanMode = 2 }, "ban mode"},
	} {
		p := goodPolicy()
		tt.mend(&p)
		err := p.Validate()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestMetricNames(t *testing.T) {
	for _, m := range Metrics {
		if got, err := ParseMetric(m.String()); err != nil || got != m {
			t.Errorf("%v: parsed as %v, %v", m, got, err)
		}
	}
	if _, err := ParseMetric("iops"); err == nil {
		t.Error("iops: want an error")
	}
	if Metric(0).Valid() || Metric(7).Valid() || !ReadIOPS.Requests() || !WriteIOPS.Requests() || ClientEgressBytes.Requests() {
		t.Error("validity or units of metrics are wrong")
	}
}

func TestConfigValidate(t *testing.T) {
	for _, tt := range []struct {
		name string
		mend func(*Config)
		want string
	}{
		{"default", func(c *Config) {}, ""},
		{"TTL under a sync and two trips", func(c *Config) { c.TTL, c.Advance = 6*time.Millisecond, 0 }, "expire between two reports"},
		{"TTL just long enough", func(c *Config) { c.TTL, c.Advance = 7*time.Millisecond, 0 }, ""},
		{"advance above TTL", func(c *Config) { c.Advance = 21 * time.Millisecond }, "pays for it"},
		{"confirmation within TTL", func(c *Config) { c.Confirm = 20 * time.Millisecond }, "views die"},
		{"order of intervals", func(c *Config) { c.SyncMax = time.Millisecond }, "raise it"},
		{"lease", func(c *Config) { c.Lease = 30 * time.Millisecond }, "two snapshot TTLs"},
		{"budget", func(c *Config) { c.Budget = 0 }, "at least 1"},
		{"sync", func(c *Config) { c.SyncMin = 0 }, "100us"},
	} {
		c := DefaultConfig()
		tt.mend(&c)
		err := c.Validate()
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
}
