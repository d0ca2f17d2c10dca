package redis

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// What Open sets where the address says nothing else.
const (
	dialTimeout = time.Second
	// readTimeout is for calls without a deadline; a limiter's have one.
	readTimeout = time.Second
	poolTimeout = time.Second
)

// Open connects to Redis and makes a store with default Options. The caller closes
// it.
//
//	redis://user:password@host:6379/0           one server, or any node of a cluster
//	rediss://…                                  the same over TLS
//	unix:///run/redis.sock                      a socket
//	redis://host:26379?master_name=mymaster&addr=other:26379    Sentinels
//
// A server that says it is part of a cluster is used as one. The options of go-redis
// may follow as parameters (pool_size, read_timeout, …). What the address leaves
// open is set for this work: contexts end what waits on the network, a call is
// never repeated, and nothing waits longer than a second.
//
// The error says when no server answers.
func Open(ctx context.Context, address string) (*Store, error) {
	client, err := connect(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	s := NewStore(client, Options{})
	s.owned = true
	return s, nil
}

// Client is what the store asks Redis by, for a [Broker], a [Presence] or an
// application that is to share its connections. It stays the store's, if Open made
// it.
func (s *Store) Client() goredis.UniversalClient { return s.client }

// connect makes a client and asks whether somebody is there.
func connect(ctx context.Context, address string) (goredis.UniversalClient, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "redis" && u.Scheme != "rediss" && u.Scheme != "unix" {
		return nil, fmt.Errorf("the address is no URL such as redis://localhost:6379") // it may hold a password
	}
	var client goredis.UniversalClient
	switch {
	case u.Query().Has("master_name"):
		o, err := goredis.ParseFailoverURL(address)
		if err != nil {
			return nil, err
		}
		forLimits(&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout, &o.MaxRetries)
		o.ContextTimeoutEnabled, o.DialerRetries = true, 1
		client = goredis.NewFailoverClient(o)
	default:
		o, err := goredis.ParseURL(address)
		if err != nil {
			return nil, err
		}
		forLimits(&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout, &o.MaxRetries)
		o.ContextTimeoutEnabled, o.DialerRetries = true, 1
		client = goredis.NewClient(o)
	}
	info, err := client.Info(ctx, "cluster").Result()
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	if !strings.Contains(info, "cluster_enabled:1") {
		return client, nil
	}
	_ = client.Close()
	o, err := goredis.ParseClusterURL(address)
	if err != nil {
		return nil, err
	}
	retries := -1
	forLimits(&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout, &retries)
	o.ContextTimeoutEnabled, o.DialerRetries = true, 1
	nodes := goredis.NewClusterClient(o)
	if err := nodes.Info(ctx, "cluster").Err(); err != nil {
		_ = nodes.Close()
		return nil, err
	}
	return nodes, nil
}

// forLimits fills in what the address left open.
func forLimits(dial, read, write, pool *time.Duration, retries *int) {
	for _, t := range []struct {
		field   *time.Duration
		instead time.Duration
	}{{dial, dialTimeout}, {read, readTimeout}, {write, readTimeout}, {pool, poolTimeout}} {
		if *t.field == 0 {
			*t.field = t.instead
		}
	}
	*retries = -1
}
