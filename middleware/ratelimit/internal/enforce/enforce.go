// Package enforce has what the middleware of packages ratelimit and rules do alike with a frame: its cost, the refusal of
// one over the limit, its place among those that are handled at a time, and the report to clients that follow their
// limits. Which limit a frame has is decided there.
package enforce

import (
	"log/slog"
	"sync"

	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
)

// Options are those of ratelimit.Options that do not choose a limit.
type Options struct {
	OnLimited     func(*ingress.Context, Limited)
	OnInvalidCost func(*ingress.Context, int)
	Silent        bool
	Shadow        bool
	Announce      string
}

// Limited is ratelimit.Limited.
type Limited struct {
	Limiter  string
	Rule     string
	Cost     int64
	Decision limit.Decision
	Shadow   bool
}

// Enforcer refuses frames. It is used by any number of goroutines.
type Enforcer struct {
	Options
	logOnce sync.Once
}

// Refuse reports a frame over the limit, and returns the rejection; nil in shadow mode. info lacks the decision.
func (g *Enforcer) Refuse(c *ingress.Context, d *limit.Decision, info Limited, silent bool) error {
	info.Shadow = info.Shadow || g.Shadow || d.Shadowed
	if g.OnLimited != nil {
		info.Decision = *d
		g.OnLimited(c, info)
	}
	if info.Shadow {
		return nil
	}
	e := Rejection(info.Limiter, info.Cost, d)
	e.Silent = g.Silent || silent
	return c.Reject(e)
}

// Rejection is the error for a denial.
func Rejection(limiter string, cost int64, d *limit.Decision) errors.LimitExceeded {
	return errors.LimitExceeded{
		Kind: errors.LimitRate, Observed: cost, Limit: d.Limit, Remaining: d.Remaining,
		RetryAfter: d.RetryAfter, Never: d.Impossible,
		Limiter: limiter, Policy: d.Policy,
	}
}

// CostOf is the cost of a frame by a function, which may be nil. A cost below 1 is an error: 0
// would bypass the limit, and a negative cost would add tokens. The answer has no numbers; they
// are for the log or the hook.
func (g *Enforcer) CostOf(c *ingress.Context, of func(*ingress.Context) int, limiter string) (int64, error) {
	if of == nil {
		return 1, nil
	}
	cost := of(c)
	if cost >= 1 {
		return int64(cost), nil
	}
	if g.OnInvalidCost != nil {
		g.OnInvalidCost(c, cost)
	} else {
		g.logOnce.Do(func() {
			slog.Error("ratelimit: a cost function returned less than 1; the frame was refused, and further ones will be refused without a log line",
				"limiter", limiter, "type", c.Type, "cost", cost)
		})
	}
	return 0, errInvalidCost
}

var errInvalidCost = errors.InvalidArgument.New("the message's cost is not valid")

// Buffers are for keys.
var Buffers = sync.Pool{New: func() any {
	b := make([]byte, 0, 256)
	return &b
}}
