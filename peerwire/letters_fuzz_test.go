package peerwire

import (
	"slices"
	"testing"

	"github.com/talon-worker/talon/qos"
)

// FuzzLetters lets a known peer say whatever it likes, frame after frame, to a worker in a ring of two that owns one of two limits and uses both. It must
// not panic or spin, must not mint (the level stays within the burst), and must answer nobody else.
func FuzzLetters(f *testing.F) {
	for seed := range uint64(4) {
		for _, b := range talk(f, seed) {
			var e encoder
			f.Add(slices.Clone(e.encode(b)[frameHead:]), uint8(seed))
		}
	}
	f.Fuzz(func(t *testing.T, frame []byte, wait uint8) {
		k := hearer(t)
		for range 3 {
			var b batch
			if scanFrame(frame) != nil {
				return
			}
			if _, _, err := decode(frame, &b); err != nil {
				return
			}
			k.now += int64(wait) * ms / 4
			k.in.letters = []letter{{from: "w2", epoch: 1, batch: &b}}
			k.cell(k.own).Admit(1, k.now)
			k.cell(k.far).Await(0, 5, 9)
			for _, p := range k.step().parcels {
				if p.to != "w2" {
					t.Fatalf("answers %q", p.to)
				}
			}
			for _, s := range k.core.owner.Status(k.now, nil) {
				if s.Level > s.Burst || s.Reserved < 0 {
					t.Fatalf("%+v", s)
				}
			}
		}
	})
}

// A hearing is a worker in a ring of two that may act.
type hearing struct {
	*bench
	own, far qos.Policy // limits that it owns, and that the other does
}

func hearer(t testing.TB) *hearing {
	k := &hearing{bench: &bench{t: t, now: 1000 * ms, core: freshCore(1000 * ms)}}
	check(t, k.give(ringOf(1, "w1", "w2")))
	var all []qos.Policy
	for _, name := range []string{"a", "b", "c", "d"} {
		p := iops(1000, 100)
		p.Tenant = name
		if all = append(all, p); k.core.ownerOf(k.core.ring, p.Limit()) == "w1" {
			k.own = p
		} else {
			k.far = p
		}
	}
	check(t, k.set(all...))
	k.in.presence = []presence{{"w2", 1}}
	for range 20 { // until both voters have confirmed, and F is over
		k.now += int64(k.core.cfg.Confirm) / 10
		k.in.letters = []letter{{from: "w2", epoch: 1, batch: &batch{answers: []qos.Answer{{Voter: "w2", VoterEpoch: 1, Incarnation: 1, Epoch: 1, Stamp: k.now - 1}}}}}
		k.step()
	}
	if s := k.core.status(k.now); !s.Acts || !s.Settled || k.own.Tenant == "" || k.far.Tenant == "" {
		t.Fatalf("%+v: want a worker that may act", s)
	}
	return k
}

// talk is what a sound peer may say to such a worker.
func talk(t testing.TB, seed uint64) (all []*batch) {
	k := hearer(t)
	from, mine := qos.ReporterID{Worker: "w2", Epoch: 1, Cell: 1}, qos.ReporterID{Worker: "w1", Epoch: 1, Cell: 4}
	n := int64(seed) * 10
	report := qos.UsageReport{
		Key: k.own.Key(), From: from, RingEpoch: 1, Sequence: 1 + seed, IopsDelta: n, Total: qos.Total{Charged: n}, Wanted: n, Need: 1, Demand: 50, Stamp: k.now,
	}
	snapshot := qos.RateSnapshot{
		Key: k.far.Key(), To: mine, RingEpoch: 1, Mark: qos.Mark{Owner: qos.OwnerEpoch{Ring: 1, Worker: 1}, Version: 1 + seed}, Remaining: n, Stamp: k.now,
	}
	hand := qos.HandOver{Limit: k.own.Limit(), Generation: 1, FromRing: seed, ToRing: 1 + seed, ToEpoch: 1, Parts: 1, Level: n}
	return []*batch{
		{reports: []qos.UsageReport{report}},
		{snapshots: []qos.RateSnapshot{snapshot}},
		{redirects: []qos.Redirect{{Key: k.far.Key(), To: mine, Sequence: 1, RingEpoch: 1, Reason: qos.Refusal(1 + seed)}}},
		{asks: []qos.Ask{{Worker: "w2", Incarnation: 1, Epoch: seed, Stamp: k.now}}},
		{handOvers: []qos.HandOver{hand}},
	}
}
