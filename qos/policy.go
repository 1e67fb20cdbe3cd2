package qos

import (
	"errors"
	"fmt"
	"time"
)

// Bounds of a policy. They leave every product of the arithmetic inside 128 bits and every level inside an int64.
const (
	MaxRate  = int64(1e12) // units per second: 1 TB/s
	MaxBurst = int64(1) << 60
	maxBan   = 24 * time.Hour
)

// Mode says whether a decision changes the answer to a request.
type Mode uint8

const (
	// Enforce is the default: a decision is carried out.
	Enforce Mode = iota
	// Shadow decides and counts, and changes no response. What it would have denied is not charged.
	Shadow
	// Off counts use and limits nothing; the same as Enabled false.
	Off
)

// OnLimit says what a request meets when there is nothing left.
type OnLimit uint8

const (
	// Pace is the default: wait in the bounded tenant queue until the deadline, then refuse.
	Pace OnLimit = iota
	// Reject refuses at once.
	Reject
	// Ban refuses everything of the tenant for Policy.BanFor once its wanted use in one second passed Rate.
	Ban
)

// BanMode says how a banned tenant is told.
type BanMode uint8

const (
	// BanError answers every request with the refusal.
	BanError BanMode = iota
	// BanClose closes the tenant's connections.
	BanClose
)

// Policy is one immutable version of one limit (the proposal's TenantRatePolicy). A change is a new Generation; the meaning of
// an old one never changes.
type Policy struct {
	Tenant     string
	Metric     Metric
	Generation uint64 // at least 1, grows with every change

	Rate       int64 // R, units per second, 1 to MaxRate (target_rate)
	Burst      int64 // B, units, 1 to MaxBurst (global_burst)
	LocalBurst int64 // b, units, 1 to Burst (local_burst_cap)

	Enabled bool // false: counted, not limited
	Mode    Mode
	OnLimit OnLimit

	SoftRate int64         // units per second, 0 none: over it in one second lists the tenant as a violator
	BanFor   time.Duration // with OnLimit Ban: how long
	BanMode  BanMode
}

// Key is the RateKey of this version.
func (p *Policy) Key() RateKey {
	return RateKey{Tenant: p.Tenant, Metric: p.Metric, Generation: p.Generation}
}

// Limit is the limit whose version this is.
func (p *Policy) Limit() Limit { return Limit{Tenant: p.Tenant, Metric: p.Metric} }

// Limits reports whether the policy can deny anything, in earnest or in shadow.
func (p *Policy) Limits() bool { return p.Enabled && p.Mode != Off }

// Largest is the largest single charge that this policy can ever admit: more would break the contract by itself. Callers split.
func (p *Policy) Largest() int64 { return p.Burst + p.LocalBurst }

// Validate says what is wrong and how to mend it. Zero is refused, never read as "none" or "unlimited" by accident.
func (p *Policy) Validate() error {
	switch {
	case p.Tenant == "":
		return errors.New("policy without a tenant: name one")
	case !p.Metric.Valid():
		return fmt.Errorf("policy of %q: %v is no metric: want one of %v", p.Tenant, p.Metric, Metrics)
	case p.Generation == 0:
		return p.wrong("generation 0: generations start at 1")
	case p.Rate < 1 || p.Rate > MaxRate:
		return p.wrong(fmt.Sprintf("rate %d/s: want 1 to %d (to lift a limit set enabled: false)", p.Rate, MaxRate))
	case p.Burst < 1 || p.Burst > MaxBurst:
		return p.wrong(fmt.Sprintf("burst %d: want 1 to %d", p.Burst, MaxBurst))
	case p.LocalBurst < 1 || p.LocalBurst > p.Burst:
		return p.wrong(fmt.Sprintf("local_burst %d: want 1 to the burst, %d", p.LocalBurst, p.Burst))
	case p.Mode > Off:
		return p.wrong("unknown mode: want enforce, shadow or off")
	case p.OnLimit > Ban:
		return p.wrong("unknown on_limit: want pace, reject or ban")
	case p.SoftRate < 0 || p.SoftRate > MaxRate:
		return p.wrong(fmt.Sprintf("soft_rate %d/s: want 0 (none) to %d", p.SoftRate, MaxRate))
	case p.OnLimit == Ban && (p.BanFor <= 0 || p.BanFor > maxBan):
		return p.wrong(fmt.Sprintf("ban for %v: want more than 0, at most 24h", p.BanFor))
	case p.BanMode > BanClose:
		return p.wrong("unknown ban mode: want error or close")
	}
	return nil
}

func (p *Policy) wrong(what string) error {
	return fmt.Errorf("policy %v/%v generation %d: %s", p.Tenant, p.Metric, p.Generation, what)
}
