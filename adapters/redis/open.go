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

// What OpenStore sets where the address sets nothing.
const (
	dialTimeout = time.Second
	// readTimeout is for calls without a deadline; a limiter's have one.
	readTimeout = time.Second
	poolTimeout = time.Second
)

// OpenStore connects to Redis and makes a store with default StoreOptions, for limits alone. The caller closes it. The
// address is as for [Open].
func OpenStore(ctx context.Context, address string) (Store, error) {
	s, err := openStore(ctx, address, StoreOptions{})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func openStore(ctx context.Context, address string, o StoreOptions) (*store, error) {
	where, connect, err := dial(ctx, address)
	if err != nil {
		return nil, err
	}
	s := newStore(where, o)
	s.owned = true
	s.others = sync.OnceValue(connect)
	return s, nil
}

func (s *store) Client() goredis.UniversalClient {
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
