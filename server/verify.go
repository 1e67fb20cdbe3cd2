package server

import "github.com/talon-worker/talon/origin"

// A local file is to be replaced by rename; one that is changed in place must not
// yield a response that looks whole. So its fstat is compared with what the
// response's head says before the first byte is read and after the last. Between
// two readings of the clock the first comparison is made once per file, and the
// second once per file at the end of the turn, after everything that was read from
// it: on a hot file that is 2 calls a turn instead of 2 a request (a sixth of the
// system calls of a small response).

// glance remembers that a file was found current in a turn.
type glance struct {
	file *origin.File
	turn uint64
}

// current reports whether the file is still what its cached head says, as of this
// turn.
func (l *loop) current(f *origin.File) bool {
	now := glance{f, l.stats.Turns}
	if l.seen == now {
		return true
	}
	if !unchanged(f) {
		return false
	}
	l.seen = now
	return true
}

// unchanged asks the kernel.
func unchanged(f *origin.File) bool {
	info, err := origin.Stat(f.FD)
	return err == nil && info.Same(f.Info)
}

// verify holds a response back, whose last byte of the file has been read, until
// the end of the turn.
func (l *loop) verify(c *conn) {
	c.state = stateVerifying
	l.unverified = append(l.unverified, c.slot)
}

// verifyAll lets the responses go on whose files did not change while they were
// read. A small one has not been sent yet and can still be refused; of a large
// one, the client may have a mixture, and only a connection that ends without
// another word can say so.
//
// A response that ends here may start another that is read at once: it waits for a
// look of its own, in the next round.
func (l *loop) verifyAll() {
	for len(l.unverified) > 0 {
		batch := l.unverified
		l.unverified, l.verifying = l.verifying[:0], batch
		var last *origin.File
		same := false
		for _, slot := range batch {
			c := &l.conns[slot]
			if c.state != stateVerifying {
				continue
			}
			if c.file != last {
				last, same = c.file, unchanged(c.file)
			}
			l.verified(c, same)
		}
	}
}

func (l *loop) verified(c *conn, same bool) {
	small := c.slab != noSlab
	if !same {
		l.outdated(c.file)
	}
	switch {
	case same && small:
		l.sendSlab(c, c.sendEnd)
	case same:
		l.finish(c)
	case small:
		l.deny(c, faultChanged)
	default:
		l.close(c, ClosedFile)
	}
}
