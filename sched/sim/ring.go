package sim

import (
	"math"

	"github.com/talon-worker/talon/sched"
)

// ring is one loop. A turn takes its mail, then dispatches one thing after the other by one reading of the clock.
type ring struct {
	w       *World
	id      int
	prod    *sched.Ring
	sched   scheduler
	bySlot  []*conn
	mail    []mail
	news    []*tenant // whose limits have new views
	gen     uint32    // of the event aTurn that counts
	asleep  bool
	until   int64 // in its clock
	stalled int64 // until
	left    int   // dispatches left in this turn
	clock   int64 // as read when it began
}

type mail struct {
	c    *conn
	what kind
	gen  uint32
}

// next makes the ring go on at a time.
func (r *ring) next(at int64) {
	r.gen++
	r.w.at(max(at, r.stalled), aTurn, int32(r.id), r.gen)
}

func (r *ring) deliver(m mail) {
	r.mail = append(r.mail, m)
	r.w.mails++
	r.wake()
}

func (r *ring) wake() {
	if r.asleep || r.gen == 0 {
		r.asleep = false
		r.next(r.w.now + r.w.s.Latency)
	}
}

// step is one dispatch, and the beginning of a turn where none is under way.
func (r *ring) step() {
	w := r.w
	w.turn, r.asleep = r, false
	if r.left == 0 {
		r.left, r.clock = w.s.Turn, w.now+w.jumped
		for _, t := range r.news {
			r.sched.WakeTenant(t.sched, r.clock)
		}
		r.news = r.news[:0]
		todo := r.mail
		r.mail = nil
		for _, m := range todo {
			if m.gen == m.c.gen || m.what == aLeaving {
				m.c.happened(m.what)
			}
		}
	}
	w.check.deciding(w, r)
	p, ok := r.sched.Next(r.clock)
	if ok {
		r.left--
		w.r.Decisions++
		w.check.picked(w, r, &p)
		r.next(w.now + r.bySlot[p.Slot].picked(&p))
		return
	}
	r.left = 0
	w.empty++
	if len(r.mail)+len(r.news) > 0 {
		r.next(w.now)
		return
	}
	r.until = r.sched.Wake()
	w.check.slept(w, r, r.until)
	r.asleep = true
	r.doze()
}

// doze sleeps until the ring's clock shows the time that the scheduler has named.
func (r *ring) doze() {
	if r.until != math.MaxInt64 {
		r.next(max(r.until-r.w.jumped, r.w.now))
	}
}

// cost is how long the ring needs to send n bytes.
func (r *ring) cost(n int64) int64 { return 300 + n*sec/r.w.s.Speed }
