package tasks

import (
	"time"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
	"github.com/wskit/wskit/router"
)

// limits are by route, with costs.
func limits(search func(*router.Context, string) ([]string, error), draw func(*router.Context, string) error) *router.Router {
	r, store := router.New(), memory.New().Limits
	perUser := func(n int64) *limit.Limiter {
		return limit.New(store, limit.TokenBucket{Capacity: n, Refill: n, Per: time.Minute})
	}
	r.Use(ratelimit.New(perUser(600), ratelimit.PerUserOrIP, ratelimit.Options{
		Cost: ratelimit.CostByType(map[string]int{"report.render": 10}),
	}))
	router.RPC(r.With(ratelimit.New(perUser(30), ratelimit.PerUserOrIP)), "search", search)
	board := r.Group("board.", router.RouteOptions{Exempt: true}).With(ratelimit.New(perUser(6000), ratelimit.PerUserOrIP))
	router.On(board, "draw", draw)
	return r
}
