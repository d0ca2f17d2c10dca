package main

import (
	"time"

	"github.com/wskit/wskit/ingress"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/middleware/ratelimit"
)

var (
	// A fast hand draws two or three strokes a second. A long one is sent in parts.
	perStroke = limit.TokenBucket{Capacity: 30, Refill: 6, Per: time.Second}
	// A page sends 20 cursors a second.
	perCursor = limit.TokenBucket{Capacity: 40, Refill: 30, Per: time.Second}
	// Each asks all others.
	perClear = limit.TokenBucket{Capacity: 2, Refill: 1, Per: 10 * time.Second}
	// All pages of one address together, because a page can make up any number of tokens.
	perAddress = limit.TokenBucket{Capacity: 2000, Refill: 1000, Per: time.Second}
)

type limits struct {
	address, strokes, cursors, clears ingress.Middleware
}

func newLimits(store limit.Store) limits {
	perUser := func(name string, policy limit.Policy) ingress.Middleware {
		l := limit.New(store, policy, limit.Options{Name: name})
		return ratelimit.New(l, ratelimit.PerUser)
	}
	return limits{
		strokes: perUser("strokes", perStroke),
		cursors: perUser("cursors", perCursor),
		clears:  perUser("clears", perClear),
		address: ratelimit.New(limit.New(store, perAddress, limit.Options{Name: "address"}), ratelimit.PerIP),
	}
}
