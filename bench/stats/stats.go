// Package stats turns what was measured into the numbers of a table.
package stats

import (
	"slices"
	"time"
)

// Quantile is a quantile of one or more sorted values by the nearest-rank definition: the smallest such that this share
// of all values is not larger.
func Quantile[T any](sorted []T, q float64) T {
	rank := int(q*float64(len(sorted)) + 0.9999999)
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// Median is the median of a figure of some rounds; of an even number of rounds, the smaller one of the two in the
// middle.
func Median[T any](rounds []T, of func(T) float64) float64 {
	values := make([]float64, len(rounds))
	for i, r := range rounds {
		values[i] = of(r)
	}
	slices.Sort(values)
	return Quantile(values, 0.5)
}

// Millis is a time in milliseconds.
func Millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Micros is a time in microseconds.
func Micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
