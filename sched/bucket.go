package sched

import "sync/atomic"

// bucket is --egress-rate as one word: what has been spent, in the same count as what the rate has granted (plan.granted), so that refilling needs
// no write. It holds granted - spent bytes, never more than the burst.
//
// It is exact: for every interval, the bytes charged in it less those that came back are at most burst + rate * its length. To that end what is
// reserved and may still come back counts as if it had when the bucket is full; else a refund from before an idle time would come on top of the
// burst.
type bucket struct {
	spent   atomic.Int64
	pending atomic.Int64 // bytes reserved, neither settled nor refunded
	claims  atomic.Int64 // rings that wait because it had too little for them
	_       [104]byte
}

// take reserves n bytes, and leaves so many for others, at a time at which granted had been granted and cut is 1 if a fraction of a byte was cut off from it.
// When it cannot, it returns what must have been granted.
func (b *bucket) take(n, others, granted, cut, burst int64) (ok bool, need int64) {
	held := b.pending.Add(n) - n
	for {
		spent := b.spent.Load()
		base := spent
		if full := granted + cut - burst + held; base-full < 0 {
			base = full
		}
		if base+n+others-granted > 0 {
			b.pending.Add(-n)
			return false, base + n + others
		}
		if b.spent.CompareAndSwap(spent, base+n) {
			return true, 0
		}
	}
}

// settle ends a reservation of n bytes of which back were not needed.
func (b *bucket) settle(n, back int64) {
	if back != 0 {
		b.spent.Add(-back)
	}
	b.pending.Add(-n)
}

// fill forgets what does not fit into the burst, so that spent stays near granted while nobody charges.
func (b *bucket) fill(granted, burst int64) {
	spent := b.spent.Load()
	if full := granted - burst; full-spent > 0 {
		b.spent.CompareAndSwap(spent, full) // a charge at the same time does it, too
	}
}
