package redis_test

import (
	"slices"
	"testing"

	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/internal/race"
)

// A state that Redis replies with is read without an allocation, with the instant of a reset or without one.
func TestReadingStatesAllocatesNothing(t *testing.T) {
	for text, reset := range map[string]int64{"1763860000123456 7": 0, "1763860000123456 7!1763860000000001": 1763860000000001} {
		state := make([]int64, 0, 2)
		var got int64
		if n := testing.AllocsPerRun(100, func() { state, got = redis.ReadState(state[:0], text) }); n > 0 && !race.Enabled {
			t.Errorf("%q: %v allocations", text, n)
		}
		if !slices.Equal(state, []int64{1763860000123456, 7}) || got != reset {
			t.Errorf("%q: %v, %d", text, state, got)
		}
	}
}
