package sched

// entry is a seat in the heap. The key stands in the entry, so that sifting stays in its array.
type entry struct {
	key  int64
	seat int32
}

// heap is a 4-ary heap of the seats that are ready, least key first. Keys wrap; any two are less than 1<<63 apart.
type heap struct {
	e   []entry
	pos []int32 // by seat; -1 where it is not in the heap
}

func (h *heap) len() int { return len(h.e) }

func (h *heap) has(seat int32) bool { return h.pos[seat] >= 0 }

func (h *heap) push(seat int32, key int64) {
	h.e = append(h.e, entry{key, seat})
	h.up(len(h.e)-1, entry{key, seat})
}

// fix gives a seat of the heap a new key.
func (h *heap) fix(seat int32, key int64) {
	i := int(h.pos[seat])
	if e := (entry{key, seat}); key-h.e[i].key < 0 {
		h.up(i, e)
	} else {
		h.down(i, e)
	}
}

func (h *heap) remove(seat int32) {
	i := int(h.pos[seat])
	h.pos[seat] = -1
	last := h.e[len(h.e)-1]
	h.e = h.e[:len(h.e)-1]
	switch {
	case i == len(h.e):
	case i > 0 && last.key-h.e[(i-1)/4].key < 0:
		h.up(i, last)
	default:
		h.down(i, last)
	}
}

func (h *heap) up(i int, e entry) {
	for i > 0 {
		p := (i - 1) / 4
		if e.key-h.e[p].key >= 0 {
			break
		}
		h.set(i, h.e[p])
		i = p
	}
	h.set(i, e)
}

func (h *heap) down(i int, e entry) {
	for {
		c := 4*i + 1
		if c >= len(h.e) {
			break
		}
		least := c
		for j := c + 1; j < min(c+4, len(h.e)); j++ {
			if h.e[j].key-h.e[least].key < 0 {
				least = j
			}
		}
		if e.key-h.e[least].key <= 0 {
			break
		}
		h.set(i, h.e[least])
		i = least
	}
	h.set(i, e)
}

func (h *heap) set(i int, e entry) {
	h.e[i] = e
	h.pos[e.seat] = int32(i)
}
