package uring

import (
	"fmt"
	"slices"
)

// A completion names the buffer that was filled but not its group. The ring finds the group by the caller's operation code, which it
// learns from Recv: one code receives from one group.

// receive notes that operation op receives from a group, and panics where that cannot be.
func (r *Ring) receive(op uint8, group uint16) {
	if b := r.lenders[op]; b != nil && b.group == group {
		return
	}
	b := r.findGroup(group)
	if b == nil {
		panic(fmt.Sprintf("uring: the ring has no buffer group %d", group))
	}
	if was := r.lenders[op]; was != nil {
		panic(fmt.Sprintf("uring: operation %d receives into buffer groups %d and %d; a completion would not tell which", op, was.group, group))
	}
	r.lenders[op] = b
}

// lend notes the lease of a buffer that a completion names. A group that has been freed has no leases.
func (r *Ring) lend(c Completion) {
	if b := r.lenders[c.UserData.Op()]; b != nil {
		id, _ := c.Buffer()
		b.lend(id)
	}
}

func (r *Ring) findGroup(group uint16) *Buffers {
	for _, b := range r.groups {
		if b.group == group {
			return b
		}
	}
	return nil
}

func (r *Ring) forget(b *Buffers) {
	r.groups = slices.DeleteFunc(r.groups, func(g *Buffers) bool { return g == b })
	for op, g := range r.lenders {
		if g == b {
			r.lenders[op] = nil
		}
	}
}
