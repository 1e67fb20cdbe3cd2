package uringtest

import "golang.org/x/sys/unix"

// Faults are the probabilities, from 0 to 1, of what goes wrong, each asked where it can happen. The zero Faults is a kernel
// that does everything at once and in full.
type Faults struct {
	Late    float64 // a request is tried, or its completion posted, up to MaxLate enters later
	MaxLate int

	Reorder float64 // of the completions that are due, another than the oldest is posted; those of one request stay in order
	Short   float64 // a receive, send or read of fewer bytes than it could have, at least one

	Error  float64 // a request fails with one of Errnos, having done nothing
	Errnos Errnos

	EndMultishot float64 // a multishot request succeeds and is over
	NoBuffers    float64 // a receive ends with ENOBUFS although there are buffers
	CancelRace   float64 // a cancellation finds its request under way (EALREADY): it may complete yet

	Busy        float64 // an enter takes nothing and reports EBUSY, EAGAIN or ENOMEM
	Interrupted float64 // an enter takes nothing and reports EINTR
	Partial     float64 // an enter takes some of what is submitted
}

// Errnos are what injected failures choose from; an empty list fails nothing. EINTR and EAGAIN ask for the same request again.
type Errnos struct {
	Accept, Recv, Send, Read, Event, Poll, Advise []unix.Errno // Event is a read at the current position
}

// DefaultFaults make everything happen in a run of a few hundred requests.
func DefaultFaults() Faults {
	return Faults{
		Late: 0.3, MaxLate: 4, Reorder: 0.3, Short: 0.3, Error: 0.02, Errnos: DefaultErrnos(), EndMultishot: 0.05, NoBuffers: 0.03, CancelRace: 0.2,
		Busy: 0.03, Interrupted: 0.03, Partial: 0.1,
	}
}

// DefaultErrnos are what Linux gives for the operation on a machine that works.
func DefaultErrnos() Errnos {
	return Errnos{
		Accept: []unix.Errno{unix.EMFILE, unix.ENFILE, unix.ECONNABORTED, unix.EINTR, unix.ENOBUFS, unix.ENOMEM},
		Recv:   []unix.Errno{unix.ECONNRESET, unix.EINTR, unix.EAGAIN, unix.ETIMEDOUT},
		Send:   []unix.Errno{unix.EPIPE, unix.ECONNRESET, unix.EINTR, unix.EAGAIN, unix.ECANCELED},
		Read:   []unix.Errno{unix.EIO, unix.EINTR, unix.EAGAIN, unix.ECANCELED},
		Event:  []unix.Errno{unix.EINTR, unix.EAGAIN, unix.ECANCELED},
		Poll:   []unix.Errno{unix.ECANCELED, unix.ENOMEM},
		Advise: []unix.Errno{unix.EIO, unix.EINVAL},
	}
}

// Counts says how often each fault fired; a test that relies on one looks here, or it may test nothing.
type Counts struct {
	Late, Reordered, Short, Errors, MultishotEnds, NoBuffers, CancelRaces, Busy, Interrupted, Partial uint64

	Enters   uint64 // all enters
	Overflow uint64 // completions that found the completion queue full
	Poisoned uint64 // released buffers that were overwritten
}

// chance rolls for a fault and counts it.
func (k *Kernel) chance(p float64, fired *uint64) bool {
	if p == 0 || k.rand.Float64() >= p {
		return false
	}
	*fired++
	return true
}

// late is how many enters something takes longer.
func (k *Kernel) late() uint64 {
	if k.faults.MaxLate == 0 || !k.chance(k.faults.Late, &k.counts.Late) {
		return 0
	}
	return 1 + k.rand.Uint64N(uint64(k.faults.MaxLate))
}

// short cuts a count of bytes, sometimes.
func (k *Kernel) short(n uint32) uint32 {
	if n < 2 || !k.chance(k.faults.Short, &k.counts.Short) {
		return n
	}
	return 1 + k.rand.Uint32N(n-1)
}

// fail chooses an errno, sometimes; 0 is none.
func (k *Kernel) fail(list []unix.Errno) unix.Errno {
	if len(list) == 0 || !k.chance(k.faults.Error, &k.counts.Errors) {
		return 0
	}
	return list[k.rand.IntN(len(list))]
}
