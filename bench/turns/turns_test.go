package turns_test

import (
	"slices"
	"testing"

	"github.com/wskit/wskit/bench/turns"
)

// The machine becomes slower from round to round, the first one is slowest, and the second server costs twice as
// much as the first.
func TestRatiosAreThoseOfTheRounds(t *testing.T) {
	var order []int
	costs, err := turns.Take(2, 3, func(server int) (float64, error) {
		order = append(order, server)
		round := (len(order) - 1) / 2
		slow := []float64{1000, 1, 10, 30}[round]
		return slow * float64(1+server), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []int{0, 1, 1, 0, 0, 1, 1, 0}; !slices.Equal(order, want) {
		t.Errorf("turns %v, want %v", order, want)
	}
	if median, lower, upper := costs.Ratio(0, 1); median != 0.5 || lower != 0.5 || upper != 0.5 {
		t.Errorf("ratio %v, quartiles %v and %v; want 0.5 each time", median, lower, upper)
	}
	if m := costs.Median(1); m != 20 {
		t.Errorf("median %v, want 20", m)
	}
}
