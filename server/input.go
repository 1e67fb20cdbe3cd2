package server

import "github.com/talon-worker/talon/uring"

// noSlab is the slab id of who holds none.
const noSlab = ^uint32(0)

// recvSize is the size of a receive buffer in bytes: nearly every request arrives
// whole in one.
const recvSize = 2 << 10

// inputSize is the room for bytes received and not yet consumed: a whole head of
// the largest size and one more receive, so that what follows a request never
// keeps the request itself from fitting.
const inputSize = maxHead + recvSize

// input is what a connection has received and not consumed: first the bytes
// copied to a slab, then the receive buffers that did not fit, in the order of
// their arrival. Most connections have neither: a request that arrives whole is
// parsed where the kernel put it.
type input struct {
	slab       uint32 // noSlab when nothing is stored
	r, w       int    // stored bytes are slab[r:w]; Invariant: r < w when slab != noSlab
	head, tail uint16 // held buffers, linked through inputs.next
	held       uint16 // how many
	headOff    uint16 // bytes of the head buffer already moved to the slab
	tried      int    // stored bytes that consumeRequest has seen and found incomplete
}

func (in *input) empty() bool { return in.slab == noSlab && in.held == 0 }

// inputs owns the memory behind one loop's input values.
type inputs struct {
	bufs  *uring.Buffers
	slabs *uring.Slabs
	next  []uint16 // by buffer id: the next held buffer of the same connection
	size  []uint16 // by buffer id: bytes received in it
}

func newInputs(bufs *uring.Buffers, slabs *uring.Slabs, count int) inputs {
	return inputs{bufs: bufs, slabs: slabs, next: make([]uint16, count), size: make([]uint16, count)}
}

// bytes are the stored bytes.
func (is *inputs) bytes(in *input) []byte {
	if in.slab == noSlab {
		return nil
	}
	return is.slabs.Bytes(in.slab)[in.r:in.w]
}

// store copies as much of b as fits behind the stored bytes and returns how much
// that was: less than len(b) when the slab is full or none is to be had.
func (is *inputs) store(in *input, b []byte) int {
	if len(b) == 0 {
		return 0
	}
	if in.slab == noSlab {
		id, _, ok := is.slabs.Get()
		if !ok {
			return 0
		}
		in.slab, in.r, in.w, in.tried = id, 0, 0, 0
	}
	p := is.slabs.Bytes(in.slab)
	if len(b) > len(p)-in.w && in.r > 0 {
		in.w = copy(p, p[in.r:in.w])
		in.r = 0
	}
	n := copy(p[in.w:], b)
	in.w += n
	return n
}

// hold keeps the receive buffer id, of which the first n bytes count and the
// first off are already stored, behind everything else.
func (is *inputs) hold(in *input, id uint16, off, n int) {
	if in.held == 0 {
		in.head, in.headOff = id, uint16(off)
	} else {
		is.next[in.tail] = id
	}
	is.size[id] = uint16(n)
	in.tail = id
	in.held++
}

// add takes the n bytes received in buffer id: stored if they fit, else held.
func (is *inputs) add(in *input, id uint16, n int) {
	off := 0
	if in.held == 0 {
		off = is.store(in, is.bufs.Bytes(id, n))
	}
	if off == n {
		is.bufs.Release(id)
		return
	}
	is.hold(in, id, off, n)
}

// refill moves held bytes to the slab as far as they fit.
func (is *inputs) refill(in *input) {
	for in.held > 0 {
		id, size := in.head, int(is.size[in.head])
		in.headOff += uint16(is.store(in, is.bufs.Bytes(id, size)[in.headOff:]))
		if int(in.headOff) < size {
			return
		}
		in.head, in.headOff = is.next[id], 0
		in.held--
		is.bufs.Release(id)
	}
}

// consume drops the first n stored bytes.
func (is *inputs) consume(in *input, n int) {
	in.r += n
	in.tried = 0
	if in.r == in.w {
		is.slabs.Put(in.slab)
		in.slab = noSlab
	}
}

// free gives everything back.
func (is *inputs) free(in *input) {
	if in.slab != noSlab {
		is.slabs.Put(in.slab)
		in.slab = noSlab
	}
	for ; in.held > 0; in.held-- {
		id := in.head
		in.head = is.next[id]
		is.bufs.Release(id)
	}
	in.headOff = 0
}
