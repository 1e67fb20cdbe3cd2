package sim

// An event is something that happens at one moment of virtual time.
type event struct {
	at   int64
	tie  uint64 // what is due at one moment happens in the order that the seed gives
	kind kind
	who  int32
	gen  uint32 // of who: an event for an earlier one is void
}

type kind uint8

const (
	aTurn     kind = iota // a ring goes on
	anArrival             // a connection has a request
	aRoom                 // its socket can take more
	aSent                 // what was submitted has been sent
	aReady                // its file is open, or its pages are in memory
	aLeaving              // the client goes away
	aDeed                 // something is done to the world
)

// events is a binary heap, earliest first.
type events []event

func (q events) before(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].tie < q[j].tie
}

func (q *events) push(e event) {
	*q = append(*q, e)
	h := *q
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h.before(i, up) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
}

func (q *events) pop() event {
	h := *q
	first := h[0]
	n := len(h) - 1
	h[0] = h[n]
	h = h[:n]
	for i := 0; ; {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < n; c++ {
			if h.before(c, least) {
				least = c
			}
		}
		if least == i {
			break
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
	*q = h
	return first
}
