package peerwire

import (
	"testing"

	"github.com/talon-worker/talon/qos"
)

// TestWhoMaySayWhat asks a core that is in a ring of two what it makes of letters, by who has sent them. The same words count from the one that may say
// them, and are counted as what they are from anybody else.
func TestWhoMaySayWhat(t *testing.T) {
	k := hearer(t)
	k.cell(k.far).Admit(1, k.now) // a report is on its way to the limit's owner, w2
	out := k.step()
	if len(out.parcels) != 1 || out.parcels[0].to != "w2" || len(out.parcels[0].batch.reports) != 1 {
		t.Fatalf("%+v: want one report to w2", out.parcels)
	}
	asked := out.parcels[0].batch.reports[0]
	snapshot := func(incarnation uint64) batch {
		return batch{snapshots: []qos.RateSnapshot{{
			Key: k.far.Key(), To: asked.From, RingEpoch: 1, Mark: qos.Mark{Owner: qos.OwnerEpoch{Ring: 1, Worker: incarnation}, Version: 1},
			Acknowledged: asked.Total, AckSequence: asked.Sequence, Remaining: 10, Stamp: asked.Stamp,
		}}}
	}
	redirect := batch{redirects: []qos.Redirect{{Key: k.far.Key(), To: asked.From, Sequence: asked.Sequence, Reason: qos.NotOwner}}}
	for _, tt := range []struct {
		name            string
		from            qos.WorkerID
		epoch           uint64
		b               batch
		strange, forged uint64
		inForce         bool
	}{
		{"a snapshot from one that does not own the limit", "w3", 1, snapshot(1), 1, 0, false},
		{"from another incarnation of the owner", "w2", 2, snapshot(1), 1, 0, false},
		{"from the owner, in the name of another incarnation", "w2", 1, snapshot(2), 1, 0, false},
		{"a redirect from one that does not own it", "w3", 1, redirect, 1, 0, false},
		{"an answer in another's name", "w3", 1, batch{answers: []qos.Answer{{Voter: "w2", VoterEpoch: 1, Incarnation: 1, Epoch: 7, Stamp: 1}}}, 0, 1, false},
		{"an answer of another incarnation", "w2", 1, batch{answers: []qos.Answer{{Voter: "w2", VoterEpoch: 2, Incarnation: 1, Epoch: 7, Stamp: 1}}}, 0, 1, false},
		{"a question in another's name", "w3", 1, batch{asks: []qos.Ask{{Worker: "w2", Incarnation: 9, Epoch: 1}}}, 0, 1, false},
		{"a question of another incarnation", "w2", 1, batch{asks: []qos.Ask{{Worker: "w2", Incarnation: 9, Epoch: 1}}}, 0, 1, false},
		{"use in another's name", "w3", 1, batch{reports: []qos.UsageReport{{Key: k.own.Key(), From: qos.ReporterID{Worker: "w2", Epoch: 1, Cell: 1}}}}, 0, 1, false},
		{"use of another incarnation", "w2", 1, batch{reports: []qos.UsageReport{{Key: k.own.Key(), From: qos.ReporterID{Worker: "w2", Epoch: 2, Cell: 1}}}}, 0, 1, false},
		{"a snapshot from the owner", "w2", 1, snapshot(1), 0, 0, true},
	} {
		before, applied := k.core.stats, k.core.owner.Stats
		k.in.letters = []letter{{from: tt.from, epoch: tt.epoch, batch: &tt.b}}
		out := k.step()
		now := k.core.stats
		if now.Strange-before.Strange != tt.strange || now.Forged-before.Forged != tt.forged {
			t.Errorf("%s: %d strange, %d forged; want %d, %d", tt.name, now.Strange-before.Strange, now.Forged-before.Forged, tt.strange, tt.forged)
		}
		if fresh := k.cell(k.far).View().Fresh(k.now); fresh != tt.inForce || out.changed != tt.inForce {
			t.Errorf("%s: a fresh view %v, told to the rings %v; want %v", tt.name, fresh, out.changed, tt.inForce)
		}
		if k.core.owner.Stats != applied || k.core.tenure.Newest() != 1 || k.core.reporter.Stats.Redirects != 0 {
			t.Errorf("%s: it has reached a state machine", tt.name)
		}
		for _, p := range out.parcels {
			if p.to != "w2" {
				t.Errorf("%s: %q is answered", tt.name, p.to)
			}
		}
	}
	k.in.letters = []letter{{from: "w2", epoch: 1, batch: &batch{asks: []qos.Ask{{Worker: "w2", Incarnation: 1, Epoch: 1, Stamp: 5}}}}}
	if out := k.step(); len(out.parcels) != 1 || len(out.parcels[0].batch.answers) != 1 || out.parcels[0].batch.answers[0].Stamp != 5 {
		t.Errorf("%+v: want an answer to the question", out.parcels)
	}
}
