package qos

import (
	"cmp"
	"slices"
)

// A Damper turns the members that a coordinator sees come and go into the members worth proposing as the next ring. Every
// move of a key costs its tenant a wait, so a worker whose lease flaps must not move keys at the pace of its flapping: it is
// taken out once, and each further flap doubles the time it must have been there before it is taken in again.
//
// One place proposes ring epochs: two dampers that disagree would be two rings. Others may run one beside it and Adopt what was proposed, to go on
// from there when it is their turn. It is a value: time is an argument, in nanoseconds on any clock that does not go back.
type Damper struct {
	cfg     DamperConfig
	workers []damped // sorted by id; those seen within Forget, or in the ring
	last    int64    // when the last proposal was made
	changed bool     // whether there ever was one
}

// DamperConfig has the times of a Damper in nanoseconds; zero means the default.
type DamperConfig struct {
	Join   int64 // a newcomer must have been there so long; 200 ms
	Leave  int64 // a member must have been gone so long; 1 s
	Max    int64 // longest wait of a worker that flaps; 60 s
	Forget int64 // one flap is forgiven after so long without one; 60 s
	Dwell  int64 // least time between two proposals; 500 ms
}

// A damped worker is in or out of the ring, and there or gone.
type damped struct {
	id    WorkerID
	in    bool  // part of the last proposal
	up    bool  // there at the last observation
	since int64 // when up last changed
	flaps int   // times it went away, less those forgiven; at most maxFlaps
	calm  int64 // when a flap was last counted or forgiven
}

const maxFlaps = 30 // enough to shift any hold past any Max

// NewDamper returns a damper whose ring is empty. The first members are taken in after Join.
func NewDamper(cfg DamperConfig) *Damper {
	set := func(field *int64, ns int64) {
		if *field <= 0 {
			*field = ns
		}
	}
	set(&cfg.Join, 200e6)
	set(&cfg.Leave, perSecond)
	set(&cfg.Max, 60*perSecond)
	set(&cfg.Forget, 60*perSecond)
	set(&cfg.Dwell, 500e6)
	return &Damper{cfg: cfg}
}

// Observe says who is there at now. ids may be in any order; those beyond MaxMembers workers are ignored.
func (d *Damper) Observe(now int64, ids []WorkerID) {
	there := slices.Sorted(slices.Values(ids))
	for i := range d.workers {
		w := &d.workers[i]
		_, up := slices.BinarySearch(there, w.id)
		w.see(now, up, d.cfg.Forget)
	}
	for _, id := range there {
		at, known := slices.BinarySearchFunc(d.workers, id, func(w damped, id WorkerID) int { return cmp.Compare(w.id, id) })
		if !known && len(d.workers) < MaxMembers {
			d.workers = slices.Insert(d.workers, at, damped{id: id, up: true, since: now})
		}
	}
	d.workers = slices.DeleteFunc(d.workers, func(w damped) bool { return !w.in && !w.up && w.flaps == 0 })
}

func (w *damped) see(now int64, up bool, forget int64) {
	for w.flaps > 0 && now-w.calm >= forget {
		w.flaps--
		w.calm += forget
	}
	if up == w.up {
		return
	}
	w.up, w.since = up, now
	if !up {
		w.flaps, w.calm = min(w.flaps+1, maxFlaps), now
	}
}

// Adopt takes over a ring that somebody else has proposed, so that this damper's next proposal is made of it and not of its own last one.
func (d *Damper) Adopt(now int64, ids []WorkerID) {
	in := slices.Sorted(slices.Values(ids))
	for _, id := range in {
		at, known := slices.BinarySearchFunc(d.workers, id, func(w damped, id WorkerID) int { return cmp.Compare(w.id, id) })
		if !known && len(d.workers) < MaxMembers {
			d.workers = slices.Insert(d.workers, at, damped{id: id, up: true, since: now})
		}
	}
	for i := range d.workers {
		w := &d.workers[i]
		_, w.in = slices.BinarySearch(in, w.id)
	}
}

// Propose returns the members to propose as the next ring, and false while the last proposal stands. It never proposes an empty ring:
// when everybody seems gone it is likelier that the observer is.
func (d *Damper) Propose(now int64) ([]WorkerID, bool) {
	if d.changed && now-d.last < d.cfg.Dwell {
		return nil, false
	}
	var ids []WorkerID
	differs := false
	for i := range d.workers {
		w := &d.workers[i]
		in := w.belongs(now, &d.cfg)
		differs = differs || in != w.in
		if in {
			ids = append(ids, w.id)
		}
	}
	if !differs || len(ids) == 0 {
		return nil, false
	}
	for i := range d.workers {
		w := &d.workers[i]
		w.in = w.belongs(now, &d.cfg)
	}
	d.last, d.changed = now, true
	return ids, true
}

// belongs reports whether the worker should be in the ring.
func (w *damped) belongs(now int64, cfg *DamperConfig) bool {
	if w.in {
		return w.up || now-w.since < cfg.Leave
	}
	hold := cfg.Max
	if w.flaps == 0 || cfg.Join < cfg.Max>>min(w.flaps, maxFlaps) {
		hold = cfg.Join << w.flaps
	}
	return w.up && now-w.since >= hold
}
