package admin

import (
	"math"
	"os/exec"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

func exposed(w Worker) string {
	var e exposition
	w.writeWorker(&e)
	return e.String()
}

func TestExposition(t *testing.T) {
	golden(t, "metrics.txt", []byte(exposed(testWorker())))
}

// TestExpositionWithoutRings: a partial sum would look like a reset counter.
func TestExpositionWithoutRings(t *testing.T) {
	golden(t, "metrics-deaf.txt", []byte(exposed(draining(deaf(testWorker())))))
}

// TestEveryCounterIsExposed sets one numeric field of a ring at a time and
// wants the exposition to change: a counter nobody exports is dead weight.
func TestEveryCounterIsExposed(t *testing.T) {
	zero := Ring{}
	none := exposedRing(zero)
	for i := range reflect.TypeFor[Ring]().NumField() {
		field := reflect.TypeFor[Ring]().Field(i)
		if field.Type.Kind() != reflect.Uint64 {
			continue
		}
		r := zero
		reflect.ValueOf(&r).Elem().Field(i).SetUint(7)
		if exposedRing(r) == none {
			t.Errorf("Ring.%s is in no family", field.Name)
		}
	}
}

func exposedRing(r Ring) string {
	w := testWorker()
	w.Rings = func() ([]Ring, error) { return []Ring{r}, nil }
	return exposed(w)
}

// TestMetricsPage reads the whole page as a scraper does.
func TestMetricsPage(t *testing.T) {
	rec := get(testWorker(), "/metrics")
	if rec.Code != 200 || rec.Header().Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" {
		t.Fatalf("got %d %q", rec.Code, rec.Header().Get("Content-Type"))
	}
	page := rec.Body.String()
	for name := range processHelp {
		if !strings.Contains(page, "\n# TYPE "+name+" ") {
			t.Errorf("family %s is missing: the library renamed or dropped it", name)
		}
	}
	checkExposition(t, page)
}

var (
	helpLine   = regexp.MustCompile(`^# HELP ([a-z_]+) \S.*[.]$`)
	typeLine   = regexp.MustCompile(`^# TYPE ([a-z_]+) (counter|gauge|histogram|summary)$`)
	sampleLine = regexp.MustCompile(`^([a-z_]+)(\{[a-z]+="(?:[^"\\]|\\.)*"(?:,[a-z]+="(?:[^"\\]|\\.)*")*\})? (\S+)$`)
)

// checkExposition holds the rules that promtool checks and a few of our own:
// HELP with a sentence, then TYPE, then the family's samples and no other's, no
// family or sample twice, counters end in _total and nothing else does.
func checkExposition(t *testing.T, page string) {
	t.Helper()
	family, kind := "", ""
	seen := map[string]bool{}
	for line := range strings.Lines(page) {
		line = strings.TrimSuffix(line, "\n")
		if m := helpLine.FindStringSubmatch(line); m != nil {
			if family = m[1]; seen[family] {
				t.Errorf("family %s twice", family)
			}
			seen[family], kind = true, ""
			continue
		}
		if m := typeLine.FindStringSubmatch(line); m != nil {
			if kind = m[2]; m[1] != family {
				t.Errorf("TYPE of %s follows HELP of %s", m[1], family)
			}
			if total := strings.HasSuffix(family, "_total"); total != (kind == "counter") {
				t.Errorf("%s is a %s", family, kind)
			}
			continue
		}
		m := sampleLine.FindStringSubmatch(line)
		switch {
		case m == nil:
			t.Errorf("not a line of the format: %q", line)
		case kind == "":
			t.Errorf("sample before its TYPE: %q", line)
		case m[1] != family && !(kind != "counter" && kind != "gauge" && strings.HasPrefix(m[1], family+"_")):
			t.Errorf("sample of %s inside family %s", m[1], family)
		case seen[m[1]+m[2]+" "]:
			t.Errorf("sample twice: %q", line)
		default:
			seen[m[1]+m[2]+" "] = true
		}
	}
}

// clusterWorker is a worker of a cluster: it shows every family that there is.
func clusterWorker() Worker {
	w, peers := testWorker(), peersWorker()
	alone := w.Tenancy
	w.Tenancy = func() (Tenancy, error) {
		t, err := alone()
		p := peers.Peers()
		t.Peers, t.Keys = &p, peers.Keys()
		return t, err
	}
	w.Peers, w.Keys = peers.Peers, peers.Keys
	return w
}

// promtool runs the Prometheus project's own tool, whose judgement counts.
func promtool(t *testing.T, in string, args ...string) {
	t.Helper()
	path, err := exec.LookPath("promtool")
	if err != nil {
		t.Skip("promtool is not installed; CI installs it")
	}
	cmd := exec.Command(path, args...)
	cmd.Stdin = strings.NewReader(in)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %v: %v\n%s", args, err, out)
	}
}

func TestPromtoolMetrics(t *testing.T) {
	page := get(clusterWorker(), "/metrics").Body.String()
	checkExposition(t, page)
	promtool(t, page, "check", "metrics")
}

func TestKeepFamilies(t *testing.T) {
	var e exposition
	keepFamilies(&e, "# HELP a\n# TYPE a gauge\na 1\n# HELP b\n# TYPE b gauge\nb 2\n# HELP c\n# TYPE c gauge\nc{x=\"y\"} 3\n",
		map[string]string{"a": "First.", "c": "Third\nline."})
	want := "# HELP a First.\n# TYPE a gauge\na 1\n# HELP c Third\\nline.\n# TYPE c gauge\nc{x=\"y\"} 3\n"
	if e.String() != want {
		t.Errorf("got %q, want %q", e.String(), want)
	}
}

func TestNumber(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 7: "7", -7: "-7", 1 << 40: "1099511627776", 1<<53 - 1: "9007199254740991",
		1 << 53: "9.007199254740992e+15", 1e300: "1e+300", 0.004096: "0.004096", 1e-6: "1e-06", math.Inf(1): "+Inf",
	} {
		if got := number(v); got != want {
			t.Errorf("number(%g) = %s, want %s", v, got, want)
		}
	}
}
