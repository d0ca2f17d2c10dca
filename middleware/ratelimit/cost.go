package ratelimit

import (
	"fmt"
	"log/slog"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
)

// Bytes is a cost: the bytes of the frame, after decompression; at least 1. Give
// the limit a capacity of more than the router's Limits.MaxPayload: a frame above the
// capacity can never pass, and is charged nothing. What is too large for the router
// costs one byte more than may be.
func Bytes(c *ingress.Context) int { return max(c.Size, 1) }

// BytesPer is a cost: the frame's size in units of so many bytes, rounded up. It
// panics for a unit below 1.
//
//	Cost: ratelimit.BytesPer(1 << 10) // 1 for each KiB begun
func BytesPer(unit int) func(*ingress.Context) int {
	if unit < 1 {
		panic(fmt.Sprintf("ratelimit: BytesPer(%d); the unit is a number of bytes of at least 1", unit))
	}
	return func(c *ingress.Context) int { return (Bytes(c)-1)/unit + 1 }
}

// invalidCost turns a frame away whose cost is below 1: charging nothing would
// let it bypass the limit, and charging less than nothing would mint tokens.
// The client learns no numbers; it is the function's author who has to know.
func (g *rejecter) invalidCost(c *ingress.Context, limiter string, cost int) error {
	if g.OnInvalidCost != nil {
		g.OnInvalidCost(c, cost)
	} else {
		g.logOnce.Do(func() {
			slog.Error("ratelimit: a cost function returned less than 1; the frame was refused, and others like it will be without another line here",
				"limiter", limiter, "type", c.Type, "cost", cost)
		})
	}
	return errInvalidCost
}

var errInvalidCost = errors.InvalidArgument.New("the message's cost is not valid")
