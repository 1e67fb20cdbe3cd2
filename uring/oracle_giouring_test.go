//go:build giouring

package uring

import (
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/pawelgaczynski/giouring"
	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/uring/internal/abi"
)

// theirs is what giouring writes for each of sqeCases.
var theirs = map[string]func(*giouring.SubmissionQueueEntry){
	"accept": func(e *giouring.SubmissionQueueEntry) {
		e.PrepareMultishotAccept(0x11223344, 0, 0, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	},
	"accept one": func(e *giouring.SubmissionQueueEntry) {
		e.PrepareAccept(0x11223344, 0, 0, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	},
	"recv": func(e *giouring.SubmissionQueueEntry) {
		e.PrepareRecvMultishot(7, 0, 0, 0)
		e.Flags |= giouring.SqeBufferSelect
		e.BufIG = 0x0102
	},
	"send": func(e *giouring.SubmissionQueueEntry) {
		e.PrepareSend(7, 0x0000700011223344, 0x10000, unix.MSG_NOSIGNAL)
	},
	"send with MSG_MORE": func(e *giouring.SubmissionQueueEntry) {
		e.PrepareSend(7, 0x0000700011223344, 5, unix.MSG_MORE|unix.MSG_NOSIGNAL)
	},
	"read": func(e *giouring.SubmissionQueueEntry) { e.PrepareRead(7, 0x0000700011223344, 4096, 0x123456789a) },
	"read at the current position": func(e *giouring.SubmissionQueueEntry) {
		e.PrepareRead(7, 0x0000700011223344, 8, ^uint64(0))
	},
	"read aside": func(e *giouring.SubmissionQueueEntry) {
		e.PrepareRead(7, 0x0000700011223344, 4096, 0x123456789a)
		e.Flags |= giouring.SqeAsync
	},
	"willneed, hard-linked": func(e *giouring.SubmissionQueueEntry) {
		e.PrepareFadvise(7, 0x40000, 0x40000, unix.FADV_WILLNEED)
		e.Flags |= giouring.SqeIOHardlink
	},
	"poll for writing":     func(e *giouring.SubmissionQueueEntry) { e.PreparePollAdd(7, unix.POLLOUT) },
	"cancel by user data":  func(e *giouring.SubmissionQueueEntry) { e.PrepareCancel64(0x1122334455667788, 0) },
	"cancel by descriptor": func(e *giouring.SubmissionQueueEntry) { e.PrepareCancelFd(7, giouring.AsyncCancelAll) },
	"nop":                  func(e *giouring.SubmissionQueueEntry) { e.PrepareNop() },
}

// Two authors, the same bytes: in a clean slot giouring is right about every operation that we submit.
func TestSQEBytesEqualGiourings(t *testing.T) {
	for _, c := range sqeCases {
		write := theirs[c.name]
		if write == nil {
			t.Errorf("%s: no counterpart", c.name)
			continue
		}
		var e giouring.SubmissionQueueEntry
		write(&e)
		if c.name != "willneed, hard-linked" { // which completes under the ring's own user data, 0
			e.UserData = uint64(goldenUD)
		}
		if got, want := sqeHex((*abi.SQE)(unsafe.Pointer(&e))), strings.ReplaceAll(c.bytes, " ", ""); got != want {
			t.Errorf("%s:\n giouring %s\n     ours %s", c.name, got, want)
		}
	}
}

// Where giouring is wrong (v0.0.0-20230826085535-69588b89acb9), by file and line. Each entry is checked: if one no longer differs from what
// the kernel wants, the list is out of date.
func TestWhereGiouringIsWrong(t *testing.T) {
	data := []byte("data\x00")
	addr := uint64(uintptr(unsafe.Pointer(&data[0])))
	how := &unix.OpenHow{}
	ts := &syscall.Timespec{Nsec: 1}
	for _, c := range []struct {
		op, does, where string
		write           func(*giouring.SubmissionQueueEntry)
		field           func(*giouring.SubmissionQueueEntry) uint64
		want            uint64
	}{
		{"READ in a used slot", "leaves rw_flags of the slot's last use: EOPNOTSUPP", "prepare.go:40",
			func(e *giouring.SubmissionQueueEntry) {
				e.PrepareSend(7, 0, 0, unix.MSG_NOSIGNAL)
				e.PrepareRead(7, 0, 1, 0)
			}, opFlags, 0},
		{"READ in a used slot", "leaves addr3 of the slot's last use", "prepare.go:40",
			func(e *giouring.SubmissionQueueEntry) {
				e.Addr3 = 1
				e.PrepareRead(7, 0, 1, 0)
			}, func(e *giouring.SubmissionQueueEntry) uint64 { return e.Addr3 }, 0},
		{"TIMEOUT", "passes the address of its own parameter: never fires", "prepare.go:514",
			func(e *giouring.SubmissionQueueEntry) { e.PrepareTimeout(ts, 0, 0) }, bufferOf, uint64(uintptr(unsafe.Pointer(ts)))},
		{"TIMEOUT_REMOVE", "has no way to name the timeout: the count lands in off", "prepare.go:520",
			func(e *giouring.SubmissionQueueEntry) { e.PrepareTimeoutRemove(time.Second, 0x77, 0) }, bufferOf, 0x77},
		{"OPENAT", "passes the address of the slice header: ENOENT", "prepare.go:234",
			func(e *giouring.SubmissionQueueEntry) { e.PrepareOpenat(7, data, 0, 0) }, bufferOf, addr},
		{"OPENAT2", "uses the opcode of OPENAT", "prepare.go:240",
			func(e *giouring.SubmissionQueueEntry) { e.PrepareOpenat2(7, data, how) },
			func(e *giouring.SubmissionQueueEntry) uint64 { return uint64(e.OpCode) }, 28},
		{"OPENAT2", "passes the address of the slice header", "prepare.go:240",
			func(e *giouring.SubmissionQueueEntry) { e.PrepareOpenat2(7, data, how) }, bufferOf, addr},
		{"STATX", "passes the address of the slice header: ENOENT", "prepare.go:484",
			func(e *giouring.SubmissionQueueEntry) { e.PrepareStatx(7, data, 0, 0, nil) }, bufferOf, addr},
		{"MKDIRAT", "passes the address of the slice header", "prepare.go:183",
			func(e *giouring.SubmissionQueueEntry) { e.PrepareMkdirat(7, data, 0) }, bufferOf, addr},
		{"RENAMEAT", "passes the address of the slice header", "prepare.go:379",
			func(e *giouring.SubmissionQueueEntry) { e.PrepareRename(data, data) }, bufferOf, addr},
		{"LINKAT", "passes the address of the slice header", "prepare.go:165",
			func(e *giouring.SubmissionQueueEntry) { e.PrepareLinkat(7, data, 8, data, 0) }, bufferOf, addr},
		{"SYMLINKAT", "passes the address of the slice header", "prepare.go:495",
			func(e *giouring.SubmissionQueueEntry) { e.PrepareSymlinkat(data, 7, data) }, bufferOf, addr},
		{"FSETXATTR", "passes the address of the slice header", "prepare.go:132",
			func(e *giouring.SubmissionQueueEntry) { e.PrepareFsetxattr(7, data, data, 0) }, bufferOf, addr},
		{"SEND to an address", "sends the slice header: a heap address, on the wire", "prepare.go:435",
			func(e *giouring.SubmissionQueueEntry) { e.PrepareSendto(7, data, 0, nil, 0) }, bufferOf, addr},
		{"SEND_ZC", "sends the slice header: a heap address, on the wire", "prepare.go:403",
			func(e *giouring.SubmissionQueueEntry) { e.PrepareSendZC(7, data, 0, 0) }, bufferOf, addr},
		{"MSG_RING with a descriptor", "puts the address of a variable where the command belongs: EINVAL", "prepare.go:201",
			func(e *giouring.SubmissionQueueEntry) { e.PrepareMsgRingFd(7, 8, 9, 0, 0) }, bufferOf, 1},
	} {
		e := new(giouring.SubmissionQueueEntry)
		c.write(e)
		if got := c.field(e); got == c.want {
			t.Errorf("%s: giouring is right now (%#x), the list says that it %s (%s)", c.op, got, c.does, c.where)
		}
	}
}

func bufferOf(e *giouring.SubmissionQueueEntry) uint64 { return e.Addr }

func opFlags(e *giouring.SubmissionQueueEntry) uint64 { return uint64(e.OpcodeFlags) }

// Its buffer rings end at 4,096 slots: the offset of a slot is a product in 16 bits (buffer.go:34). Ours do not.
func TestGiouringsBufferRingWraps(t *testing.T) {
	slots := make([]giouring.BufAndRing, 8192)
	slots[0].Tail = 4096
	slots[0].BufRingAdd(1, 2, 3, 8191, 0)
	if slots[4096].Len == 2 || slots[0].Len != 2 {
		t.Errorf("slot 4096 has length %d and slot 0 has %d: giouring is right now, and the list is out of date", slots[4096].Len, slots[0].Len)
	}
}
