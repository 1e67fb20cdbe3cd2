package sim

import (
	"fmt"
	"math/rand/v2"

	"github.com/talon-worker/talon/sched"
)

const (
	usec = int64(1e3)
	msec = int64(1e6)
	sec  = int64(1e9)
	kib  = int64(1 << 10)
	mib  = int64(1 << 20)
)

// A Policy is which scheduler runs.
type Policy int

const (
	Production Policy = iota
	FIFO              // responses in the order in which they became ready, and one bucket for all rings
	RingDRR           // deficit round robin between the tenants of a ring, and one bucket for all rings
)

// Setup is everything that a run depends on.
type Setup struct {
	Seed    uint64
	Policy  Policy
	Order   sched.Order // of the production scheduler
	Rings   int
	Rate    int64 // of the worker, bytes/s; 0: none binds
	Chunk   int64
	Depth   int
	Speed   int64 // of one ring, bytes/s
	Latency int64 // ns between a wake-up and the turn it causes
	Turn    int   // dispatches of one turn, for which the clock is read once
	Tenants []TenantSetup
	Deeds   []Deed
	For     int64  // ns that clients make requests,
	Most    uint64 // or until so many decisions have been made; 0: as many as there are
	Fair    bool   // one ring could carry the whole rate, so that where connections landed takes nothing from anybody: fairness across rings is owed
}

// TenantSetup is a tenant and its clients.
type TenantSetup struct {
	Config       sched.TenantConfig
	Limit, Burst int64 // its own limit in bytes/s, 0 for none
	Conns        []ConnSetup
}

// ConnSetup is one connection, or several alike.
type ConnSetup struct {
	Count       int
	Ring        int // none: any
	Least, Most int64
	Think       int64 // mean ns between a response and the next request; 0: none
	From, To    int64 // when it makes requests; To 0: always
	Drain       int64 // bytes/s that its reader takes; 0: all at once
	Buffer      int64 // of its socket
	Small       int64 // responses up to this size are sent by the ring and done later
	Cold        int   // in 1000 dispatches: the pages are not in memory
	Reset       int   // in 1000 sends: the connection breaks
	Leave       int   // in 1000 requests: the client goes away before it has all
	Open        int64 // mean ns between admission and Push
}

// A Deed is done to the world at a time.
type Deed struct {
	At     int64
	What   What
	Ring   int
	Tenant int
	N      int64
}

type What uint8

const (
	SetRate   What = iota // to N bytes/s
	SetWeight             // of Tenant to N
	Stall                 // Ring does nothing for N ns
	Jump                  // the clock of all rings jumps ahead by N ns
	Wakes                 // Tenant's limit has a new view: it is woken on all rings
)

// Replay is the command that runs a seed again.
func Replay(seed uint64) string {
	return fmt.Sprintf("go test ./sched/sim -run TestSeeds -args -first %d -seeds 1 -tell", seed)
}

// FromSeed makes a world.
func FromSeed(seed uint64) Setup {
	rnd := rand.New(rand.NewPCG(seed, 0x7461_6c6f_6e))
	pick := func(of ...int64) int64 { return of[rnd.IntN(len(of))] }
	between := func(a, b int64) int64 { return a + rnd.Int64N(b-a+1) }
	s := Setup{
		Seed: seed, Rings: int(pick(1, 1, 2, 3, 4, 8, 16)), Chunk: pick(64*kib, 256*kib, 256*kib, mib), Depth: int(pick(1, 2, 4, 4)),
		Speed: pick(400e6, 1250e6, 5000e6), Latency: pick(0, 2*usec, 10*usec), Turn: int(pick(1, 4, 16)), For: pick(60, 150, 300) * msec,
	}
	if s.Most = 1000; seed%50 == 0 {
		s.Most = 40_000
	}
	all := s.Speed * int64(s.Rings)
	s.Rate = pick(0, all/4, all/2, all*3/4, all*2, between(1e6, all))
	// With one chunk in flight, a small response that is on its way to its socket keeps the ring from sending anything large.
	s.Fair = s.Rate > 0 && s.Rate <= s.Speed*8/10 && s.Depth > 1
	tenants := int(pick(1, 2, 3, 5, 9, 20))
	for range tenants {
		s.Tenants = append(s.Tenants, randomTenant(rnd, &s))
	}
	for range pick(0, 0, 1, 3) {
		s.Deeds = append(s.Deeds, Deed{
			At: between(1, s.For), What: What(rnd.IntN(5)), Ring: rnd.IntN(s.Rings), Tenant: rnd.IntN(tenants), N: pick(0, 1, 7, 50, 1000),
		})
	}
	for i := range s.Deeds {
		switch d := &s.Deeds[i]; d.What {
		case SetRate:
			d.N = pick(0, all/3, all/2)
		case SetWeight:
			d.N = min(max(d.N, 1), sched.MaxWeight)
		case Stall:
			d.N *= msec
		case Jump:
			d.N = min(d.N, 50) * msec
		}
	}
	return s
}

func randomTenant(rnd *rand.Rand, s *Setup) (t TenantSetup) {
	pick := func(of ...int64) int64 { return of[rnd.IntN(len(of))] }
	t.Config = sched.TenantConfig{Weight: int(pick(1, 1, 1, 2, 4, 30, 1000))}
	if rnd.IntN(2) == 0 {
		t.Config.QueueRequests = int(pick(1, 4, 64, 1024))
		t.Config.QueueBytes = pick(0, mib, 64*mib)
		t.Config.Deadline = pick(0, 5*msec, 100*msec, 2*sec)
		t.Config.Target = pick(0, 2*msec, 20*msec)
		t.Config.MaxInflight = int(pick(0, 2, 256))
	}
	if rnd.IntN(4) == 0 {
		t.Limit = pick(1e6, 20e6, 300e6)
		t.Burst = max(2*s.Chunk, t.Limit/20)
	}
	for range pick(1, 1, 2, 3) {
		c := ConnSetup{
			Count: int(pick(1, 1, 2, 8, 40)), Ring: int(pick(-1, -1, rnd.Int64N(int64(s.Rings)))),
			Drain: pick(0, 0, 0, 20e6, 200e6), Buffer: pick(128*kib, 256*kib, 4*mib), Small: pick(0, 16*kib),
			Cold: int(pick(0, 0, 0, 20)), Reset: int(pick(0, 0, 0, 2)), Leave: int(pick(0, 0, 50)), Open: pick(0, 0, 0, 100*usec),
		}
		c.Least = pick(1, 4*kib, 64*kib, mib)
		c.Most = c.Least + pick(0, 0, 4*kib, 4*mib, 1<<30)
		c.Think = pick(0, 0, 200*usec, 5*msec)
		if rnd.IntN(3) == 0 {
			c.From = rnd.Int64N(s.For)
		}
		if rnd.IntN(4) == 0 {
			c.To = c.From + rnd.Int64N(s.For)
		}
		t.Conns = append(t.Conns, c)
	}
	return t
}
