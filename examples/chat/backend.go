package main

import (
	"context"
	"io"
	"os"

	"github.com/wskit/wskit/adapters/cfdo"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/pubsub"
)

// Backend is where a chat keeps what outlives a connection. With one in memory a
// server is alone; those that share a Redis are one chat.
type Backend struct {
	Limits      limit.Store     // of messages
	Connections limit.Store     // of connections; a limit.LeaseStore
	Broker      pubsub.Broker   // what is published; nil: to this server's tabs alone
	Presence    pubsub.Presence // the members of the rooms, on all servers
	History     History         // the latest messages
	// Shared says that other servers use it, too.
	Shared bool

	closers []io.Closer // in the order of closing
}

// newBackend is in memory, but for what the URLs say that are not empty.
func newBackend(ctx context.Context, redisURL, cfdoURL string) (b Backend, err error) {
	b = inMemory()
	if redisURL != "" {
		if b, err = onRedis(ctx, redisURL); err != nil {
			return b, err
		}
	}
	if cfdoURL != "" {
		b, err = b.withLimitsAt(cfdoURL, os.Getenv("LIMITS_SECRET"))
	}
	return b, err
}

func inMemory() Backend {
	store := memory.NewStore(memory.Options{})
	return Backend{
		Limits: store, Connections: store,
		Presence: memory.NewPresence(),
		History:  newMemoryHistory(),
	}
}

// withLimitsAt has the limits of messages kept by the Worker of adapters/cfdo at url.
func (b Backend) withLimitsAt(url, secret string) (Backend, error) {
	store, err := cfdo.Open(url, secret, cfdo.Options{Tenant: cfdo.PartAfter("user")})
	if err != nil {
		return b, err
	}
	b.Limits = store
	b.closers = append([]io.Closer{store}, b.closers...)
	return b, nil
}

// Close lets go of what the backend holds.
func (b Backend) Close() error {
	var errs []error
	for _, c := range b.closers {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
