package sim

import "math/bits"

// A Demand is what the users of a limit want, all workers together.
type Demand struct {
	Rate   int64 // units per second
	Need   int64 // units a request
	Shape  Shape
	Hot    int   // the worker at which it begins, by index
	Period int64 // ns between two moves, or half periods of bursts
}

// A Shape is how demand lies on the workers.
type Shape uint8

const (
	Uniform Shape = iota
	Skew          // 80 % of it on a fifth of the workers
	OneHot        // all of it on one worker
	Moving        // Skew that moves on by one worker each period
	Bursts        // Uniform, on and off
	numShapes
)

var shapeNames = [...]string{Uniform: "uniform", Skew: "80/20", OneHot: "one", Moving: "moving", Bursts: "bursts"}

func (s Shape) String() string { return shapeNames[s] }

// share is the part of the demand on one of n users, in millionths, after so many periods.
func (d *Demand) share(user, n, period int) int64 {
	switch d.Shape {
	case Bursts:
		if period%2 == 1 {
			return 0
		}
	case OneHot:
		if user == d.Hot%n {
			return 1e6
		}
		return 0
	case Skew, Moving:
		hot, at := max(n/5, 1), d.Hot
		if d.Shape == Moving {
			at += period
		}
		if n == 1 {
			return 1e6
		}
		if (user-at%n+n)%n < hot {
			return 800_000 / int64(hot)
		}
		return 200_000 / int64(n-hot)
	}
	return 1_000_000 / int64(n)
}

// spread puts a demand on the workers.
func (w *World) spread(i int32, d Demand) {
	lim := w.limits[i]
	lim.demand, lim.period = d, 0
	lim.turn++
	w.respread(i)
}

// respread sets every living worker's rate, and comes back after a period if the demand moves.
func (w *World) respread(i int32) {
	lim := w.limits[i]
	for _, k := range w.workers {
		if k.alive {
			w.setRate(k, i)
		}
	}
	if lim.demand.Period > 0 && (lim.demand.Shape == Moving || lim.demand.Shape == Bursts) {
		d := Deed{Op: rotate, A: int(i), N: int64(lim.turn)}
		w.queue.push(w.now+lim.demand.Period, aDeed, theCluster, w.deeds.put(&d))
	}
}

// setRate is the demand that falls on one worker. A zombie gets none: its clients have gone to its successor, or it is the last of
// the clients that stay that it serves until it is stopped.
func (w *World) setRate(k *worker, i int32) {
	u := k.use(i)
	if u == nil {
		return
	}
	lim := w.limits[i]
	user, n := lim.userOf(int(k.index), len(w.ids))
	local := lim.demand
	for r := range u.lanes {
		w.gather(u, r) // what came at the old rate has come
	}
	if u.need != local.Need {
		for r := range u.lanes {
			for u.lanes[r].waiting > 0 {
				w.refuse(u, r, u.lanes[r].batches[u.lanes[r].head].n)
				u.lanes[r].shift()
			}
		}
		u.need = local.Need
	}
	u.rate = mul(local.Rate*1000, local.share(user, n, lim.period), 1_000_000*local.Need)
	if k.gone || k.draining {
		u.rate = 0
	}
}

// mul is a*b/c, rounded down, where the result fits.
func mul(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi == 0 { // without the slow 128-bit division
		return int64(lo / uint64(c))
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(q)
}
