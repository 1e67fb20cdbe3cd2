package sim

// A pool holds messages on their way: an event names one by its index, and the slot is used again once it is taken. Nothing is
// allocated once the pool has grown to the most that were ever under way.
type pool[T any] struct {
	items []T
	free  []int32
}

func (p *pool[T]) put(v *T) int32 {
	if n := len(p.free); n > 0 {
		i := p.free[n-1]
		p.free = p.free[:n-1]
		p.items[i] = *v
		return i
	}
	p.items = append(p.items, *v)
	return int32(len(p.items) - 1)
}

// at returns an item that stays valid until it is dropped.
func (p *pool[T]) at(i int32) *T { return &p.items[i] }

func (p *pool[T]) drop(i int32) { p.free = append(p.free, i) }
