package main

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/talon-worker/talon/qos"
	"github.com/talon-worker/talon/sched"
	"github.com/talon-worker/talon/server"
)

func parsed(t *testing.T, args ...string) *effective {
	t.Helper()
	cmd := newServe()
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	e, found := calledWith(cmd.Flags()).read()
	if len(found) > 0 {
		t.Fatal(found)
	}
	return e
}

// TestFlagsReachConfig changes every flag of the data plane and wants each to
// arrive, in the Config's own terms.
func TestFlagsReachConfig(t *testing.T) {
	f := parsed(t, "--listen=127.0.0.1:1", "--rings=3", "--anonymous-tenant=alice",
		"--copy-below=8KiB", "--transfer-chunk=1MiB", "--notsent-lowat=64KiB", "--sndbuf=256KiB", "--residency-probe=false",
		"--max-connections=7", "--open-files=8", "--open-file-valid=9s", "--header-timeout=10s", "--idle-timeout=11s",
		"--min-drain-rate=12KiB/s", "--egress-rate=13MiB/s", "--scheduler=fifo", "--access-log-sample=14")
	want := server.Config{
		Listen: "127.0.0.1:1", Rings: 3, AnonymousTenant: "alice",
		CopyBelow: 8 << 10, TransferChunk: 1 << 20, NotSentLowat: 64 << 10, SendBuffer: 256 << 10, NoResidencyProbe: true,
		MaxConnections: 7, OpenFiles: 8, OpenFileValid: 9 * time.Second,
		HeaderTimeout: 10 * time.Second, IdleTimeout: 11 * time.Second,
		MinDrainRate: 12 << 10, EgressRate: 13 << 20, Order: sched.FIFO, AccessSample: 14,
	}
	if got := f.config(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	// A field that no flag reaches would be zero on both sides above.
	v := reflect.ValueOf(want)
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if v.Field(i).IsZero() && !slices.Contains(notByFlags, name) {
			t.Errorf("no flag sets Config.%s", name)
		}
	}
}

// TestFlagsReachLimits is the same for the limiter's settings and the tenants' defaults.
func TestFlagsReachLimits(t *testing.T) {
	f := parsed(t, "--sync-interval=4ms", "--report-iops=5", "--report-bytes=6KiB", "--snapshot-ttl=300ms", "--advance=8ms", "--bootstrap=9KiB", "--ring-confirm=700ms",
		"--tenant-weight=11", "--tenant-queue-requests=12", "--tenant-queue-bytes=13KiB", "--tenant-queue-deadline=14s", "--tenant-queue-target=15ms",
		"--tenant-max-inflight=16", "--tenant-max-connections=17")
	want := qos.DefaultConfig()
	want.SyncMin, want.SyncMax, want.TTL, want.Advance, want.Confirm = 4*time.Millisecond, 10*time.Millisecond, 300*time.Millisecond, 8*time.Millisecond, 700*time.Millisecond
	want.ReportIops, want.ReportBytes, want.BootstrapBytes, want.Lease = 5, 6<<10, 9<<10, 600*time.Millisecond
	got := f.limits()
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
	if got, want := f.leftOpen(), (tenantDefaults{11, 12, 13 << 10, 14 * time.Second, 15 * time.Millisecond, 16, 17}); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	none := defaults()
	if got := none.limits(); got != qos.DefaultConfig() {
		t.Errorf("without flags %+v, want the proposal's %+v", got, qos.DefaultConfig())
	}
	if got := parsed(t, "--bootstrap=0").limits(); got.BootstrapBytes != 0 || got.BootstrapIops != 0 {
		t.Errorf("--bootstrap=0 leaves %d bytes and %d requests", got.BootstrapBytes, got.BootstrapIops)
	}
}

// notByFlags are fields of the Config that are made of other things than one flag.
var notByFlags = []string{"Origin", "Logger", "Tenants", "Ledger", "AccessLog", "AdmissionLog"}

// TestZeroIsOff: in a Config zero asks for the default, on the command line it
// means none.
func TestZeroIsOff(t *testing.T) {
	f := parsed(t, "--copy-below=0", "--notsent-lowat=0", "--min-drain-rate=0")
	c := f.config()
	if c.CopyBelow >= 0 || c.NotSentLowat >= 0 || c.MinDrainRate >= 0 {
		t.Errorf("copy-below %d, notsent-lowat %d, min-drain-rate %d: want all negative", c.CopyBelow, c.NotSentLowat, c.MinDrainRate)
	}
}

func TestTenantNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"": true, "public": true, "a": true, "team-a.prod_2": true,
		"a b": false, "-a": false, "a/b": false, "a\n": false, "é": false,
		"x2345678901234567890123456789012345678901234567890123456789012345": false, // 65
	} {
		f := parsed(t, "--origin=.", "--anonymous-tenant="+name)
		if err := f.checkTenant(); (err == nil) != ok {
			t.Errorf("tenant %q: %v", name, err)
		}
	}
}
