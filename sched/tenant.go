package sched

import "sync/atomic"

// Tenant is what the rings share of one tenant. Rings only use atomics of it.
type Tenant struct {
	id  int32
	w   *Worker
	cfg atomic.Pointer[tenantConfig]
	_   [48]byte

	vt     atomic.Int64 // virtual time: bytes/weight served, in units of plan.go
	live   atomic.Int64 // seats with work, while paced
	frame  atomic.Int64 // the plan's frame that vt belongs to
	stamp  atomic.Int64 // number of the last period in which a ring had work of it
	since  atomic.Int64 // ns since when some ring has work of it, or had last
	lifted atomic.Int64 // by how much vt has been lifted, in all
	_      [80]byte

	queued      atomic.Int64 // requests admitted and not yet dispatched
	queuedBytes atomic.Int64
	inflight    atomic.Int64 // requests admitted and not over, while MaxInflight is set
	_           [104]byte

	member atomic.Bool // of the active set, or on its way there
	next   *Tenant     // in Worker.joined; owned by whoever set member
	due    atomic.Int64
	idle   atomic.Int64 // ns since when it is not active

	// The planner's:
	weight int64
	part   int64 // of its weight that it needs, 1/partOne
	began  int64 // vt at the beginning of the period, less what it had been lifted
	rests  int64 // ns since when no ring has had work of it; 0: it is at work
}

// tenantConfig is a TenantConfig with what follows from it.
type tenantConfig struct {
	TenantConfig
	inv   int64 // 2^32/weight
	chunk int64 // cost of a chunk: what an idle tenant keeps of its credit
	lag   int64 // cost of rings*depth+1 chunks: what any tenant keeps
}

const invShift = 32 // n*inv stays below 2^63 for n < 2^31

func newTenantConfig(c TenantConfig, w *Worker) *tenantConfig {
	weight := int64(c.Weight)
	tc := &tenantConfig{TenantConfig: c, inv: (1<<invShift + weight/2) / weight}
	tc.chunk = tc.cost(w.cfg.Chunk)
	tc.lag = tc.chunk * int64(w.cfg.Rings*w.cfg.Depth+1)
	return tc
}

// cost is n bytes in virtual time, rounded to the nearest unit.
func (c *tenantConfig) cost(n int64) int64 {
	return (n*c.inv + 1<<(invShift-unitBits-1)) >> (invShift - unitBits)
}

// Configure changes what the tenant is given, from any goroutine. A new weight counts within 10 ms; requests that are queued stay.
func (t *Tenant) Configure(c TenantConfig) error {
	if err := c.check(); err != nil {
		return err
	}
	t.cfg.Store(newTenantConfig(c, t.w))
	return nil
}

// Due is the bytes that the shared clock owed the tenant while it had work, in all; 0 without a rate that binds. Any goroutine may ask.
func (t *Tenant) Due() int64 { return t.due.Load() }

// Queued is the requests, and their bytes, that wait for their first dispatch on all rings. They are counted while there is a bound.
func (t *Tenant) Queued() (requests int, bytes int64) {
	return int(t.queued.Load()), t.queuedBytes.Load()
}

// charge adds cost to vt, lifts it to floor before that, and returns what it has become.
func (t *Tenant) charge(cost, floor int64) int64 {
	for {
		vt := t.vt.Load()
		to := vt
		if to-floor < 0 {
			to = floor
		}
		if t.vt.CompareAndSwap(vt, to+cost) {
			if to != vt {
				t.lifted.Add(to - vt)
			}
			return to + cost
		}
	}
}

// lift raises vt to floor.
func (t *Tenant) lift(floor int64) {
	for {
		vt := t.vt.Load()
		if vt-floor >= 0 {
			return
		}
		if t.vt.CompareAndSwap(vt, floor) {
			t.lifted.Add(floor - vt)
			return
		}
	}
}

// phase is by how much of a chunk a tenant starts before others that come at the same time. Who starts together has its turns together for good, and when
// many do, they all wait for V, then all ask the bucket for more than it can hold. By the golden ratio, any tenants with ids in a row are spread evenly.
func (t *Tenant) phase() int64 {
	return mulDiv(t.cfg.Load().chunk, int64(uint32(t.id)*2654435769), 1<<32)
}
