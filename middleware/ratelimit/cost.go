package ratelimit

import (
	"log/slog"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
)

// invalidCost turns a frame away whose cost is below 1: charging nothing would
// let it bypass the limit, and charging less than nothing would mint tokens.
// The client learns no numbers; it is the function's author who has to know.
func (g *gate) invalidCost(c *ingress.Context, limiter string, cost int) error {
	if g.OnInvalidCost != nil {
		g.OnInvalidCost(c, cost)
	} else {
		g.logOnce.Do(func() {
			slog.Error("ratelimit: Options.Cost returned less than 1; the frame was refused, and others like it will be without another line here",
				"limiter", limiter, "type", c.Type, "cost", cost)
		})
	}
	return errInvalidCost
}

var errInvalidCost = errors.InvalidArgument.New("the message's cost is not valid")
