package sim

import (
	"fmt"
	"strings"
)

// A Plot takes a sample of one limit at each of its columns, and draws them as lines of text that a reviewer can read.
type Plot struct {
	limit  int
	step   int64 // ns a column
	level  []int64
	grants []int64
	rate   []int64 // admitted in the column, units per second
	last   int64
}

const plotHeight = 8

// Watch samples limit i every step ns from now on, cols times.
func (w *World) Watch(i int, step int64, cols int) *Plot {
	p := &Plot{limit: i, step: step, last: w.limits[i].net()}
	w.plot = p
	for c := range cols {
		w.queue.push(w.now+int64(c+1)*step, aSample, theCluster, 0)
	}
	return p
}

func (w *World) sample() {
	p := w.plot
	lim := w.limits[p.limit]
	granted := int64(0)
	for _, k := range w.workers {
		if !k.alive {
			continue
		}
		if u := k.use(int32(p.limit)); u != nil && k.clock.read(w.now) < u.fresh {
			granted += max(u.ceiling-u.cell.Used(), 0)
		}
	}
	p.level = append(p.level, lim.meter.Level(w.now))
	p.grants = append(p.grants, granted)
	p.rate = append(p.rate, mul(lim.net()-p.last, 1e9, p.step))
	p.last = lim.net()
}

// String draws the three curves, each scaled to its own largest value; the marks on the left are the ends of the scale.
func (p *Plot) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "a column is %s\n", ms(p.step))
	for _, c := range []struct {
		name string
		y    []int64
	}{{"ideal level, units", p.level}, {"granted and not used, units", p.grants}, {"admitted, units/s", p.rate}} {
		b.WriteString("\n" + c.name + "\n")
		b.WriteString(draw(c.y))
	}
	return b.String()
}

// draw plots y from its least value, at most 0, to its largest.
func draw(y []int64) string {
	low, high := int64(0), int64(1)
	for _, v := range y {
		low, high = min(low, v), max(high, v)
	}
	var b strings.Builder
	for row := plotHeight - 1; row >= 0; row-- {
		mark := ""
		if row == plotHeight-1 {
			mark = fmt.Sprint(high)
		} else if row == 0 {
			mark = fmt.Sprint(low)
		}
		line := fmt.Sprintf("%12s |", mark)
		for _, v := range y {
			if at := int((v - low) * (plotHeight - 1) / (high - low)); at == row {
				line += "*"
			} else if at > row {
				line += "."
			} else {
				line += " "
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}
