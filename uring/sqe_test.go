package uring

import (
	"encoding/hex"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/uring/internal/abi"
)

const goldenUD = UserData(0x0123456789abcdef)

// sqeCases is every entry that the package can submit. The columns of bytes are the fields of struct io_uring_sqe:
// opcode, flags, ioprio | fd | off | addr | len, op_flags | user_data | buf, personality, file | addr3, pad.
var sqeCases = []struct {
	name  string
	write func(*abi.SQE)
	bytes string
}{
	{"accept", func(e *abi.SQE) { sqeAccept(e, 0x11223344, goldenUD) },
		"0d000100 44332211 0000000000000000 0000000000000000 00000000 00080800 efcdab8967452301 0000000000000000 00000000000000000000000000000000"},
	{"accept one", func(e *abi.SQE) { sqeAcceptOne(e, 0x11223344, goldenUD) },
		"0d000000 44332211 0000000000000000 0000000000000000 00000000 00080800 efcdab8967452301 0000000000000000 00000000000000000000000000000000"},
	{"recv", func(e *abi.SQE) { sqeRecv(e, 7, 0x0102, goldenUD) },
		"1b200200 07000000 0000000000000000 0000000000000000 00000000 00000000 efcdab8967452301 0201000000000000 00000000000000000000000000000000"},
	{"send", func(e *abi.SQE) { sqeSend(e, 7, 0x0000700011223344, 0x10000, 0, goldenUD) },
		"1a000000 07000000 0000000000000000 4433221100700000 00000100 00400000 efcdab8967452301 0000000000000000 00000000000000000000000000000000"},
	{"send with MSG_MORE", func(e *abi.SQE) { sqeSend(e, 7, 0x0000700011223344, 5, unix.MSG_MORE, goldenUD) },
		"1a000000 07000000 0000000000000000 4433221100700000 05000000 00c00000 efcdab8967452301 0000000000000000 00000000000000000000000000000000"},
	{"read", func(e *abi.SQE) { sqeRead(e, 7, 0x0000700011223344, 4096, 0x123456789a, goldenUD) },
		"16000000 07000000 9a78563412000000 4433221100700000 00100000 00000000 efcdab8967452301 0000000000000000 00000000000000000000000000000000"},
	{"read at the current position", func(e *abi.SQE) { sqeRead(e, 7, 0x0000700011223344, 8, -1, goldenUD) },
		"16000000 07000000 ffffffffffffffff 4433221100700000 08000000 00000000 efcdab8967452301 0000000000000000 00000000000000000000000000000000"},
	{"read aside", func(e *abi.SQE) { sqeReadAside(e, 7, 0x0000700011223344, 4096, 0x123456789a, goldenUD) },
		"16100000 07000000 9a78563412000000 4433221100700000 00100000 00000000 efcdab8967452301 0000000000000000 00000000000000000000000000000000"},
	{"willneed, hard-linked", func(e *abi.SQE) { sqeWillneed(e, 7, 0x40000, 0x40000) },
		"18080000 07000000 0000040000000000 0000000000000000 00000400 03000000 0000000000000000 0000000000000000 00000000000000000000000000000000"},
	{"poll for writing", func(e *abi.SQE) { sqePollOut(e, 7, goldenUD) },
		"06000000 07000000 0000000000000000 0000000000000000 00000000 04000000 efcdab8967452301 0000000000000000 00000000000000000000000000000000"},
	{"cancel by user data", func(e *abi.SQE) { sqeCancel(e, 0x1122334455667788, goldenUD) },
		"0e000000 ffffffff 0000000000000000 8877665544332211 00000000 00000000 efcdab8967452301 0000000000000000 00000000000000000000000000000000"},
	{"cancel by descriptor", func(e *abi.SQE) { sqeCancelFD(e, 7, goldenUD) },
		"0e000000 07000000 0000000000000000 0000000000000000 00000000 03000000 efcdab8967452301 0000000000000000 00000000000000000000000000000000"},
	{"nop", func(e *abi.SQE) { sqeNop(e, goldenUD) },
		"00000000 ffffffff 0000000000000000 0000000000000000 00000000 00000000 efcdab8967452301 0000000000000000 00000000000000000000000000000000"},
}

func sqeHex(e *abi.SQE) string {
	return hex.EncodeToString((*[64]byte)(unsafe.Pointer(e))[:])
}

func TestSQEBytes(t *testing.T) {
	for _, c := range sqeCases {
		want := strings.ReplaceAll(c.bytes, " ", "")
		for _, fill := range []byte{0x00, 0xff} { // whatever the slot held before must not matter
			var e abi.SQE
			for i := range (*[64]byte)(unsafe.Pointer(&e)) {
				(*[64]byte)(unsafe.Pointer(&e))[i] = fill
			}
			c.write(&e)
			if got := sqeHex(&e); got != want {
				t.Errorf("%s in a slot full of %#02x:\n got %s\nwant %s", c.name, fill, got, want)
			}
		}
	}
}

func TestUserData(t *testing.T) {
	for _, c := range []struct {
		op   uint8
		slot uint32
		gen  uint32
		want UserData
	}{
		{1, 0, 0, 0x0100000000000000},
		{0xff, 1<<24 - 1, 1<<32 - 1, 0xffffffffffffffff},
		{0x12, 0x345678, 0x9abcdef0, 0x123456789abcdef0},
		{0, 0, 1, 1},
	} {
		u := Tag(c.op, c.slot, c.gen)
		if u != c.want || u.Op() != c.op || u.Slot() != c.slot || u.Gen() != c.gen {
			t.Errorf("Tag(%#x, %#x, %#x) = %#x (%#x, %#x, %#x), want %#x", c.op, c.slot, c.gen, u, u.Op(), u.Slot(), u.Gen(), c.want)
		}
	}
	if u := Tag(1, 1<<24|5, 2); u.Op() != 1 || u.Slot() != 5 {
		t.Errorf("a slot beyond 24 bits spilled into the operation: %#x", u)
	}
}

func TestCompletion(t *testing.T) {
	c := Completion{Res: -int32(unix.ENOBUFS), Flags: abi.CQEMore}
	if c.Err() != unix.ENOBUFS || !c.More() {
		t.Errorf("got %v, more %v; want ENOBUFS, true", c.Err(), c.More())
	}
	c = Completion{Res: 12, Flags: 0xfffe<<abi.CQEBufferShift | abi.CQEBuffer}
	if id, ok := c.Buffer(); c.Err() != 0 || c.More() || id != 0xfffe || !ok {
		t.Errorf("got %v, more %v, buffer %#x %v; want no error, false, 0xfffe true", c.Err(), c.More(), id, ok)
	}
	if _, ok := (Completion{Flags: abi.CQEMore}).Buffer(); ok {
		t.Error("a completion without a buffer offers one")
	}
}
