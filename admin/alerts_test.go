package admin

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	rulesFile = filepath.Join("..", "examples", "alerts.yml")
	rulesTest = filepath.Join("..", "examples", "alerts_test.yml")

	alertName  = regexp.MustCompile(`\bTalon[A-Za-z]+`)
	metricName = regexp.MustCompile(`\btalon_[a-z_]+`)
	limitsOf   = regexp.MustCompile(`limit=~"([a-z_|]+)"`)
	selector   = regexp.MustCompile(`(talon_[a-z_]+)\{([a-z]+)=`)
)

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPromtoolRules(t *testing.T) {
	promtool(t, "", "check", "rules", rulesFile)
	promtool(t, "", "test", "rules", rulesTest)
}

// TestAlertsNameWhatIsExported: a rule on a metric or a label that no worker exports never fires, and nothing else would say so.
func TestAlertsNameWhatIsExported(t *testing.T) {
	page, rules := get(clusterWorker(), "/metrics").Body.String(), readFile(t, rulesFile)
	names := metricName.FindAllString(rules, -1)
	if len(names) < 15 {
		t.Fatalf("%d metrics are named in %s", len(names), rulesFile)
	}
	for _, name := range append(names, metricName.FindAllString(readFile(t, rulesTest), -1)...) {
		if !strings.Contains(page, "\n"+name+" ") && !strings.Contains(page, "\n"+name+"{") {
			t.Errorf("%s is named in the rules, and no worker exports it", name)
		}
	}
	for _, m := range selector.FindAllStringSubmatch(rules, -1) {
		if !regexp.MustCompile(`\n` + m[1] + `\{[^\n]*\b` + m[2] + `=`).MatchString(page) {
			t.Errorf("%s has no label %s", m[1], m[2])
		}
	}
	limits, answers := limitsOf.FindStringSubmatch(rules), readFile(t, filepath.Join("..", "docs", "http.md"))
	if limits == nil {
		t.Fatal("no rule on the limits that refuse")
	}
	for name := range strings.SplitSeq(limits[1], "|") {
		if !strings.Contains(answers, "`"+name+"`") {
			t.Errorf("%s is no limit that refuses, by docs/http.md", name)
		}
	}
}

// TestEveryAlertIsTried: with promtool each fires in the unit test, and without it there is at least one there to fire.
func TestEveryAlertIsTried(t *testing.T) {
	tried := alertName.FindAllString(readFile(t, rulesTest), -1)
	defined := 0
	for line := range strings.Lines(readFile(t, rulesFile)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "- alert: "); ok {
			defined++
			if !slices.Contains(tried, name) {
				t.Errorf("%s is not in %s", name, rulesTest)
			}
		}
	}
	if defined < 10 {
		t.Errorf("%d alerts", defined)
	}
}
