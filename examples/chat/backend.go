package main

import (
	"context"
	"os"

	"github.com/wskit/wskit/adapters"
	"github.com/wskit/wskit/adapters/cfdo"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/adapters/redis"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/limit"
)

// newBackend returns what keeps all that outlives a connection, and the limits of messages: on the servers of the URLs
// that are not empty, and else in memory. Servers that share a Redis are one chat.
func newBackend(ctx context.Context, redisURL, cfdoURL string) (b adapters.Backend, messages limit.Store, err error) {
	b = memory.New()
	if redisURL != "" {
		if b, err = redis.Open(ctx, redisURL, redis.Options{}); err != nil {
			return b, nil, err
		}
	}
	if cfdoURL == "" {
		return b, b.Limits, nil
	}
	store, err := cfdo.Open(cfdoURL, os.Getenv("LIMITS_SECRET"), cfdo.Options{Tenant: cfdo.KeyPart(1, "user")})
	if err != nil {
		return b, nil, errors.Join(err, closed(b))
	}
	rest := b
	b.Close = func() error {
		store.Close()
		return closed(rest)
	}
	return b, store, nil
}

// closed closes a backend that may have nothing to close.
func closed(b adapters.Backend) error {
	if b.Close == nil {
		return nil
	}
	return b.Close()
}
