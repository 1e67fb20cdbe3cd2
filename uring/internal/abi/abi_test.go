package abi

import (
	"testing"
	"unsafe"
)

// The numbers are those of include/uapi/linux/io_uring.h. They can only be wrong together with the kernel.
func TestLayout(t *testing.T) {
	var (
		sqe SQE
		cqe CQE
		p   Params
		buf Buf
		reg BufReg
		arg GetEventsArg
		sc  SyncCancelReg
	)
	for _, c := range []struct {
		what      string
		got, want uintptr
	}{
		{"sizeof SQE", unsafe.Sizeof(sqe), 64},
		{"SQE.ioprio", unsafe.Offsetof(sqe.IOPrio), 2},
		{"SQE.fd", unsafe.Offsetof(sqe.FD), 4},
		{"SQE.off", unsafe.Offsetof(sqe.Off), 8},
		{"SQE.addr", unsafe.Offsetof(sqe.Addr), 16},
		{"SQE.len", unsafe.Offsetof(sqe.Len), 24},
		{"SQE.op_flags", unsafe.Offsetof(sqe.OpFlags), 28},
		{"SQE.user_data", unsafe.Offsetof(sqe.UserData), 32},
		{"SQE.buf_group", unsafe.Offsetof(sqe.BufGroup), 40},
		{"SQE.personality", unsafe.Offsetof(sqe.Personal), 42},
		{"SQE.file_index", unsafe.Offsetof(sqe.FileIdx), 44},
		{"SQE.addr3", unsafe.Offsetof(sqe.Addr3), 48},
		{"SQE.pad2", unsafe.Offsetof(sqe.pad2), 56},
		{"sizeof CQE", unsafe.Sizeof(cqe), 16},
		{"CQE.res", unsafe.Offsetof(cqe.Res), 8},
		{"CQE.flags", unsafe.Offsetof(cqe.Flags), 12},
		{"sizeof Params", unsafe.Sizeof(p), 120},
		{"Params.features", unsafe.Offsetof(p.Features), 20},
		{"Params.resv", unsafe.Offsetof(p.resv), 28},
		{"Params.sq_off", unsafe.Offsetof(p.SQOff), 40},
		{"Params.cq_off", unsafe.Offsetof(p.CQOff), 80},
		{"sq_off.array", unsafe.Offsetof(p.SQOff.Array), 24},
		{"sq_off.resv1", unsafe.Offsetof(p.SQOff.resv1), 28},
		{"sq_off.user_addr", unsafe.Offsetof(p.SQOff.UserAddr), 32},
		{"cq_off.overflow", unsafe.Offsetof(p.CQOff.Overflow), 16},
		{"cq_off.cqes", unsafe.Offsetof(p.CQOff.CQEs), 20},
		{"cq_off.resv1", unsafe.Offsetof(p.CQOff.resv1), 28},
		{"sizeof Restriction", unsafe.Sizeof(Restriction{resv: 0, resv2: [3]uint32{}}), 16},
		{"sizeof RsrcUpdate", unsafe.Sizeof(RsrcUpdate{resv: 0}), 16},
		{"sizeof GetEventsArg", unsafe.Sizeof(arg), 24},
		{"GetEventsArg.pad", unsafe.Offsetof(arg.pad), 12},
		{"GetEventsArg.ts", unsafe.Offsetof(arg.Timespec), 16},
		{"sizeof Timespec", unsafe.Sizeof(Timespec{}), 16},
		{"sizeof SyncCancelReg", unsafe.Sizeof(sc), 64},
		{"SyncCancelReg.timeout", unsafe.Offsetof(sc.Timeout), 16},
		{"SyncCancelReg.pad", unsafe.Offsetof(sc.pad), 32},
		{"sizeof Buf", unsafe.Sizeof(buf), 16},
		{"Buf.bid", unsafe.Offsetof(buf.ID), 12},
		{"buf_ring.tail", unsafe.Offsetof(buf.Tail), 14},
		{"sizeof BufReg", unsafe.Sizeof(reg), 40},
		{"BufReg.bgid", unsafe.Offsetof(reg.Group), 12},
		{"BufReg.flags", unsafe.Offsetof(reg.flags), 14},
		{"BufReg.resv", unsafe.Offsetof(reg.resv), 16},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %d, the kernel has %d", c.what, c.got, c.want)
		}
	}
}
