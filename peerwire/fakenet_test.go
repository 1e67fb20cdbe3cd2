package peerwire

import (
	"bytes"
	"container/heap"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/talon-worker/talon/qos"
)

// A fakeNet is several cores in fake time: each with a loop that turns when the real one would, timers that are coarse and late, and a network that
// carries real frames and may delay, lose, double and overtake them.
type fakeNet struct {
	t      testing.TB
	rng    *rand.Rand
	limits qos.Config
	now    int64
	cores  []*fakeNode
	byID   map[qos.WorkerID]*fakeNode
	wire   parcels
	serial int
	delay  int64 // one way, and up to as much again
	faulty int   // of 1,000 frames so many are lost, and as many doubled, and as many late
	policy qos.Policy
	excess *qos.Excess
	lives  int64
	past   []qos.Voting // every ring there was, by epoch
	frames int
}

type fakeNode struct {
	*bench
	id     qos.WorkerID
	epoch  uint64
	down   bool
	mailAt int64 // when mail has come that the loop has not seen
	owed   float64
	queued int64
	went   int64
	enc    encoder
}

// A flight is a frame on its way.
type flight struct {
	at       int64
	serial   int
	from, to *fakeNode
	epoch    uint64 // of the sender: the connection's
	life     uint64 // of the receiver: a connection ends with it
	frame    []byte
}

type parcels []flight

func (p parcels) Len() int { return len(p) }
func (p parcels) Less(i, j int) bool {
	return p[i].at < p[j].at || p[i].at == p[j].at && p[i].serial < p[j].serial
}
func (p parcels) Swap(i, j int) { p[i], p[j] = p[j], p[i] }
func (p *parcels) Push(x any)   { *p = append(*p, x.(flight)) }
func (p *parcels) Pop() any {
	old := *p
	x := old[len(old)-1]
	*p = old[:len(old)-1]
	return x
}

func newFakeNet(t testing.TB, n int, seed uint64, p qos.Policy) *fakeNet {
	f := &fakeNet{
		t: t, rng: rand.New(rand.NewPCG(seed, 5)), limits: qos.DefaultConfig(), now: 1000 * ms, byID: map[qos.WorkerID]*fakeNode{},
		delay: ms / 10, policy: p,
	}
	f.excess = qos.NewExcess(f.now, p.Rate, p.Burst)
	for i := range n {
		k := &fakeNode{id: qos.WorkerID(fmt.Sprintf("w%d", i+1))}
		f.cores, f.byID[k.id] = append(f.cores, k), k
	}
	f.record(f.cores)
	for _, k := range f.cores {
		f.boot(k)
		check(t, f.ring(k, 1, f.cores))
	}
	f.meetAll()
	return f
}

// record notes the next ring and returns its epoch.
func (f *fakeNet) record(members []*fakeNode) uint64 {
	v := qos.Voting{Epoch: uint64(len(f.past) + 1)}
	for _, k := range members {
		v.Voters = append(v.Voters, k.id)
	}
	f.past = append(f.past, v)
	return v.Epoch
}

// boot starts the next incarnation of a node.
func (f *fakeNet) boot(k *fakeNode) {
	k.epoch++
	f.lives++
	cfg := Config{Worker: k.id, Epoch: k.epoch, Limits: f.limits, Ledger: must(qos.NewLedger(f.limits, 1))}
	check(f.t, cfg.mend())
	k.bench = &bench{t: f.t, now: f.now, core: must(newCore(&cfg, f.now))}
	k.in.policies = []policyChange{{[]qos.Policy{f.policy}, make(chan error, 1)}}
	k.down = false
}

// ring gives a node a ring, in a step of its own.
func (f *fakeNet) ring(k *fakeNode, epoch uint64, members []*fakeNode, replaces ...qos.Voting) error {
	m := Membership{Epoch: epoch, Replaces: replaces}
	for _, o := range members {
		m.Members = append(m.Members, Member{ID: o.id})
	}
	done := make(chan error, 1)
	k.in.rings = append(k.in.rings, ringChange{m, done})
	f.turn(k)
	return <-done
}

// meetAll tells everybody who is there.
func (f *fakeNet) meetAll() {
	for _, k := range f.cores {
		if k.down {
			continue
		}
		for _, o := range f.cores {
			p := presence{peer: o.id, epoch: o.epoch}
			if o.down {
				p.epoch = 0
			}
			if o != k {
				k.in.presence = append(k.in.presence, p)
			}
		}
		f.turn(k)
	}
}

// turn is one turn of a node's loop: what it sends goes on the wire as frames.
func (f *fakeNet) turn(k *fakeNode) {
	k.now = f.now
	out := k.step()
	k.mailAt = 0
	if k.next < never {
		k.next = max(k.next, f.now+int64(rest)) + f.rng.Int64N(ms/4) // timers are coarse and late
	}
	for _, p := range out.parcels {
		to := f.byID[p.to]
		if to == nil || to.down || k.core.peers[p.to] == 0 {
			continue
		}
		k.enc.reset()
		r := bytes.NewReader(k.enc.encode(p.batch))
		for r.Len() > 0 {
			frame, _, err := readFrame(r, nil, maxFrame)
			check(f.t, err)
			f.send(flight{from: k, to: to, epoch: k.epoch, life: to.epoch, frame: frame})
		}
	}
}

const never = 1 << 62

func (f *fakeNet) send(x flight) {
	f.frames++
	copies := 1
	x.at = f.now + f.delay + f.rng.Int64N(f.delay+1)
	if f.faulty > 0 {
		switch f.rng.IntN(1000) / f.faulty {
		case 0:
			copies = 0
		case 1:
			copies = 2
		case 2:
			x.at += f.rng.Int64N(20 * ms)
		}
	}
	for range copies {
		f.serial++
		x.serial = f.serial
		heap.Push(&f.wire, x)
	}
}

// pass lets time go on by dt: frames arrive, rings admit, loops turn.
func (f *fakeNet) pass(dt int64, load func(i int) float64, size int64) {
	f.now += dt
	for len(f.wire) > 0 && f.wire[0].at <= f.now {
		x := heap.Pop(&f.wire).(flight)
		if x.to.down || x.to.epoch != x.life {
			continue
		}
		check(f.t, scanFrame(x.frame))
		var b batch
		_, _, err := decode(x.frame, &b)
		check(f.t, err)
		x.to.in.letters = append(x.to.in.letters, letter{from: x.from.id, epoch: x.epoch, batch: &b})
		x.to.mailAt = f.now
	}
	for i, k := range f.cores {
		if k.down {
			continue
		}
		ledger := k.core.ledger
		cell := ledger.Cell(f.policy.Limit())
		for k.owed += load(i) * float64(f.policy.Rate) * float64(dt) / 1e9; k.owed >= float64(size); k.owed -= float64(size) {
			k.queued = min(k.queued+1, 1024)
		}
		ledger.Enter(0)
		for ; k.queued > 0 && cell.Admit(size, f.now).Charged(); k.queued-- {
			k.went += size
			f.excess.Admit(f.now, size)
		}
		ledger.Leave(0)
		cell.Await(0, min(k.queued, 1)*size, k.queued*size)
		if k.now = f.now; f.now >= k.next || k.mailAt > 0 || k.core.reporter.Urgent() && f.now-k.last >= int64(rest) {
			f.turn(k)
		}
	}
}

func (f *fakeNet) delivered() (sum int64) {
	for _, k := range f.cores {
		sum += k.went
	}
	return sum
}

func (f *fakeNet) judge() {
	f.t.Helper()
	bound := f.lives*f.policy.LocalBurst + int64(float64(f.policy.Rate)*f.limits.TTL.Seconds())
	if worst := f.excess.Worst(); worst > bound {
		f.t.Errorf("excess %d, bound %d", worst, bound)
	}
}

// TestFakeNetDelivers: over real frames, with loops that turn as the real ones do, what is due is delivered for demand of every shape.
func TestFakeNetDelivers(t *testing.T) {
	uniform := func(n int, of float64) func(int) float64 { return func(int) float64 { return of / float64(n) } }
	hot := func(n int, of float64) func(int) float64 {
		return func(i int) float64 {
			if i == n-1 {
				return of * 0.8
			}
			return of * 0.2 / float64(n-1)
		}
	}
	for _, tt := range []struct {
		name  string
		n     int
		p     qos.Policy
		size  int64
		load  func(int) float64
		of    float64 // what load sums to
		least float64
	}{
		{"three, all of it", 3, iops(20_000, 2000), 1, uniform(3, 0.95), 0.95, 0.97},
		{"three, twice as much", 3, iops(20_000, 2000), 1, uniform(3, 2), 2, 0.97},
		{"three, most on one", 3, iops(20_000, 2000), 1, hot(3, 2), 2, 0.97},
		{"eight, chunks", 8, egress(400<<20, 64<<20), 256 << 10, uniform(8, 2), 2, 0.97},
		{"eight, chunks, most on one", 8, egress(400<<20, 64<<20), 256 << 10, hot(8, 0.95), 0.95, 0.97},
		{"eight, a few requests", 8, iops(100, 20), 1, uniform(8, 2), 2, 0.97},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFakeNet(t, tt.n, 1, tt.p)
			const dt, warm, end = ms / 8, 2500, 5500
			var at0 int64
			for i := range int64(end * ms / dt) {
				if i == warm*ms/dt {
					at0, f.frames = f.delivered(), 0
				}
				f.pass(dt, tt.load, tt.size)
			}
			due := min(tt.of, 1) * float64(tt.p.Rate) * (end - warm) / 1000
			got := float64(f.delivered() - at0)
			t.Logf("%.4f of what is due, excess %d, %d frames a second", got/due, f.excess.Worst(), f.frames*1000/(end-warm))
			if got < tt.least*due {
				t.Errorf("delivered %.4f of what is due, want %.2f", got/due, tt.least)
			}
			f.judge()
		})
	}
}

// TestFakeNetFaults draws clusters whose frames are lost, doubled and late, whose workers crash and come back as others, and whose ring changes; the bound
// holds throughout, and healed they deliver.
func TestFakeNetFaults(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			p := iops(20_000, 1000)
			f := newFakeNet(t, 4, seed, p)
			load := func(int) float64 { return 0.4 }
			f.faulty = f.rng.IntN(150)
			epoch, members := uint64(1), f.cores
			const dt = ms / 4
			for range 4000 * ms / dt {
				f.pass(dt, load, 1)
				if f.rng.IntN(2000) > 0 {
					continue
				}
				switch k := f.cores[f.rng.IntN(len(f.cores))]; {
				case k.down:
					f.boot(k)
					check(t, f.ring(k, epoch, members, f.replaced(epoch)...))
					f.meetAll()
				case f.rng.IntN(2) == 0:
					k.down, k.queued = true, 0
					f.meetAll()
				default:
					if epoch == qos.MaxReplaced { // a coordinator would wait for some to settle
						continue
					}
					members = slices.Clone(f.cores[:3+f.rng.IntN(2)])
					epoch = f.record(members)
					for _, i := range f.rng.Perm(len(f.cores)) { // each hears of it in its own time
						if k := f.cores[i]; !k.down {
							check(t, f.ring(k, epoch, members, f.replaced(epoch)...))
						}
						for range f.rng.IntN(20) {
							f.pass(dt, load, 1)
						}
					}
				}
			}
			f.faulty = 0
			for _, k := range f.cores {
				if k.down {
					f.boot(k)
				}
				check(t, f.ring(k, epoch, members, f.replaced(epoch)...))
			}
			f.meetAll()
			for range 2500 * ms / dt {
				f.pass(dt, load, 1)
			}
			from := f.delivered()
			for range 1000 * ms / dt {
				f.pass(dt, load, 1)
			}
			f.judge()
			got := float64(f.delivered()-from) / float64(p.Rate)
			t.Logf("%d frames, epoch %d, %d incarnations, excess %d, %.4f of the rate after healing", f.frames, epoch, f.lives, f.excess.Worst(), got)
			if got < 0.97 {
				t.Errorf("delivered %.4f of the rate after healing", got)
			}
		})
	}
}

// replaced lists the rings before an epoch, as a coordinator would that knows none to be settled.
func (f *fakeNet) replaced(epoch uint64) (all []qos.Voting) {
	for e := epoch - 1; e > 0 && len(all) < qos.MaxReplaced; e-- {
		all = append(all, f.past[e-1])
	}
	return all
}
