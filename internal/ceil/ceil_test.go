package ceil_test

import (
	"math"
	"testing"
	"time"

	"github.com/wskit/wskit/internal/ceil"
)

func TestDiv(t *testing.T) {
	for _, c := range []struct {
		d, unit time.Duration
		want    int64
	}{
		{math.MinInt64, time.Millisecond, 0},
		{-time.Second, time.Millisecond, 0},
		{-1, time.Millisecond, 0},
		{0, time.Millisecond, 0},
		{1, time.Millisecond, 1},
		{time.Millisecond - 1, time.Millisecond, 1},
		{time.Millisecond, time.Millisecond, 1},
		{time.Millisecond + 1, time.Millisecond, 2},
		{250 * time.Millisecond, time.Millisecond, 250},
		{time.Hour, time.Millisecond, 3_600_000},
		{math.MaxInt64, time.Millisecond, 9_223_372_036_855},
		{-1, time.Second, 0},
		{1, time.Second, 1},
		{time.Second, time.Second, 1},
		{time.Second + 1, time.Second, 2},
		{math.MaxInt64, time.Second, 9_223_372_037},
	} {
		if got := ceil.Div(c.d, c.unit); got != c.want {
			t.Errorf("Div(%d, %v) = %d, want %d", c.d, c.unit, got, c.want)
		}
	}
}
