package peerwire

import (
	"testing"

	"github.com/talon-worker/talon/qos"
)

// A demand asks for charges of one size at a rate, and counts what went and what waits.
type demand struct {
	cell             *qos.Cell
	size             int64
	owed, wait, went int64
}

// ask lets d ns of demand at a rate in units per second arrive, and charges what it can. It stops nobody else: a turn of the ring.
func (q *demand) ask(b *bench, rate, d int64) {
	for q.owed += rate / 1000 * d / 1000; q.owed >= q.size*1000; q.owed -= q.size * 1000 {
		q.wait++
	}
	b.core.ledger.Enter(0)
	for ; q.wait > 0 && q.cell.Admit(q.size, b.now).Charged(); q.wait-- {
		q.went += q.size
	}
	b.core.ledger.Leave(0)
	q.cell.Await(0, min(q.wait, 1)*q.size, q.wait*q.size)
}

// TestCalmLimitsShareTheirTurns: a worker that is alone and far below its limits turns twice in a TTL, however many limits are hot, and nothing waits for
// it meanwhile. At the limit it turns as often as it takes.
func TestCalmLimitsShareTheirTurns(t *testing.T) {
	t.Run("as one of several", func(t *testing.T) { calmTurns(t, qos.DefaultConfig(), 110) })
	t.Run("alone", func(t *testing.T) { calmTurns(t, qos.DefaultConfig().Alone(), 15) })
}

func calmTurns(t *testing.T, limits qos.Config, most int) {
	const pass, second = ms / 10, 1000 * ms
	reads, bytes := iops(1e6, 1e5), egress(100<<30, 10<<30)
	b := newBenchWith(t, limits, reads, bytes)
	demands := []*demand{{cell: b.cell(reads), size: 1}, {cell: b.cell(bytes), size: 64 << 10}}
	run := func(rate int64, d int64) (steps, waited int) {
		steps = -b.steps
		for end := b.now + d; b.now < end; b.now += pass {
			for _, q := range demands {
				q.ask(b, rate*q.size, pass)
				waited += int(q.wait)
			}
			b.loop()
		}
		return steps + b.steps, waited
	}
	run(50_000, 2*second) // the levels fill, and the reporter learns the rate
	if steps, waited := run(50_000, second); steps > most || waited > 0 {
		t.Errorf("%d turns in a second, %d waits: want at most %d, and none", steps, waited, most)
	}
	if steps, _ := run(2_000_000, second); steps < 300 {
		t.Errorf("%d turns in a second at the limit: want it told as soon as ever", steps)
	}
}

// TestJumpOutOfCalm: a tenant that jumps from a little to all of its limit has its burst, and the refill, as soon as the views of a limit that is not
// calm would give them to it: within 20 ms.
func TestJumpOutOfCalm(t *testing.T) {
	const pass = ms / 10
	for _, p := range []qos.Policy{iops(100_000, 20_000), egress(400<<20, 64<<20)} {
		size := int64(1)
		if !p.Metric.Requests() {
			size = 64 << 10
		}
		for i, percent := range []int64{0, 1, 10, 40, 0, 1, 10, 40} {
			limits := qos.DefaultConfig()
			if i >= 4 {
				limits = limits.Alone()
			}
			b := newBenchWith(t, limits, p)
			q := &demand{cell: b.cell(p), size: size}
			for end := b.now + 3000*ms; b.now < end; b.now += pass {
				if percent > 0 {
					q.ask(b, p.Rate/100*percent, pass)
				}
				b.loop()
			}
			from, before := b.now, q.went
			for ; q.went-before < p.Burst*9/10 && b.now < from+1000*ms; b.now += pass {
				q.ask(b, 20*p.Rate, pass)
				b.loop()
			}
			t.Logf("%v from %d%%: nine tenths of the burst after %.1f ms", p.Metric, percent, float64(b.now-from)/1e6)
			if b.now-from > 20*ms {
				t.Errorf("%v from %d%%: nine tenths of the burst took %.1f ms, want 20", p.Metric, percent, float64(b.now-from)/1e6)
			}
		}
	}
}
