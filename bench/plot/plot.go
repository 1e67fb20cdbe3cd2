// Package plot draws the figures of a run as SVG.
package plot

import (
	"fmt"
	"io"
	"os"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Series is one line: Y at 0, Step, 2*Step and so on.
type Series struct {
	Name string    `json:"name"`
	Step float64   `json:"step"`
	Y    []float64 `json:"y"`
}

// Chart is one picture.
type Chart struct {
	Title  string   `json:"title"`
	X      string   `json:"x"`
	Y      string   `json:"y"`
	Series []Series `json:"series"`
}

// Size of one chart.
const (
	width  = 22 * vg.Centimeter
	height = 9 * vg.Centimeter
)

// Write draws the charts below each other into one SVG.
func Write(w io.Writer, charts []Chart) error {
	canvas := vgsvg.New(width, height*vg.Length(len(charts)))
	whole := draw.New(canvas)
	for i, c := range charts {
		p, err := c.plot()
		if err != nil {
			return fmt.Errorf("%s: %w", c.Title, err)
		}
		top := height * vg.Length(len(charts)-i)
		p.Draw(draw.Canvas{Canvas: whole.Canvas, Rectangle: vg.Rectangle{Min: vg.Point{Y: top - height}, Max: vg.Point{X: width, Y: top}}})
	}
	_, err := canvas.WriteTo(w)
	return err
}

func (c *Chart) plot() (*plot.Plot, error) {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = c.Title, c.X, c.Y
	p.Y.Min, p.Legend.Top = 0, true
	p.Add(plotter.NewGrid())
	for i, s := range c.Series {
		points := make(plotter.XYs, len(s.Y))
		for k, y := range s.Y {
			points[k] = plotter.XY{X: float64(k) * s.Step, Y: y}
		}
		line, err := plotter.NewLine(points)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		line.Color, line.Width = plotutil.Color(i), vg.Points(1)
		p.Add(line)
		p.Legend.Add(s.Name, line)
	}
	return p, nil
}

// WriteFile is Write to a file of that name.
func WriteFile(name string, charts []Chart) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	err = Write(f, charts)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
