package ratelimit

import (
	"fmt"
	"maps"

	"github.com/wskit/wskit/ingress"
)

// Bytes is a cost: the size of the frame in bytes, after decompression; at least 1. The limit
// needs a capacity of more than the router's Limits.MaxPayload, because a frame above the
// capacity can never pass, and is not charged. A frame that is too large for the router costs
// one byte more than MaxPayload.
func Bytes(c *ingress.Context) int { return max(c.Size, 1) }

// BytesPer returns a cost: the size of the frame in units of the given number of bytes, rounded
// up. It panics for a unit below 1.
//
//	Cost: ratelimit.BytesPer(1 << 10) // 1 for each KiB begun
func BytesPer(unit int) func(*ingress.Context) int {
	if unit < 1 {
		panic(fmt.Sprintf("ratelimit: BytesPer(%d); the unit is a number of bytes of at least 1", unit))
	}
	return func(c *ingress.Context) int { return (Bytes(c)-1)/unit + 1 }
}

// CostByType returns a cost: that of the message's registered type in the table, and 1 for types that are not in it. It
// panics if one in the table is below 1.
//
//	Cost: ratelimit.CostByType(map[string]int{"report.render": 10})
func CostByType(costs map[string]int) func(*ingress.Context) int {
	costs = maps.Clone(costs)
	for typ, cost := range costs {
		if cost < 1 {
			panic(fmt.Sprintf("ratelimit: CostByType has %d for %q; give it a cost of at least 1", cost, typ))
		}
	}
	return func(c *ingress.Context) int { return max(costs[c.Type], 1) }
}
