package server

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/talon-worker/talon/origin"
	"github.com/talon-worker/talon/qos"
	"github.com/talon-worker/talon/sched"
)

// Config is what a worker's data plane needs to run. Zero fields take the
// default named beside them; New validates the whole once, and nothing may
// change it afterwards.
type Config struct {
	// Listen is the data port, "host:port"; port 0 lets the kernel choose one
	// (Server.Addr tells which). Required.
	Listen string

	// Origin is where objects come from. The caller closes it after Run has
	// returned. Required.
	Origin *origin.Dir

	// Rings is the number of io_uring loops, each on a thread of its own with
	// its own SO_REUSEPORT listener. 0 = one per CPU this process may use.
	Rings int

	// AnonymousTenant is who a request without credentials is. Empty, or not one of
	// Tenants where there are some: such a request is answered 401.
	AnonymousTenant string

	// Tenants are who is served; Server.SetTenants replaces them. nil: the one
	// anonymous tenant, who may read everything.
	Tenants *Tenants

	// Ledger holds what tenants may have over time: for every tenant a policy of
	// read_iops and of client_egress_bytes, one that only counts where there is no limit. A
	// tenant without is answered 503. It is made for as many rings as there are.
	// nil: no limits. Without Tenants it is not asked.
	Ledger *qos.Ledger

	// EgressRate is what all tenants together may send, in bytes per second; they
	// share it by their weights. 0 = no limit.
	EgressRate int64

	// Order says whose response sends its next chunk. All but sched.Fair are there
	// to be measured against it.
	Order sched.Order

	// CopyBelow is the largest body in bytes that is read into memory behind
	// its header and sent by one ring SEND; larger ones go through sendfile(2).
	// At most MaxCopyBelow. 0 = DefaultCopyBelow, negative = never copy.
	CopyBelow int

	// TransferChunk is the most bytes one turn may send of one response,
	// 4 KiB to 16 MiB. 0 = DefaultTransferChunk.
	TransferChunk int

	// NotSentLowat is TCP_NOTSENT_LOWAT in bytes: what a slow reader may park
	// unsent in the kernel. 0 = DefaultNotSentLowat, negative = the kernel's.
	NotSentLowat int

	// SendBuffer is SO_SNDBUF in bytes. 0 leaves the kernel's autotuning on.
	SendBuffer int

	// NoResidencyProbe sends without asking whether the pages are in memory.
	// A cold file then stalls its whole ring; it exists to measure that.
	NoResidencyProbe bool

	// MaxConnections bounds the connections of the whole worker.
	// 0 = DefaultMaxConnections.
	MaxConnections int

	// OpenFiles bounds the open-file cache of one ring. 0 = DefaultOpenFiles.
	OpenFiles int

	// OpenFileValid is how long an open file is served before its name is
	// looked up again, and so the longest a rename stays unseen.
	// 0 = DefaultOpenFileValid.
	OpenFileValid time.Duration

	// HeaderTimeout is the time from a request's first byte (or the accept) to
	// its last header byte. 0 = DefaultHeaderTimeout.
	HeaderTimeout time.Duration

	// IdleTimeout is how long a connection may wait between requests.
	// 0 = DefaultIdleTimeout.
	IdleTimeout time.Duration

	// MinDrainRate is the least a client must read of a response, in bytes per
	// second over DrainWindow; a slower one is reset.
	// 0 = DefaultMinDrainRate, negative = no minimum.
	MinDrainRate int

	// AccessLog takes a JSON line for every response that fails or is refused, and for one
	// in AccessSample of the others. One goroutine writes to it, about ten times a second;
	// while it does not return, what does not fit into a buffer of 4096 records per ring
	// is dropped and counted. nil = no log.
	AccessLog io.Writer

	// AccessSample: of what is served one in so many is logged, 1 = all of it.
	// 0 = DefaultAccessSample.
	AccessSample int

	// AdmissionLog takes every charge of the Ledger and every refund. It is made for as many rings as there are, and the caller
	// closes it after Run has returned. nil = no record.
	AdmissionLog *AdmissionLog

	// Logger takes what an operator must know. nil = discard.
	Logger *slog.Logger
}

// Defaults of Config, each with the reason for its value.
const (
	// DefaultCopyBelow: up to here one pread and one SEND beat two direct calls
	// by up to 1.3x; at 32 KiB the copy has eaten the gain.
	DefaultCopyBelow = 16 << 10
	// DefaultTransferChunk: at 1 MiB and above, 512 KiB a call serves 5-20 % more
	// than 256 KiB and holds the thread for about 0.1 ms; 64 KiB costs 10-30 %.
	DefaultTransferChunk = 512 << 10
	// DefaultNotSentLowat: a slow reader parks 0.26 MB in the kernel instead of
	// 4.26 MB.
	DefaultNotSentLowat = 128 << 10
	// DefaultMaxConnections: 16,384 slots cost 8 MiB and fit a 20,000 fd limit.
	DefaultMaxConnections = 16384
	// DefaultOpenFiles: two rings' caches and their sockets fit 20,000 fds.
	DefaultOpenFiles = 1024
	// DefaultOpenFileValid: a replaced object is seen within a second.
	DefaultOpenFileValid = time.Second
	// DefaultHeaderTimeout: ten seconds for at most 16 KiB is 13 kbit/s.
	DefaultHeaderTimeout = 10 * time.Second
	// DefaultIdleTimeout: nginx's keepalive_timeout is 75 s, AWS' ALB 60 s.
	DefaultIdleTimeout = 75 * time.Second
	// DefaultMinDrainRate: 1 KiB/s; below it a reader only holds memory.
	DefaultMinDrainRate = 1 << 10
)

// Fixed bounds of one ring; ARCHITECTURE.md lists them with the others.
const (
	// MaxCopyBelow is the body room of a send slab.
	MaxCopyBelow = 16 << 10
	// DrainWindow is the time over which MinDrainRate is judged.
	DrainWindow = 10 * time.Second
)

// Validate reports the first field that cannot work and how to mend it.
func (c Config) Validate() error {
	switch {
	case c.Listen == "":
		return errors.New("listen: no address; give host:port, for example 127.0.0.1:8080")
	case c.Origin == nil:
		return errors.New("origin: none; give a directory")
	case c.Rings < 0 || c.Rings > 256:
		return fmt.Errorf("rings: %d is outside 1..256 (0 = one per CPU)", c.Rings)
	case c.AnonymousTenant != "" && !validName(c.AnonymousTenant, maxTenantID, ".-_"):
		return fmt.Errorf("anonymous-tenant: %q is no tenant's id: 1 to %d letters, digits, '.', '_' and '-'", c.AnonymousTenant, maxTenantID)
	case c.EgressRate < 0 || c.EgressRate > sched.MaxRate:
		return fmt.Errorf("egress-rate: %d bytes/s is outside 0..%d (0 = no limit)", c.EgressRate, int64(sched.MaxRate))
	case c.Order < sched.Fair || c.Order > sched.FIFO:
		return fmt.Errorf("scheduler: there is none of number %d", c.Order)
	case c.CopyBelow > MaxCopyBelow:
		return fmt.Errorf("copy-below: %d bytes is over the %d that a send slab holds", c.CopyBelow, MaxCopyBelow)
	case c.TransferChunk != 0 && (c.TransferChunk < 4<<10 || c.TransferChunk > 16<<20):
		return fmt.Errorf("transfer-chunk: %d bytes is outside 4KiB..16MiB", c.TransferChunk)
	case c.SendBuffer < 0:
		return fmt.Errorf("sndbuf: %d is negative; 0 leaves it to the kernel", c.SendBuffer)
	case c.MaxConnections < 0 || c.MaxConnections > 1<<20:
		return fmt.Errorf("max-connections: %d is outside 1..1048576", c.MaxConnections)
	case c.OpenFiles < 0 || c.OpenFiles > 1<<20:
		return fmt.Errorf("open-files: %d is outside 1..1048576", c.OpenFiles)
	case c.AccessSample < 0:
		return fmt.Errorf("access-log-sample: %d is less than 1", c.AccessSample)
	case c.OpenFileValid < 0 || c.HeaderTimeout < 0 || c.IdleTimeout < 0:
		return errors.New("a timeout is negative; 0 takes the default")
	}
	return nil
}

func orDefault[T int | time.Duration](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}

// withDefaults fills the zero fields. Negative "off" values become 0, so that
// below this line a number is only a number.
func (c Config) withDefaults() Config {
	off := func(v, def int) int { return max(orDefault(v, def), 0) }
	c.CopyBelow = off(c.CopyBelow, DefaultCopyBelow)
	c.NotSentLowat = off(c.NotSentLowat, DefaultNotSentLowat)
	c.MinDrainRate = off(c.MinDrainRate, DefaultMinDrainRate)
	c.TransferChunk = orDefault(c.TransferChunk, DefaultTransferChunk)
	c.MaxConnections = orDefault(c.MaxConnections, DefaultMaxConnections)
	c.OpenFiles = orDefault(c.OpenFiles, DefaultOpenFiles)
	c.OpenFileValid = orDefault(c.OpenFileValid, DefaultOpenFileValid)
	c.AccessSample = orDefault(c.AccessSample, DefaultAccessSample)
	c.HeaderTimeout = orDefault(c.HeaderTimeout, DefaultHeaderTimeout)
	c.IdleTimeout = orDefault(c.IdleTimeout, DefaultIdleTimeout)
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}
