package redis

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/wskit/wskit/adapters"
	wskit "github.com/wskit/wskit/errors"
	"github.com/wskit/wskit/internal/given"
)

// Options configure what [Open] and [New] make. The zero value works.
type Options struct {
	// Prefix begins the names of all keys and channels, so that several applications may share a Redis: those of
	// limits, topics, presence, answers and secrets. Letters, digits, '.', '_', '-' and '/', 64 at most.
	//
	// Default: "wskit".
	Prefix string

	// Logger gets a line when a part fails, and another when it works again.
	//
	// Default: slog.Default().
	Logger *slog.Logger

	// OnOutage is called at the same times, for the components "subscription", "publish", "log", "presence" and
	// "idempotency". Limiters have one of their own, see limit.Options.
	//
	// Default: none.
	OnOutage func(wskit.Outage)

	// ProcessTimeout is how long a process that was killed counts as running: see adapters.Backend. From 1 s to 10 min.
	//
	// Default: 15 s.
	ProcessTimeout time.Duration

	// Store is for limits alone. What it leaves empty of the above is taken from there.
	//
	// Default: see [StoreOptions].
	Store StoreOptions
	// Broker is for topics alone, in the same way.
	//
	// Default: see [BrokerOptions].
	Broker BrokerOptions
	// Presence is for presence alone, in the same way.
	//
	// Default: see [PresenceOptions].
	Presence PresenceOptions
	// Idempotency is for the answers of idempotent messages alone, in the same way.
	//
	// Default: see [IdempotencyOptions].
	Idempotency IdempotencyOptions
}

// inherited is o, in which each part has what the whole has.
func (o Options) inherited() Options {
	o.Prefix = cmp.Or(o.Prefix, "wskit")
	o.Store.ProcessTimeout = cmp.Or(o.Store.ProcessTimeout, o.ProcessTimeout)
	o.Presence.ProcessTimeout = cmp.Or(o.Presence.ProcessTimeout, o.ProcessTimeout)
	for _, part := range []struct {
		prefix   *string
		logger   **slog.Logger
		onOutage *func(wskit.Outage)
	}{
		{&o.Store.Prefix, &o.Store.Logger, new(func(wskit.Outage))},
		{&o.Broker.Prefix, &o.Broker.Logger, &o.Broker.OnOutage},
		{&o.Presence.Prefix, &o.Presence.Logger, &o.Presence.OnOutage},
		{&o.Idempotency.Prefix, &o.Idempotency.Logger, &o.Idempotency.OnOutage},
	} {
		*part.prefix = cmp.Or(*part.prefix, o.Prefix)
		*part.logger = cmp.Or(*part.logger, o.Logger)
		if *part.onOutage == nil {
			*part.onOutage = o.OnOutage
		}
	}
	return o
}

// Open connects to Redis and makes all that a router keeps there: limits, topics with and without history, presence,
// the answers of idempotent messages, and the secret of tickets. Decisions have connections of their own, and so never
// wait for what the other parts do. Router.Serve closes it; otherwise call its Close after Router.Shutdown.
//
//	redis://user:password@host:6379/0           one server, or any node of a cluster
//	redis://host1:6379,host2:6379,host3:6379    some nodes of a cluster: one has to answer
//	rediss://…                                  the same over TLS
//	unix:///run/redis.sock                      a socket
//	redis://host:26379,other:26379?master_name=mymaster    Sentinels
//
// A server that is part of a cluster is used as one. The options of go-redis
// may follow as parameters (pool_size, read_timeout, …), also "addr" for further hosts.
// What the address leaves open is set for this work: contexts end what waits on the network,
// a call is never repeated, and nothing waits longer than a second.
//
// The error says when no server answers. It contains nothing of the address but hosts. Open panics when an option is
// invalid.
func Open(ctx context.Context, address string, options ...Options) (adapters.Backend, error) {
	o := given.Must("redis", "Open", options)
	o = o.inherited()
	checkStore(o.Store)
	s, err := openStore(ctx, address, o.Store)
	if err != nil {
		return adapters.Backend{}, err
	}
	return backend(s, o), nil
}

// New is [Open] on a client of the caller's, which stays the caller's; see [NewStore] for what it has to be. All parts
// share its connections.
func New(client goredis.UniversalClient, options ...Options) adapters.Backend {
	o := given.Must("redis", "New", options)
	o = o.inherited()
	return backend(storeOn(client, o.Store), o)
}

func backend(s *store, o Options) adapters.Backend {
	client := s.Client()
	broker, presence := NewBroker(client, o.Broker), NewPresence(client, o.Presence)
	return adapters.Backend{
		Limits: s, Broker: broker, Presence: presence, Idempotency: NewIdempotency(client, o.Idempotency),
		Secret: func(ctx context.Context, name string) ([]byte, error) {
			return secret(ctx, client, o.Prefix+":secret:"+name)
		},
		Check: func(ctx context.Context) error {
			if n := broker.Stats().Missing; n > 0 {
				return fmt.Errorf("redis: %d topics are not subscribed to", n)
			}
			return errors.Join(canWrite(ctx, s.client, o.Prefix), canWrite(ctx, client, o.Prefix))
		},
		Close: func() error {
			return errors.Join(presence.Close(), broker.Close(), s.Close()) // members leave while topics still work
		},
		ProcessTimeout: o.ProcessTimeout, Shared: true,
	}
}

const (
	secretBytes = 32
	callTimeout = 2 * time.Second // of the calls below, as of a Broker and a Presence
)

// secret returns what is under a key, which it makes if there is nothing. It has no expiry: after Redis has lost it,
// processes that start have another one than those that run.
func secret(ctx context.Context, client goredis.UniversalClient, key string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	random := make([]byte, secretBytes)
	_, _ = rand.Read(random) // never fails
	if err := client.SetNX(ctx, key, random, 0).Err(); err != nil {
		return nil, err
	}
	return client.Get(ctx, key).Bytes()
}

// canWrite returns nil if a server of the client takes a write now.
func canWrite(ctx context.Context, client goredis.UniversalClient, prefix string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := client.Set(ctx, prefix+":check", 1, time.Minute).Err(); err != nil {
		return fmt.Errorf("redis: a write failed: %w", err)
	}
	return nil
}
