package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/talon-worker/talon/origin"
	"github.com/talon-worker/talon/server"
)

// setting is a row of the table of settings. It has one name everywhere:
// --idle-timeout, TALON_IDLE_TIMEOUT, and idle-timeout: in a file. Help,
// completion, docs/configuration.md and talon config are made from the rows.
type setting struct {
	name  string
	value pflag.Value // the field; before anything is read it holds the default
	usage string
	words []string     // the values there are, where they are few
	live  bool         // SIGHUP changes it; the others need a restart
	check func() error // what no Config can say: there, zero asks for the default
}

func (s setting) env() string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(s.name, "-", "_"))
}

// serveFlags are the settings of talon serve.
type serveFlags struct {
	listen, admin   string
	origin          string
	rings           int
	anonymousTenant string

	copyBelow, transferChunk size
	notSentLowat, sendBuffer size
	residencyProbe           bool

	maxConnections, openFiles  int
	openFileValid              time.Duration
	headerTimeout, idleTimeout time.Duration
	minDrainRate               rate
	drainDelay, drainTimeout   time.Duration

	logLevel, logFormat string
}

func defaults() serveFlags {
	return serveFlags{
		listen: "127.0.0.1:8080", admin: "127.0.0.1:9090", anonymousTenant: "public",
		copyBelow: server.DefaultCopyBelow, transferChunk: server.DefaultTransferChunk, notSentLowat: server.DefaultNotSentLowat,
		residencyProbe: true,
		maxConnections: server.DefaultMaxConnections, openFiles: server.DefaultOpenFiles, openFileValid: server.DefaultOpenFileValid,
		headerTimeout: server.DefaultHeaderTimeout, idleTimeout: server.DefaultIdleTimeout,
		minDrainRate: server.DefaultMinDrainRate, drainTimeout: 30 * time.Second,
		logLevel: "info", logFormat: "auto",
	}
}

// settings is the table, bound to f. A new setting is a field, its default and
// a row here; every other place that knows settings follows.
func (f *serveFlags) settings() []setting {
	return []setting{
		{name: "listen", value: (*word)(&f.listen),
			usage: "data `address`; port 0 lets the kernel choose, the first log line tells which"},
		{name: "admin", value: (*word)(&f.admin),
			usage: "admin `address` (health, metrics, status, profiles; no authentication); empty turns it off"},
		{name: "origin", value: (*word)(&f.origin), check: f.checkOrigin,
			usage: "the `directory` to serve; required"},
		{name: "rings", value: (*number)(&f.rings),
			usage: "io_uring loops, each with a thread and a listener of its own; 0 means one per CPU"},
		{name: "anonymous-tenant", value: (*word)(&f.anonymousTenant), check: f.checkTenant,
			usage: "`tenant` of a request without credentials; empty answers it 401"},

		{name: "copy-below", value: &f.copyBelow,
			usage: "bodies up to this size are copied and sent with their header, larger ones go through sendfile; 0 never copies, at most 16KiB"},
		{name: "transfer-chunk", value: &f.transferChunk, check: f.checkChunk,
			usage: "most bytes of one response that one turn sends, 4KiB to 16MiB"},
		{name: "notsent-lowat", value: &f.notSentLowat,
			usage: "what a slow reader may leave unsent in the kernel (TCP_NOTSENT_LOWAT); 0 leaves it to the kernel"},
		{name: "sndbuf", value: &f.sendBuffer,
			usage: "SO_SNDBUF; 0 leaves it to the kernel's autotuning"},
		{name: "residency-probe", value: (*toggle)(&f.residencyProbe),
			usage: "ask whether pages are in memory before sendfile; off, a cold file stalls its ring"},

		{name: "max-connections", value: (*number)(&f.maxConnections), check: atLeastOne(&f.maxConnections),
			usage: "client connections of the whole worker"},
		{name: "open-files", value: (*number)(&f.openFiles), check: atLeastOne(&f.openFiles),
			usage: "open files that one ring keeps"},
		{name: "open-file-valid", value: (*span)(&f.openFileValid), check: positive(&f.openFileValid),
			usage: "how long an open file is served before its name is looked up again"},
		{name: "header-timeout", value: (*span)(&f.headerTimeout), check: positive(&f.headerTimeout),
			usage: "from a request's first byte to the end of its header"},
		{name: "idle-timeout", value: (*span)(&f.idleTimeout), check: positive(&f.idleTimeout),
			usage: "how long a connection may wait between requests"},
		{name: "min-drain-rate", value: &f.minDrainRate,
			usage: "a client that reads its response slower than this for 10s is reset; 0 means no minimum"},
		{name: "drain-delay", value: (*span)(&f.drainDelay), check: notNegative(&f.drainDelay), live: true,
			usage: "after SIGTERM or SIGINT, how long to serve on while /readyz says 503; a second signal ends it"},
		{name: "drain-timeout", value: (*span)(&f.drainTimeout), check: notNegative(&f.drainTimeout), live: true,
			usage: "after that, how long responses in flight may take; a further signal stops at once"},

		{name: "log-level", value: (*word)(&f.logLevel), check: f.checkLevel, live: true, words: logLevels,
			usage: "least `level` to log: debug, info, warn or error"},
		{name: "log-format", value: (*word)(&f.logFormat), check: f.checkFormat, words: logFormats,
			usage: "text, json, or auto: text on a terminal and JSON otherwise"},
	}
}

// lookup returns the row called name.
func (f *serveFlags) lookup(name string) (setting, bool) {
	all := f.settings()
	i := slices.IndexFunc(all, func(s setting) bool { return s.name == name })
	if i < 0 {
		return setting{}, false
	}
	return all[i], true
}

// errMissing is worded as the end of a sentence that begins with the setting.
var errMissing = errors.New("is missing: the directory to serve, for example --origin ./sample")

func (f *serveFlags) checkOrigin() error {
	switch {
	case f.origin == "":
		return errMissing
	case strings.Contains(f.origin, "://"):
		return fmt.Errorf("%s: this version serves only a directory", f.origin)
	}
	return nil
}

var tenantName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func (f *serveFlags) checkTenant() error {
	if f.anonymousTenant != "" && !tenantName.MatchString(f.anonymousTenant) {
		return fmt.Errorf("%q is not a tenant; use up to 64 letters, digits, dots, dashes and underscores", f.anonymousTenant)
	}
	return nil
}

func (f *serveFlags) checkChunk() error {
	if f.transferChunk == 0 {
		return errors.New("0 would send nothing; use 4KiB to 16MiB")
	}
	return nil
}

func notNegative(d *time.Duration) func() error {
	return func() error {
		if *d < 0 {
			return fmt.Errorf("%v is negative", *d)
		}
		return nil
	}
}

func (f *serveFlags) checkLevel() error {
	_, err := parseLevel(f.logLevel)
	return err
}

func (f *serveFlags) checkFormat() error {
	if !slices.Contains(logFormats, f.logFormat) {
		return fmt.Errorf("%q is none of %s", f.logFormat, strings.Join(logFormats, ", "))
	}
	return nil
}

func atLeastOne(n *int) func() error {
	return func() error {
		if *n < 1 {
			return fmt.Errorf("%d is less than 1", *n)
		}
		return nil
	}
}

func positive(d *time.Duration) func() error {
	return func() error {
		if *d <= 0 {
			return fmt.Errorf("%v is not positive", *d)
		}
		return nil
	}
}

// refuse says what the value of one setting breaks by itself, or nil.
//
// server.Config stops at its first error, so it is asked about one setting at a
// time, with all others at their defaults.
func (f *serveFlags) refuse(s setting) error {
	if s.check != nil {
		if err := s.check(); err != nil {
			return err
		}
	}
	alone := defaults()
	only, _ := alone.lookup(s.name)
	if err := only.value.Set(s.value.String()); err != nil {
		return err
	}
	cfg := alone.config()
	cfg.Origin = new(origin.Dir) // opened later; Validate wants one to be there
	if err := cfg.Validate(); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), s.name+": "))
	}
	return nil
}

// offWhenZero turns a setting's 0 into a Config's "off", which is negative.
func offWhenZero(n int64) int {
	if n == 0 {
		return -1
	}
	return int(n)
}

// config is the data plane's part of the settings; the caller adds what is opened.
func (f *serveFlags) config() server.Config {
	return server.Config{
		Listen:           f.listen,
		Rings:            f.rings,
		AnonymousTenant:  f.anonymousTenant,
		CopyBelow:        offWhenZero(int64(f.copyBelow)),
		TransferChunk:    int(f.transferChunk),
		NotSentLowat:     offWhenZero(int64(f.notSentLowat)),
		SendBuffer:       int(f.sendBuffer),
		NoResidencyProbe: !f.residencyProbe,
		MaxConnections:   f.maxConnections,
		OpenFiles:        f.openFiles,
		OpenFileValid:    f.openFileValid,
		HeaderTimeout:    f.headerTimeout,
		IdleTimeout:      f.idleTimeout,
		MinDrainRate:     offWhenZero(int64(f.minDrainRate)),
	}
}
