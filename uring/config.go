package uring

import (
	"fmt"
	"math/bits"

	"github.com/talon-worker/talon/uring/internal/abi"
)

// Config sizes a ring. Zero values take the defaults.
type Config struct {
	// Entries is how many requests can be prepared between two enters, a power of two up to 32,768. Default 4,096.
	Entries uint32
	// CQEntries is how many completions can wait to be reaped, a power of two, at least Entries. Default 2 * Entries. Beyond it the
	// kernel keeps them in memory of its own (see Stats.CQOverflow), so it should exceed what can be in flight.
	CQEntries uint32
	// BoundedWorkers and UnboundedWorkers cap the kernel's worker threads for operations that block: on files, and on
	// everything else. Default 4 and 4. Without a cap 512 slow reads make 512 threads.
	BoundedWorkers, UnboundedWorkers uint32

	extraOps []uint8 // opcodes for tests and the probe, beyond those that the package submits
}

const maxEntries = 32768 // IORING_MAX_ENTRIES

func (c Config) defaulted() Config {
	if c.Entries == 0 {
		c.Entries = 4096
	}
	if c.CQEntries == 0 {
		c.CQEntries = 2 * c.Entries
	}
	if c.BoundedWorkers == 0 {
		c.BoundedWorkers = 4
	}
	if c.UnboundedWorkers == 0 {
		c.UnboundedWorkers = 4
	}
	return c
}

func (c Config) validate() error {
	if !powerOfTwo(c.Entries) || c.Entries < 2 || c.Entries > maxEntries {
		return fmt.Errorf("uring: %d entries: want a power of two from 2 to %d", c.Entries, maxEntries)
	}
	if !powerOfTwo(c.CQEntries) || c.CQEntries < c.Entries || c.CQEntries > 2*maxEntries {
		return fmt.Errorf("uring: %d completion entries: want a power of two from %d to %d", c.CQEntries, c.Entries, 2*maxEntries)
	}
	return nil
}

// setup is the request for io_uring_setup(2). DEFER_TASKRUN makes completions appear only while the owner is in the kernel, which
// spares interrupts and lets the queue indexes be cached; TASKRUN_FLAG shows in a shared word when there are any, which spares
// the enter that would only look. SUBMIT_ALL: one bad entry does not stop those behind it.
func (c Config) setup() abi.Params {
	return abi.Params{
		CQEntries: c.CQEntries,
		Flags: abi.SetupRDisabled | abi.SetupSingleIssuer | abi.SetupDeferTaskrun | abi.SetupCoopTaskrun |
			abi.SetupTaskrunFlag | abi.SetupSubmitAll | abi.SetupCQSize | abi.SetupClamp,
	}
}

func powerOfTwo(n uint32) bool { return bits.OnesCount32(n) == 1 }
