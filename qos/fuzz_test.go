package qos

import (
	"encoding/binary"
	"testing"
)

// A fuzzReader turns bytes into numbers, zero when they run out.
type fuzzReader []byte

func (f *fuzzReader) byte() byte {
	if len(*f) == 0 {
		return 0
	}
	b := (*f)[0]
	*f = (*f)[1:]
	return b
}

// number is small, near an end of the range, or anything, by its first byte.
func (f *fuzzReader) number() int64 {
	switch b := f.byte(); {
	case b < 200:
		return int64(b)
	case b < 210:
		return MaxBurst - int64(b-205)
	case b < 220:
		return -int64(b - 209)
	case b < 225:
		return 1<<63 - 1 - int64(b-220)
	default:
		var raw [8]byte
		for i := range raw {
			raw[i] = f.byte()
		}
		return int64(binary.LittleEndian.Uint64(raw[:]))
	}
}

func (f *fuzzReader) mark() Mark {
	return Mark{Owner: OwnerEpoch{Ring: uint64(f.byte() % 4), Worker: uint64(f.byte() % 4)}, Version: uint64(f.byte())}
}

func (f *fuzzReader) total() Total { return Total{Charged: f.number(), Refunded: f.number()} }

// FuzzOwnerApply feeds an owner whatever reports say. It must not panic, its sums must hold, its level must not pass the burst, and a refusal
// must change nothing.
func FuzzOwnerApply(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0, 1, 1, 1, 10, 0, 0, 0, 10, 5, 5, 0, 0, 0, 0, 0, 0, 1})
	f.Add([]byte{1, 1, 1, 2, 230, 255, 255, 255, 255, 255, 255, 255, 127, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		b := newOwnerBench(t, nil)
		in := fuzzReader(data)
		for len(in) > 0 {
			var u UsageReport
			u.Key, u.RingEpoch = b.p.Key(), 1
			u.From = ReporterID{Worker: WorkerID("abc"[in.byte()%3 : 3]), Epoch: uint64(in.byte() % 3), Cell: uint64(in.byte() % 3)}
			u.Sequence = uint64(in.byte())
			u.Total, u.Base, u.Wanted = in.total(), in.total(), in.number()
			u.Need, u.Demand, u.InForce, u.Dead, u.Stamp = in.number(), in.number(), in.mark(), in.mark(), in.number()
			kind := in.byte()
			u.Final = kind&1 == 1
			if kind&2 == 0 { // mostly well formed, to get further in
				u.Wanted = max(u.Wanted, u.Total.Charged)
				u.measured()
			}
			b.now += int64(in.byte()) * ms
			var level, reserved int64
			if m := b.meter(); m != nil {
				m.advance(b.now)
				level, reserved = m.level.Now(), m.reserved
			}
			s, why := b.o.Apply(&u, b.now)
			m := b.meter()
			if m == nil {
				continue
			}
			if why != Accepted && (m.level.Now() != level && level != 0 || m.reserved != reserved) {
				t.Fatalf("%v: level %d to %d, reserved %d to %d", why, level, m.level.Now(), reserved, m.reserved)
			}
			if why == Accepted && (s.Remaining < 0 || s.Level > b.p.Burst) {
				t.Fatalf("%+v", s)
			}
			b.audit()
			if kind&4 != 0 {
				b.o.Push(b.now, nil)
				b.audit()
			}
		}
	})
}

// FuzzReporterApply feeds a reporter whatever snapshots say. It must not panic, and must not admit under a snapshot that contradicts its reports.
func FuzzReporterApply(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{3, 0, 1, 10, 0, 0, 1, 1, 1, 0})
	f.Add([]byte{3, 0, 1, 230, 255, 255, 255, 255, 255, 255, 255, 127})
	f.Fuzz(func(t *testing.T, data []byte) {
		b := newRepBench(t, nil)
		in := fuzzReader(data)
		b.c.Admit(3, b.now)
		b.poll(0)
		for len(in) > 0 {
			s := RateSnapshot{Key: b.c.rep.policy.Key(), To: ReporterID{Worker: "w", Epoch: 7, Cell: b.c.id}, RingEpoch: 3}
			s.Acknowledged, s.AckSequence, s.Remaining, s.Mark = in.total(), uint64(in.byte()), in.number(), in.mark()
			s.Stamp, s.Turn, s.BanLeft = b.now-in.number(), in.number(), in.number()
			kind := in.byte()
			s.Queued, s.Exhausted = kind&1 != 0, kind&2 != 0
			verdict := b.r.Apply(&s, b.now)
			if v := b.c.View(); verdict == InForce && (v.ceiling != s.Ceiling() || !v.Fresh(b.now)) {
				t.Fatalf("in force %+v of %+v", v, s)
			}
			if (s.Acknowledged.Charged > b.c.rep.sent.Charged || s.Remaining < 0) && verdict != Bad {
				t.Fatalf("verdict %d of %+v", verdict, s)
			}
			b.c.Admit(int64(kind%5), b.now)
			b.poll(int64(in.byte()) * ms / 8)
			if next := b.r.Next(); next <= b.now {
				t.Fatalf("to be polled again at %d, it is %d: would spin", next, b.now)
			}
		}
	})
}

// FuzzImport feeds an owner whatever hand-overs say.
func FuzzImport(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{50, 0, 0, 1, 1, 1, 1, 1, 0, 1, 1, 5, 0, 0, 5, 3})
	f.Fuzz(func(t *testing.T, data []byte) {
		b := newOwnerBench(t, nil)
		b.o.SetRing(9, 1, func(Limit) bool { return true }, b.now)
		b.o.Confirm(1 << 62)
		in := fuzzReader(data)
		for len(in) > 0 {
			h := HandOver{Limit: b.p.Limit(), ToRing: 9, ToEpoch: 1, Level: in.number(), Remainder: in.number(), Orphans: in.number(), Mark: in.mark()}
			h.BanLeft, h.SoftLeft, h.Wanted[in.byte()%9] = in.number(), in.number(), in.number()
			h.Part, h.Parts = int(in.byte()%3), int(in.byte()%3)
			for range in.byte() % 4 {
				h.Reporters = append(h.Reporters, HandOverReporter{
					From: ReporterID{Worker: WorkerID("abc"[in.byte()%3:]), Epoch: uint64(in.byte() % 3)}, Total: in.total(), Lapsed: in.number(), Wanted: in.number(),
					Reserved: in.number(), Mark: in.mark(), Expired: in.byte()&1 == 1, Stamp: in.number(), Sequence: uint64(in.byte()),
				})
			}
			b.o.Import(&h, b.now)
			b.now += int64(in.byte()) * ms
			b.o.Push(b.now, nil)
			if m := b.meter(); m != nil {
				b.audit()
				if m.level.Now() > b.p.Burst {
					t.Fatalf("level %d", m.level.Now())
				}
			}
		}
	})
}
