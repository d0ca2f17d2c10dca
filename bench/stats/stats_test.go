package stats_test

import (
	"testing"
	"time"

	"github.com/wskit/wskit/bench/stats"
)

func TestQuantileIsAtTheNearestRank(t *testing.T) {
	for _, tc := range []struct {
		n    int // values 1 to n
		q    float64
		want int
	}{
		{1, 0.001, 1}, {1, 0.999, 1}, {2, 0.5, 1}, {3, 0.5, 2}, {4, 0.5, 2}, {4, 0.75, 3}, {5, 0.25, 2},
		{100, 0.99, 99}, {101, 0.99, 100}, {100, 0.999, 100}, {1000, 0.999, 999}, {1_000_000, 0.99, 990_000}, {7, 1, 7},
	} {
		values := make([]int, tc.n)
		for i := range values {
			values[i] = i + 1
		}
		if got := stats.Quantile(values, tc.q); got != tc.want {
			t.Errorf("quantile %v of 1 to %d is %d, want %d", tc.q, tc.n, got, tc.want)
		}
	}
}

func TestMedianOfRounds(t *testing.T) {
	rounds := []time.Duration{9 * time.Millisecond, time.Millisecond, 4500 * time.Microsecond}
	if m := stats.Median(rounds, stats.Millis); m != 4.5 {
		t.Errorf("the median is %v ms, want 4.5", m)
	}
	if m := stats.Median(rounds[:2], stats.Micros); m != 1000 {
		t.Errorf("the median of two is %v µs, want the smaller one", m)
	}
	if rounds[0] != 9*time.Millisecond {
		t.Error("the rounds are in another order")
	}
}
