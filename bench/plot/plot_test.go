package plot

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

// A picture is well-formed XML, names every series, and holds a line for each.
func TestWrite(t *testing.T) {
	charts := []Chart{
		{Title: "shares & bytes", X: "s", Y: "MB/s", Series: []Series{{"victim <1>", 0.1, []float64{1, 2, 1}}, {"aggressor", 0.1, []float64{9, 8, 9}}}},
		{Title: "queue", X: "s", Y: "requests", Series: []Series{{"one", 1, []float64{0, 0}}}},
	}
	var out bytes.Buffer
	if err := Write(&out, charts); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	d := xml.NewDecoder(bytes.NewReader(out.Bytes()))
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if c, ok := tok.(xml.CharData); ok {
			text.Write(c)
		}
	}
	for _, want := range []string{"shares & bytes", "victim <1>", "aggressor", "queue", "MB/s"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in the picture", want)
		}
	}
}

func TestWriteRefusesWhatCannotBeDrawn(t *testing.T) {
	err := Write(io.Discard, []Chart{{Title: "bad", Series: []Series{{"holes", 1, []float64{1, math.NaN()}}}}})
	if err == nil || !strings.Contains(err.Error(), "holes") {
		t.Errorf("got %v, want an error that names the series", err)
	}
}
