package policy

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/talon-worker/talon/qos"
)

func TestDiff(t *testing.T) {
	was := mustParse(t, whole)
	changed := strings.NewReplacer("rate: 20000/s", "rate: 10000/s", "weight: 1", "weight: 2", hash2, hash1[1:]+"0", "{id: w2,", "{id: w3,",
		"epoch: 3", "epoch: 4", "max_inflight: 256, ", "", "soft_rate: none, ", "", "for: 10s", "for: 20s").Replace(whole)
	var got []string
	for _, c := range Diff(was, mustParse(t, changed)) {
		got = append(got, c.String())
	}
	want := []string{
		"~ serving token s2: " + hash1[1:] + "0, was " + strings.ToLower(hash2),
		"~ serving read_iops.rate: 10000/s, was 20000/s",
		"~ serving client_egress_bytes.ban.for: 20s, was 10s",
		"- serving max_inflight: was 256",
		"~ batch weight: 2, was 1",
		"+ batch client_egress_bytes.soft_rate: 9B/s",
		"~ batch client_egress_bytes.ban.for: 20s, was 10s",
		"~ ring_epoch: 4, was 3",
		"+ peer w3: [::1]:7001",
		"- peer w2: was [::1]:7001",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestDiffAndGenerations: a policy that follows itself has no differences and keeps its generations; with a difference in a limit that limit, and
// no other, has a new one.
func TestDiffAndGenerations(t *testing.T) {
	drawTenant := func(t *rapid.T) string {
		l := drawLevel(t, true)
		l["queue.target"] = "1ms" // below every deadline,
		l["queue.deadline"] = "1s"
		for path := range l {
			if strings.HasSuffix(path, ".local_burst") { // and every burst
				l[path] = "1"
			}
		}
		return l.yaml("  ")
	}
	drawSet := func(t *rapid.T) *Set {
		s, err := Parse("p.yaml", []byte("tenants:\n- id: a\n"+drawTenant(t)+"- id: b\n"+drawTenant(t)))
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	rapid.Check(t, func(t *rapid.T) {
		was, now := drawSet(t), drawSet(t)
		if all := Diff(was, was); len(all) != 0 {
			t.Fatalf("of itself: %v", all)
		}
		first, policies := Versions{}.Next(was)
		before := generations(policies)
		_, policies = first.Next(was)
		if !maps.Equal(generations(policies), before) {
			t.Fatalf("the same set: %v, was %v", generations(policies), before)
		}
		changed := map[string]bool{}
		for _, c := range Diff(was, now) {
			metric, _, _ := strings.Cut(c.Field, ".")
			if _, err := qos.ParseMetric(metric); err == nil {
				changed[c.Tenant+"/"+metric] = true
			}
		}
		_, policies = first.Next(now)
		for limit, g := range generations(policies) {
			if want := before[limit]; changed[limit] != (g != want) {
				t.Fatalf("%s: generation %d, was %d; differs: %v", limit, g, want, changed[limit])
			}
		}
	})
}
