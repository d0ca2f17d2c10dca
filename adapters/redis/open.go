package redis

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// What Open sets where the address sets nothing.
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
// The error says when no server answers. It contains nothing of the address but hosts.
func Open(ctx context.Context, address string) (*Store, error) {
	where, connect, err := dial(ctx, address)
	if err != nil {
		return nil, err
	}
	s := newStore(where, Options{})
	s.owned = true
	s.others = sync.OnceValue(connect)
	return s, nil
}

// Client is for a [Broker], a [Presence] or an application that is to use the same
// Redis. If [Open] made the store, it has connections of its own, so that
// decisions never wait for what others do with theirs, and the store closes it. Otherwise it is the client
// that the store was made on.
func (s *Store) Client() goredis.UniversalClient {
	if s.others == nil {
		return s.client
	}
	s.shared.Store(true)
	return s.others()
}

// dial finds out what is at an address. It returns servers of which one has answered, and
// what makes further clients for them.
func dial(ctx context.Context, address string) (where topology, connect func() goredis.UniversalClient, err error) {
	u, hosts, err := parseAddress(address)
	if err == nil {
		where, connect, err = dialHosts(ctx, u, hosts)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("redis: %w", err)
	}
	return where, connect, nil
}

func dialHosts(ctx context.Context, u *url.URL, hosts []string) (where topology, connect func() goredis.UniversalClient, err error) {
	if u.Query().Has("master_name") {
		if connect, err = connector(u, hosts, goredis.ParseFailoverURL, failoverClient); err != nil {
			return nil, nil, err
		}
		where, _, err = asked(ctx, connect)
		return where, connect, err
	}
	var errs []error
	for _, host := range hosts {
		if connect, err = connector(u, []string{host}, goredis.ParseURL, singleClient); err != nil {
			return nil, nil, err
		}
		where, clustered, err := asked(ctx, connect)
		switch {
		case err != nil:
			errs = append(errs, err)
			continue
		case clustered:
			_ = where.all().Close()
			if connect, err = connector(u, hosts, goredis.ParseClusterURL, clusterClient); err != nil {
				return nil, nil, err
			}
			where, _, err = asked(ctx, connect)
			return where, connect, err
		case len(hosts) > 1:
			_ = where.all().Close()
			return nil, nil, errors.New("the address has several hosts, and one that answers is not part of a cluster: give one host, or for Sentinels the parameter master_name")
		}
		return where, connect, nil
	}
	return nil, nil, errors.Join(errs...)
}

// connector returns what makes clients for an address.
func connector[O any](u *url.URL, hosts []string, parse func(string) (*O, error), client func(O) goredis.UniversalClient) (func() goredis.UniversalClient, error) {
	o, err := parse(at(u, hosts...))
	if err != nil {
		return nil, complaint(u, func(address string) error { _, err := parse(address); return err })
	}
	return func() goredis.UniversalClient { return client(*o) }, nil
}

func failoverClient(o goredis.FailoverOptions) goredis.UniversalClient {
	forLimits(&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout, &o.MaxRetries)
	o.ContextTimeoutEnabled, o.DialerRetries = true, 1
	return goredis.NewFailoverClient(&o)
}

func singleClient(o goredis.Options) goredis.UniversalClient {
	forLimits(&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout, &o.MaxRetries)
	o.ContextTimeoutEnabled, o.DialerRetries = true, 1
	return goredis.NewClient(&o)
}

func clusterClient(o goredis.ClusterOptions) goredis.UniversalClient {
	retries := 0
	o.Addrs = slices.Clone(o.Addrs)
	forLimits(&o.DialTimeout, &o.ReadTimeout, &o.WriteTimeout, &o.PoolTimeout, &retries)
	o.ContextTimeoutEnabled, o.DialerRetries = true, 1
	return goredis.NewClusterClient(&o)
}

// asked connects, and reports whether a server answers and is part of a cluster.
func asked(ctx context.Context, connect func() goredis.UniversalClient) (where topology, clustered bool, err error) {
	client := connect()
	where = topologyOf("Open", client)
	info, err := client.Info(ctx, "cluster").Result()
	if err != nil {
		_ = client.Close()
		return nil, false, err
	}
	return where, strings.Contains(info, "cluster_enabled:1"), nil
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
