package peerwire

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/talon-worker/talon/peerwire/peerpb"
	"github.com/talon-worker/talon/qos"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

//go:generate go run ./genproto

// This file alone knows both protobuf and qos. What it reads is checked for form only: what a message may say, the state machines judge.

// Versions of the protocol that this worker speaks and understands.
const (
	protocol       = 1
	oldestProtocol = 1
)

// Numbers of Frame's fields.
const (
	fieldHello protowire.Number = iota + 1
	fieldReports
	fieldSnapshots
	fieldRedirects
	fieldAsks
	fieldAnswers
	fieldHandOvers
	fieldGoodbye
)

// A hello is the first frame each way.
type hello struct {
	version, oldest uint32
	worker, to      qos.WorkerID // to is empty from the side that was called
	epoch, ring     uint64
	limits          sharedLimits
}

// sharedLimits are the settings in which all workers must agree: they are in the bound, or in the proof of it.
type sharedLimits struct{ ttl, advance, confirm, lease int64 }

func sharedOf(c *qos.Config) sharedLimits {
	return sharedLimits{int64(c.TTL), int64(c.Advance), int64(c.Confirm), int64(c.Lease)}
}

// appendHello appends the frame of a hello.
func appendHello(buf []byte, h *hello) []byte {
	m := &peerpb.Frame{Hello: &peerpb.Hello{
		Version: h.version, Oldest: h.oldest, WorkerId: string(h.worker), ForWorkerId: string(h.to), WorkerEpoch: h.epoch, RingEpoch: h.ring,
		Limits: &peerpb.Limits{SnapshotTtl: h.limits.ttl, Advance: h.limits.advance, RingConfirm: h.limits.confirm, Lease: h.limits.lease},
	}}
	return appendFrame(buf, m)
}

// appendGoodbye appends the last frame.
func appendGoodbye(buf []byte, why string) []byte {
	return appendFrame(buf, &peerpb.Frame{Goodbye: why})
}

func appendFrame(buf []byte, m *peerpb.Frame) []byte {
	at := len(buf)
	buf = append(buf, 0, 0, 0, 0)
	buf, err := proto.MarshalOptions{}.MarshalAppend(buf, m)
	if err != nil {
		panic("peerwire: " + err.Error()) // only for text that is not UTF-8, and ours has been checked
	}
	binary.BigEndian.PutUint32(buf[at:], uint32(len(buf)-at-frameHead))
	return buf
}

// decode reads a frame that has passed scanFrame. Of a hello and a batch one is set, or neither; bye is the goodbye.
func decode(frame []byte, into *batch) (h *hello, bye string, err error) {
	m := &peerpb.Frame{}
	if err := (proto.UnmarshalOptions{DiscardUnknown: true, RecursionLimit: maxDepth}).Unmarshal(frame, m); err != nil {
		return nil, "", fmt.Errorf("%w: %w", errFrameBroken, err)
	}
	if m.Hello != nil {
		w := m.Hello
		h = &hello{
			version: w.Version, oldest: w.Oldest, worker: qos.WorkerID(w.WorkerId), to: qos.WorkerID(w.ForWorkerId), epoch: w.WorkerEpoch, ring: w.RingEpoch,
			limits: sharedLimits{w.Limits.GetSnapshotTtl(), w.Limits.GetAdvance(), w.Limits.GetRingConfirm(), w.Limits.GetLease()},
		}
	}
	for _, w := range m.Reports {
		into.reports = append(into.reports, qos.UsageReport{
			Key: keyOf(w.RateKey), From: qos.ReporterID{Worker: qos.WorkerID(w.WorkerId), Epoch: w.WorkerEpoch, Cell: w.Cell}, RingEpoch: w.RingEpoch,
			Sequence: w.Sequence, IopsDelta: w.IopsDelta, ByteDelta: w.ByteDelta, Total: totalOf(w.Total), Base: totalOf(w.Base),
			Wanted: w.Wanted, Need: w.Need, Demand: w.Demand, InForce: markOf(w.InForce), Dead: markOf(w.Dead), Stamp: w.Stamp, Final: w.Final,
		})
	}
	for _, w := range m.Snapshots {
		into.snapshots = append(into.snapshots, qos.RateSnapshot{
			Key: keyOf(w.RateKey), To: qos.ReporterID{Worker: qos.WorkerID(w.WorkerId), Epoch: w.WorkerEpoch, Cell: w.Cell}, RingEpoch: w.RingEpoch,
			Mark:         qos.Mark{Owner: qos.OwnerEpoch{Ring: w.OwnerEpoch.GetRing(), Worker: w.OwnerEpoch.GetWorker()}, Version: w.Version},
			Acknowledged: totalOf(w.Acknowledged), AckSequence: w.AckSequenceForReceiver, Remaining: w.Remaining, Stamp: w.Stamp, ObservedAt: w.ObservedAt,
			Exhausted: w.Exhausted, Queued: w.Queued, Turn: w.Turn, Reporters: int(w.Reporters), Newest: w.NewestGeneration, Level: w.Level,
			Soft: w.Soft, BanLeft: w.BanLeft,
		})
	}
	for _, w := range m.Redirects {
		into.redirects = append(into.redirects, qos.Redirect{
			Key: keyOf(w.RateKey), To: qos.ReporterID{Worker: qos.WorkerID(w.WorkerId), Epoch: w.WorkerEpoch, Cell: w.Cell},
			Sequence: w.Sequence, RingEpoch: w.RingEpoch, Newest: w.NewestGeneration, Reason: reasonOf(w.Reason),
		})
	}
	for _, w := range m.Asks {
		into.asks = append(into.asks, qos.Ask{Worker: qos.WorkerID(w.WorkerId), Incarnation: w.WorkerEpoch, Epoch: w.RingEpoch, Stamp: w.Stamp})
	}
	for _, w := range m.Answers {
		into.answers = append(into.answers, qos.Answer{Voter: qos.WorkerID(w.Voter), VoterEpoch: w.VoterEpoch, Incarnation: w.WorkerEpoch, Epoch: w.RingEpoch, Stamp: w.Stamp})
	}
	for _, w := range m.HandOvers {
		into.handOvers = append(into.handOvers, handOverOf(w))
	}
	return h, m.Goodbye, nil
}

func handOverOf(w *peerpb.HandOver) qos.HandOver {
	h := qos.HandOver{
		Limit: qos.Limit{Tenant: w.TenantId, Metric: metricOf(w.Metric)}, Generation: w.PolicyGeneration,
		FromRing: w.FromRing, ToRing: w.ToRing, ToEpoch: w.ToWorkerEpoch, Part: int(w.Part), Parts: int(w.Parts),
		Level: w.Level, Remainder: w.Remainder, Orphans: w.Orphans, Mark: markOf(w.Mark), SoftLeft: w.SoftLeft, BanLeft: w.BanLeft,
	}
	copy(h.Wanted[:], w.Wanted) // what another version counts in more parts is cut, in fewer it is zero
	for _, r := range w.Reporters {
		h.Reporters = append(h.Reporters, qos.HandOverReporter{
			From:       qos.ReporterID{Worker: qos.WorkerID(r.WorkerId), Epoch: r.WorkerEpoch, Cell: r.Cell},
			Generation: r.PolicyGeneration, Sequence: r.Sequence, Stamp: r.Stamp, Total: totalOf(r.Total), Lapsed: r.Lapsed, Wanted: r.Wanted,
			Reserved: r.Reserved, Mark: markOf(r.Mark), Expired: r.Expired,
		})
	}
	return h
}

func keyOf(w *peerpb.RateKey) qos.RateKey {
	return qos.RateKey{Tenant: w.GetTenantId(), Metric: metricOf(w.GetMetric()), Generation: w.GetPolicyGeneration()}
}

// metricOf keeps a number that no metric has from becoming one.
func metricOf(n uint32) qos.Metric {
	if n > math.MaxUint8 {
		return 0
	}
	return qos.Metric(n)
}

// reasonOf reads a reason of a newer worker as the one that means no more than "not now".
func reasonOf(n uint32) qos.Refusal {
	if n == 0 || n > uint32(qos.UnknownVersion) {
		return qos.NotOwner
	}
	return qos.Refusal(n)
}

func markOf(w *peerpb.Mark) qos.Mark {
	o := w.GetOwnerEpoch()
	return qos.Mark{Owner: qos.OwnerEpoch{Ring: o.GetRing(), Worker: o.GetWorker()}, Version: w.GetVersion()}
}

func totalOf(w *peerpb.Total) qos.Total {
	return qos.Total{Charged: w.GetCharged(), Refunded: w.GetRefunded()}
}

// An encoder cuts batches into frames. It keeps the messages that it fills, so that a busy connection makes no garbage. The zero value is ready.
type encoder struct {
	buf   []byte // whole frames
	at    int    // where the running frame begins; its length is written when it ends
	count int    // elements in it; 0: there is none
	large int    // messages that do not fit in any frame, and were left out

	key                 peerpb.RateKey
	ownerEpoch          peerpb.OwnerEpoch
	total, base         peerpb.Total
	inForce, dead       peerpb.Mark
	inForceOwn, deadOwn peerpb.OwnerEpoch
	report              peerpb.UsageReport
	snapshot            peerpb.RateSnapshot
	redirect            peerpb.Redirect
	ask                 peerpb.Ask
	answer              peerpb.Answer
}

// encode appends a batch to the encoder's frames and returns all of them; they are the encoder's until the next reset.
func (e *encoder) encode(b *batch) []byte {
	for i := range b.asks {
		a := &b.asks[i]
		e.ask.WorkerId, e.ask.WorkerEpoch, e.ask.RingEpoch, e.ask.Stamp = string(a.Worker), a.Incarnation, a.Epoch, a.Stamp
		e.add(fieldAsks, &e.ask, 1)
	}
	for i := range b.answers {
		a := &b.answers[i]
		e.answer.Voter, e.answer.VoterEpoch, e.answer.WorkerEpoch = string(a.Voter), a.VoterEpoch, a.Incarnation
		e.answer.RingEpoch, e.answer.Stamp = a.Epoch, a.Stamp
		e.add(fieldAnswers, &e.answer, 1)
	}
	for i := range b.snapshots {
		e.add(fieldSnapshots, e.fillSnapshot(&b.snapshots[i]), 1)
	}
	for i := range b.reports {
		e.add(fieldReports, e.fillReport(&b.reports[i]), 1)
	}
	for i := range b.redirects {
		e.add(fieldRedirects, e.fillRedirect(&b.redirects[i]), 1)
	}
	for i := range b.handOvers {
		h := handOverMessage(&b.handOvers[i])
		e.add(fieldHandOvers, h, 4+len(h.Reporters)) // its tenant, mark and wanted use have a length, too
	}
	e.end()
	return e.buf
}

// reset forgets the frames.
func (e *encoder) reset() { e.buf, e.at, e.count = e.buf[:0], 0, 0 }

// add puts a message into the running frame, or into the next if that has no room.
func (e *encoder) add(num protowire.Number, m proto.Message, elements int) {
	size := proto.Size(m)
	need := protowire.SizeTag(num) + protowire.SizeBytes(size)
	if need > maxFrame || elements > maxElements {
		e.large++
		return
	}
	if e.count > 0 && (len(e.buf)-e.at-frameHead+need > maxFrame || e.count+elements > maxElements) {
		e.end()
	}
	if e.count == 0 {
		e.at = len(e.buf)
		e.buf = append(e.buf, 0, 0, 0, 0)
	}
	was := len(e.buf)
	e.buf = protowire.AppendTag(e.buf, num, protowire.BytesType)
	e.buf = protowire.AppendVarint(e.buf, uint64(size))
	buf, err := proto.MarshalOptions{UseCachedSize: true}.MarshalAppend(e.buf, m)
	if err != nil { // a name that is not UTF-8: policies and rings with one are refused, so it came from a peer, and is left out
		e.large++
		if e.buf = e.buf[:was]; e.count == 0 {
			e.buf = e.buf[:e.at]
		}
		return
	}
	e.buf = buf
	e.count += elements
}

// end closes the running frame.
func (e *encoder) end() {
	if e.count > 0 {
		binary.BigEndian.PutUint32(e.buf[e.at:], uint32(len(e.buf)-e.at-frameHead))
		e.count = 0
	}
}

func (e *encoder) fillKey(k *qos.RateKey) *peerpb.RateKey {
	e.key.TenantId, e.key.Metric, e.key.PolicyGeneration = k.Tenant, uint32(k.Metric), k.Generation
	return &e.key
}

func (e *encoder) fillReport(u *qos.UsageReport) *peerpb.UsageReport {
	m := &e.report
	m.RateKey, m.WorkerId, m.WorkerEpoch, m.Cell = e.fillKey(&u.Key), string(u.From.Worker), u.From.Epoch, u.From.Cell
	m.RingEpoch, m.Sequence, m.IopsDelta, m.ByteDelta = u.RingEpoch, u.Sequence, u.IopsDelta, u.ByteDelta
	m.Total, m.Base = fillTotal(&e.total, u.Total), fillTotal(&e.base, u.Base)
	m.Wanted, m.Need, m.Demand, m.Stamp, m.Final = u.Wanted, u.Need, u.Demand, u.Stamp, u.Final
	m.InForce, m.Dead = fillMark(&e.inForce, &e.inForceOwn, u.InForce), fillMark(&e.dead, &e.deadOwn, u.Dead)
	return m
}

func (e *encoder) fillSnapshot(s *qos.RateSnapshot) *peerpb.RateSnapshot {
	m := &e.snapshot
	e.ownerEpoch.Ring, e.ownerEpoch.Worker = s.Mark.Owner.Ring, s.Mark.Owner.Worker
	m.RateKey, m.WorkerId, m.WorkerEpoch, m.Cell = e.fillKey(&s.Key), string(s.To.Worker), s.To.Epoch, s.To.Cell
	m.RingEpoch, m.OwnerEpoch, m.Version = s.RingEpoch, &e.ownerEpoch, s.Mark.Version
	m.Acknowledged, m.AckSequenceForReceiver, m.Remaining = fillTotal(&e.total, s.Acknowledged), s.AckSequence, s.Remaining
	m.Stamp, m.ObservedAt, m.Exhausted, m.Queued, m.Turn = s.Stamp, s.ObservedAt, s.Exhausted, s.Queued, s.Turn
	m.Reporters, m.NewestGeneration, m.Level, m.Soft, m.BanLeft = int32(s.Reporters), s.Newest, s.Level, s.Soft, s.BanLeft
	return m
}

func (e *encoder) fillRedirect(d *qos.Redirect) *peerpb.Redirect {
	m := &e.redirect
	m.RateKey, m.WorkerId, m.WorkerEpoch, m.Cell = e.fillKey(&d.Key), string(d.To.Worker), d.To.Epoch, d.To.Cell
	m.Sequence, m.RingEpoch, m.NewestGeneration, m.Reason = d.Sequence, d.RingEpoch, d.Newest, uint32(d.Reason)
	return m
}

// fillTotal and fillMark leave out what is zero: it reads as zero, and costs neither bytes here nor memory there.
func fillTotal(m *peerpb.Total, t qos.Total) *peerpb.Total {
	if t == (qos.Total{}) {
		return nil
	}
	m.Charged, m.Refunded = t.Charged, t.Refunded
	return m
}

func fillMark(m *peerpb.Mark, o *peerpb.OwnerEpoch, k qos.Mark) *peerpb.Mark {
	if k == (qos.Mark{}) {
		return nil
	}
	o.Ring, o.Worker, m.OwnerEpoch, m.Version = k.Owner.Ring, k.Owner.Worker, o, k.Version
	return m
}

func handOverMessage(h *qos.HandOver) *peerpb.HandOver {
	m := &peerpb.HandOver{
		TenantId: h.Limit.Tenant, Metric: uint32(h.Limit.Metric), PolicyGeneration: h.Generation,
		FromRing: h.FromRing, ToRing: h.ToRing, ToWorkerEpoch: h.ToEpoch, Part: int32(h.Part), Parts: int32(h.Parts),
		Level: h.Level, Remainder: h.Remainder, Orphans: h.Orphans, Mark: fillMark(&peerpb.Mark{}, &peerpb.OwnerEpoch{}, h.Mark),
		Wanted: h.Wanted[:], SoftLeft: h.SoftLeft, BanLeft: h.BanLeft,
	}
	for i := range h.Reporters {
		r := &h.Reporters[i]
		m.Reporters = append(m.Reporters, &peerpb.HandOverReporter{
			WorkerId: string(r.From.Worker), WorkerEpoch: r.From.Epoch, Cell: r.From.Cell, PolicyGeneration: r.Generation, Sequence: r.Sequence, Stamp: r.Stamp,
			Total: fillTotal(&peerpb.Total{}, r.Total), Lapsed: r.Lapsed, Wanted: r.Wanted, Reserved: r.Reserved,
			Mark: fillMark(&peerpb.Mark{}, &peerpb.OwnerEpoch{}, r.Mark), Expired: r.Expired,
		})
	}
	return m
}
