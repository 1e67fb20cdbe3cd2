package uringtest

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/uring/internal/abi"
)

// Register is part of the seam to package uring.
func (k *Kernel) Register(op uint32, arg unsafe.Pointer, n uint32) unix.Errno {
	if k.owner != 0 && k.owner != unix.Gettid() {
		return unix.EEXIST
	}
	if k.owner != 0 && k.restricted && !k.allowedRegisters[uint8(op)] {
		return unix.EACCES
	}
	switch op {
	case abi.RegisterRestrictions:
		return k.restrict(unsafe.Slice((*abi.Restriction)(arg), n))
	case abi.RegisterIOWQMaxWorkers:
		return 0
	case abi.RegisterEnableRings:
		k.owner = unix.Gettid()
		return 0
	case abi.RegisterPbufRing:
		return k.addGroup((*abi.BufReg)(arg))
	case abi.UnregisterPbufRing:
		return k.removeGroup((*abi.BufReg)(arg).Group)
	case abi.RegisterSyncCancel:
		k.cancelEverything()
		return 0
	}
	return unix.EINVAL
}

func (k *Kernel) restrict(list []abi.Restriction) unix.Errno {
	if k.owner != 0 || k.restricted {
		return unix.EBUSY
	}
	for _, r := range list {
		switch r.Opcode {
		case abi.RestrictSQEOp:
			k.allowedOps[r.Value] = true
		case abi.RestrictRegisterOp:
			k.allowedRegisters[r.Value] = true
		case abi.RestrictSQEFlags:
			k.allowedFlags = r.Value
		default:
			return unix.EINVAL
		}
	}
	k.restricted = true
	return 0
}

// dropAll ends everything in flight without a completion.
func (k *Kernel) dropAll() {
	for _, r := range k.pending {
		k.release(r)
	}
	k.pending, k.posted = nil, nil
}
