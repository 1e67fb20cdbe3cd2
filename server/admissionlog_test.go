package server

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/talon-worker/talon/qos"
	"github.com/talon-worker/talon/uring/uringtest"
)

func openAdmissions(t *testing.T, rings int) (*AdmissionLog, string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "admissions")
	a := must(OpenAdmissionLog(name, rings))
	t.Cleanup(func() { must(0, a.Close()) })
	return a, name
}

// partOf is what a ring has written, read from the file: it is there although nobody has closed it.
func partOf(t *testing.T, name string, ring int) string {
	t.Helper()
	all := must(os.ReadFile(name))
	part := all[ring*admissionRoom:][:admissionRoom]
	return string(part[:bytes.IndexByte(part, 0)])
}

// Every charge and every refund is in the log: their sum is what the ledger has as used, through waiting and refusals, and in more
// than one metric.
func TestAdmissionLogAddsUp(t *testing.T) {
	log, name := openAdmissions(t, 1)
	policies := limited("a", 20, 10, 2500, 2500)
	policies[0].LocalBurst, policies[1].LocalBurst = 10, 2500 // what is given back lapses above it
	s := tellOf(t, []Tenant{{ID: "a", QueueDeadline: 1200 * time.Millisecond}}, policies, func(c *Config) { c.AdmissionLog = log })
	s.kernel.SetFaults(uringtest.Faults{Error: 1, Errnos: uringtest.Errnos{Send: []unix.Errno{unix.EPIPE}}})
	s.asks(1, "/o700", "a") // its bytes are charged, and come back: nothing of them has left
	s.kernel.Quiet()
	s.pass(time.Second)
	s.asks(8, "/o700", "a")
	s.pass(3 * time.Second) // some have waited too long by now: what they were charged for the request comes back
	sum, charges, refunds, last := map[string]int64{}, 0, map[string]int{}, int64(0)
	for line := range strings.Lines(partOf(t, name, 0)) {
		var at, n int64
		var metric, tenant string
		if _, err := fmt.Sscanf(line, "%d %d %s %s\n", &at, &n, &metric, &tenant); err != nil || tenant != "a" || at < last {
			t.Fatalf("%v: %q after %d", err, line, last)
		}
		last = at
		sum[metric] += n
		if n < 0 {
			refunds[metric]++
		} else {
			charges++
		}
	}
	if charges < 10 || len(refunds) < 2 {
		t.Errorf("%d charges and refunds %v: the story has more", charges, refunds)
	}
	for _, m := range []qos.Metric{qos.ReadIOPS, qos.ClientEgressBytes} {
		if got := sum[m.String()]; got == 0 || got != s.control.used("a", m) {
			t.Errorf("%v: %d in the log, %d used", m, got, s.control.used("a", m))
		}
	}
}

// A part that is full says so, and leaves the next one alone.
func TestAdmissionLogIsBounded(t *testing.T) {
	log, name := openAdmissions(t, 2)
	tenant := strings.Repeat("t", 64)
	for i := range admissionRoom / 60 {
		log.parts[0].note(int64(i)+1e18, -1<<62, qos.ClientEgressBytes, tenant)
	}
	log.parts[1].note(1, 2, qos.ReadIOPS, "b")
	if part := partOf(t, name, 0); !strings.HasSuffix(part, " "+tenant+"\n"+admissionsFull) || len(part) < admissionRoom-2*admissionLine {
		t.Errorf("%d bytes, ending in %q", len(part), part[max(len(part)-100, 0):])
	}
	if part := partOf(t, name, 1); part != "1 2 read_iops b\n" {
		t.Errorf("the other ring's: %q", part)
	}
}

// The longest line fits into what is kept for it.
func TestAdmissionLineFits(t *testing.T) {
	log, name := openAdmissions(t, 1)
	log.parts[0].note(-1<<63, -1<<63, qos.ClientIngressBytes, strings.Repeat("t", 300))
	if n := len(partOf(t, name, 0)); n > admissionLine {
		t.Errorf("%d bytes, %d are kept", n, admissionLine)
	}
}

// The record of one start is not overwritten by the next.
func TestAdmissionLogIsNotOverwritten(t *testing.T) {
	_, name := openAdmissions(t, 1)
	if _, err := OpenAdmissionLog(name, 1); err == nil || !strings.Contains(err.Error(), "earlier start") {
		t.Errorf("opened again: %v", err)
	}
	if _, err := OpenAdmissionLog(filepath.Join(name, "below"), 1); err == nil {
		t.Error("opened below a file")
	}
}
