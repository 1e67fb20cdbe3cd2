package uring

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/uring/internal/abi"
)

// UserData names a request: op(8) | slot(24) | generation(32). It never holds a descriptor: close does not end a request, the number
// comes back for the next connection, and the old request would complete under the new one's name. The zero UserData is the ring's own.
type UserData uint64

// Tag packs a UserData. Only the low 24 bits of slot count.
func Tag(op uint8, slot uint32, gen uint32) UserData {
	return UserData(op)<<56 | UserData(slot&(1<<24-1))<<32 | UserData(gen)
}

// Op is the operation as the caller numbers them, not the kernel's opcode.
func (u UserData) Op() uint8 { return uint8(u >> 56) }

// Slot is the caller's table index, 24 bits.
func (u UserData) Slot() uint32 { return uint32(u>>32) & (1<<24 - 1) }

// Gen is the generation of the slot; a completion whose generation has passed is dropped by the caller.
func (u UserData) Gen() uint32 { return uint32(u) }

// Completion is the kernel's answer to a request, copied out of the ring.
type Completion struct {
	UserData UserData
	Res      int32 // >= 0: the operation's result; < 0: a negated errno
	Flags    uint32
}

// More reports whether the same multishot request will complete again. When it is false the request is over, whatever Res says, and has to be
// armed again: a multishot accept ends on EMFILE and a multishot receive on ENOBUFS, both without any other sign.
func (c Completion) More() bool { return c.Flags&abi.CQEMore != 0 }

// Err is the errno of a failed request, 0 otherwise.
func (c Completion) Err() unix.Errno {
	if c.Res >= 0 {
		return 0
	}
	return unix.Errno(-c.Res)
}

// Buffer is the provided buffer that the kernel filled, if any. It is on lease to the caller and must be released, whatever Res says.
func (c Completion) Buffer() (id uint16, ok bool) {
	return uint16(c.Flags >> abi.CQEBufferShift), c.Flags&abi.CQEBuffer != 0
}

// String is for messages of tests and of the probe.
func (c Completion) String() string {
	if c.Res < 0 {
		return fmt.Sprintf("request %#x with %v, flags %#x", uint64(c.UserData), c.Err(), c.Flags)
	}
	return fmt.Sprintf("request %#x with %d, flags %#x", uint64(c.UserData), c.Res, c.Flags)
}
