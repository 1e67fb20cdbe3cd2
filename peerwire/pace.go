package peerwire

// Bounds of what strangers and peers can make this worker do in a second. The control plane shares its cores with the rings: without these a flood takes
// from them what it costs to answer it.
const (
	acceptRate    = 100  // connections a second that are greeted; each costs 35 to 55 us of a core
	acceptBurst   = 256  // more of them after a pause: as many as are greeted at a time
	acceptBacklog = 128  // that wait for it in the kernel; what the pace of greeting clears in about a second
	frameRate     = 2000 // frames a second of one link; a peer's loop sends one a millisecond, and as many answers
	frameBurst    = 512  // more of them after a pause
	frameRest     = 20   // the link rests for so many at a time: one wake-up for all of them
	frameRests    = 100  // rests without catching up: a second. Then the link is closed
)

const second = 1_000_000_000

// A pace says how long to wait so that things happen at most so often (GCRA, ITU-T I.371). It is a value without clock; times are ns of one clock.
type pace struct {
	every int64 // ns between two
	ahead int64 // ns that they may run ahead: the burst
	due   int64 // when the next would be if all were evenly spaced
}

func newPace(rate, burst int64) pace {
	return pace{every: second / rate, ahead: burst * (second / rate)}
}

// next counts one that happens at now and returns how long to wait until it is due; at most 0 if it is. Whoever waits counts the next one after that.
func (p *pace) next(now int64) (wait int64) {
	p.due = max(p.due, now)
	wait = p.due - p.ahead - now
	p.due += p.every
	return wait
}
