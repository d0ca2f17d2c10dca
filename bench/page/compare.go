package page

import (
	"fmt"
	"math"
)

// Compared is a line of a table that compares wskit with its rivals.
type Compared struct {
	Title    string
	Values   []float64 // wskit's first; NaN: none
	More     bool      // a larger figure is better
	Target   float64   // bound of wskit's ÷ the best rival's; 0: none
	OfFigure bool      // the bound is one of wskit's figure
}

// CompareHead is the head of such a table.
func CompareHead(title string, rivals []string) []string {
	return append(append([]string{title, "wskit"}, rivals...), "ours ÷ best rival", "target", "met")
}

// Cells are the cells of the line.
func (c Compared) Cells() []string {
	cells := []string{c.Title}
	for _, v := range c.Values {
		cells = append(cells, number(v))
	}
	best := math.NaN()
	for _, v := range c.Values[1:] {
		if !math.IsNaN(v) && (math.IsNaN(best) || v > best == c.More) {
			best = v
		}
	}
	value, suffix := math.Round(100*c.Values[0]/best)/100, " ×" // as it is shown: nothing here is more exact
	cells = append(cells, number(value))
	if c.Target == 0 {
		return append(cells, "", "")
	}
	if c.OfFigure {
		value, suffix = c.Values[0], ""
	}
	sign, met := "≤", Met(value <= c.Target)
	if c.More {
		sign, met = "≥", Met(value >= c.Target)
	}
	if math.IsNaN(value) {
		met = ""
	}
	return append(cells, fmt.Sprintf("%s %g%s", sign, c.Target, suffix), met)
}

func number(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "–"
	}
	return Number(v)
}
