package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/talon-worker/talon/coordinator"
	"github.com/talon-worker/talon/origin"
	"github.com/talon-worker/talon/qos"
	"github.com/talon-worker/talon/sched"
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

	policy                                          string
	egressRate                                      rate
	scheduler                                       string
	tenantWeight, tenantQueueRequests               int
	tenantQueueBytes                                size
	tenantQueueDeadline, tenantQueueTarget          time.Duration
	tenantMaxInflight, tenantMaxConnections         int
	syncInterval, snapshotTTL, advance, ringConfirm time.Duration
	reportIops                                      int
	reportBytes, bootstrap                          size

	coordinator, workerID, stateDir    string
	peerListen, peerAdvertise          string
	peerTLSCert, peerTLSKey, peerTLSCA string
	etcdTLSCert, etcdTLSKey, etcdTLSCA string
	etcdUser, etcdPasswordFile         string
	memberLease                        time.Duration

	metricsTenants int
	metricsAlways  string

	accessLog       string
	accessLogSample int
	admissionLog    string

	logLevel, logFormat string
}

func defaults() serveFlags {
	limits := qos.DefaultConfig()
	return serveFlags{
		listen: "127.0.0.1:8080", admin: "127.0.0.1:9090", anonymousTenant: "public",
		copyBelow: server.DefaultCopyBelow, transferChunk: server.DefaultTransferChunk, notSentLowat: server.DefaultNotSentLowat,
		residencyProbe: true,
		maxConnections: server.DefaultMaxConnections, openFiles: server.DefaultOpenFiles, openFileValid: server.DefaultOpenFileValid,
		headerTimeout: server.DefaultHeaderTimeout, idleTimeout: server.DefaultIdleTimeout,
		minDrainRate: server.DefaultMinDrainRate, drainTimeout: 30 * time.Second,
		scheduler: schedulers[0], tenantWeight: 1, tenantQueueRequests: server.DefaultQueueRequests, tenantQueueBytes: server.DefaultQueueBytes,
		tenantQueueDeadline: server.DefaultQueueDeadline, tenantQueueTarget: server.DefaultQueueTarget,
		syncInterval: limits.SyncMin, snapshotTTL: limits.TTL, advance: limits.Advance, ringConfirm: limits.Confirm,
		reportIops: int(limits.ReportIops), reportBytes: size(limits.ReportBytes), bootstrap: size(limits.BootstrapBytes),
		memberLease: coordinator.DefaultLease, metricsTenants: 20,
		accessLogSample: server.DefaultAccessSample,
		logLevel:        "info", logFormat: "auto",
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
		{name: "policy", value: (*word)(&f.policy),
			usage: "the policy `file`: who the tenants are and what they may have; it is read again when it changes. Empty: everybody is the anonymous tenant, without limits"},

		{name: "copy-below", value: &f.copyBelow,
			usage: "bodies up to this size are copied and sent with their header, larger ones go through sendfile; 0 never copies, at most 16KiB"},
		{name: "transfer-chunk", value: &f.transferChunk, check: f.checkChunk,
			usage: "most bytes of one response that one turn sends, 4KiB to 16MiB; while egress-rate leaves rings time to spare, a quarter, but 64KiB at least"},
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

		{name: "egress-rate", value: &f.egressRate,
			usage: "bytes per second that the whole worker sends, shared by its tenants by weight; 0 means no limit"},
		{name: "scheduler", value: (*word)(&f.scheduler), check: f.checkScheduler, words: schedulers,
			usage: "who sends next: fair shares the worker between tenants. The others are for measuring it against them and protect nobody: ring-local is fair on each ring by itself, fifo serves what was ready first"},
		{name: "tenant-weight", value: (*number)(&f.tenantWeight), check: within(&f.tenantWeight, 1, 1000), live: true,
			usage: "share of the worker of a tenant whose policy names none"},
		{name: "tenant-queue-requests", value: (*number)(&f.tenantQueueRequests), check: within(&f.tenantQueueRequests, 1, 1<<20), live: true,
			usage: "requests of one tenant that wait in the whole worker, where its policy says nothing; one more is refused"},
		{name: "tenant-queue-bytes", value: &f.tenantQueueBytes, check: within((*int64)(&f.tenantQueueBytes), 1, 1<<40), live: true,
			usage: "bytes of their responses together"},
		{name: "tenant-queue-deadline", value: (*span)(&f.tenantQueueDeadline), check: between(&f.tenantQueueDeadline, time.Millisecond, time.Hour), live: true,
			usage: "longest wait of one of them"},
		{name: "tenant-queue-target", value: (*span)(&f.tenantQueueTarget), check: between(&f.tenantQueueTarget, time.Millisecond, time.Hour), live: true,
			usage: "wait above which, if it lasts and the tenant's own limit is not the cause, the queue is shortened"},
		{name: "tenant-max-inflight", value: (*number)(&f.tenantMaxInflight), check: within(&f.tenantMaxInflight, 0, 1<<20), live: true,
			usage: "requests of one tenant that the whole worker has at a time, waiting or being answered; 0 means no bound of its own"},
		{name: "tenant-max-connections", value: (*number)(&f.tenantMaxConnections), check: within(&f.tenantMaxConnections, 0, 1<<20), live: true,
			usage: "connections of one tenant to the whole worker; 0 means no bound of its own"},

		{name: "sync-interval", value: (*span)(&f.syncInterval),
			usage: "shortest time between two reports of a limit in use to its owner; the longest is two and a half times that"},
		{name: "report-iops", value: (*number)(&f.reportIops),
			usage: "requests after which a report goes out early"},
		{name: "report-bytes", value: &f.reportBytes,
			usage: "bytes after which a report goes out early"},
		{name: "snapshot-ttl", value: (*span)(&f.snapshotTTL),
			usage: "how long a worker may act on what it has last heard from a limit's owner: the d of the bound N x b + R x d; a worker without a coordinator uses 200ms if this is less"},
		{name: "advance", value: (*span)(&f.advance),
			usage: "how much of the refill to come an owner grants, at most the snapshot TTL"},
		{name: "bootstrap", value: &f.bootstrap,
			usage: "bytes that a worker may use before it has heard from a limit's owner, at most the limit's local_burst; 4 requests likewise; 0 means none of either"},
		{name: "ring-confirm", value: (*span)(&f.ringConfirm),
			usage: "how long the word of a majority lets an owner act"},

		{name: "coordinator", value: (*word)(&f.coordinator), check: f.checkCoordinator,
			usage: "where policies and peers come from, in place of policy: file:`PATH` of a policy file with peers, or etcd://host:port[,...]/prefix"},
		{name: "worker-id", value: (*word)(&f.workerID), check: f.checkWorkerID,
			usage: "`name` of this worker, as no other worker of the coordinator has it"},
		{name: "peer-listen", value: (*word)(&f.peerListen),
			usage: "`address` for the other workers; without peer-tls-cert it must be on loopback"},
		{name: "peer-advertise", value: (*word)(&f.peerAdvertise),
			usage: "`address` at which the other workers reach peer-listen, where that is not the same"},
		{name: "peer-tls-cert", value: (*word)(&f.peerTLSCert),
			usage: "this worker's certificate (PEM `file`); one of its DNS names is worker-id"},
		{name: "peer-tls-key", value: (*word)(&f.peerTLSKey),
			usage: "its key (PEM `file`)"},
		{name: "peer-tls-ca", value: (*word)(&f.peerTLSCA),
			usage: "the authority of all workers' certificates (PEM `file`)"},
		{name: "state-dir", value: (*word)(&f.stateDir), check: f.checkStateDir,
			usage: "`directory` of this worker alone, for the last policy and ring and its last epoch, so that it starts while etcd is away and never goes back; empty keeps none"},
		{name: "member-lease", value: (*span)(&f.memberLease), check: between(&f.memberLease, time.Second, time.Minute),
			usage: "how long a worker that etcd does not hear from is still a member"},
		{name: "etcd-user", value: (*word)(&f.etcdUser),
			usage: "`name` to authenticate with at etcd; empty does not"},
		{name: "etcd-password-file", value: (*word)(&f.etcdPasswordFile),
			usage: "`file` that holds its password"},
		{name: "etcd-tls-ca", value: (*word)(&f.etcdTLSCA),
			usage: "the authority of etcd's certificates (PEM `file`); empty talks to etcd without TLS"},
		{name: "etcd-tls-cert", value: (*word)(&f.etcdTLSCert),
			usage: "this client's certificate for etcd (PEM `file`)"},
		{name: "etcd-tls-key", value: (*word)(&f.etcdTLSKey),
			usage: "its key (PEM `file`)"},

		{name: "metrics-tenants", value: (*number)(&f.metricsTenants), check: within(&f.metricsTenants, 0, 1000),
			usage: "tenants with series of their own in /metrics, those that have sent most; the others are one series"},
		{name: "metrics-tenants-always", value: (*word)(&f.metricsAlways), check: f.checkNames,
			usage: "`tenants` that have series of their own in any case, separated by commas, at most 100"},

		{name: "access-log", value: (*word)(&f.accessLog),
			usage: "`file` that JSON lines about responses are appended to, - is standard output: every refusal and failure, and a sample of the rest; empty: none"},
		{name: "access-log-sample", value: (*number)(&f.accessLogSample), check: atLeastOne(&f.accessLogSample),
			usage: "of what is served, one response in so many is in the access log; 1 logs all"},
		{name: "admission-log", value: (*word)(&f.admissionLog),
			usage: "new `file`, 16 MiB a ring, that every charge of a limit and every refund is written to, for audits; empty: none"},
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

// splitNames are the members of a list that is written with commas.
func splitNames(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

func (f *serveFlags) checkNames() error {
	names := splitNames(f.metricsAlways)
	for _, name := range names {
		if !tenantName.MatchString(name) {
			return fmt.Errorf("%q is not a tenant; write one,two", name)
		}
	}
	if len(names) > 100 {
		return fmt.Errorf("%d tenants are more than 100", len(names))
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

// schedulers are the values of --scheduler, by sched.Order.
var schedulers = []string{"fair", "ring-local", "fifo"}

func (f *serveFlags) checkScheduler() error {
	if !slices.Contains(schedulers, f.scheduler) {
		return fmt.Errorf("%q is none of %s", f.scheduler, strings.Join(schedulers, ", "))
	}
	return nil
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

// within refuses a number that is outside of its bounds.
func within[T int | int64](n *T, least, most T) func() error {
	return func() error {
		if *n < least || *n > most {
			return fmt.Errorf("%d is outside %d..%d", *n, least, most)
		}
		return nil
	}
}

func between(d *time.Duration, least, most time.Duration) func() error {
	return func() error {
		if *d < least || *d > most {
			return fmt.Errorf("%v is outside %v..%v", *d, least, most)
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
		EgressRate:       int64(f.egressRate),
		Order:            sched.Order(slices.Index(schedulers, f.scheduler)),
		AccessSample:     f.accessLogSample,
	}
}

// limits are the limiter's settings. Between the shortest and the longest interval lies the proposal's factor, 2 to 5 ms; a reporter counts as
// active for at least two snapshots.
func (f *serveFlags) limits() qos.Config {
	c := qos.DefaultConfig()
	c.SyncMin, c.SyncMax = f.syncInterval, f.syncInterval*5/2
	c.ReportIops, c.ReportBytes = int64(f.reportIops), int64(f.reportBytes)
	c.TTL, c.Advance, c.Confirm = f.snapshotTTL, f.advance, f.ringConfirm
	c.Lease = max(c.Lease, 2*f.snapshotTTL)
	if c.BootstrapBytes = int64(f.bootstrap); f.bootstrap == 0 {
		c.BootstrapIops = 0
	}
	return c
}

// leftOpen is what holds where a policy says nothing.
func (f *serveFlags) leftOpen() tenantDefaults {
	return tenantDefaults{
		weight: f.tenantWeight, queueRequests: f.tenantQueueRequests, queueBytes: int64(f.tenantQueueBytes),
		queueDeadline: f.tenantQueueDeadline, queueTarget: f.tenantQueueTarget,
		maxInflight: f.tenantMaxInflight, maxConnections: f.tenantMaxConnections,
	}
}
