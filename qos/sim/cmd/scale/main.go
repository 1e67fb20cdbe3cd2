// Command scale tells what the limiter costs and delivers, from ten workers to ten thousand and from one key to a hundred thousand: messages,
// bytes, the owner's CPU for a report, and the part of the demand that is delivered, beside one bucket that sees everything and a model of
// gubernator's GLOBAL under the same load. It prints a table and a plot as text.
//
//	go run ./qos/sim/cmd/scale            everything, two minutes of one core and 300 MiB
//	go run ./qos/sim/cmd/scale -quick     up to 1,000 workers
package main

import (
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/talon-worker/talon/qos"
	"github.com/talon-worker/talon/qos/sim"
)

const (
	mib        = 1 << 20
	globalSync = 100e6 // gubernator's default GlobalSyncWait, ns
)

func main() {
	quick := flag.Bool("quick", false, "only up to 1,000 workers and 1,000 keys")
	flag.Parse()
	out := tabwriter.NewWriter(os.Stdout, 2, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "workers\tkeys\tshape\twanted/R\tmessages/s\tof them asks\tof a key\tKiB/s\tns/report\tdelivered\tideal\texcess/bound\tGLOBAL delivered\tits messages/s\t")
	var lines []point
	all := loads(*quick)
	for i, l := range all {
		fmt.Fprintf(os.Stderr, "scale: %d of %d: %d workers, %d keys, %v, %d %% wanted\n", i+1, len(all), l.Workers, l.Keys, l.Shape, l.Wanted)
		row, err := l.Run(span(l))
		if err != nil {
			fmt.Fprintln(os.Stderr, "scale:", err)
			os.Exit(1)
		}
		delivered, messages := l.Global(globalSync, 2e9)
		fmt.Fprintf(out, "%d\t%d\t%v\t%.2f\t%.0f\t%.0f\t%.1f\t%.0f\t%.0f\t%.3f\t%.3f\t%.3f\t%.3f\t%.0f\t\n", l.Workers, l.Keys, l.Shape, float64(l.Wanted)/100,
			row.Messages, row.Votes, row.Messages/float64(l.Keys), row.Bytes/1024, ownerCost(l), row.Delivered, row.Ideal, row.Excess, delivered, messages)
		if l.Keys == 1 && l.Wanted == 200 && l.Shape == sim.Uniform && !l.Bytes && l.Rate > 1000 {
			lines = append(lines, point{l.Workers, row.Delivered, delivered})
		}
	}
	out.Flush()
	fmt.Print("\nadmitted, in multiples of the limit, at twice the limit wanted\n\n", plot(lines))
}

// loads is the scenario: one key on more and more workers, more and more keys, and the two loads that need whole charges.
func loads(quick bool) (all []sim.Load) {
	workers, keys := []int{10, 100, 1000, 10_000}, []int{100, 10_000, 100_000}
	if quick {
		workers, keys = workers[:3], keys[:1]
	}
	for _, n := range workers {
		for _, shape := range []sim.Shape{sim.Uniform, sim.Skew, sim.Moving} {
			for _, wanted := range []int64{90, 200} {
				all = append(all, sim.Load{
					Workers: n, Keys: 1, Rate: 200_000, Burst: 20_000, Local: max(int64(40_000/n), 16), Need: 1, Wanted: wanted,
					Shape: shape, Period: 100e6,
				})
			}
		}
	}
	for _, k := range keys {
		all = append(all, sim.Load{Workers: 32, Keys: k, Users: 3, Rate: 10, Burst: 20, Local: 8, Need: 1, Wanted: 50})
	}
	return append(all,
		sim.Load{Workers: 100, Keys: 1, Rate: 100, Burst: 20, Local: 8, Need: 1, Wanted: 95},
		sim.Load{Workers: 100, Keys: 1, Rate: 100, Burst: 20, Local: 8, Need: 1, Wanted: 200, Warm: 8e9},
		sim.Load{Workers: 32, Keys: 1, Rate: 50 * mib, Burst: 4 * mib, Local: mib, Need: mib / 4, Bytes: true, Wanted: 100},
		sim.Load{Workers: 32, Keys: 1, Rate: 50 * mib, Burst: 4 * mib, Local: mib, Need: mib / 4, Bytes: true, Wanted: 200},
	)
}

// span is how long a load is measured, ns of virtual time: a million messages are enough.
func span(l sim.Load) int64 {
	if l.Workers > 1000 || l.Keys > 1000 {
		return 300e6
	}
	return 1000e6
}

// ownerCost is the CPU time in ns that an owner of such a limit takes for one report and its snapshot, on this machine.
func ownerCost(l sim.Load) float64 {
	n := l.Workers
	if l.Users > 0 {
		n = l.Users
	}
	o, err := qos.NewOwner(qos.DefaultConfig(), "owner", 1)
	if err != nil {
		return math.NaN()
	}
	p := qos.Policy{Tenant: "t", Metric: qos.ReadIOPS, Generation: 1, Rate: l.Rate, Burst: l.Burst, LocalBurst: l.Local, Enabled: true}
	if o.SetPolicy(&p, 1) != nil {
		return math.NaN()
	}
	o.SetRing(1, 0, func(qos.Limit) bool { return true }, 1)
	o.Confirm(math.MaxInt64)
	o.Settle(1)
	reports := make([]qos.UsageReport, n)
	for i := range reports {
		reports[i] = qos.UsageReport{Key: p.Key(), From: qos.ReporterID{Worker: qos.WorkerID(fmt.Sprint("w", i)), Epoch: 1, Cell: 1}, RingEpoch: 1, Need: 1, Demand: 2}
	}
	const rounds = 200_000
	now := int64(1e9)
	begin := cpu()
	for i := range rounds {
		r := &reports[i%n]
		now += 5e6 / int64(n) // each worker every 5 ms
		r.Sequence++
		r.Total.Charged++
		r.Wanted++
		r.IopsDelta++
		r.Stamp = now
		if _, why := o.Apply(r, now); why != qos.Accepted {
			return math.NaN()
		}
	}
	return float64(cpu()-begin) / rounds
}

// cpu is the time in ns that this process has used so far: on a busy machine the time of day says what others took.
func cpu() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

type point struct {
	workers      int
	ours, global float64
}

// plot draws a bar for each cluster size.
func plot(points []point) string {
	var b strings.Builder
	for _, p := range points {
		fmt.Fprintf(&b, "%6d workers  limit   |%s|\n", p.workers, strings.Repeat("-", 20))
		fmt.Fprintf(&b, "                talon   |%s %.2f\n", strings.Repeat("#", int(p.ours*20)), p.ours)
		fmt.Fprintf(&b, "                GLOBAL  |%s %.2f\n", strings.Repeat("#", int(p.global*20)), p.global)
	}
	return b.String()
}
