package server

import (
	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/origin"
)

// maxOpenTickets bounds the lookups that one loop has with the opener.
const maxOpenTickets = 4096

// openTicket is one lookup that could wait for a disk, on its way to the opener
// and back. It outlives its connection if that closes first: then nobody is
// there when it comes back, and its file is closed again.
type openTicket struct {
	req   origin.OpenRequest
	msg   message
	asked int64 // mono ns
	slot  uint32
	gen   uint32 // 0: abandoned; generations start at 1
}

func (t *openTicket) abandon() { t.gen = 0 }

// find returns the open file of a key, with a reference for the caller, or why
// there is none. parked means neither: the opener was asked, and the request
// must be answered again when it has replied.
func (l *loop) find(c *conn, key []byte) (f *origin.File, why fault, parked bool) {
	if c.openErr != nil {
		why, c.openErr = openFault(c.openErr), nil
		return nil, why, false
	}
	if f = c.file; f != nil { // the opener's reply to this very request
		c.file = nil
		return f, faultNone, false
	}
	if f, state := l.files.Lookup(key, l.now.mono); state == origin.Hit {
		if l.current(f) {
			l.stats.FilesHit++
			return f, faultNone, false
		}
		l.outdated(f)
		l.releaseFile(f)
	}
	l.stats.FilesMissed++
	fd, info, err := l.cfg.Origin.TryOpen(&l.scratch, key)
	if err == origin.ErrBusy {
		// Perhaps for want of a descriptor: one that nobody reads from is given up, here
		// and now, for closed elsewhere it would come too late for this request.
		if spare := l.files.Evict(); spare >= 0 {
			unix.Close(spare)
			fd, info, err = l.cfg.Origin.TryOpen(&l.scratch, key)
		}
	}
	switch err {
	case nil:
		return l.insert(key, fd, info, l.now.mono)
	case origin.ErrWouldBlock:
		l.stats.FilesDeferred++
		if l.askOpener(c, key) {
			return nil, faultNone, true
		}
		l.stats.OpensRefused++
		return nil, faultBusy, false
	}
	l.closeFile(l.files.Forget(key))
	return nil, openFault(err), false
}

// outdated makes the cache open the file's key anew for the next request.
func (l *loop) outdated(f *origin.File) {
	l.stats.FilesChanged++
	l.seen = glance{}
	l.closeFile(l.files.Forget(f.Key))
}

// insert caches a file that an open asked for at the mono time asked has found.
func (l *loop) insert(key []byte, fd int, info origin.Info, asked int64) (*origin.File, fault, bool) {
	f, closeFD := l.files.Insert(key, fd, info, asked)
	l.closeFile(closeFD)
	if f == nil {
		return nil, faultBusy, false
	}
	return f, faultNone, false
}

// askOpener parks c until the opener has replied; false means that it is too
// busy to be asked.
func (l *loop) askOpener(c *conn, key []byte) bool {
	t := l.ticket()
	if t == nil {
		return false
	}
	t.slot, t.gen, t.asked = c.slot, c.gen, l.now.mono
	if t.req.SetKey(key) != nil || l.opener.Submit(&t.req) != nil {
		l.tickets = append(l.tickets, t)
		return false
	}
	c.opening, c.state = t, stateOpening
	return true
}

// ticket returns a free ticket, nil when all are out.
func (l *loop) ticket() *openTicket {
	if n := len(l.tickets); n > 0 {
		t := l.tickets[n-1]
		l.tickets = l.tickets[:n-1]
		return t
	}
	if l.opens == maxOpenTickets {
		return nil
	}
	l.opens++
	t := &openTicket{}
	t.msg.run = func(l *loop) { l.opened(t) }
	t.req.Done = func(*origin.OpenRequest) { l.mail.post(&t.msg) }
	return t
}

// opened takes a lookup back from the opener and answers its request again, now
// with the file in hand.
func (l *loop) opened(t *openTicket) {
	c := &l.conns[t.slot]
	wanted := c.gen == t.gen && c.opening == t
	switch {
	case t.req.Err == nil && wanted:
		c.file, _, _ = l.insert(t.req.Key(), t.req.FD, t.req.Info, t.asked)
		if c.file == nil {
			c.openErr = origin.ErrBusy
		}
	case t.req.Err == nil:
		l.closeFile(t.req.FD)
	case wanted:
		c.openErr = t.req.Err
	}
	l.tickets = append(l.tickets, t)
	if !wanted {
		return
	}
	if c.opening = nil; c.raw != noSlab {
		l.resume(c)
		return
	}
	c.state = stateReading
	c.in.tried = 0
	l.advance(c)
}

// openFault is what the client is told about an object that cannot be opened.
func openFault(err error) fault {
	switch err {
	case origin.ErrNotExist:
		return faultNotFound
	case origin.ErrPermission:
		return faultForbidden
	case origin.ErrBusy:
		return faultBusy
	}
	return faultInternal
}

// objectHeadOf returns the header lines that all responses of f share. They are
// rendered once into the file's own memory, with their two offsets before them.
func objectHeadOf(f *origin.File) objectHead {
	if len(f.Head) == 0 {
		if cap(f.Head) < 2+objectHeadLen {
			f.Head = make([]byte, 0, 2+objectHeadLen)
		}
		o := makeObjectHead(f.Head[2:2], contentType(f.Key), f.Info.Size, f.Info.ModTimeNs)
		f.Head = f.Head[:2+len(o.lines)]
		f.Head[0], f.Head[1] = uint8(o.cached), uint8(o.tag)
	}
	return objectHead{
		cached: int(f.Head[0]), tag: int(f.Head[1]), lines: f.Head[2:],
		mtime: floorSeconds(f.Info.ModTimeNs),
	}
}

// The offsets fit a byte each.
const _ = uint8(objectHeadLen)

func (l *loop) releaseFile(f *origin.File) { l.closeFile(l.files.Release(f)) }

// closeFile closes a descriptor off the ring thread: the last close of a large
// deleted file frees its blocks before it returns. Operations that name the
// descriptor and are not submitted yet hold a reference to its File, so it is not
// among those that are closed.
func (l *loop) closeFile(fd int) {
	if fd >= 0 {
		l.opener.CloseFile(fd)
	}
}

// unusedFor is how long an open file may go unasked for, in ns: a descriptor keeps
// the blocks of a deleted file. dropMost bounds what one second closes.
const (
	unusedFor = 60e9
	dropMost  = 64
)

// dropUnused closes files that nobody has asked for in a while.
func (l *loop) dropUnused() {
	for range dropMost {
		fd := l.files.EvictUnused(l.now.mono - unusedFor)
		if fd < 0 {
			return
		}
		l.closeFile(fd)
	}
}
