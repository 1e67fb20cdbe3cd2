package uringtest

import (
	"sync/atomic"

	"github.com/talon-worker/talon/uring/internal/abi"
)

// post puts what is due into the completion queue, in the order of completion except where the seed takes another request first. The
// completions of one request keep their order: they carry a stream.
func (k *Kernel) post() {
	order, of := k.due()
	for i := range order {
		if rest := len(order) - i - 1; rest > 0 && k.chance(k.faults.Reorder, &k.counts.Reordered) {
			j := i + 1 + k.rand.IntN(rest)
			order[i], order[j] = order[j], order[i]
		}
		id := order[i]
		k.push(of[id][0])
		of[id] = of[id][1:]
	}
}

// due takes out the replies whose time has come, unless an earlier one of the same request has to wait: of which request they are,
// in order, and each request's own.
func (k *Kernel) due() (order []uint64, of map[uint64][]abi.CQE) {
	of = map[uint64][]abi.CQE{}
	waiting := map[uint64]bool{}
	left := k.posted[:0]
	for _, p := range k.posted {
		if p.due > k.counts.Enters || waiting[p.request] {
			waiting[p.request] = true
			left = append(left, p)
			continue
		}
		order = append(order, p.request)
		of[p.request] = append(of[p.request], p.cqe)
	}
	k.posted = left
	return order, of
}

func (k *Kernel) push(e abi.CQE) {
	if len(k.overflow) > 0 || !k.write(e) {
		k.counts.Overflow++
		k.overflow = append(k.overflow, e)
	}
}

func (k *Kernel) write(e abi.CQE) bool {
	tail := *k.cqTail
	if tail-atomic.LoadUint32(k.cqHead) == uint32(len(k.cqes)) {
		return false
	}
	k.cqes[tail&uint32(len(k.cqes)-1)] = e
	atomic.StoreUint32(k.cqTail, tail+1)
	return true
}

func (k *Kernel) flushOverflow() {
	for len(k.overflow) > 0 && k.write(k.overflow[0]) {
		k.overflow = k.overflow[1:]
	}
}
