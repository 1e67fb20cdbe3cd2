package policy

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/talon-worker/talon/qos"
)

func worker(workers int) *Worker {
	return &Worker{Limits: qos.DefaultConfig(), Chunk: 512 << 10, Workers: workers, Anonymous: "public"}
}

// TestExplain shows what people read; go test ./policy -run TestExplain -args -rewrite accepts it.
func TestExplain(t *testing.T) {
	const path = "testdata/explain.txt"
	got := "== the example of docs/policy.md, one worker\n" + Explain(mustParse(t, example(t)), worker(1)) +
		"\n== every field, two workers\n" + Explain(mustParse(t, whole), worker(2))
	if *rewrite {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (-rewrite accepts it); got:\n%s", path, got)
	}
}

// TestWarnings: each thing that will disappoint, and nothing where nothing will.
func TestWarnings(t *testing.T) {
	const token = `, tokens: [{id: t, sha256: "` + hash1 + `"}]`
	limit := func(text string) string {
		return `tenants: [{id: a, allow: ["/"]` + token + ", limits: {client_egress_bytes: {" + text + "}}}]"
	}
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"nothing", limit("rate: 400MiB/s, burst: 64MiB, local_burst: 8MiB"), nil},
		{"nothing of the anonymous", `tenants: [{id: public, allow: ["/"]}]`, nil},
		{"no token", `tenants: [{id: a, allow: ["/"]}]`, []string{"nobody can be it"}},
		{"nothing to read", "tenants: [{id: public}]", []string{`it may read nothing: write  allow: ["/"]`}},
		{"a prefix that is no folder", "tenants: [{id: public, allow: [/log, /x/, /list.txt]}]", []string{"allow /log allows /logANYTHING, too"}},
		{"what is not charged", "tenants: [{id: public, allow: [/], limits: {write_iops: {rate: 1/s, burst: 1, local_burst: 1}}}]", []string{"write_iops: nothing is charged to it"}},
		{"the limiter's", limit("rate: 50MiB/s, burst: 512KiB, local_burst: 512KiB"), []string{"burst 524288 holds less than two charges of 524288: want at least 1048576"}},
		{"the limiter's, of a limit that is off", limit("rate: 400MiB/s, burst: 512KiB, local_burst: 512KiB, mode: off"), nil},
		{"a charge that outlasts the queue", "defaults: {queue: {deadline: 2s}}\n" + limit("rate: 100KiB/s, burst: 64MiB, local_burst: 8MiB"),
			[]string{"one charge of 512KiB takes 5.12s at this rate, longer than the queue's deadline, 2s"}},
		{"one that waits for nothing", "defaults: {queue: {deadline: 2s}}\n" + limit("rate: 100KiB/s, burst: 64MiB, local_burst: 8MiB, on_limit: reject"), nil},
		{"one that does not", "defaults: {queue: {deadline: 6s}}\n" + limit("rate: 100KiB/s, burst: 64MiB, local_burst: 8MiB"), nil},
	} {
		all := Warnings(mustParse(t, c.text), worker(1))
		if len(all) != len(c.want) {
			t.Errorf("%s: %q, want %d", c.name, all, len(c.want))
			continue
		}
		for i := range all {
			if !strings.Contains(all[i].Text, c.want[i]) {
				t.Errorf("%s: %q, want %q in it", c.name, all[i].Text, c.want[i])
			}
		}
	}
}

// TestWarningsOfManyWorkers: what one worker serves well and eight do not.
func TestWarningsOfManyWorkers(t *testing.T) {
	for text, want := range map[string]string{
		"read_iops: {rate: 10/s, burst: 31, local_burst: 4, on_limit: reject}": "burst 31 is little for 8 workers that do not let requests wait",
		"read_iops: {rate: 10/s, burst: 9, local_burst: 4}":                    "requests wait for 20ms at most",
	} {
		set := mustParse(t, `tenants: [{id: public, allow: ["/"], queue: {deadline: 20ms}, limits: {`+text+`}}]`)
		if all := Warnings(set, worker(8)); !slices.ContainsFunc(all, func(w Warning) bool { return strings.Contains(w.Text, want) }) {
			t.Errorf("%s: %q, want %q", text, all, want)
		}
		if all := Warnings(set, worker(1)); slices.ContainsFunc(all, func(w Warning) bool { return strings.Contains(w.Text, want) }) {
			t.Errorf("%s: one worker is told, too", text)
		}
	}
}

func TestRoughNumbers(t *testing.T) {
	for want, got := range map[string]string{
		"0B": RoughSize(0), "1023B": RoughSize(1023), "1KiB": RoughSize(1024), "1.5KiB": RoughSize(1536), "100MiB": RoughSize(100 << 20),
		"8EiB": RoughSize(1<<63 - 1), "7": roughCount(7), "999": roughCount(999), "1 thousand": roughCount(1000), "1.5 million": roughCount(1.5e6),
		"86400 trillion": roughCount(864e14), "100ms": seconds(10, 100), "1us": seconds(1, 1e6), "2min": seconds(120, 1), "10 days": seconds(864000, 1),
		"3h": seconds(10800, 1), "0": sizeText(0), "1kB": sizeText(1000), "1000KiB": sizeText(1024000), "7B": sizeText(7),
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	var l qos.Policy
	l.Metric, l.Rate = qos.ClientEgressBytes, qos.MaxRate
	if got := inHumanTerms(&l); got != "8 Tbit/s, 76.7PiB a day" {
		t.Error(got)
	}
	if got := saturating(qos.MaxBurst, 10_000, 5); got <= 0 {
		t.Errorf("N x b overflows: %d", got)
	}
	if f := fields["queue.deadline"]; f.print(int64(90*time.Second)) != "1m30s" {
		t.Error(f.print(int64(90 * time.Second)))
	}
}
