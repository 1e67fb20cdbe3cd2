package uringtest

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/uring/internal/abi"
)

// group is the kernel's side of a provided-buffer ring.
type group struct {
	slots []abi.Buf
	head  uint16 // the next slot to take
	seen  uint16 // slots below have been poisoned
}

func (k *Kernel) addGroup(reg *abi.BufReg) unix.Errno {
	if reg.RingEntries == 0 || reg.RingEntries >= 65536 || reg.RingEntries&(reg.RingEntries-1) != 0 {
		return unix.EINVAL
	}
	if k.groups[reg.Group] != nil {
		return unix.EEXIST
	}
	k.groups[reg.Group] = &group{slots: unsafe.Slice((*abi.Buf)(pointer(reg.RingAddr)), reg.RingEntries)}
	return 0
}

func (k *Kernel) removeGroup(id uint16) unix.Errno {
	if k.groups[id] == nil {
		return unix.ENOENT
	}
	delete(k.groups, id)
	return 0
}

// pointer makes an address of another mapping usable. It is not Go memory, so nothing about it can be checked.
func pointer(addr uint64) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&addr)) }

// tail is the process's word: the upper half of what follows slot 0's length.
func (g *group) tail() uint16 {
	return uint16(atomic.LoadUint32((*uint32)(unsafe.Pointer(&g.slots[0].ID))) >> 16)
}

// first is the next buffer that a receive would take.
func (g *group) first() (abi.Buf, bool) {
	if g.head == g.tail() {
		return abi.Buf{}, false
	}
	return g.slots[g.head&uint16(len(g.slots)-1)], true
}

// watchGroups overwrites what has been released since the last enter, as the next bytes from the network could.
func (k *Kernel) watchGroups() {
	for _, g := range k.groups {
		for tail := g.tail(); g.seen != tail; g.seen++ {
			b := g.slots[g.seen&uint16(len(g.slots)-1)]
			for i, p := 0, unsafe.Slice((*byte)(pointer(b.Addr)), b.Len); i < len(p); i++ {
				p[i] = poison
			}
			k.counts.Poisoned++
		}
	}
}

const poison = 0xdb
