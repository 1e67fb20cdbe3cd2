package abi

// SQE is struct io_uring_sqe: one submission entry, 64 bytes. The unions of the C header are named after the use that uring makes of them.
type SQE struct {
	Opcode   uint8
	Flags    uint8  // SQE*
	IOPrio   uint16 // *Multishot for accept and recv
	FD       int32
	Off      uint64 // file offset; addr2 of accept
	Addr     uint64 // buffer; target user data of cancel
	Len      uint32
	OpFlags  uint32 // msg_flags, accept_flags, poll32_events, cancel_flags, fadvise_advice, rw_flags
	UserData uint64
	BufGroup uint16 // buf_index or buf_group
	Personal uint16
	FileIdx  uint32 // splice_fd_in or file_index
	Addr3    uint64
	pad2     uint64
}

// CQE is struct io_uring_cqe without the 16 bytes of CQE32: one completion, 16 bytes.
type CQE struct {
	UserData uint64
	Res      int32
	Flags    uint32 // CQE*; the upper 16 bits are the buffer id where CQEBuffer is set
}

// Params is struct io_uring_params, 120 bytes: what is asked of io_uring_setup(2) and what it answers.
type Params struct {
	SQEntries, CQEntries      uint32
	Flags                     uint32 // Setup*
	SQThreadCPU, SQThreadIdle uint32
	Features                  uint32 // Feat*
	WQFD                      uint32
	resv                      [3]uint32
	SQOff                     SQOffsets
	CQOff                     CQOffsets
}

// SQOffsets is struct io_sqring_offsets: where the words of the submission queue lie in the ring mapping, in bytes.
type SQOffsets struct {
	Head, Tail, RingMask, RingEntries, Flags, Dropped, Array, resv1 uint32
	UserAddr                                                        uint64
}

// CQOffsets is struct io_cqring_offsets: the same for the completion queue.
type CQOffsets struct {
	Head, Tail, RingMask, RingEntries, Overflow, CQEs, Flags, resv1 uint32
	UserAddr                                                        uint64
}

// Opcodes of the operations that uring submits, enum io_uring_op.
const (
	OpNop         = 0
	OpPollAdd     = 6
	OpAccept      = 13
	OpAsyncCancel = 14
	OpRead        = 22
	OpFadvise     = 24
	OpSend        = 26
	OpRecv        = 27
)

// Flags of an SQE (sqe->flags) and of its ioprio field.
const (
	SQEHardlink     = 1 << 3
	SQEAsync        = 1 << 4
	SQEBufferSelect = 1 << 5

	AcceptMultishot = 1 << 0
	RecvMultishot   = 1 << 1
)

// Flags of IORING_OP_ASYNC_CANCEL and of IORING_REGISTER_SYNC_CANCEL.
const (
	CancelAll = 1 << 0
	CancelFD  = 1 << 1
	CancelAny = 1 << 2
)

// Flags of a CQE.
const (
	CQEBuffer       = 1 << 0
	CQEMore         = 1 << 1
	CQESockNonempty = 1 << 2
	CQEBufferShift  = 16
)

// Flags of io_uring_setup(2).
const (
	SetupCQSize       = 1 << 3
	SetupClamp        = 1 << 4
	SetupRDisabled    = 1 << 6
	SetupSubmitAll    = 1 << 7
	SetupCoopTaskrun  = 1 << 8
	SetupTaskrunFlag  = 1 << 9
	SetupSingleIssuer = 1 << 12
	SetupDeferTaskrun = 1 << 13
)

// Features that the kernel reports in Params.
const (
	FeatSingleMmap = 1 << 0
	FeatNoDrop     = 1 << 1
	FeatExtArg     = 1 << 8
)

// Flags of io_uring_enter(2).
const (
	EnterGetEvents      = 1 << 0
	EnterExtArg         = 1 << 3
	EnterRegisteredRing = 1 << 4
)

// Bits of the submission queue's flags word.
const (
	SQCQOverflow = 1 << 1
	SQTaskrun    = 1 << 2
)

// Offsets for mmap(2) of the ring's descriptor.
const (
	OffRings = 0
	OffSQEs  = 0x10000000
)

// Opcodes of io_uring_register(2).
const (
	RegisterProbe          = 8
	RegisterRestrictions   = 11
	RegisterEnableRings    = 12
	RegisterIOWQMaxWorkers = 19
	RegisterRingFDs        = 20
	UnregisterRingFDs      = 21
	RegisterPbufRing       = 22
	UnregisterPbufRing     = 23
	RegisterSyncCancel     = 24
)

// Restriction is struct io_uring_restriction, 16 bytes: one line of the allow-list that holds once the ring is enabled.
type Restriction struct {
	Opcode uint16 // Restrict*
	Value  uint8  // register opcode, SQE opcode or SQE flags
	resv   uint8
	resv2  [3]uint32
}

// Kinds of restriction.
const (
	RestrictRegisterOp = 0
	RestrictSQEOp      = 1
	RestrictSQEFlags   = 2
)

// RsrcUpdate is struct io_uring_rsrc_update, 16 bytes, as IORING_REGISTER_RING_FDS uses it.
type RsrcUpdate struct {
	Offset uint32
	resv   uint32
	Data   uint64
}

// RingFDAny as Offset lets the kernel choose the slot of a registered ring descriptor.
const RingFDAny = ^uint32(0)

// GetEventsArg is struct io_uring_getevents_arg, 24 bytes.
type GetEventsArg struct {
	Sigmask   uint64
	SigmaskSz uint32
	pad       uint32
	Timespec  uint64 // address of a Timespec; 0 means no limit
}

// Timespec is struct __kernel_timespec, 16 bytes.
type Timespec struct {
	Sec, Nsec int64
}

// SyncCancelReg is struct io_uring_sync_cancel_reg, 64 bytes. A Timeout of -1, -1 waits without limit.
type SyncCancelReg struct {
	Addr    uint64
	FD      int32
	Flags   uint32
	Timeout Timespec
	pad     [4]uint64
}

// Buf is struct io_uring_buf, 16 bytes: one slot of a provided-buffer ring. In slot 0 the last two bytes are not padding but
// the ring's tail (struct io_uring_buf_ring overlays them), so a slot is written field by field, never as a whole.
type Buf struct {
	Addr uint64
	Len  uint32
	ID   uint16
	Tail uint16
}

// BufReg is struct io_uring_buf_reg, 40 bytes.
type BufReg struct {
	RingAddr    uint64
	RingEntries uint32
	Group       uint16
	flags       uint16
	resv        [3]uint64
}
