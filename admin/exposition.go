package admin

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// exposition writes the Prometheus text format, version 0.0.4: for each family
// one HELP line, one TYPE line, then its samples together.
//
// VictoriaMetrics/metrics, which writes the process' own families, repeats the
// metadata for every labelled sample and leaves HELP without text; promtool
// refuses both, so the families of this worker are written here.
type exposition struct{ bytes.Buffer }

func (e *exposition) family(name, kind, help string) {
	fmt.Fprintf(e, "# HELP %s %s\n# TYPE %s %s\n", name, escapeHelp(help), name, kind)
}

// sample writes one line; labels are name and value in turn.
func (e *exposition) sample(name string, value float64, labels ...string) {
	e.WriteString(name)
	for i := 0; i < len(labels); i += 2 {
		sep := ","
		if i == 0 {
			sep = "{"
		}
		fmt.Fprintf(e, `%s%s="%s"`, sep, labels[i], escapeLabel(labels[i+1]))
	}
	if len(labels) > 0 {
		e.WriteByte('}')
	}
	e.WriteByte(' ')
	e.WriteString(number(value))
	e.WriteByte('\n')
}

// histogram writes the cumulative buckets that Prometheus expects.
func (e *exposition) histogram(name string, h Histogram) {
	var n uint64
	for i, upper := range h.Upper {
		n += h.Count[i]
		e.sample(name+"_bucket", float64(n), "le", number(upper))
	}
	if len(h.Count) > len(h.Upper) {
		n += h.Count[len(h.Upper)]
	}
	e.sample(name+"_bucket", float64(n), "le", "+Inf")
	e.sample(name+"_sum", h.Sum)
	e.sample(name+"_count", float64(n))
}

// number prints whole numbers without an exponent, which people read, and the
// rest in the shortest form.
func number(v float64) string {
	if math.Abs(v) < 1<<53 && v == math.Trunc(v) {
		return strconv.FormatInt(int64(v), 10)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

var (
	escapeLabel = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace
	escapeHelp  = strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace
)
