package uring

// Stats counts what a ring did. They are plain words of the owning thread: read them there.
type Stats struct {
	Enters      uint64 // calls of io_uring_enter
	Waits       uint64 // of these, how many were allowed to sleep
	Submitted   uint64 // entries that the kernel took, the ring's own included
	Completed   uint64 // completions that Next handed out
	SQFull      uint64 // a Prepare method found the queue full and submitted it
	Refused     uint64 // ... and still found no room: it returned false
	Partial     uint64 // enters that took fewer entries than there were
	CQOverflow  uint64 // enters after which completions waited outside the completion queue
	Interrupted uint64 // EINTR: a signal, usually the Go scheduler's own
	Busy        uint64 // EBUSY, EAGAIN, ENOMEM: completions in the way, or no memory
}

// Add sums o into s.
func (s *Stats) Add(o *Stats) {
	s.Enters += o.Enters
	s.Waits += o.Waits
	s.Submitted += o.Submitted
	s.Completed += o.Completed
	s.SQFull += o.SQFull
	s.Refused += o.Refused
	s.Partial += o.Partial
	s.CQOverflow += o.CQOverflow
	s.Interrupted += o.Interrupted
	s.Busy += o.Busy
}
