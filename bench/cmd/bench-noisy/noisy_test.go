package main

import (
	"math"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/talon-worker/talon/bench/bed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWorstRatio(t *testing.T) {
	tests := []struct {
		name    string
		bytes   [][]int64
		weights []int
		window  int
		want    float64
	}{
		{"equal", [][]int64{{5, 5}, {5, 5}}, []int{1, 1}, 1, 1},
		{"by weight", [][]int64{{5, 5}, {10, 10}}, []int{1, 2}, 1, 1},
		{"one bad slice", [][]int64{{5, 5, 5}, {5, 1, 5}}, []int{1, 1}, 1, 0.2},
		{"evened out by a longer window", [][]int64{{5, 5}, {6, 4}}, []int{1, 1}, 2, 1},
		{"windows overlap", [][]int64{{4, 4, 4, 4}, {4, 2, 2, 4}}, []int{1, 1}, 2, 0.5},
		{"starved", [][]int64{{9}, {0}}, []int{1, 1}, 1, 0},
	}
	for _, tt := range tests {
		if got := worstRatio(tt.bytes, tt.weights, tt.window); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	if got := worstRatio([][]int64{{1}, {1}}, []int{1, 1}, 2); !math.IsNaN(got) {
		t.Errorf("a window longer than the run: %v, want none", got)
	}
}

// The policies hold each token once, and the blind one a single tenant.
func TestPolicies(t *testing.T) {
	tenants := parties(newTenants(512))
	each, one := bed.Policy(tenants), bed.PolicyOfOne("everybody", "weight: 1", tenants)
	for _, text := range []string{each, one} {
		for _, x := range tenants {
			if strings.Count(text, "{id: "+x.ID+", sha256:") != 1 {
				t.Errorf("%s has no single token in\n%s", x.ID, text)
			}
		}
	}
	if n := strings.Count(each, "\n  - {id:"); n != len(tenants) {
		t.Errorf("%d tenants, want %d", n, len(tenants))
	}
	if strings.Count(one, "\n  - {id:") != 1 {
		t.Errorf("more than one tenant in\n%s", one)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, args := range [][]string{{"--rounds", "0"}, {"--share", "1.5"}, {"--rate", "5"}, {"--aggressor", "0"}, {"x"}} {
		if _, err := parse(args); err == nil {
			t.Errorf("%v: no error", args)
		}
	}
	if o, err := parse([]string{"--window", "2"}); err != nil || o.Window != 2 || !slices.Equal([]int{o.Rounds, o.Aggressor, o.Rings}, []int{3, 512, 2}) {
		t.Errorf("%+v, %v", o, err)
	}
}

// Every scheduler has an arm with the rate and one without, and differs from the others in nothing else.
func TestArms(t *testing.T) {
	n := &noisy{o: &options{Runner: bed.Runner{Talon: "talon"}, Rings: 2}, rate: 1 << 30}
	got := map[string]string{}
	for _, a := range append(n.boundArms("each", "one"), n.openArms("each")...) {
		line := strings.Join(a.srv.Argv, " ")
		if strings.Contains(line, "--egress-rate=1073741824/s") != a.Rate || len(a.srv.Files) != 1 {
			t.Errorf("%s: %s", a.Name, line)
		}
		for _, policy := range a.srv.Files {
			if (policy == "one") != (a.Name == "blind") {
				t.Errorf("%s has the policy %q", a.Name, policy)
			}
		}
		_, got[a.Name], _ = strings.Cut(line, "--scheduler=")
	}
	want := map[string]string{"fair": "fair", "ring-local": "ring-local", "fifo": "fifo", "blind": ""}
	for name, scheduler := range want {
		if of, _, _ := strings.Cut(got[name], " "); of != scheduler {
			t.Errorf("%s runs %q", name, of)
		}
		if name != "blind" && got[name+", no rate"] != scheduler {
			t.Errorf("%s, no rate runs %q", name, got[name+", no rate"])
		}
	}
	if len(got) != 7 {
		t.Errorf("%d arms, want 7", len(got))
	}
}
