package page

import (
	"math"
	"slices"
	"testing"
)

func TestComparedWithTheBestRival(t *testing.T) {
	for _, tc := range []struct {
		line Compared
		want []string
	}{
		{Compared{Title: "a", Values: []float64{2, 4, 3}, Target: 0.9}, []string{"a", "2.00", "4.00", "3.00", "0.67", "≤ 0.9 ×", "yes"}},
		{Compared{Title: "b", Values: []float64{4, 4, 3}, Target: 1}, []string{"b", "4.00", "4.00", "3.00", "1.33", "≤ 1 ×", "no"}},
		{Compared{Title: "c", Values: []float64{4, 4, 3}, Target: 1, More: true}, []string{"c", "4.00", "4.00", "3.00", "1.00", "≥ 1 ×", "yes"}},
		{Compared{Title: "d", Values: []float64{2, 4, 3}, Target: 1, More: true}, []string{"d", "2.00", "4.00", "3.00", "0.50", "≥ 1 ×", "no"}},
		{Compared{Title: "e", Values: []float64{2, 4}, More: true}, []string{"e", "2.00", "4.00", "0.50", "", ""}},
		{Compared{Title: "h", Values: []float64{1.004, 1}, Target: 1}, []string{"h", "1.00", "1.00", "1.00", "≤ 1 ×", "yes"}},
		{Compared{Title: "i", Values: []float64{1.006, 1}, Target: 1}, []string{"i", "1.01", "1.00", "1.01", "≤ 1 ×", "no"}},
		{Compared{Title: "f", Values: []float64{2, math.NaN()}, Target: 3, OfFigure: true}, []string{"f", "2.00", "–", "–", "≤ 3", "yes"}},
		{Compared{Title: "j", Values: []float64{2}, Target: 3}, []string{"j", "2.00", "–", "≤ 3 ×", ""}},
		{Compared{Title: "k", Values: []float64{math.NaN(), 4}, Target: 3, OfFigure: true}, []string{"k", "–", "4.00", "–", "≤ 3", ""}},
		{Compared{Title: "m", Values: []float64{4, 3, math.NaN()}}, []string{"m", "4.00", "3.00", "–", "1.33", "", ""}},
		{Compared{Title: "l", Values: []float64{2, 0}}, []string{"l", "2.00", "0.00", "–", "", ""}},
		{Compared{Title: "g", Values: []float64{4, math.NaN(), 3, 5}, Target: 3, OfFigure: true}, []string{"g", "4.00", "–", "3.00", "5.00", "1.33", "≤ 3", "no"}},
	} {
		if got := tc.line.Cells(); !slices.Equal(got, tc.want) {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}
