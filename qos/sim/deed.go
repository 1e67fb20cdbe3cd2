package sim

import (
	"fmt"

	"github.com/talon-worker/talon/qos"
)

// A Deed is one thing done to the cluster. A and B are workers by index, or a limit where the Op says so.
type Deed struct {
	Op      Op
	A, B    int
	N       int64
	Members []int
	Policy  *qos.Policy
	Demand  *Demand
}

// An Op is what a Deed does.
type Op uint8

const (
	CutLink      Op = iota // messages from A to B are lost
	MendLink               // and arrive again
	Isolate                // A hears and is heard by nobody
	Rejoin                 // all links of A are mended
	Deafen                 // nothing reaches A
	Mute                   // nothing that A sends arrives
	Split                  // workers whose bit is set in N, and the rest, lose each other
	MendAll                // all links are mended
	Pause                  // SIGSTOP
	Resume                 // SIGCONT: whatever has come meanwhile comes now
	Crash                  // kill -9
	Start                  // a new incarnation
	Zombie                 // a new incarnation while the old one lives on, unreachable
	CrashOwner             // of limit A, and starts it again after N ns
	PauseOwner             // of limit A, for N ns
	IsolateOwner           // of limit A, for N ns
	Ring                   // Members are proposed
	Flap                   // A leaves the proposed ring, or comes back to it
	CutCoord               // A does not hear from the coordinator
	MendCoord              // and does again
	CoordDown              // nobody does
	CoordUp
	Policy    // of limit A becomes Policy
	Remove    // the policy of limit A is removed
	Want      // demand for limit A becomes Demand
	LagWorker // A takes up to N ns for each message
	Shutdown  // A stops admitting, flushes and goes
	Losses    // N of 1,000 messages are lost
	rotate    // demand moves on
	flushed   // a worker that shuts down has done so, or is out of patience
	numOps
)

var opNames = [...]string{
	CutLink: "cut link", MendLink: "mend link", Isolate: "isolate", Rejoin: "rejoin", Deafen: "deafen", Mute: "mute", Split: "split",
	MendAll: "mend all", Pause: "pause", Resume: "resume", Crash: "crash", Start: "start", Zombie: "zombie", CrashOwner: "crash owner",
	PauseOwner: "pause owner", IsolateOwner: "isolate owner", Ring: "ring", Flap: "flap", CutCoord: "cut coordinator", MendCoord: "mend coordinator",
	CoordDown: "coordinator down", CoordUp: "coordinator up", Policy: "policy", Remove: "remove policy", Want: "want", LagWorker: "lag", Shutdown: "shutdown", Losses: "losses",
}

func (d Deed) String() string {
	s := fmt.Sprintf("%s %d", opNames[d.Op], d.A)
	switch d.Op {
	case CutLink, MendLink:
		s += fmt.Sprintf(" -> %d", d.B)
	case Split:
		s = fmt.Sprintf("split %b", d.N)
	case Ring:
		s = fmt.Sprintf("ring of %v", d.Members)
	case CrashOwner, PauseOwner, IsolateOwner, LagWorker:
		s += " for " + ms(d.N)
	case Policy:
		s += fmt.Sprintf(": R %d B %d b %d enabled %v", d.Policy.Rate, d.Policy.Burst, d.Policy.LocalBurst, d.Policy.Enabled)
	case Want:
		s += fmt.Sprintf(": %+v", *d.Demand)
	}
	return s
}

// Do does it now.
func (w *World) Do(d Deed) {
	if w.say != nil && d.Op < rotate {
		w.note("%v", d)
	}
	switch d.Op {
	case CutLink, MendLink:
		w.link(d.A, d.B, d.Op == CutLink)
	case Isolate, Rejoin, Deafen, Mute:
		w.links(d)
	case Split, MendAll:
		w.split(d)
	case Pause, Resume, Crash, Start, Zombie:
		w.doWorker(d)
	case CrashOwner, PauseOwner, IsolateOwner:
		w.doOwner(d)
	case Ring:
		if w.propose(d.Members) {
			w.result.Faults[Move]++
		}
	case Flap:
		w.flap(d.A)
	case CutCoord, MendCoord, CoordDown, CoordUp:
		w.doCoordinator(d)
	case Policy:
		w.enact(int32(d.A), *d.Policy)
		w.result.Faults[PolicyChange]++
	case Remove:
		w.remove(int32(d.A))
	case Want:
		w.spread(int32(d.A), *d.Demand)
	case LagWorker:
		w.workers[w.route[d.A]].lag = d.N
	case Losses:
		w.net.LossPM = int(d.N)
	case Shutdown:
		w.shutdown(d.A)
	case flushed:
		w.leave(d.A, d.N)
	case rotate:
		if lim := w.limits[d.A]; int64(lim.turn) == d.N {
			lim.period++
			w.result.Faults[DemandMove]++
			w.respread(int32(d.A))
		}
	}
}

func (w *World) link(from, to int, down bool) {
	if from != to {
		w.net.set(from, to, down)
	}
}

func (w *World) links(d Deed) {
	if d.Op != Rejoin {
		w.result.Faults[map[Op]Fault{Isolate: Partition, Deafen: OneWay, Mute: OneWay}[d.Op]]++
	}
	for o := range w.ids {
		if d.Op != Mute {
			w.link(o, d.A, d.Op != Rejoin)
		}
		if d.Op != Deafen {
			w.link(d.A, o, d.Op != Rejoin)
		}
	}
}

func (w *World) split(d Deed) {
	if d.Op == MendAll {
		w.net.cut, w.net.cuts = nil, 0
		return
	}
	w.result.Faults[Partition]++
	for a := range w.ids {
		for b := range w.ids {
			w.link(a, b, d.N>>a&1 != d.N>>b&1)
		}
	}
}

func (w *World) doWorker(d Deed) {
	k := w.workers[w.route[d.A]]
	switch d.Op {
	case Pause:
		if k.alive && !k.paused {
			w.result.Faults[Paused]++
			k.paused = true
		}
	case Resume:
		w.resume(k)
	case Crash:
		if k.alive && !k.gone {
			w.result.Faults[Crashed]++
			w.kill(k)
		}
	case Start:
		if !k.alive && !k.gone {
			w.mustBoot(k.slot, k.index)
		}
	case Zombie:
		if k.alive && !k.gone && len(w.workers) < 4*len(w.ids) {
			w.result.Faults[Zombies]++
			w.mustBoot(int32(len(w.workers)), k.index)
		}
	}
}

func (w *World) mustBoot(slot, index int32) {
	if err := w.boot(slot, index); err != nil {
		w.fail("start of %s: %v", w.ids[index], err)
	}
}

// resume hands a worker everything that has gathered in its sockets while it was stopped.
func (w *World) resume(k *worker) {
	if !k.paused {
		return
	}
	k.paused = false
	held := k.held
	k.held = nil
	for _, e := range held {
		at := w.now
		if e.kind == aWake {
			if k.wakeAt == forever {
				continue
			}
			at = max(k.wakeAt, w.now) // the timer that counts
			k.wakeAt = at
		}
		w.queue.push(at, e.kind, e.to, e.arg)
	}
}

func (w *World) kill(k *worker) {
	w.countWorker(k)
	k.alive, k.paused, k.life.alive = false, false, false
	for i := range k.held {
		w.lost(&k.held[i])
	}
	k.held = nil
	for _, u := range k.life.uses {
		w.promise(u) // nothing any more
		for r := range u.lanes {
			u.lanes[r].waiting = 0
		}
	}
}

func (w *World) doOwner(d Deed) {
	owners := w.coord.owners[len(w.coord.owners)-1]
	a := int(owners[d.A])
	after := func(op Op) {
		next := Deed{Op: op, A: a}
		w.queue.push(w.now+d.N, aDeed, theCluster, w.deeds.put(&next))
	}
	switch d.Op {
	case CrashOwner:
		w.result.Faults[OwnerCrash]++
		w.Do(Deed{Op: Crash, A: a})
		after(Start)
	case PauseOwner:
		w.Do(Deed{Op: Pause, A: a})
		after(Resume)
	case IsolateOwner:
		w.Do(Deed{Op: Isolate, A: a})
		after(Rejoin)
	}
}

// flap takes a worker out of the proposed ring, or into it.
func (w *World) flap(a int) {
	last := w.coord.rings[len(w.coord.rings)-1]
	var members []int
	for i, id := range w.ids {
		if in := last.Index(id) >= 0; in != (i == a) && !w.workers[w.route[i]].gone {
			members = append(members, i)
		}
	}
	if w.propose(members) {
		w.result.Faults[Move]++
	}
}

func (w *World) doCoordinator(d Deed) {
	switch d.Op {
	case CutCoord:
		w.result.Faults[CoordCut]++
		w.workers[w.route[d.A]].cutOff = true
	case MendCoord:
		w.workers[w.route[d.A]].cutOff = false
		w.tellAll()
	case CoordDown:
		w.result.Faults[CoordCut]++
		w.coord.down = true
	case CoordUp:
		w.coord.down = false
		w.tellAll()
	}
}

// shutdown stops a worker in order: it admits no more, tells its owners everything, and leaves.
func (w *World) shutdown(a int) {
	k := w.workers[w.route[a]]
	if !k.alive || k.gone || k.draining {
		return
	}
	w.result.Faults[Stopped]++
	k.draining = true
	for _, u := range k.life.uses {
		u.rate = 0
		for r := range u.lanes {
			u.lanes[r].waiting, u.lanes[r].batches, u.lanes[r].head = 0, u.lanes[r].batches[:0], 0
		}
	}
	k.reporter.Flush(k.clock.read(w.now))
	if !k.paused {
		w.control(k)
	}
	d := Deed{Op: flushed, A: a, N: w.now + 5*int64(w.setup.Config.Confirm)}
	w.queue.push(w.now+1e6, aDeed, theCluster, w.deeds.put(&d))
}

// leave ends a worker that has flushed, or has been at it until the deadline, or comes back to look again.
func (w *World) leave(a int, deadline int64) {
	k := w.workers[w.route[a]]
	if !k.draining || !k.alive {
		return
	}
	if !k.paused && k.reporter.Done() || w.now >= deadline {
		if k.reporter.Done() {
			w.result.Branches[Flushed]++
		}
		k.draining = false
		w.kill(k)
		return
	}
	d := Deed{Op: flushed, A: a, N: deadline}
	w.queue.push(w.now+1e6, aDeed, theCluster, w.deeds.put(&d))
}

// heal ends all faults: every link carries, every worker runs and has read the newest of everything.
func (w *World) heal() {
	w.healedAt = w.now
	w.note("healed")
	w.net.heal()
	w.coord.down = false
	for _, k := range w.workers {
		k.cutOff, k.lag = false, 0
		switch {
		case w.route[k.index] != k.slot: // a zombie at last dies
			if k.alive {
				w.kill(k)
			}
			k.gone = true
		case !k.alive:
			w.mustBoot(k.slot, k.index)
		case k.draining: // whoever waits for it to go waits no longer
			k.draining = false
			w.kill(k)
			w.mustBoot(k.slot, k.index)
		case k.paused:
			w.resume(k)
		}
	}
	w.tellAll()
	for i := range w.limits {
		w.spread(int32(i), w.limits[i].setup.Heal)
	}
}
