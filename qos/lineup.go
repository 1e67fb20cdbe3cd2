package qos

// A reporter stands in up to four lines of its meter at once. They are intrusive, so that moving from one to another allocates nothing
// and costs the same for ten reporters and for ten thousand.
const (
	byLease  = iota // all active reporters, the one that was heard longest ago first
	byView          // those whose newest snapshot may be in force, oldest snapshot first
	byExpiry        // those with a reservation that expired and is not named dead, oldest first
	byTurn          // those whose need waits, first come first
	byPush          // those to whom a snapshot is to be pushed
	numLines
)

// links are a reporter's neighbours in one line.
type links struct {
	prev, next *reporter
}

// A lineup is one line of reporters.
type lineup struct {
	head, tail *reporter
	len        int
}

// add puts r at the end of the line, moving it there if it is in it.
func (l *lineup) add(kind int, r *reporter) {
	if l.tail == r {
		return
	}
	l.drop(kind, r)
	r.links[kind], r.in[kind] = links{prev: l.tail}, true
	if l.tail != nil {
		l.tail.links[kind].next = r
	} else {
		l.head = r
	}
	l.tail = r
	l.len++
}

// drop takes r out of the line if it is in it.
func (l *lineup) drop(kind int, r *reporter) {
	if !r.in[kind] {
		return
	}
	at := r.links[kind]
	if at.prev != nil {
		at.prev.links[kind].next = at.next
	} else {
		l.head = at.next
	}
	if at.next != nil {
		at.next.links[kind].prev = at.prev
	} else {
		l.tail = at.prev
	}
	r.links[kind], r.in[kind] = links{}, false
	l.len--
}
