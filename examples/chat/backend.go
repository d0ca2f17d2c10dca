package main

import (
	"context"
	"os"

	"github.com/wskit/wskit/adapters/cfdo"
	"github.com/wskit/wskit/adapters/memory"
	"github.com/wskit/wskit/limit"
	"github.com/wskit/wskit/pubsub"
)

// Backend stores everything that outlives a connection. In memory it serves one server; servers
// that share a Redis are one chat.
type Backend struct {
	Limits      limit.Store     // of messages
	Connections limit.Store     // of connections; a limit.LeaseStore
	Broker      pubsub.Log      // published messages, and the latest ones of each room
	Presence    pubsub.Presence // the members of the rooms, on all servers
	// Shared means that other servers use it, too.
	Shared bool

	close func() error // nil: nothing to close
}

// newBackend returns a backend on the servers of the URLs that are not empty, and else in
// memory.
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
		Broker:   memory.NewBroker(memory.BrokerOptions{}),
		Presence: memory.NewPresence(),
	}
}

// withLimitsAt stores the limits of messages in the Worker of adapters/cfdo at url.
func (b Backend) withLimitsAt(url, secret string) (Backend, error) {
	store, err := cfdo.Open(url, secret, cfdo.Options{Tenant: cfdo.KeyPart(1, "user")})
	if err != nil {
		return b, err
	}
	b.Limits = store
	rest := b
	b.close = func() error {
		store.Close()
		return rest.Close()
	}
	return b, nil
}

// Close closes the parts of the backend.
func (b Backend) Close() error {
	if b.close == nil {
		return nil
	}
	return b.close()
}
