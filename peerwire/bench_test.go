package peerwire

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/talon-worker/talon/qos"
)

// BenchmarkStep is one turn of a worker that is alone and uses so many limits, a millisecond after the last.
func BenchmarkStep(b *testing.B) {
	for _, n := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("limits=%d", n), func(b *testing.B) {
			var all []qos.Policy
			for i := range n {
				p := egress(100<<20, 4<<20)
				p.Tenant = fmt.Sprint(i)
				all = append(all, p)
			}
			w := newBench(b, all...)
			w.now += 1000 * ms
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				w.now += ms
				for i := range all {
					w.cell(all[i]).Admit(64<<10, w.now)
				}
				b.StartTimer()
				w.step()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/limit")
		})
	}
}

// BenchmarkNeedIsMet is the time from a ring's need, after a silence, until it may charge: a wake-up, a turn, and the new view.
func BenchmarkNeedIsMet(b *testing.B) {
	p := iops(1e6, 1e6)
	n := must(New(Config{Worker: "w1", Epoch: 1, Limits: qos.DefaultConfig(), Ledger: must(qos.NewLedger(qos.DefaultConfig(), 1))}))
	check(b, n.SetPolicies([]qos.Policy{p}))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Run(ctx) }()
	for !n.Status().Running {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond) // the bucket fills
	cell := n.cfg.Ledger.Cell(p.Limit())
	var took []time.Duration
	for b.Loop() {
		from := time.Now()
		for cell.Await(0, 1, 1); !cell.Admit(1, Boottime()).Charged(); {
			time.Sleep(10 * time.Microsecond)
		}
		took = append(took, time.Since(from))
		cell.Await(0, 0, 0)
		time.Sleep(40 * time.Millisecond) // until the view has been let go
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "us-p50")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "us-p99")
	cancel()
	check(b, <-ended)
}
