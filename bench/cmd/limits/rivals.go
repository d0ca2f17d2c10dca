package main

import (
	"context"
	"time"

	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"

	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/limit"
)

// rival is one store. Its limit is so high that everything is admitted: a denial is another
// path, and cheaper for all stores.
type rival struct {
	name   string
	module string
	open   func() (take func(key string) error, err error)
}

const (
	ours = "wskit"
	// capacity and per are the limit: one token flows in every minute, so that the state
	// of a key lasts until it is asked for again.
	capacity = 1 << 25
	per      = time.Minute
)

var rivals = []rival{
	{ours, "github.com/wskit/wskit", func() (func(string) error, error) {
		return openOurs(bucket(per))
	}},
	// Its buckets are filled once an interval, which an hour keeps out of the measurement.
	{"go-limiter", "github.com/sethvargo/go-limiter", func() (func(string) error, error) {
		s, err := memorystore.New(&memorystore.Config{Tokens: capacity, Interval: time.Hour})
		return func(key string) error {
			_, _, _, _, err := s.Take(context.Background(), key)
			return err
		}, err
	}},
	// Its store without a bound, which is the faster one.
	{"throttled", "github.com/throttled/throttled/v2", func() (func(string) error, error) {
		s, err := memstore.NewCtx(0)
		if err != nil {
			return nil, err
		}
		l, err := throttled.NewGCRARateLimiterCtx(s, throttled.RateQuota{MaxRate: throttled.PerMin(1), MaxBurst: capacity})
		if err != nil {
			return nil, err
		}
		l.SetMaxCASAttemptsLimit(1 << 30) // after 10, its default, it fails on a hot key
		return func(key string) error {
			_, _, err := l.RateLimitCtx(context.Background(), key, 1)
			return err
		}, nil
	}},
}

// three is wskit with three limits on every key.
var three = rival{name: "three", open: func() (func(string) error, error) {
	return openOurs(limit.All(bucket(per), bucket(per-time.Second), bucket(per+time.Second)))
}}

func bucket(per time.Duration) limit.Policy {
	return limit.TokenBucket{Capacity: capacity, Refill: 1, Per: per}
}

func openOurs(policy limit.Policy) (func(string) error, error) {
	plan, err := limit.Compile(policy)
	s := memory.NewStore()
	return func(key string) error {
		_, err := s.Take(context.Background(), []byte(key), plan, 1)
		return err
	}, err
}
