package server

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

// Shared is where the servers of one chat keep what they share.
type Shared struct {
	Flag, Usage string // of the URL
	Open        func(ctx context.Context, url string) (adapters.Backend, error)
}

var onRedis = Shared{
	Flag:  "redis",
	Usage: "`URL` of a Redis, redis://host:port, that several servers share to be one chat; without it there is one server",
	Open: func(ctx context.Context, url string) (adapters.Backend, error) {
		return redis.Open(ctx, url)
	},
}

// opener opens the backend of servers that are one chat.
type opener func(ctx context.Context) (adapters.Backend, error)

// newBackend returns what keeps all that outlives a connection, and the limits of messages: what open opens and on the
// Worker of the URL, and without these in memory.
func newBackend(
	ctx context.Context, open opener, cfdoURL string,
) (b adapters.Backend, messages limit.Store, err error) {
	b = memory.New()
	if open != nil {
		if b, err = open(ctx); err != nil {
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
